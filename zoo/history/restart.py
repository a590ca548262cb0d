"""Restart of a stream whose model ends its text while someone speaks; ours, in no paper.

After a kept text such as "... a pecuniary advantage." an encoder-decoder that was trained on
complete sentences may end every answer at once, however much speech follows. Without the text, it
translates the same audio. The price of a restart is the text as context, and sometimes a word at
the cut.
"""

from dataclasses import dataclass

from zoo.errors import check_numbers
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Cut, Hypothesis, Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Restart:
    """When all text is dropped, with the audio that it translates.

    Args:
        after_seconds: Audio after the last frame to which a word of the text is aligned, from which
            on an empty answer drops the text. Marks at the end of a sentence are no words: they
            attend to the pause after it, and then to the first word of the next sentence.
        margin_seconds: Audio after that frame that is dropped as well, the end of the last word.

    Raises:
        ZooError: A value is out of range.
    """

    after_seconds: Seconds = 2.0
    margin_seconds: Seconds = 0.3

    def __post_init__(self) -> None:
        check_numbers("restart", above=0, after_seconds=self.after_seconds)
        check_numbers(
            "restart", least=0, most=self.after_seconds, margin_seconds=self.margin_seconds
        )

    def cut(self, session: Session, hypothesis: Hypothesis) -> Cut | None:
        """Return what is dropped; None if the stream goes on with its text.

        Args:
            session: The stream.
            hypothesis: The last translation, with an alignment.
        """
        num_written = session.prefix_ids.numel()
        if hypothesis.num_new_tokens or not num_written:
            return None
        frames = hypothesis.attended_frames[:num_written]
        if hypothesis.sentence_ends is not None:
            words = frames[~hypothesis.sentence_ends[:num_written]]
            frames = words if words.numel() else frames
        attended = int(frames.max()) + 1
        second = SAMPLE_RATE / session.frame_samples  # in frames
        if session.kept_frames - attended <= self.after_seconds * second:
            return None
        return Cut(tokens=num_written, frames=attended + round(self.margin_seconds * second))
