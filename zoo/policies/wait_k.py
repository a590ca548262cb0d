"""wait-k (Ma et al., 2019, "STACL"; for speech Ma et al., 2020, "SimulMT to SimulST").

Source words are chunks (a fixed pre-decision: a chunk stands for a word, whatever was said in it) or are counted in a
transcript (an adaptive one).
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.errors import ZooError
from zoo.policies.base import DecisionGenerator, Policy
from zoo.streaming.session import Session
from zoo.types import Capability, Decision, Frames, Hypothesis, Request, Samples, Task

COUNTS = ("chunks", "words")


@dataclass(slots=True)
class Progress:
    """What was heard and written since the stream, or its present segment, began.

    forgotten: source words in audio that was cut since. start, end: the audio of the last look, in stream samples.
    """

    chunks: int = 0
    words: int = 0
    written: int = 0
    forgotten: int = 0
    start: Samples | None = None
    end: Samples = 0


class WaitK(Policy):
    """READ until ``k`` source words were heard, then write one word per source word.

    Word i is written once k + i - 1 source words were heard (FBK-fairseq: k + i). count: what a source word is.
    ``chunks``: a chunk, and ``words_per_chunk`` words are written for each. ``words``: a whole word of the transcript;
    its last one may be going on and does not count. Everything is written when the source has ended.
    """

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PREFIX})

    def __init__(
        self, *, k: int, words_per_chunk: int = 1, count: Literal["chunks", "words"] = "chunks"
    ) -> None:
        """Raises ZooError when a number is below 1 and when ``count`` is neither."""
        if k < 1 or words_per_chunk < 1:
            raise ZooError(
                f"WaitK needs k and words_per_chunk of at least 1, not {k} and {words_per_chunk}."
            )
        if count not in COUNTS:
            raise ZooError(f"WaitK needs count to be {' or '.join(COUNTS)}, not {count}.")
        self.k = k
        self.words_per_chunk = words_per_chunk
        self.count = count
        if count == "words":
            self.needs = WaitK.needs | {Capability.TRANSCRIPT}  # type: ignore[misc]  # binding asks the instance

    def open(self) -> Progress:
        """Nothing heard yet."""
        return Progress()

    def decide(self, session: Session, state: Progress) -> DecisionGenerator:
        """Ask for a translation only when something may be written."""
        if session.must_flush:
            hypothesis = yield Request()
            return Decision(write=hypothesis.num_new_tokens)
        if self.count == "words":
            return (yield from self._by_words(session, state))
        state.chunks += 1
        if state.chunks < self.k:
            return Decision(write=0)
        hypothesis = yield Request(max_words=self.words_per_chunk)
        return Decision(write=hypothesis.tokens_in_first_words(self.words_per_chunk))

    def _by_words(self, session: Session, state: Progress) -> DecisionGenerator:
        transcript = yield from _listen(session, state)
        allowed = state.words - self.k + 1 - state.written
        if allowed <= 0:
            return Decision(write=0)
        hypothesis = yield Request(transcript_ids=transcript.token_ids, max_words=allowed)
        write = hypothesis.tokens_in_first_words(allowed)
        state.written += int(hypothesis.word_starts[hypothesis.prefix_length :][:write].sum())
        return Decision(write=write)


def _listen(session: Session, state: Progress) -> Generator[Request, Hypothesis, Hypothesis]:
    """Count the source words heard so far. Where a history has cut audio since the last look, what is left of that
    look is transcribed once more, to know how many words went."""
    if state.start is not None and session.audio_start > state.start:
        left: Frames = max(state.end - session.audio_start, 0) // session.frame_samples
        known = _whole((yield Request(task=Task.TRANSCRIPTION, audio_end=left))) if left else 0
        state.forgotten = max(state.words - known, 0)
    transcript = yield Request(task=Task.TRANSCRIPTION)
    state.words = max(state.words, state.forgotten + _whole(transcript))
    state.start, state.end = session.audio_start, session.received_samples
    return transcript


def _whole(transcript: Hypothesis) -> int:
    """Words that another one follows."""
    return max(int(transcript.word_starts.sum()) - 1, 0)
