"""The longest audio that a system may keep, compared with what its backbone accepts."""

from collections.abc import Iterable, Sequence

from zoo.backbones.base import Backbone
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Samples, Seconds, StreamOutline
from zoo.history.base import History
from zoo.policies.base import Policy


def audio_problem(
    talks: Sequence[Talk],
    *,
    name: str,
    backbone: Backbone,
    history: History,
    policy: Policy,
    chunk: Samples | None,
) -> str | None:
    """Compare the longest audio that history and policy may keep with the backbone's limit.

    Args:
        talks: Talks to stream.
        name: Name of the system.
        backbone: Its backbone.
        history: Its history.
        policy: Its policy.
        chunk: Samples per step. None: each talk is one chunk, for offline decoding.

    Returns:
        A sentence about the first talk with too much audio; None if there is none.
    """
    limit = backbone.longest_input
    if limit is None:
        return None
    for talk in talks:
        duration = round(talk.duration * SAMPLE_RATE)
        outline = StreamOutline(
            duration=duration,
            chunk=duration if chunk is None else chunk,
            frame=backbone.frame_samples,
            segments=in_samples((segment.offset, segment.end) for segment in talk.segments),
        )
        longest = min(duration, history.longest_audio(outline), policy.longest_audio(outline))
        if longest > limit:
            return (
                f"{type(backbone).__name__} encodes at most {limit / SAMPLE_RATE:g} s at once, but "
                f"system {name!r} may keep {longest / SAMPLE_RATE:g} s of talk "
                f"{talk.name!r}; choose shorter segments, a history whose max_seconds leaves room "
                "for one chunk, or a shorter chunk."
            )
    return None


def in_samples(
    segments: Iterable[tuple[Seconds, Seconds]],
) -> tuple[tuple[Samples, Samples], ...]:
    """Convert (begin, end) of segments from seconds to samples."""
    return tuple((round(begin * SAMPLE_RATE), round(end * SAMPLE_RATE)) for begin, end in segments)
