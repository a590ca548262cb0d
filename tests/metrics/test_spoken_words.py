"""Long-form latency of target speech, on streams computed by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from zoo.alignment.recognisers.base import Recognised
from zoo.base.languages import language
from zoo.base.talks import Word
from zoo.base.types import SAMPLE_RATE, Instance, SpeechOutput
from zoo.metrics.drift import drift
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.speech_pieces import split_speech
from zoo.metrics.spoken_words import (
    SpokenScores,
    SpokenText,
    SpokenWord,
    as_text,
    recognise_speech,
    score_spoken_words,
)

DE = language("de")


class Levels:
    """Recognises a word per half second: the digits of its level, which ends 0.1 s earlier."""

    name = "levels"
    language = None

    def unavailable_reason(self) -> str | None:
        return None

    def load(self, device: torch.device | None = None) -> None:
        return

    def transcribe(self, waves: Sequence[Tensor]) -> list[str]:
        return [one.text for one in self.recognise(waves)]

    def recognise(self, waves: Sequence[Tensor]) -> list[Recognised]:
        found = []
        for wave in waves:
            starts = [0, *((wave[1:] != wave[:-1]).nonzero()[:, 0] + 1).tolist()]
            ends = [*starts[1:], len(wave)]
            words = tuple(
                Word(f"W{wave[start]:.0f}", start / SAMPLE_RATE, end / SAMPLE_RATE - 0.1)
                for start, end in zip(starts, ends, strict=True)
                if wave[start]
            )
            found.append(Recognised(" ".join(word.text for word in words), words))
        return found


def stream(*outputs: tuple[float, float, int], source: float) -> Instance:
    """A stream of (delay, seconds, number); the word of a number is spoken all the time."""
    speech = tuple(
        SpeechOutput(
            torch.full((round(length * SAMPLE_RATE),), float(number)), delay, delay + 1, place, ""
        )
        for place, (delay, length, number) in enumerate(outputs)
    )
    units = tuple(f"w{number}" for *_, number in outputs)
    delays = tuple(delay for delay, *_ in outputs)
    return Instance(
        0, "talk", source, " ".join(units), units, delays, tuple(d + 1 for d in delays),
        speech=speech,
    )  # fmt: skip


def lecture(pace: float, *, minutes: float, behind: float = 2.0, step: float = 10.0) -> Instance:
    """A sentence of one word every ``step`` s, spoken ``behind`` s after it for step * pace s."""
    count = round(minutes * 60 / step)
    outputs = [(step * (place + 1) + behind, step * pace, place + 1) for place in range(count)]
    return stream(*outputs, source=count * step)


def references(instance: Instance, step: float = 10.0) -> list[ReferenceSegment]:
    return [
        ReferenceSegment(place * step, step, f"W{place + 1}.")
        for place in range(len(instance.speech))
    ]


def scored(instance: Instance, step: float = 10.0) -> SpokenScores:
    spoken = recognise_speech(instance, Levels(), language=DE)
    return score_spoken_words(
        [instance], [spoken], [references(instance, step)], language=DE, recogniser="levels"
    )


def test_a_word_ends_where_its_playback_ends() -> None:
    # Played at 1.0 to 1.5, 1.5 to 2.5 (it waits) and, after a gap, 6.0 to 6.5.
    talk = stream((1.0, 0.5, 1), (1.2, 1.0, 2), (6.0, 0.5, 3), source=8.0)
    spoken = recognise_speech(talk, Levels(), language=DE)
    assert spoken.text == "W1 W2 W3"
    written = as_text(talk, spoken)
    assert written.units == ("W1", "W2", "W3")
    assert written.delays == pytest.approx((1.4, 2.4, 6.4), abs=1e-4)
    # One second of compute each: 2.0 to 2.5, 2.5 to 3.5, 7.0 to 7.5.
    assert written.elapsed == pytest.approx((2.4, 3.4, 7.4), abs=1e-4)


def test_a_word_that_seems_to_end_in_a_gap_ends_with_its_output() -> None:
    talk = stream((1.0, 0.5, 1), (6.0, 0.5, 2), source=8.0)
    [piece] = split_speech(talk, language=DE)
    assert piece.starts == (0.0, 0.7)
    assert piece.locate_end(0.5) == (0, 0.5)
    assert piece.locate_end(0.65) == (0, 0.65)
    assert piece.locate_end(0.7) == (0, 0.7), "exactly where the next one begins"
    assert piece.locate_end(0.8) == (1, pytest.approx(0.1))
    words = (SpokenWord("W1", 0, 0.65), SpokenWord("W2", 1, 0.1))
    assert as_text(talk, SpokenText("W1 W2", words)).delays == pytest.approx((1.5, 6.1))


def test_a_constant_lag_has_no_drift() -> None:
    found = scored(lecture(0.5, minutes=5))
    # Each word ends 2 + 5 - 0.1 s after its segment.
    assert found.scores["SpeechDrift"].value == pytest.approx(0, abs=1e-3)
    assert found.scores["SpeechDrift_CA"].value == pytest.approx(0, abs=1e-3)
    assert [segment.hypothesis for segment in found.segments[:2]] == ["W1", "W2"]
    # A segment of 10 s with one word: the lag behind its start, of words before the end at 300 s.
    assert found.scores["SpeechLongYAAL"].value == pytest.approx(16.9, abs=1e-3)
    assert found.scores["SpeechLongYAAL_CA"].value == pytest.approx(17.9, abs=1e-3)


@pytest.mark.parametrize("minutes", [5, 3])
def test_speech_that_is_a_tenth_too_long_drifts_as_arithmetic_says(minutes: int) -> None:
    # Segment k (from 1) ends at 10 k; its speech ends at 12 + 11 k: the lag is 12 + k. Segments 1
    # to 6 end in the first minute and n - 5 to n in the last one: means of 3.5 and n - 2.5.
    count = minutes * 6
    found = scored(lecture(1.1, minutes=minutes))
    assert found.scores["SpeechDrift"].value == pytest.approx(count - 6, abs=1e-3)


def test_short_talks_compare_their_halves() -> None:
    # Four segments with lags of 12 + k less 0.1: (3 + 4) / 2 - (1 + 2) / 2.
    found = scored(lecture(1.1, minutes=40 / 60))
    assert found.scores["SpeechDrift"].value == pytest.approx(2.0, abs=1e-3)


def test_a_drift_needs_segments_in_both_minutes() -> None:
    assert drift([(30.0, 1.0), (200.0, 5.0)], 300.0) is None
    assert drift([(30.0, 1.0), (290.0, 5.0)], 300.0) == 4.0
    assert drift([], 300.0) is None
    nothing = stream(source=60.0)
    spoken = recognise_speech(nothing, Levels(), language=DE)
    segment = ReferenceSegment(0.0, 60.0, "W1.")
    found = score_spoken_words([nothing], [spoken], [[segment]], language=DE, recogniser="levels")
    assert found.scores["SpeechDrift"].value is None
    assert found.scores["SpeechLongYAAL"].value is None


def test_case_and_punctuation_do_not_move_words_to_other_segments() -> None:
    talk = stream((1.0, 0.5, 1), (2.0, 0.5, 2), (3.0, 0.5, 3), source=4.0)
    spoken = recognise_speech(talk, Levels(), language=DE)
    texts = [ReferenceSegment(0.0, 1.0, "w1!"), ReferenceSegment(1.0, 3.0, "„w2“, w3?")]
    found = score_spoken_words([talk], [spoken], [texts], language=DE, recogniser="levels")
    assert [segment.hypothesis for segment in found.segments] == ["W1", "W2 W3"]


def test_signatures_name_the_recogniser_and_the_window() -> None:
    found = scored(lecture(0.5, minutes=1))
    signatures = {name: score.signature for name, score in found.scores.items()}
    assert signatures["SpeechLongYAAL"].startswith("SpeechLongYAAL|unit:word|")
    assert "|asr:levels|normalizer:whisper-basic|" in signatures["SpeechLongYAAL"]
    assert "|window:60 s|reseg:mwer" in signatures["SpeechDrift"]
    assert "|elapsed:queue|" in signatures["SpeechDrift_CA"]


def test_logs_without_elapsed_times_have_ideal_scores_only() -> None:
    found = scored(replace(lecture(0.5, minutes=1), elapsed=()))
    assert set(found.scores) == {"SpeechLongYAAL", "SpeechDrift"}
