"""The nouns of simultaneous translation. Knows no network, no file and no clock."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

import torch
from torch import Tensor

Seconds = float
Samples = int
Frames = int

SAMPLE_RATE = 16_000  # samples per second; every waveform in the package is 16 kHz mono float32

UnitKind = Literal["word", "char"]
Convention = Literal[
    "queue", "cumulative", "chunk"
]  # how elapsed follows from compute; METRICS, "Quantities"


class Capability(StrEnum):
    """What a backbone can tell a policy, a history or a synthesizer beyond its words."""

    ALIGNMENT = "alignment"  # attention of each target token over the kept source frames
    TRANSCRIPT = "transcript"  # a transcript of the kept source
    TURNS = "turns"  # the model itself ends its turn: READ is a token
    PREFIX = "prefix"  # a hypothesis may be written in part; the next one follows that part and hears all kept audio
    SPEECH = "speech"  # states from which target speech can be made
    RECUT = "recut"  # kept audio can be cut at the front


class Stage(StrEnum):
    """What a request asks the backbone to produce."""

    TRANSLATION = "translation"
    TRANSCRIPT = "transcript"


@dataclass(frozen=True, slots=True)
class SpeechChunk:
    """Newly arrived source audio. ``samples``: (n,) float32 at 16 kHz; ``final``: the source has ended."""

    samples: Tensor
    final: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What a policy asks of a backbone.

    audio_end: look only at kept frames before this one (frames; None: all kept frames).
    transcript: (n,) ids of source tokens, from the answer to a TRANSCRIPT request, to force instead of transcribing
    (None: the backbone's own, if it uses one).
    max_words: decode no further than needed to know this many new target words whole, which includes the token that
    begins the next one (None: until the model closes its sentence or turn).
    """

    stage: Stage = Stage.TRANSLATION
    audio_end: Frames | None = None
    transcript: Tensor | None = None
    max_words: int | None = None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What the backbone would say now, after the written prefix it still keeps.

    token_ids: (new,) int64. word_starts: (prefix + new,) bool, true where a token begins a word.
    prefix: number of kept, already written tokens that stand before ``token_ids``.
    finished: the model closed its sentence or turn. truncated: it did not, but was stopped at a limit of its own, and
    what it said counts as finished. alignment: (prefix + new, frames) or None.
    states: (opening + prefix + new, width) text decoder states that speech is made from (SPEECH), or None; ``opening``
    are the states that stand before the text (start and language), as many as there are more rows than tokens.
    sentence_ends: (prefix + new,) bool, true where a token ends a sentence (strong punctuation), or None.
    transcript: its text. The answer to a TRANSCRIPT request has source tokens throughout, and no prefix.
    """

    token_ids: Tensor
    word_starts: Tensor
    prefix: int = 0
    finished: bool = False
    alignment: Tensor | None = None
    sentence_ends: Tensor | None = None
    transcript: str | None = None
    states: Tensor | None = None
    truncated: bool = False

    @property
    def new(self) -> int:
        """Number of new tokens."""
        return int(self.token_ids.numel())

    @property
    def attended(self) -> Tensor:
        """(prefix + new,) int64: the frame each token attends to most. Raises ValueError without an alignment."""
        return self.aligned.argmax(dim=1)

    @property
    def frames(self) -> Frames:
        """Source frames the alignment covers. Raises ValueError without one."""
        return self.aligned.shape[1]

    @property
    def aligned(self) -> Tensor:
        """(prefix + new, frames): the alignment. Raises ValueError without one."""
        if self.alignment is None:
            raise ValueError("The backbone answered without the alignment it was asked for.")
        return self.alignment

    def whole_words(self, tokens: int) -> int:
        """Largest number <= ``tokens`` of new tokens that does not split a word (a finished hypothesis ends in one)."""
        if tokens >= self.new and self.finished:
            return self.new
        starts = self.word_starts[self.prefix :]
        while tokens > 0 and not (tokens < self.new and bool(starts[tokens])):
            tokens -= 1
        return tokens

    def first_words(self, words: int) -> int:
        """Number of new tokens in the first ``words`` new words, or in all whole ones where there are fewer."""
        begins = [
            token for token in range(1, self.new) if bool(self.word_starts[self.prefix + token])
        ]
        if words <= 0:
            return 0
        return begins[words - 1] if words <= len(begins) else self.whole_words(self.new)


@dataclass(frozen=True, slots=True)
class Cut:
    """What to forget: the first ``tokens`` kept target tokens and the first ``frames`` kept source frames."""

    tokens: int = 0
    frames: Frames = 0

    def __bool__(self) -> bool:
        return self.tokens > 0 or self.frames > 0


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's answer: how many new tokens to write, what to cut after that, and whether to look once more.

    ``cut`` counts from what is kept once the write has joined the prefix. With ``again`` the policy runs once more on
    what is left of the same audio before the history is asked; the cut must drop frames, so that looking comes to an
    end. Raises ValueError otherwise.
    """

    write: int
    cut: Cut | None = None
    again: bool = False

    def __post_init__(self) -> None:
        if self.again and (self.cut is None or self.cut.frames <= 0):
            raise ValueError(
                "A decision to look again must cut source frames, else it would look at the same ones."
            )


@dataclass(frozen=True, slots=True)
class Action:
    """What a system emits after a chunk: nothing (READ), or text and, where it speaks, its speech (WRITE).

    Attributes:
        text: new text, "" for READ.
        speech: (n,) float32 at 16 kHz, None from a system without a synthesizer.
    """

    text: str = ""
    speech: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Emission:
    """Text written at one moment. delay: seconds of source received; chunk: index of the chunk that caused it.

    speech: (n,) float32 at 16 kHz that says it, from a speaking system.
    """

    text: str
    delay: Seconds
    chunk: int
    speech: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Spoken:
    """Target speech that one chunk caused. samples: (n,) float32 at 16 kHz; text: what was written with it.

    delay: seconds of source received; elapsed: when it was computed, in the instance's convention; chunk: index into
    the instance's ``chunks``. Playing begins later where speech before it is not over (``zoo/streaming/playback.py``).
    """

    samples: Tensor = field(compare=False, repr=False)
    delay: Seconds
    elapsed: Seconds
    chunk: int
    text: str

    @property
    def duration(self) -> Seconds:
        """Length of the speech."""
        return self.samples.numel() / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class ChunkTime:
    """When a chunk had been received in full (source seconds) and how long computing on it took (wall clock)."""

    arrival: Seconds
    compute: Seconds


def queued(chunks: Sequence[ChunkTime]) -> list[Seconds]:
    """Seconds since the stream began at which each chunk is done, one after the other (METRICS, ``queue``)."""
    finished: list[Seconds] = []
    for chunk in chunks:
        finished.append(max(chunk.arrival, finished[-1] if finished else 0.0) + chunk.compute)
    return finished


@dataclass(frozen=True, slots=True)
class Instance:
    """One stream and what was written: the only thing metrics and reports read.

    units: written words (or characters), in order. delays, elapsed: seconds per unit, ideal and computation-aware.
    chunk_of: index into ``chunks`` per unit. A recorded log has ``elapsed`` as logged, in ``convention``, and may have
    no chunks; a simulation has chunks, from which every convention of METRICS follows after the run. speech: what a
    speaking system said, in order.
    """

    index: int
    talk: str
    source_length: Seconds
    text: str
    units: tuple[str, ...]
    delays: tuple[Seconds, ...]
    elapsed: tuple[Seconds, ...]
    reference: str = ""
    unit: UnitKind = "word"
    convention: Convention = "queue"
    chunk_of: tuple[int, ...] = ()
    chunks: tuple[ChunkTime, ...] = ()
    speech: tuple[Spoken, ...] = ()
    batched: bool = (
        False  # compute was shared with other streams: computation-aware scores carry the tag
    )

    def finishing(self, finished: Sequence[Seconds], convention: Convention) -> "Instance":
        """The same stream with ``elapsed``, of units and of speech, under another convention.

        finished: seconds since the stream began at which each chunk is done.
        """
        elapsed = tuple(finished[chunk] for chunk in self.chunk_of)
        speech = tuple(replace(spoken, elapsed=finished[spoken.chunk]) for spoken in self.speech)
        return replace(self, elapsed=elapsed, speech=speech, convention=convention)


def no_tokens() -> Tensor:
    """An empty (0,) int64 tensor of token ids."""
    return torch.empty(0, dtype=torch.long)
