"""The wait-k oracle by hand, and the checks before anything is streamed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.evaluation.references import wait_k_oracle
from zoo.evaluation.talks import check_talks
from zoo.streaming.sources import sources, talk_chunks

EN, DE, ZH = language("en"), language("de"), language("zh")


def segment(offset: float, source: str, de: str, zh: str) -> Segment:
    """A word every 0.5 s."""
    words = tuple(
        Word(word, offset + i / 2, offset + i / 2 + 0.5) for i, word in enumerate(source.split())
    )
    return Segment(offset, len(words) / 2, source, words, {"de": Target(de), "zh": Target(zh)})


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    path = tmp_path / "talk.wav"
    audio.write(path, torch.zeros(5 * 16_000))
    segments = (segment(0.0, "a b c", "A B C D", "甲乙丙丁戊己"), segment(2.0, "d e", "E F", "庚"))
    return Talk("talk", path, 5.0, "en", segments)


def test_wait_k_by_hand(talk: Talk) -> None:
    """Word t follows the end of source word t + k - 1; the rest follows the last source word."""
    (one,), (two,) = wait_k_oracle([talk], DE, 1), wait_k_oracle([talk], DE, 2)
    assert one.units == two.units == ("A", "B", "C", "D", "E", "F")
    assert one.delays == (0.5, 1.0, 1.5, 1.5, 2.5, 3.0)
    assert one.reference == "A B C D E F", "a log without references cannot be scored"
    assert two.delays == (1.0, 1.5, 1.5, 1.5, 3.0, 3.0)
    assert one.elapsed == one.delays
    assert (one.text, one.source_length, one.unit) == ("A B C D E F", 5.0, "word")
    (patient,) = wait_k_oracle([talk], DE, 99)
    assert patient.delays == (1.5,) * 4 + (3.0,) * 2


def test_a_word_that_depends_on_later_audio_is_not_oracle_text(talk: Talk) -> None:
    """The verb comes last in the source: B needs source word 2, C only word 0."""
    first = talk.segments[0]
    needs = ((0,), (0, 2), (0,), (1, 2))
    german = replace(first.targets["de"], words=("A", "B", "C", "D"), needs=needs)
    late = replace(talk, segments=(replace(first, targets={"de": german}),))
    oracles = [wait_k_oracle([late], DE, k)[0] for k in (1, 2)]
    assert [stream.units for stream in oracles] == [("A", "…", "C", "D"), ("A", "B", "C", "D")]
    assert [stream.text for stream in oracles] == ["A … C D", "A B C D"]
    assert [stream.delays for stream in oracles] == [(0.5, 1.0, 1.5, 1.5), (1.0, 1.5, 1.5, 1.5)]


def test_characters_keep_the_pace_of_the_words(talk: Talk) -> None:
    """Six characters over three words: two per word; one over two: with the first."""
    (one,) = wait_k_oracle([talk], ZH, 1)
    assert one.units == tuple("甲乙丙丁戊己庚")
    assert one.delays == (0.5, 0.5, 1.0, 1.0, 1.5, 1.5, 2.5)
    assert one.unit == "char"


def test_delays_never_go_back_where_segments_overlap(talk: Talk) -> None:
    overlapping = replace(talk, segments=(talk.segments[0], segment(0.5, "d e", "E F", "庚")))
    (one,) = wait_k_oracle([overlapping], DE, 3)
    assert one.delays == (1.5,) * 6


def test_the_oracle_needs_word_times(talk: Talk) -> None:
    silent = replace(talk, segments=(replace(talk.segments[0], words=()),))
    with pytest.raises(ZooError, match="Talk 'talk' has no word times"):
        wait_k_oracle([silent], DE, 1)


def test_talks_are_checked_before_they_are_streamed(talk: Talk) -> None:
    check_talks([talk], source=EN, target=DE)
    with pytest.raises(ZooError, match="There is no talk to evaluate"):
        check_talks([], source=EN, target=DE)
    with pytest.raises(ZooError, match=r"^Talk 'talk' is spoken in 'en', not in 'fr'\.$"):
        check_talks([talk], source=language("fr"), target=DE)
    with pytest.raises(ZooError, match=r"^Talk 'talk' has no reference in 'es'; it has: de, zh\.$"):
        check_talks([talk], source=EN, target=language("es"))
    with pytest.raises(ZooError, match=r"in 'de'; it has: no reference\.$"):
        check_talks([replace(talk, segments=())], source=EN, target=DE)
    with pytest.raises(ZooError, match="does not exist"):
        check_talks(
            [talk, replace(talk, name="other", audio=talk.audio.with_name("no.wav"))],
            source=EN,
            target=DE,
        )


def test_chunks_outlive_each_other_and_cover_the_talk(talk: Talk) -> None:
    samples = torch.arange(40_000) / 40_000
    audio.write(talk.audio, samples)
    part = replace(talk, offset=0.5, duration=1.5)
    chunks = list(talk_chunks(part, 9_000))
    assert [chunk.numel() for chunk in chunks] == [9_000, 9_000, 6_000]
    assert torch.allclose(torch.cat(chunks), samples[8_000:32_000], atol=1e-4)
    assert len({chunk.untyped_storage().data_ptr() for chunk in chunks}) == 3
    (source,) = sources([part], DE, chunk_samples=None)
    assert (source.talk, source.reference) == ("talk", "A B C D E F")
    (whole,) = source.chunks
    assert whole.numel() == 24_000
