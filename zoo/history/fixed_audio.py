"""The naive streaming baseline of Papi et al. (2024), "StreamAtt": a fixed duration per word.

It keeps a fixed number of words, as FW does, and no attention selects the audio: for each dropped
word of the translation 280 ms of audio are dropped, the average duration of a word by FBK-fairseq,
whose ``FixedAudioHistorySelection`` is the baseline and refers to Ma et al. (2021).
"""

from dataclasses import dataclass
from typing import ClassVar

from zoo.base.errors import check_numbers
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Cut,
    Hypothesis,
    Samples,
    Seconds,
    StreamOutline,
)
from zoo.history.base import History, frames_beyond, longest_within
from zoo.history.recent_words import start_of_last_words
from zoo.streaming.session import Session


@dataclass(kw_only=True, eq=False)
class FixedAudio(History):
    """Keep the last written words; drop a fixed duration of audio for each dropped word.

    Text and audio drift apart where words and pauses take more or less time than that.

    Args:
        words: Number of words to keep.
        word_seconds: Seconds of audio that are dropped with a word. The audio of all words that are
            dropped at once is rounded to frames.
        max_seconds: Seconds of audio to keep at most, whatever the text. None: no maximum, as in
            FBK-fairseq, so that the kept audio of a slow speaker grows.

    Raises:
        ZooError: A value is out of range.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.AUDIO_TRIMMING})
    selects_text = True
    reads_unwritten = False

    words: int = 20
    word_seconds: Seconds = 0.28
    max_seconds: Seconds | None = 28.8

    def __post_init__(self) -> None:
        check_numbers("FixedAudio", least=1, words=self.words)
        check_numbers(
            "FixedAudio", above=0, word_seconds=self.word_seconds, max_seconds=self.max_seconds
        )

    def trim(self, session: Session, hypothesis: Hypothesis | None) -> Cut:
        """Select text, drop the audio of the other words, and apply the cap; see ``History``."""
        tokens = frames = 0
        if hypothesis is not None:
            starts = hypothesis.word_starts[: session.prefix_ids.numel()]
            tokens = start_of_last_words(starts, self.words)
            # A text whose beginning was dropped may begin within a word, which is a word here, too.
            words = int(starts[:tokens].sum()) + int(tokens > 0 and not starts[0])
            frames = round(words * self.word_seconds * SAMPLE_RATE / session.frame_samples)
        too_many = frames_beyond(self.max_seconds, session)
        return Cut(tokens=tokens, frames=min(max(frames, too_many), session.kept_frames))

    def longest_audio(self, outline: StreamOutline) -> Samples:
        """Return the cap on audio plus one chunk; see ``History``."""
        return longest_within(self.max_seconds, outline)
