"""The naive baseline: a word of the translation is worth a fixed duration of audio."""

from typing import Any

import pytest

from tests.contract.scripted import FRAME as SCRIPT_FRAME
from tests.contract.scripted import WORD_FRAMES, Scripted, speak, text_of
from tests.fixtures.streams import new_system
from tests.history.streams import answered, session
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Cut, Seconds, SpeechChunk, StreamOutline
from zoo.history.fixed_audio import FixedAudio
from zoo.policies.local_agreement import LocalAgreement

WORD_SECONDS = WORD_FRAMES * SCRIPT_FRAME / SAMPLE_RATE  # of the scripted backbone
TALK = [3, 7, 51, 4, 9, 60, 8, 2, 5, 12, 11, 6]


@pytest.mark.parametrize(
    ("tokens", "num_written", "cut"),
    [
        ("w.ww", 4, Cut(tokens=2, frames=3)),  # one word of 280 ms, in frames of 100 ms
        ("wwww", 4, Cut(tokens=2, frames=6)),  # rounded once: 560 ms
        ("www.w.ww", 4, Cut(tokens=1, frames=3)),  # words that are not written do not count
        ("w.w.", 4, Cut()),
        (".www", 4, Cut(tokens=2, frames=6)),  # the rest of a word is a word
        ("....", 4, Cut()),
        ("", 0, Cut()),
    ],
)
def test_each_dropped_word_takes_its_audio_with_it(tokens: str, num_written: int, cut: Cut) -> None:
    stream = session(20, prefix=num_written)
    attended = [0] * len(tokens)  # the alignment does not matter
    assert FixedAudio(words=2).trim(stream, answered(tokens, attended)) == cut


def test_no_more_audio_is_dropped_than_is_kept_and_none_is_kept_beyond_the_limit() -> None:
    assert FixedAudio(words=1).trim(session(4, prefix=3), answered("www", [0, 0, 0])) == Cut(2, 4)
    assert FixedAudio(max_seconds=1.5).trim(session(20), None) == Cut(frames=5)
    assert FixedAudio(words=1, max_seconds=1.8).trim(
        session(20, prefix=2), answered("ww", [0, 0])
    ) == Cut(tokens=1, frames=3)
    assert FixedAudio(max_seconds=None).trim(session(5000), None) == Cut()
    outline = StreamOutline(duration=100_000, chunk=500, frame=300)
    assert FixedAudio(max_seconds=0.1).longest_audio(outline) == 5 * 300 + 500


def streamed(word_seconds: Seconds) -> tuple[str, list[int]]:
    """Text of a talk, and the frames that are kept after each chunk."""
    history = FixedAudio(words=2, word_seconds=word_seconds)
    system = new_system(
        Scripted(), LocalAgreement(), history, chunk_seconds=WORD_SECONDS, loaded=True
    )
    stream, text, kept = system.open("talk"), "", []
    chunks = speak(TALK).split(system.chunk_samples)
    for index, chunk in enumerate(chunks):
        [action] = system.step([stream], [SpeechChunk(chunk, final=index == len(chunks) - 1)])
        text += action.text
        kept.append(stream.kept_frames)
    return text, kept


def test_text_is_complete_if_words_last_as_long_as_assumed_without_an_alignment() -> None:
    text, kept = streamed(WORD_SECONDS)
    assert text.split() == text_of(TALK).split()
    # two words, one that waits for agreement, and the newest one
    assert max(kept) <= 4 * WORD_FRAMES


def test_longer_words_than_assumed_pile_up_and_shorter_ones_are_lost() -> None:
    _, kept = streamed(WORD_SECONDS / 4)
    assert kept[-1] > 2 * max(streamed(WORD_SECONDS)[1])
    text, _ = streamed(2 * WORD_SECONDS)
    assert len(text.split()) < len(TALK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": 0}, "FixedAudio needs words of at least 1, not 0"),
        ({"word_seconds": 0}, "FixedAudio needs word_seconds above 0, not 0"),
        ({"max_seconds": -1}, "FixedAudio needs max_seconds above 0, not -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ZooError, match=message):
        FixedAudio(**options)
