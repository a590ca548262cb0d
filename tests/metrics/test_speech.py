"""Playback of target speech on hand-made logs; SimulEval's numbers follow its rules (git main)."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from zoo.base.languages import language
from zoo.base.types import SAMPLE_RATE, ChunkTime, Instance, SpeechOutput
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.sentences import score_sentences
from zoo.metrics.speech import (
    SPEECH_METRICS,
    DiscontinuityAve,
    DiscontinuityNum,
    DiscontinuitySum,
    SpeechATD,
    SpeechEndOffset,
    SpeechMetric,
    SpeechOverlap,
    SpeechStartOffset,
    SpeechTiming,
)
from zoo.metrics.sums import merge

DE = language("de")


def stream(*pieces: Sequence[float], source: float = 4.0, talk: str = "talk") -> Instance:
    """pieces: (delay, duration) or (delay, duration, elapsed) in seconds."""
    speech = []
    for index, (delay, duration, *elapsed) in enumerate(pieces):
        samples = torch.full((round(duration * SAMPLE_RATE),), 0.5)
        speech.append(SpeechOutput(samples, delay, elapsed[0] if elapsed else delay, index, "wort"))
    units = ("wort",) * len(pieces)
    delays = tuple(spoken.delay for spoken in speech)
    elapsed_times = tuple(spoken.elapsed for spoken in speech)
    return Instance(
        0, talk, source, " ".join(units), units, delays, elapsed_times, speech=tuple(speech)
    )


# 1.0-1.5, waits, 2.0-3.5 (the third is there at 3.0 but must wait), 3.5-4.0, waits, 5.0-5.25;
# the source ends at 4.0
TALK = stream((1.0, 0.5), (2.0, 1.5), (3.0, 0.5), (5.0, 0.25))
NO_GAP = stream((1.0, 1.0), (2.0, 1.0))


@pytest.mark.parametrize(
    ("metric", "case", "value"),
    [
        (SpeechStartOffset, TALK, 1.0),
        (SpeechEndOffset, TALK, 1.25),
        (DiscontinuitySum, TALK, 1.5),  # 0.5 + 1.0; the second before the first speech is no gap
        (DiscontinuityNum, TALK, 2.0),
        (DiscontinuityAve, TALK, 0.75),
        (SpeechOverlap, TALK, 2.5 / 2.75),
        (SpeechStartOffset, NO_GAP, 1.0),
        (SpeechEndOffset, NO_GAP, -1.0),
        (DiscontinuitySum, NO_GAP, 0.0),
        (DiscontinuityNum, NO_GAP, 0.0),
        (DiscontinuityAve, NO_GAP, 0.0),  # not undefined, as in SimulEval
        (SpeechOverlap, NO_GAP, 1.0),
        # a stretch over the source's end counts in part: 3.5-4.5
        (SpeechOverlap, stream((3.5, 1.0)), 0.5),
        (SpeechOverlap, stream((4.0, 1.0)), 0.0),
    ],
)
def test_hand_computed(metric: type[SpeechMetric], case: Instance, value: float) -> None:
    score = metric()
    score.update(SpeechTiming.of(case))
    assert float(score.compute()) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("case", "value"),
    [
        # chunks of 0.6 s are two tokens each; source tokens end at .3 .6 | .9 1.2; the tokens end
        # at .9 1.2 | 1.5 1.8
        (stream((0.6, 0.6), (1.2, 0.6)), 0.6),
        # 0.7 s are two tokens and a rest of 0.1: ends .9 1.2 1.3; the rest is paired with the last
        # source token
        (stream((0.6, 0.7)), (0.6 + 0.6 + 0.7) / 3),
        # the same delay is one chunk: 0.2 + 0.4 s are two tokens, not four
        (stream((0.6, 0.2), (0.6, 0.4)), 0.6),
        # three tokens written when one source token was received: the fourth is paired with
        # the second
        (stream((0.3, 0.9), (0.6, 0.3)), (0.3 + 0.6 + 0.9 + 0.9) / 4),
    ],
)
def test_token_delay_of_speech(case: Instance, value: float) -> None:
    metric = SpeechATD()
    metric.update(SpeechTiming.of(case))
    assert float(metric.compute()) == pytest.approx(value, abs=1e-9)


def test_token_delay_of_speech_with_compute() -> None:
    """0.2 s of compute over the tokens of chunk 1, none for chunk 2: ends 1.0 1.4 | 1.7 2.0."""
    metric = SpeechATD()
    metric.update(SpeechTiming.of(stream((0.6, 0.6, 0.8), (1.2, 0.6, 1.4)), computation_aware=True))
    assert float(metric.compute()) == pytest.approx((0.7 + 0.8 + 0.8 + 0.8) / 4)


def test_a_gap_below_a_sample_is_rounding() -> None:
    thirds = stream((0.1, 0.2), (0.1 + 0.2 + 1e-15, 0.2))
    assert SpeechTiming.of(thirds).gaps == []
    assert len(SpeechTiming.of(stream((1.0, 0.5), (1.5 + 1 / SAMPLE_RATE, 0.5))).gaps) == 1


def test_computation_aware_intervals_are_those_of_elapsed_times() -> None:
    """Here 0.5 s late throughout, but the second is 1 s late and the third follows it at once."""
    late = stream((1.0, 0.5, 1.5), (2.0, 1.5, 3.0), (3.0, 0.5, 3.5), (5.0, 0.25, 5.5))
    timing = SpeechTiming.of(late, computation_aware=True)
    assert timing.intervals == ((1.5, 0.5), (3.0, 1.5), (4.5, 0.5), (5.5, 0.25))
    assert timing.gaps == [1.0, 0.5]
    assert SpeechTiming.of(late) == SpeechTiming.of(TALK)


@pytest.mark.parametrize("kind", [*SPEECH_METRICS.values(), SpeechATD])
def test_a_stream_without_speech_is_left_out(kind: type[SpeechMetric]) -> None:
    metric, alone = kind(), kind()
    metric.update(SpeechTiming.of(stream()))
    assert math.isnan(float(metric.compute()))
    metric.update(SpeechTiming.of(TALK))
    alone.update(SpeechTiming.of(TALK))
    assert float(metric.compute()) == float(alone.compute())


def test_negative_starts_are_left_out() -> None:
    metric = SpeechStartOffset()
    for case in (replace(SpeechTiming.of(TALK), intervals=((-2.0, 1.0),)), SpeechTiming.of(TALK)):
        metric.update(case)
    assert float(metric.compute()) == 1.0


def test_ranks_that_saw_different_streams_agree() -> None:
    first, second, together = DiscontinuityAve(), DiscontinuityAve(), DiscontinuityAve()
    for rank, case in ((first, TALK), (second, NO_GAP), (second, stream())):
        rank.update(SpeechTiming.of(case))
        together.update(SpeechTiming.of(case))
    merge(first, second)
    assert float(first.compute()) == float(together.compute()) == 0.375


def test_scores_of_a_speaking_talk() -> None:
    chunks = tuple(ChunkTime(float(second), 0.25) for second in range(1, 6))
    talk = replace(TALK, chunks=chunks, chunk_indices=(0, 1, 2, 4), elapsed=())
    speech = tuple(
        replace(spoken, chunk=chunk)
        for spoken, chunk in zip(talk.speech, talk.chunk_indices, strict=True)
    )
    talk = replace(talk, speech=speech)
    segments = [ReferenceSegment(0.0, 4.0, "wort wort wort wort")]
    scores = score_talks([talk], [segments], language=DE, with_speech=True).scores
    assert scores["StartOffset"].value == 1.0
    assert scores["EndOffset"].value == 1.25
    assert scores["EndOffset"].signature.startswith("EndOffset|of:speech|simulzoo")
    assert scores["StartOffset_CA"].value == 1.25
    assert scores["EndOffset_CA"].value == pytest.approx(1.5)
    assert scores["DiscontinuitySum"].value == 1.5
    assert scores["DiscontinuityNum_CA"].signature.startswith(
        "DiscontinuityNum_CA|of:speech|elapsed:queue|"
    )
    assert scores["StreamLAAL"].value is not None
    text_scores = score_talks([talk], [segments], language=DE).scores
    assert text_scores["EndOffset"].value == 1.0
    assert "DiscontinuitySum" not in text_scores
    sentence = score_sentences([talk], ["wort"], language=DE, with_speech=True)
    ideal, aware = sentence["SpeechATD"].value, sentence["SpeechATD_CA"].value
    assert ideal is not None
    assert aware is not None
    assert aware > ideal
    assert "SpeechATD" not in scores
