"""Trajectories and robust segments from small cases worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.base.types import SAMPLE_RATE
from zoo.data.robust_segments import RobustSegment, RobustSegments
from zoo.data.sampling import Stretches
from zoo.data.trajectories import chunked_words, emission_times, merge_turns, words_until

ENDS = (1.0, 1.5, 2.0, 3.0)


def segment(alignment: tuple[tuple[int, ...], ...], *, offset: float = 0.5) -> Segment:
    words = tuple(Word(f"s{i}", end - 0.4, end) for i, end in enumerate(ENDS))
    target = Target("", words=tuple(f"t{i}" for i in range(len(alignment))), alignment=alignment)
    return Segment(offset, 2.5, "s0 s1 s2 s3", words, {"de": target})


def times(alignment: tuple[tuple[int, ...], ...]) -> list[float]:
    return [time for _, time in emission_times(segment(alignment), "de")]


def planned(segments: RobustSegments, seed: int = 0) -> list[RobustSegment]:
    places = segments.plan(np.random.default_rng(seed)).positions
    return [segments.segment(place) for place in places]


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
    assert turns == [["t0", "t1"], ["t2"]]


@pytest.mark.parametrize("first", [0, 7, 1000])
def test_a_word_that_ends_with_a_chunk_belongs_to_it(first: int) -> None:
    """0.96 has no exact binary form, so quotients of seconds lie on either side of a border."""
    seconds = 0.96
    words = tuple(Word(f"s{i}", (first + i) * seconds, (first + i + 1) * seconds) for i in range(9))
    target = Target("", tuple(f"t{i}" for i in range(9)), tuple((i,) for i in range(9)))
    spoken = Segment(first * seconds, 9 * seconds, "", words, {"de": target})
    begin = (first + 1) * seconds  # the end of s0
    turns = chunked_words([spoken], "de", start=begin, chunks=7, chunk_seconds=seconds)
    assert turns == [[f"t{i}"] for i in range(1, 8)]


def test_words_fall_into_the_first_turn_whose_limit_their_source_reaches() -> None:
    """The source words end at 1, 1.5, 2 and 3 s."""
    segments = [segment(((0,), (1,), (2,), (3,)))]
    turns = words_until(segments, "de", start=0.5, limits=[0.9, 1.5, 1.5, 3.0])
    assert turns == [[], ["t0", "t1"], [], ["t2", "t3"]]
    assert words_until(segments, "de", start=1.0, limits=[2.0]) == [["t1", "t2"]]


def test_merging_joins_consecutive_turns() -> None:
    assert merge_turns([["a"], [], ["b", "c"], ["d"], ["e"]], 2) == [["a"], ["b", "c", "d"], ["e"]]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    path = tmp_path / "talk.wav"
    audio.write(path, torch.arange(5 * SAMPLE_RATE) / (5 * SAMPLE_RATE))
    return Talk("talk", path, 5.0, "en", (segment(((0,), (1,), (2,), (3,))),))


@pytest.mark.parametrize("on_grid", [False, True])
def test_a_segment_never_starts_inside_an_utterance(talk: Talk, on_grid: bool) -> None:
    """The utterance from 0.5 to 3.0 is longer than a stretch: its end is left out."""
    segments = RobustSegments(
        [talk], chunk_seconds=0.5, on_grid=on_grid, stretches=Stretches(chunks=[4])
    )
    starts = {one.start for seed in range(30) for one in planned(segments, seed)}
    assert not [start for start in starts if 0.5 < start < 3.0]
    assert max(starts) >= 3.0
    assert segments.at(talk, 3.5, 2).turns("de") == [[], []]


def test_a_moved_segment_begins_with_its_utterance_or_up_to_the_lead_before_it(talk: Talk) -> None:
    def second_start(lead: float, seed: int) -> float:
        stretches = Stretches(chunks=[4])
        segments = RobustSegments([talk], chunk_seconds=0.5, stretches=stretches, lead=lead)
        return planned(segments, seed)[1].start

    pairs = [(second_start(0.0, seed), second_start(0.3, seed)) for seed in range(200)]
    assert max(without for without, _ in pairs) == 0.5  # the start of the utterance
    moved = {with_lead for without, with_lead in pairs if without == 0.5}
    assert len(moved) > 20
    assert 0.2 <= min(moved) < max(moved) < 0.5
    assert all(without in (0.5, with_lead) for without, with_lead in pairs)


def test_a_segment_past_the_end_of_the_talk_is_padded_with_silence(talk: Talk) -> None:
    samples = RobustSegments([talk], chunk_seconds=1.0).at(talk, 4.0, 3).samples()
    assert samples.shape == (3 * SAMPLE_RATE,)
    assert samples[: SAMPLE_RATE - 1].abs().min() > 0.7
    assert samples[SAMPLE_RATE + 1 :].abs().max() == 0


def test_without_robust_segments_a_segment_is_one_utterance(talk: Talk) -> None:
    segments = RobustSegments(
        [talk], chunk_seconds=1.0, robust=False, stretches=Stretches(chunks=[4])
    )
    (one,) = planned(segments)
    samples = one.samples()
    assert samples.shape == (3 * SAMPLE_RATE,)
    assert samples[0] == pytest.approx(0.1, abs=1e-3)  # the utterance starts at 0.5 of 5 s
    assert samples[int(2.5 * SAMPLE_RATE) - 1] > 0.5
    assert samples[int(2.5 * SAMPLE_RATE) + 1 :].abs().max() == 0
    assert one.turns("de") == [["t0", "t1"], ["t2"], ["t3"]]


def test_on_the_grid_segments_are_whole_blocks_of_the_talk() -> None:
    late, early = segment(((0,), (1,), (2,), (3,)), offset=12.2), segment(((3,),), offset=1.0)
    talk = Talk("talk", Path("talk.wav"), 16.5, "en", (early, late))

    def drawn(chunks: int, multiplier: int) -> list[RobustSegment]:
        stretches = Stretches([chunks], [multiplier])
        segments = RobustSegments([talk], chunk_seconds=1.0, on_grid=True, stretches=stretches)
        return [one for seed in range(100) for one in planned(segments, seed)]

    # 2 lies inside the first utterance
    assert {one.start for one in drawn(6, 2)} == {0.0, 4.0, 6.0, 10.0, 12.0}
    assert {one.chunks for one in drawn(6, 2)} == {6}
    assert {len(one.segments) for one in drawn(6, 2) if one.start == 4.0} == {0}
    assert {one.segments[0].offset for one in drawn(6, 2) if one.start == 12.0} == {12.2}
    assert {one.chunks for one in drawn(30, 4)} == {20}


@pytest.mark.parametrize("on_grid", [False, True])
def test_the_segments_of_a_pass_cover_the_talk_and_start_anywhere(on_grid: bool) -> None:
    words = (Word("so", 0.1, 0.2),)
    utterance = Segment(0.1, 0.1, "so", words, {"de": Target("so", ("so",), ((0,),))})
    talk = Talk("talk", Path("talk.wav"), 61.3, "en", (utterance,))
    stretches = Stretches(chunks=[2, 4, 4, 12], multipliers=[1, 2, 3])
    segments = RobustSegments([talk], chunk_seconds=1.0, on_grid=on_grid, stretches=stretches)
    starts: set[float] = set()
    chunks: dict[int, int] = {}
    for seed in range(50):
        drawn = sorted(planned(segments, seed), key=lambda one: one.start)
        end = 0.0
        for one in drawn:
            assert one.start <= end + 1e-9  # nothing is left out
            assert not on_grid or one.chunks % one.multiplier == 0
            end = max(end, one.start + one.seconds)
            starts.add(one.start)
            chunks[one.chunks] = chunks.get(one.chunks, 0) + one.chunks
        assert end >= talk.duration
        assert len({(one.start, one.chunks) for one in drawn}) == len(drawn)
    assert len(starts) > 40
    assert set(chunks) == ({2, 3, 4, 12} if on_grid else {2, 4, 12})  # 3: 4 as a multiple of 3
    shares = {length: count / sum(chunks.values()) for length, count in chunks.items()}
    assert shares[12] == pytest.approx(0.25, abs=0.1)  # of the audio


def test_passes_depend_on_the_generator_alone(talk: Talk) -> None:
    segments = RobustSegments([talk], chunk_seconds=1.0, stretches=Stretches(chunks=[2]))
    assert planned(segments, 7) == planned(segments, 7)
    assert planned(segments, 7) != planned(segments, 8)


def test_a_length_is_kept_if_the_multiplier_does_not_divide_it() -> None:
    assert Stretches([30], [4]).draw(np.random.default_rng(0)) == (30, 4)
    assert Stretches([3], [4]).draw(np.random.default_rng(0)) == (3, 3)


def test_turns_of_chinese_keep_the_spaces_of_the_translation() -> None:
    text = "用 Bill"
    words = (Word("with", 0.0, 0.5), Word("Bill", 0.5, 1.0))
    target = Target(text, tuple("用Bill"), ((0,), *[(1,)] * 4))
    segment = Segment(0.0, 1.0, "with Bill", words, targets={"zh": target})
    turns = chunked_words([segment], "zh", start=0.0, chunks=2, chunk_seconds=0.5)
    assert ["".join(turn) for turn in turns] == ["用", " Bill"]
