"""Sentence-level input by hand: begin and end of segments, and the audio between them."""

import pytest
import torch

from tests.history.streams import FRAME, session
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Cut, Samples, SpeechChunk
from zoo.history.reference_segments import ReferenceSegments

HISTORY = ReferenceSegments(margin_seconds=0)


def frames(*spans: tuple[float, float]) -> list[tuple[Samples, Samples]]:
    """Spans in frames to spans in samples."""
    return [(round(begin * FRAME), round(end * FRAME)) for begin, end in spans]


@pytest.mark.parametrize(
    ("spans", "received", "onset", "boundary"),
    [
        (frames((0, 5)), 3, 0, None),
        (frames((0, 5)), 5, 0, 5),
        (frames((0, 5), (5, 9)), 7, 0, 5),  # segments may touch
        (frames((2, 5)), 2, None, None),  # not received yet
        (frames((2, 5)), 3, 2, None),
        (frames((2.5, 4.2)), 5, 2, 5),  # the beginning is rounded down, the end up
        (frames((3, 5), (0, 2)), 4, 0, 2),  # in any order
        (frames((0, 9)), 7, 0, None),  # ends behind the stream
        (frames((4, 4), (5, 6)), 5, None, None),  # an empty one is none
    ],
)
def test_the_first_segment(
    spans: list[tuple[Samples, Samples]], received: int, onset: int | None, boundary: int | None
) -> None:
    stream = session(received, segments=spans)
    assert HISTORY.onset(stream) == onset
    if onset is not None:
        stream.forget(Cut(frames=onset))
        assert HISTORY.boundary(stream) == (None if boundary is None else boundary - onset)


@pytest.mark.parametrize(
    ("spans", "received", "longest", "boundary"),
    [
        (frames((0, 5)), 9, None, 7),  # a margin of two frames
        (frames((0, 5)), 6, None, 6),  # as far as it has been received
        (frames((0, 5)), 5, None, 5),  # a segment never waits for it
        (frames((0, 5), (6, 9)), 9, None, 6),  # up to the next segment
        (frames((0, 5), (4, 9)), 9, None, 5),
        (frames((0, 5), (2, 3)), 9, None, 7),  # a segment within it
        (frames((0, 5)), 9, 6.5, 6),  # the backbone accepts no more whole frames
        (frames((0, 5)), 9, 4, 5),
    ],
)
def test_the_audio_after_a_segment(
    spans: list[tuple[Samples, Samples]], received: int, longest: float | None, boundary: int
) -> None:
    stream = session(received, segments=spans)
    stream.longest_input = None if longest is None else round(longest * FRAME)
    history = ReferenceSegments(margin_seconds=2 * FRAME / SAMPLE_RATE)
    assert history.onset(stream) == 0
    assert history.boundary(stream) == boundary


def heard_spans(
    spans: list[tuple[Samples, Samples]], total: int, chunk: int
) -> list[tuple[Samples, Samples]]:
    """(begin, end) in samples of the audio of each flush; the rest of the stream comes last."""
    stream, found = session(segments=spans), []
    for samples in torch.zeros(total).split(chunk):
        stream.receive(SpeechChunk(samples))
        while stream.kept_frames and (onset := HISTORY.onset(stream)) is not None:
            stream.forget(Cut(frames=onset))
            if not (end := HISTORY.boundary(stream)):
                break
            begin = stream.audio_start
            stream.forget(Cut(frames=end))
            found.append((begin, stream.audio_start))
        stream.forget(HISTORY.trim(stream, None))
    return [*found, (stream.audio_start, stream.received_samples)]


@pytest.mark.parametrize("chunk", [FRAME, 700, 5 * FRAME, 40 * FRAME])
def test_every_segment_is_decoded_and_no_gap(chunk: int) -> None:
    *segments, rest = heard_spans(frames((2, 5), (5, 9.5), (20, 23), (24.5, 30)), 40 * FRAME, chunk)
    assert len(segments) == 4
    for (begin, end), (first, last) in zip(
        frames((2, 5), (5, 9.5), (20, 23), (24.5, 30)), segments, strict=True
    ):
        assert first <= begin + FRAME  # an earlier end, rounded up, may lie behind it
        assert begin - first < FRAME
        assert end <= last < end + FRAME + FRAME
    assert rest[1] - rest[0] < FRAME  # what follows the last segment is forgotten


@pytest.mark.parametrize("chunk", [FRAME, 3 * FRAME, 40 * FRAME])
def test_segments_that_overlap_share_no_audio(chunk: int) -> None:
    assert heard_spans(frames((0, 10), (8, 15), (9, 12)), 15 * FRAME, chunk)[:-1] == frames(
        (0, 10), (10, 15)
    )


def test_the_last_segment_may_end_behind_the_stream() -> None:
    assert heard_spans(frames((0, 4), (4, 12)), 10 * FRAME, FRAME) == frames((0, 4), (4, 10))


def test_a_gap_is_forgotten_while_it_lasts() -> None:
    stream = session(segments=frames((50, 60)))
    for _ in range(49):
        stream.receive(SpeechChunk(torch.zeros(FRAME)))
        stream.forget(HISTORY.trim(stream, None))
        assert stream.kept_frames == 0


def test_a_stream_without_segments_is_an_error() -> None:
    with pytest.raises(ZooError, match="stream 'talk' has none; choose another history"):
        HISTORY.onset(session(3))
