"""The segments into which a system divides its source, from the events of a stream."""

from collections.abc import Sequence
from dataclasses import dataclass

from zoo.base.types import EventKind, Instance, Seconds

# Kinds of events after which less audio is kept.
DROPPING: Sequence[EventKind] = ("truncation", "flush", "restart", "cut")
TOLERANCE: Seconds = 0.05  # a cut is rounded up to a frame


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """Source audio that a system translated and then dropped, or the rest of a stream.

    Attributes:
        begin: start in seconds from the start of the stream.
        end: end in seconds from the start of the stream.
        transcript: last transcript of this audio; empty without transcripts.
        final: whether the segment is the rest of the stream.
    """

    begin: Seconds
    end: Seconds
    transcript: str
    final: bool = False

    @property
    def seconds(self) -> Seconds:
        """Duration of the segment."""
        return self.end - self.begin


def source_segments(instance: Instance) -> list[SourceSegment]:
    """Divide a stream at its truncations and flushes.

    A segment begins where audio was last dropped. Segments without text, such as pauses, are left
    out. The rest of the stream is the last segment if it has a transcript.

    Args:
        instance: stream with events.
    """
    segments: list[SourceSegment] = []
    start: Seconds = 0.0
    transcripts: list[tuple[Seconds, str]] = []  # end and text since the last truncation
    for event in instance.events:
        if event.kind == "transcript":
            transcripts.append((event.at, event.text))
            continue
        if event.kind not in DROPPING:
            continue
        if event.kind in ("truncation", "flush"):
            covered = [text for end, text in transcripts if end <= event.at + TOLERANCE]
            if event.tokens:
                segments.append(SourceSegment(start, event.at, covered[-1] if covered else ""))
            transcripts = []
        start = event.at
    if transcripts and transcripts[-1][1]:
        segments.append(
            SourceSegment(start, instance.source_length, transcripts[-1][1], final=True)
        )
    return segments
