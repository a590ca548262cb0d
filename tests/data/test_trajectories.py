"""Trajectories and robust segments from small cases worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch

from zoo import audio
from zoo.data.robust_segments import RobustSegments
from zoo.data.sampling import BatchShape
from zoo.data.talks import Segment, Talk, Target, Word
from zoo.data.trajectories import chunked_words, emission_times, merge_turns
from zoo.errors import ZooError
from zoo.types import SAMPLE_RATE

ENDS = (1.0, 1.5, 2.0, 3.0)


def segment(alignment: tuple[tuple[int, ...], ...], *, offset: float = 0.5) -> Segment:
    words = tuple(Word(f"s{i}", end - 0.4, end) for i, end in enumerate(ENDS))
    target = Target("", words=tuple(f"t{i}" for i in range(len(alignment))), alignment=alignment)
    return Segment(offset, 2.5, "s0 s1 s2 s3", words, {"de": target})


def times(alignment: tuple[tuple[int, ...], ...]) -> list[float]:
    return [time for _, time in emission_times(segment(alignment), "de")]


def test_a_word_waits_for_its_latest_source_word() -> None:
    assert times(((0,), (0, 2), (3,))) == [1.0, 2.0, 3.0]


def test_times_never_go_back() -> None:
    assert times(((2,), (0,), (3,))) == [2.0, 2.0, 3.0]


def test_an_unaligned_word_goes_with_the_next_aligned_one_and_a_trailing_one_with_the_last() -> (
    None
):
    assert times(((), (1,), (), ())) == [1.5, 1.5, 3.0, 3.0]


def test_a_segment_without_alignment_or_translation_is_refused_by_name() -> None:
    bare = Segment(0, 1, "hello", (), {"de": Target("hallo", ("hallo",), ((0,),))})
    with pytest.raises(ZooError, match="hello"):
        emission_times(bare, "de")
    with pytest.raises(ZooError, match="'es'"):
        emission_times(segment(((0,),)), "es")


def test_words_fall_into_the_chunk_in_which_their_source_ends() -> None:
    turns = chunked_words(
        [segment(((0,), (1,), (2,), (3,)))], "de", start=0.5, chunks=2, chunk_seconds=1.0
    )
    # ends 1.0, 1.5, 2.0, 3.0 are 0.5, 1.0, 1.5, 2.5 after the start: the second is on the border,
    # the last outside
    assert turns == [["t0"], ["t1", "t2"]]


def test_merging_joins_consecutive_turns() -> None:
    assert merge_turns([["a"], [], ["b", "c"], ["d"], ["e"]], 2) == [["a"], ["b", "c", "d"], ["e"]]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    path = tmp_path / "talk.wav"
    audio.write(path, torch.arange(5 * SAMPLE_RATE) / (5 * SAMPLE_RATE))
    return Talk("talk", path, 5.0, "en", (segment(((0,), (1,), (2,), (3,))),))


def test_a_segment_never_starts_inside_an_utterance(talk: Talk) -> None:
    segments = RobustSegments([talk], chunk_seconds=1.0)
    assert segments.at(talk, 1.7, 2, lead=0.2).start == pytest.approx(0.3)
    assert segments.at(talk, 1.7, 2, lead=9.0).start == 0.0
    assert segments.at(talk, 3.5, 2).start == 3.5
    assert segments.at(talk, 3.5, 2).turns("de") == [[], []]


def test_a_segment_past_the_end_of_the_talk_is_padded_with_silence(talk: Talk) -> None:
    samples = RobustSegments([talk], chunk_seconds=1.0).at(talk, 4.0, 3).samples()
    assert samples.shape == (3 * SAMPLE_RATE,)
    assert samples[: SAMPLE_RATE - 1].abs().min() > 0.7
    assert samples[SAMPLE_RATE + 1 :].abs().max() == 0


def test_without_robust_segments_a_segment_is_one_utterance(talk: Talk) -> None:
    one = RobustSegments([talk], chunk_seconds=1.0, robust=False).draw(np.random.default_rng(0), 4)
    samples = one.samples()
    assert samples.shape == (3 * SAMPLE_RATE,)
    assert samples[0] == pytest.approx(0.1, abs=1e-3)  # the utterance starts at 0.5 of 5 s
    assert samples[int(2.5 * SAMPLE_RATE) - 1] > 0.5
    assert samples[int(2.5 * SAMPLE_RATE) + 1 :].abs().max() == 0
    assert one.turns("de") == [["t0"], ["t1", "t2"], ["t3"]]


def test_utterances_fill_a_batch_until_it_is_as_long_as_asked(talk: Talk) -> None:
    segments = RobustSegments([talk], chunk_seconds=1.0, robust=False)
    shape = BatchShape(seconds=8.0, chunks=4)
    assert [one.chunks for one in segments.batch(np.random.default_rng(0), shape)] == [
        3,
        3,
        3,
    ]
    robust = RobustSegments([talk], chunk_seconds=1.0).batch(np.random.default_rng(0), shape)
    assert [one.chunks for one in robust] == [4, 4]


def test_on_the_grid_segments_are_whole_blocks_of_the_talk() -> None:
    late, early = segment(((0,), (1,), (2,), (3,)), offset=12.2), segment(((3,),), offset=1.0)
    talk = Talk("talk", Path("talk.wav"), 16.5, "en", (early, late))
    segments = RobustSegments([talk], chunk_seconds=1.0, on_grid=True)
    drawn = [segments.draw(np.random.default_rng(seed), 6, 2) for seed in range(200)]
    assert {one.start for one in drawn} == {
        0.0,
        4.0,
        6.0,
        8.0,
        10.0,
        12.0,
    }  # 2 lies inside the first utterance
    assert {one.chunks for one in drawn} == {6}
    assert {len(one.segments) for one in drawn if one.start == 4.0} == {0}
    assert {one.segments[0].offset for one in drawn if one.start == 12.0} == {12.2}
    assert {
        one.chunks for one in (segments.draw(np.random.default_rng(s), 30, 4) for s in range(9))
    } == {20}


def test_draws_depend_on_the_generator_alone(talk: Talk) -> None:
    segments = RobustSegments([talk], chunk_seconds=1.0)
    drawn = [segments.draw(np.random.default_rng([7, 3]), 2).start for _ in range(2)]
    assert drawn[0] == drawn[1]
