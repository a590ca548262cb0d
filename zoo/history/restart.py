"""Restart of a stream whose model ends or repeats its text while someone speaks; in no paper.

After a kept text such as "... a pecuniary advantage." an encoder-decoder that was trained on
complete sentences may end every answer at once, however much speech follows, or write the same
words again and again. Without the text, it translates the same audio. The price of a restart is the
text as context, and sometimes a word at the cut.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from zoo.base.errors import check_numbers
from zoo.base.types import SAMPLE_RATE, Cut, Frames, Hypothesis, Samples, Seconds
from zoo.streaming.session import Session

Auto = Literal["auto"]
NEIGHBOUR_SECONDS: Seconds = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Restart:
    """When all text is dropped, with the audio that it translates.

    A restart needs a text that is written to its end: the model has ended an answer without new
    words. When the source or its segment has ended, the answer may have new words, which are
    written.

    Args:
        after_seconds: Audio after the last frame to which a word of the text is aligned, from which
            on the text is dropped. Marks at the end of a sentence are no words: they attend to the
            pause after it, and then to the first word of the next sentence. A text that loops or
            fills the positions of the decoder is dropped at once.
        after_speech_seconds: The same in seconds of speech, if the history detects speech.
        margin_seconds: Audio after that frame that is dropped as well, the end of the last word.

    Raises:
        ZooError: A value is out of range.
    """

    after_seconds: Seconds = 2.0
    after_speech_seconds: Seconds = 1.25
    margin_seconds: Seconds = 0.3

    def __post_init__(self) -> None:
        check_numbers(
            "restart",
            above=0,
            after_seconds=self.after_seconds,
            after_speech_seconds=self.after_speech_seconds,
        )
        check_numbers(
            "restart", least=0, most=self.after_seconds, margin_seconds=self.margin_seconds
        )

    def cut(
        self,
        session: Session,
        hypothesis: Hypothesis,
        speech_after: Callable[[Samples], Seconds] | None,
    ) -> Cut | None:
        """Return what is dropped; None if the stream goes on with its text.

        Args:
            session: The stream, after the policy has written.
            hypothesis: The last translation, with an alignment.
            speech_after: Returns the seconds of speech after a kept sample. None: unknown.
        """
        num_written = session.prefix_ids.numel()
        is_complete = num_written == hypothesis.prefix_length + hypothesis.num_new_tokens
        if not num_written or not is_complete:
            return None
        if not hypothesis.must_restart and not hypothesis.finished:
            return None
        if hypothesis.num_new_tokens and not (hypothesis.must_restart or session.must_flush):
            return None  # the next chunk may continue the text
        second = SAMPLE_RATE / session.frame_samples  # in frames
        attended = _frames_of_words(session, hypothesis)
        begin = min(attended + round(self.margin_seconds * second), session.visible_frames)
        if not hypothesis.must_restart:
            if speech_after is not None:
                speech = speech_after(begin * session.frame_samples)
                continues = speech > self.after_speech_seconds
            else:
                continues = session.visible_frames - attended > self.after_seconds * second
            if not continues:
                return None
        return Cut(tokens=num_written, frames=begin)


def decide_restart(restart: Restart | Auto | None, *, by_default: bool) -> Restart | None:
    """Return a restart whose ``auto`` is decided by the backbone; see ``History.guard``."""
    if restart != "auto":
        return restart
    return Restart() if by_default else None


def _frames_of_words(session: Session, hypothesis: Hypothesis) -> Frames:
    """Return the end of the last frame to which the written words are aligned.

    One word far behind all others is misaligned: a frame counts if another word attends to a frame
    within ``NEIGHBOUR_SECONDS``.
    """
    num_written = session.prefix_ids.numel()
    frames = hypothesis.attended_frames[:num_written]
    if hypothesis.sentence_ends is not None:
        words = frames[~hypothesis.sentence_ends[:num_written]]
        frames = words if words.numel() else frames
    frames = frames.sort().values
    near = frames.diff() <= NEIGHBOUR_SECONDS * SAMPLE_RATE / session.frame_samples
    last = int(near.nonzero()[-1]) + 1 if bool(near.any()) else len(frames) - 1
    return int(frames[last]) + 1
