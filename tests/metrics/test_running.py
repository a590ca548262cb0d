"""StreamLAAL of a stream that has not ended."""

from dataclasses import replace

import pytest

from zoo.base.languages import language
from zoo.base.types import ChunkTime, Instance
from zoo.metrics.longform import score_talks
from zoo.metrics.references import ReferenceSegment
from zoo.metrics.running import running_latency

GERMAN = language("de")
REFERENCES = [
    ReferenceSegment(0.0, 2.0, "eins zwei"),
    ReferenceSegment(2.0, 2.0, "drei vier"),
    ReferenceSegment(4.0, 2.0, "fünf sechs"),
]
WORDS = ("eins", "zwei", "drei", "vier", "fünf", "sechs")


def stream(words: int, received: float) -> Instance:
    """A stream that has written a word after each second, half a second late."""
    delays = tuple(float(place + 1) for place in range(words))
    return Instance(
        index=0,
        talk="talk",
        source_length=received,
        text=" ".join(WORDS[:words]),
        units=WORDS[:words],
        delays=delays,
        elapsed=(),
        chunk_indices=tuple(range(words)),
        chunks=tuple(ChunkTime(delay, 0.5) for delay in delays),
    )


def scores(words: int, received: float, *, final: bool = False) -> dict[str, float | None]:
    return running_latency(stream(words, received), REFERENCES, language=GERMAN, final=final)


def test_segments_count_once_their_speech_has_ended() -> None:
    assert scores(1, 1.5) == {"StreamLAAL": None, "StreamLAAL_CA": None, "segments": 0}
    assert scores(3, 3.5) == {"StreamLAAL": 1.0, "StreamLAAL_CA": 1.5, "segments": 1}
    assert scores(4, 4.0)["segments"] == 2


def test_words_of_the_newest_segment_do_not_count_for_the_one_before() -> None:
    late = replace(stream(3, 3.9), delays=(1.0, 2.0, 3.9))
    one = running_latency(late, REFERENCES, language=GERMAN, final=False)
    assert one["StreamLAAL"] == 1.0


@pytest.mark.parametrize(("words", "received", "heard"), [(6, 6.0, 3), (3, 3.5, 2), (0, 6.0, 3)])
def test_the_last_scores_are_those_of_an_evaluation(
    words: int, received: float, heard: int
) -> None:
    expected = score_talks([stream(words, received)], [REFERENCES[:heard]], language=GERMAN).scores
    last = scores(words, received, final=True)
    assert last["segments"] == heard
    assert last["StreamLAAL"] == expected["StreamLAAL"].value
    if words:
        assert last["StreamLAAL_CA"] == expected["StreamLAAL_CA"].value


def test_nothing_heard_has_no_scores() -> None:
    assert scores(0, 0.0, final=True)["segments"] == 0
