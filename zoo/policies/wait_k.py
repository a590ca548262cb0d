"""wait-k: stay k source words behind the speaker.

Ma et al. (2019), "STACL: Simultaneous Translation with Implicit Anticipation and Controllable
Latency using Prefix-to-Prefix Framework"; for speech Ma et al. (2020), "SimulMT to SimulST".

Source words are either chunks of fixed length (fixed pre-decision) or words of a transcript
(adaptive pre-decision).
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from zoo.base.errors import check_choice, check_numbers
from zoo.base.types import Capability, Decision, Frames, Hypothesis, Request, Samples, Task
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session

Count = Literal["chunks", "words"]


@dataclass(slots=True)
class Progress:
    """Counts since the stream or its current segment began.

    Attributes:
        chunks: Chunks received.
        words: Source words received.
        num_written: Target words written.
        forgotten: Source words in audio that has been dropped.
        start: Start of the audio of the last transcript, in samples of the stream.
        end: End of the audio of the last transcript, in samples of the stream.
    """

    chunks: int = 0
    words: int = 0
    num_written: int = 0
    forgotten: int = 0
    start: Samples | None = None
    end: Samples = 0


@dataclass(kw_only=True, eq=False)
class WaitK(Policy):
    """READ until ``k`` source words have been received, then write one word per source word.

    Target word i is written once k + i - 1 source words have been received (FBK-fairseq: k + i; by
    chunks, it writes as many words as a CTC transcript has beyond k). When the source has ended,
    everything is written.

    Args:
        k: Number of source words before the first target word.
        words_per_chunk: Target words to write per chunk, for ``count="chunks"``.
        count: ``chunks``: each chunk counts as one source word. ``words``: count the complete
            words of a transcript; its last word may be incomplete and does not count.

    Raises:
        ZooError: A number is below 1, or ``count`` is not one of these choices.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    k: int
    words_per_chunk: int = 1
    count: Count = "chunks"

    def __post_init__(self) -> None:
        check_numbers("WaitK", least=1, k=self.k, words_per_chunk=self.words_per_chunk)
        check_choice("count of WaitK", self.count, get_args(Count))
        if self.count == "words":
            # The needs depend on the options; ``bind`` reads those of the instance.
            self.needs = WaitK.needs | {Capability.TRANSCRIPT}  # type: ignore[misc]

    def open(self) -> Progress:
        """Return counts of zero."""
        return Progress()

    def decide(self, session: Session, state: Progress) -> DecisionGenerator:
        """Request a translation only if words may be written."""
        if session.must_flush:
            hypothesis = yield Request()
            return Decision(write=hypothesis.num_new_tokens)
        if self.count == "words":
            return (yield from self._decide_by_words(session, state))

        state.chunks += 1
        if state.chunks < self.k:
            return Decision(write=0)
        hypothesis = yield Request(max_words=self.words_per_chunk)
        return Decision(write=hypothesis.tokens_in_first_words(self.words_per_chunk))

    def _decide_by_words(self, session: Session, state: Progress) -> DecisionGenerator:
        transcript = yield from _count_source_words(session, state)
        allowed = state.words - self.k + 1 - state.num_written
        if allowed <= 0:
            return Decision(write=0)

        hypothesis = yield Request(transcript_ids=transcript.token_ids, max_words=allowed)
        write = hypothesis.tokens_in_first_words(allowed)
        new_word_starts = hypothesis.word_starts[hypothesis.prefix_length :]
        state.num_written += int(new_word_starts[:write].sum())
        return Decision(write=write)


def _count_source_words(
    session: Session, state: Progress
) -> Generator[Request, Hypothesis, Hypothesis]:
    """Transcribe the visible audio and update the number of received source words.

    If the history has dropped audio since the last transcript, the remaining audio of that
    transcript is transcribed once more to determine how many words were dropped.

    Returns:
        The transcript of the visible audio.
    """
    if state.start is not None and session.audio_start > state.start:
        remaining: Frames = max(state.end - session.audio_start, 0) // session.frame_samples
        remaining_words = 0
        if remaining:
            answer = yield Request(task=Task.TRANSCRIPTION, audio_end=remaining)
            remaining_words = _complete_words(answer)
        state.forgotten = max(state.words - remaining_words, 0)

    transcript = yield Request(task=Task.TRANSCRIPTION)
    state.words = max(state.words, state.forgotten + _complete_words(transcript))
    state.start, state.end = session.audio_start, session.received_samples
    return transcript


def _complete_words(transcript: Hypothesis) -> int:
    """Return the number of words that are followed by another word."""
    return max(int(transcript.word_starts.sum()) - 1, 0)
