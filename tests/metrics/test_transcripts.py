"""Segments of a stream and word error rates of their last transcripts."""

from collections.abc import Sequence

import pytest

from zoo.base.languages import language
from zoo.base.types import Instance, StreamEvent
from zoo.metrics.transcripts import score_segments, score_written, unmatched_words
from zoo.streaming.segments import source_segments

ENGLISH = language("en")


def stream(events: Sequence[StreamEvent], *, words: int = 6, seconds: float = 8.0) -> Instance:
    units = tuple(f"w{place}" for place in range(words))
    return Instance(
        0, "talk", seconds, " ".join(units), units, (1.0,) * words, (), events=tuple(events)
    )


def transcript(at: float, text: str) -> StreamEvent:
    return StreamEvent("transcript", at, text=text)


EVENTS = [
    transcript(1.0, "We."),
    transcript(2.0, "We won."),
    transcript(3.0, "We won. And"),
    StreamEvent("truncation", 2.0, reason="sentence", tokens=2, frames=25),
    transcript(3.0, "And"),
    StreamEvent("cut", 3.5, reason="VoiceActivity", frames=10),  # a pause
    transcript(5.0, "and then"),
    StreamEvent("flush", 5.5, reason="VoiceActivity", tokens=3, frames=20),
    StreamEvent("truncation", 6.0, reason="silence", frames=6),  # without text
    transcript(7.0, "they left"),
    transcript(8.0, "they left it"),
]


def test_a_segment_has_the_last_transcript_of_its_audio() -> None:
    segments = source_segments(stream(EVENTS))
    assert [(one.seconds, one.transcript, one.final) for one in segments] == [
        (2.0, "We won.", False),
        (2.0, "and then", False),
        (2.0, "they left it", True),
    ]


def test_scores_are_means_over_segments_and_errors_over_all_words() -> None:
    sources = ["We won. And then, they left!", "Yes."]
    scores = score_segments(
        [stream(EVENTS), stream([transcript(1.0, "Yes")], words=2, seconds=2.0)],
        sources,
        source_language=ENGLISH,
    )
    assert scores["SegmentSeconds"].value == pytest.approx(2.0)
    assert scores["SegmentWords"].value == pytest.approx(8 / 4)
    assert scores["TranscriptWER"].value == pytest.approx(100 / 7)  # "it"
    assert "normalizer:whisper-english" in scores["TranscriptWER"].signature


def test_streams_without_truncations_or_transcripts_have_no_such_scores() -> None:
    only = score_segments([stream([transcript(1.0, "a")])], ["a"], source_language=ENGLISH)
    assert list(only) == ["TranscriptWER"]
    cut = StreamEvent("cut", 1.0, reason="RecentWords", tokens=1, frames=3)
    assert score_segments([stream([cut])], ["a"], source_language=ENGLISH) == {}
    undefined = score_segments([stream([transcript(1.0, "a")])], [""], source_language=ENGLISH)
    assert undefined["TranscriptWER"].value is None


@pytest.mark.parametrize(
    ("written", "wanted", "counts"),
    [
        ("a b c d e f", "a b c d e f", (0, 0, 0)),
        ("a b f", "a b c d e f", (3, 0, 0)),
        ("a b d e f", "a b c d e f", (0, 0, 0)),  # one word: an error of recognition
        ("a b x y z c d", "a b c d", (0, 3, 0)),
        ("a b c a b c d", "a b c d", (0, 0, 3)),
        ("a x b", "a c d e f b", (3, 0, 0)),  # one of the four words is replaced
        ("", "a b c", (3, 0, 0)),
    ],
)
def test_runs_of_words_without_counterpart_are_counted(
    written: str, wanted: str, counts: tuple[int, int, int]
) -> None:
    found = unmatched_words(written.split(), wanted.split())
    assert tuple(found.values()) == counts
    assert list(found) == ["LostWords", "InventedWords", "DoubledWords"]


def test_written_transcripts_are_scored_as_whole_talks() -> None:
    texts = ["Good morning, everyone.", "We start with the first of three points."]
    streams = [
        Instance(index, f"talk {index}", 9.0, text, tuple(text.split()), (), ())
        for index, text in enumerate(["good morning everyone", "We start points"])
    ]
    scores = score_written(streams, texts, language=ENGLISH)
    assert scores["WER"].value == pytest.approx(100 * 5 / 11)
    assert [scores[f"{kind}Words"].value for kind in ("Lost", "Invented", "Doubled")] == [5, 0, 0]
