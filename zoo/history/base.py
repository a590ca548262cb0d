"""The interface of a history."""

from math import isinf
from typing import Any, ClassVar

from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Frames,
    Hypothesis,
    Samples,
    Seconds,
    StreamOutline,
)
from zoo.streaming.session import Session


class History:
    """Decides which audio and text are dropped; this base class keeps everything.

    For each chunk the system calls :meth:`onset`, then :meth:`boundary` (both again after a
    flushed segment) and finally :meth:`trim`.

    Attributes:
        needs: Capabilities that the history requires of the backbone.
        selects_text: Whether the text to keep decides which audio is kept.
        reads_unwritten: Whether :meth:`trim` reads the tokens of a translation that the policy did
            not write. If False, backbones may stop decoding at the first token that the policy
            would not write.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset()
    selects_text: ClassVar[bool] = False
    reads_unwritten: bool = True  # the safe choice for a history that does not set it

    def open(self) -> Any:
        """Return the history's state for a new stream. None: no state."""
        return None

    def onset(self, session: Session) -> Frames | None:
        """Find the start of the audio to translate.

        Returns:
            Kept frame at which the current segment begins; audio before it is dropped without
            being translated. A value above 0 is allowed only where a segment begins, because
            policies may count frames, and only if the history needs AUDIO_TRIMMING. None: no
            segment has begun, so the policy does not run.
        """
        return 0

    def boundary(self, session: Session) -> Frames | None:
        """Find the end of the current segment.

        Returns:
            Kept frame (> 0) at which the segment has ended: audio before it is translated to the
            end and then dropped, which needs AUDIO_TRIMMING. None: the segment has not ended.
        """
        return None

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Decide what to drop after the output of a chunk has been written.

        Args:
            session: The stream; ``prefix_ids`` contains the newly written tokens.
            hypothesis: The last translation. Its alignment begins with the rows of
                ``prefix_ids``. None: no translation was requested, or the policy made a cut, so
                that alignment and session differ.
        """
        return Cut()

    def guard(self, *, by_default: bool) -> None:
        """Decide the options that were left to the backbone (``auto``), before a stream opens.

        Args:
            by_default: Whether the backbone needs guards; see ``Backbone.guarded``.
        """
        return

    def restart_cut(self, session: Session, hypothesis: Hypothesis) -> Cut | None:
        """Decide whether the model has lost the speech after its text.

        Args:
            session: The stream; ``prefix_ids`` contains the newly written tokens.
            hypothesis: The last translation, from which these tokens were written.

        Returns:
            All of the text and the audio that it translates, which is dropped; the policy then
            decides again in the same step. None: the stream goes on.
        """
        return None

    def speech_without_output(self, session: Session, *, has_output: bool) -> Seconds:
        """Return the duration of speech since the last output, once it is long.

        Args:
            session: The stream, after a step.
            has_output: Whether the step has emitted text.

        Returns:
            0 if the speech is short or not known, and if it has been returned before.
        """
        return 0.0

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the length of the longest audio that the policy may receive at once.

        An evaluation refuses a stream of which the backbone would receive too much.
        """
        return outline.duration


def frames_beyond(max_seconds: Seconds | None, session: Session) -> Frames:
    """Return how many of the kept frames, the oldest ones, are beyond a maximum of audio.

    Args:
        max_seconds: Seconds of audio to keep at most. None, or infinity: no maximum.
        session: The stream.
    """
    if max_seconds is None or isinf(max_seconds):
        return 0
    return max(session.kept_frames - _whole_frames(max_seconds, session.frame_samples), 0)


def longest_within(max_seconds: Seconds | None, outline: StreamOutline) -> Samples:
    """Return the longest audio under a maximum that is applied after each chunk.

    Args:
        max_seconds: Seconds of audio to keep at most. None, or infinity: no maximum.
        outline: What is known of the stream.
    """
    if max_seconds is None or isinf(max_seconds):
        return outline.duration
    return _whole_frames(max_seconds, outline.frame) * outline.frame + outline.chunk


def _whole_frames(seconds: Seconds, frame_samples: Samples) -> Frames:
    return round(seconds * SAMPLE_RATE) // frame_samples
