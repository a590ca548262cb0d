"""Value types of simultaneous translation, shared by every package of the zoo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch  # scoring and reports use these types without it
    from torch import Tensor

Seconds = float
Samples = int
Frames = int

SAMPLE_RATE = 16_000  # samples per second; every waveform in the package is 16 kHz mono float32

UnitKind = Literal["word", "char"]
# Marks tokens by their alignment: (n, longest) weights of one token per row, with frames after the
# end of a stream as padding, and the number of frames (n,) of each row give (n,) bool.
StopRule = Callable[["Tensor", "Tensor"], "Tensor"]
# What happened in a step besides output; see ``StreamEvent``.
EventKind = Literal[
    "language",
    "transcript",
    "truncation",
    "flush",
    "restart",
    "cut",
    "revision",
    "no_output",
    "unit_limit",
]
# How elapsed times follow from the compute times of the chunks; see docs/metrics.md.
Convention = Literal["queue", "cumulative", "chunk"]


class Capability(StrEnum):
    """What a backbone provides to a policy, a history or a synthesizer besides token ids.

    Attributes:
        ALIGNMENT: Attention of each target token over the kept source frames.
        TRANSCRIPT: A transcript of the kept source audio.
        TURNS: The model ends its own turn: the end-of-turn token means READ.
        PREFIX: A hypothesis may be written in part. The next hypothesis continues the written
            prefix and is computed from all kept audio.
        SPEECH: Decoder states from which target speech can be generated.
        WAVEFORM: The target speech itself, which the model generates together with the text.
        AUDIO_TRIMMING: The oldest kept audio can be dropped at any frame.
        CONTEXT: The prompt takes a text and terms; see ``Context``.
    """

    ALIGNMENT = "alignment"
    TRANSCRIPT = "transcript"
    TURNS = "turns"
    PREFIX = "prefix"
    SPEECH = "speech"
    WAVEFORM = "waveform"
    AUDIO_TRIMMING = "audio_trimming"
    CONTEXT = "context"


class Task(StrEnum):
    """The output that a request asks for."""

    TRANSLATION = "translation"
    TRANSCRIPTION = "transcription"


@dataclass(frozen=True, slots=True)
class SpeechChunk:
    """Newly received source audio.

    Attributes:
        samples: (n,) float32 at 16 kHz.
        final: The source ends with this chunk.
        excerpt: The source is a part of a longer recording, and ends where a corpus divides it.
    """

    samples: Tensor
    final: bool = False
    excerpt: bool = False


@dataclass(frozen=True, slots=True)
class StreamOutline:
    """What is known of a stream before it starts; all lengths are in samples.

    Attributes:
        duration: Length of the source.
        chunk: Length of a chunk.
        frame: Length of a source frame of the backbone.
        segments: (begin, end) of the reference segments.
    """

    duration: Samples
    chunk: Samples
    frame: Samples
    segments: tuple[tuple[Samples, Samples], ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the source language and its translation, which may be equal, as of names."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Context:
    """What the prompts of a stream contain besides its speech and its output.

    Attributes:
        text: Text about the talk, such as the abstract of a paper.
        terms: Terms that the talk may have.
    """

    text: str = ""
    terms: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.terms)


NO_CONTEXT = Context()


@dataclass(frozen=True, slots=True)
class Request:
    """A policy's request to a backbone.

    Attributes:
        task: Translate or transcribe.
        audio_end: Use only the kept frames before this one. None: all kept frames.
        transcript_ids: (n,) source token ids from the answer to a transcription request. The
            backbone forces them instead of transcribing again. None: the backbone transcribes by
            itself if it needs a transcript.
        max_words: Stop decoding as soon as this many new target words are complete, which takes
            the token that begins the next word. None: decode until the model closes its sentence
            or turn.
        stop_at: Decoding may stop after the first new token that this rule marks, because the
            policy reads no token after it. None: the policy reads all tokens.
    """

    task: Task = Task.TRANSLATION
    audio_end: Frames | None = None
    transcript_ids: Tensor | None = None
    max_words: int | None = None
    stop_at: StopRule | None = None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A backbone's answer to a request: new tokens that continue the kept prefix.

    The answer to a transcription request consists of source tokens and has no prefix.

    Attributes:
        token_ids: (new,) int64 ids of the new tokens.
        word_starts: (prefix + new,) bool, True where a token begins a word.
        prefix_length: Number of kept, already written tokens before ``token_ids``.
        finished: Decoding ended: the model closed its sentence or turn, or was truncated. False if
            decoding stopped at a limit of the request.
        alignment: (prefix + new, frames) attention weights, or None if not requested.
        sentence_ends: (prefix + new,) bool, True where a token ends a sentence (strong
            punctuation), or None.
        transcript: Text of the source transcript, or None.
        decoder_states: (opening + prefix + new, width) states of the text decoder, from which
            speech is generated, or None. The ``opening`` rows belong to the start and language
            tokens before the text.
        speech: (n,) float32 target speech at 16 kHz that belongs to the new tokens, or None.
        truncated: The backbone stopped decoding at a length limit of its own.
        must_restart: The text cannot be continued: it repeated itself, and the backbone removed the
            repetitions; or it fills all positions of the decoder.
    """

    token_ids: Tensor
    word_starts: Tensor
    prefix_length: int = 0
    finished: bool = False
    alignment: Tensor | None = None
    sentence_ends: Tensor | None = None
    transcript: str | None = None
    decoder_states: Tensor | None = None
    speech: Tensor | None = None
    truncated: bool = False
    must_restart: bool = False

    @property
    def num_new_tokens(self) -> int:
        """Number of new tokens."""
        return int(self.token_ids.numel())

    @property
    def num_frames(self) -> Frames:
        """Number of source frames in the alignment. Raises ValueError without an alignment."""
        return self.require_alignment().shape[1]

    @property
    def attended_frames(self) -> Tensor:
        """(prefix + new,) int64: the frame that each token attends to most.

        Raises:
            ValueError: The hypothesis has no alignment.
        """
        return self.require_alignment().argmax(dim=1)

    def require_alignment(self) -> Tensor:
        """Return the (prefix + new, frames) alignment.

        Raises:
            ValueError: The hypothesis has no alignment.
        """
        if self.alignment is None:
            raise ValueError("The backbone returned no alignment although it was requested.")
        return self.alignment

    def floor_to_word(self, tokens: int) -> int:
        """Round a number of new tokens down so that no word is split.

        Args:
            tokens: Number of new tokens.

        Returns:
            The largest number up to ``tokens`` that ends at a word boundary. The end of a
            finished hypothesis is a word boundary.
        """
        if tokens >= self.num_new_tokens and self.finished:
            return self.num_new_tokens

        starts = self.word_starts[self.prefix_length :]
        while tokens > 0 and not (tokens < self.num_new_tokens and bool(starts[tokens])):
            tokens -= 1
        return tokens

    def tokens_in_first_words(self, words: int) -> int:
        """Return the number of new tokens in the first ``words`` complete new words.

        With fewer complete words, the tokens of all complete words are counted.
        """
        if words <= 0:
            return 0
        starts = self.word_starts[self.prefix_length :]
        next_words = [token for token in range(1, self.num_new_tokens) if bool(starts[token])]
        if words <= len(next_words):
            return next_words[words - 1]
        return self.floor_to_word(self.num_new_tokens)


@dataclass(frozen=True, slots=True)
class Cut:
    """The oldest part of a stream's context that is dropped.

    Attributes:
        tokens: Number of kept target tokens to drop.
        frames: Number of kept source frames to drop.
    """

    tokens: int = 0
    frames: Frames = 0

    def __bool__(self) -> bool:
        return self.tokens > 0 or self.frames > 0


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's decision about the last hypothesis.

    Attributes:
        write: Number of new tokens to write; 0 means READ.
        skip: Number of new tokens before those to write, which repeat emitted ones. Only of a
            policy that revises its output.
        delete: Number of emitted tokens to delete first, at the end of the output. Only of a policy
            that revises its output.
        cut: Context to drop after the write, counted after the new tokens joined the prefix.
        repeat: Run the policy again on the remaining audio before the next chunk is received.
        reason: Why the policy cuts, for the log.

    Raises:
        ValueError: ``repeat`` without a cut of source frames, which would never terminate.
    """

    write: int
    skip: int = 0
    delete: int = 0
    cut: Cut | None = None
    repeat: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        if self.repeat and (self.cut is None or self.cut.frames <= 0):
            raise ValueError(
                "A decision with repeat=True must cut source frames; otherwise the policy would "
                "run again on the same audio."
            )


@dataclass(frozen=True, slots=True)
class Action:
    """Output of a system after one chunk.

    Attributes:
        text: New text; empty for READ.
        speech: (n,) float32 speech at 16 kHz. None from a system without a synthesizer.
        events: What else happened, in order.
        retracted: Number of characters at the end of the output before this one that the system
            deletes; ``text`` follows what remains.
    """

    text: str = ""
    speech: Tensor | None = None
    events: tuple[StreamEvent, ...] = ()
    retracted: int = 0


@dataclass(frozen=True, slots=True)
class Emission:
    """Output that a system emits after one chunk.

    Attributes:
        text: Text added to the translation.
        delay: Seconds of source received so far.
        chunk: Index of the chunk.
        speech: (n,) float32 target speech at 16 kHz for ``text``, or None.
    """

    text: str
    delay: Seconds
    chunk: int
    speech: Tensor | None = None


@dataclass(frozen=True, slots=True)
class SpeechOutput:
    """Target speech that a system emits after one chunk.

    Playback starts later than ``delay`` while earlier speech is still playing; see
    ``zoo/streaming/playback.py``.

    Attributes:
        samples: (n,) float32 at 16 kHz.
        delay: Seconds of source received so far.
        elapsed: Seconds since the stream began at which the speech was computed, in the
            convention of the instance.
        chunk: Index into ``chunks`` of the instance.
        text: Text that the speech renders.
    """

    samples: Tensor = field(compare=False, repr=False)
    delay: Seconds
    elapsed: Seconds
    chunk: int
    text: str

    @property
    def duration(self) -> Seconds:
        """Duration of the speech in seconds."""
        return self.samples.numel() / SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class ChunkTime:
    """Timing of one chunk.

    Attributes:
        arrival: Source time at which the chunk is complete, in seconds.
        compute: Wall-clock seconds that the system took to process the chunk.
    """

    arrival: Seconds
    compute: Seconds


@dataclass(frozen=True, slots=True)
class StageTimes:
    """How the compute time of a stream was spent. The streams of a batch share it equally.

    Attributes:
        seconds: Wall-clock seconds by stage, such as ``encoder`` (``zoo.streaming.stages``).
        cpu: Seconds of them in which the thread that streams ran on a CPU. On a machine with a free
            core it is nearly all of them.
    """

    seconds: Mapping[str, Seconds]
    cpu: Seconds


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """What happened in a step of a stream besides output: it shows why a word was written.

    Attributes:
        kind: language: the language of the speech was detected. transcript: the source audio was
            transcribed. truncation: the policy completed the translation of a sentence and dropped
            its audio and text. flush: the history ended a segment, whose translation was completed
            before all of it was dropped. restart: the history dropped all text, which the model
            ended or repeated while someone spoke, and audio up to its last word. cut: the history
            dropped the oldest audio or text. revision: emitted text was deleted. no_output: someone
            has spoken for long since the last output, although the policy does not wait for the end
            of a segment. unit_limit: the speech units of an output stopped at the maximum length,
            so that its target speech may be incomplete.
        at: Source time in seconds: the end of the transcribed audio, or of the audio that was
            received when the language was detected, when text was deleted, and when there was no
            output; otherwise the start of the audio that is still kept.
        chunk: Index into ``chunks`` of the instance; 0 without times of chunks.
        text: The transcript, the code of the language, or the deleted text.
        reason: Why: silence, sentence or max_seconds of a truncation; the history of a flush or
            cut; the duration of the speech without output.
        tokens: Number of target tokens that were dropped.
        frames: Number of source frames that were dropped.
        pieces: Of a revision: where the deleted text came from, from its start on, as pairs of a
            number of characters and the index of the chunk after which they were written. Logs of
            earlier versions have none.
    """

    kind: EventKind
    at: Seconds
    chunk: int = 0
    text: str = ""
    reason: str = ""
    tokens: int = 0
    frames: Frames = 0
    pieces: tuple[tuple[int, int], ...] = ()

    @classmethod
    def revision(
        cls, deleted: Sequence[tuple[str, int]], *, at: Seconds, chunk: int = 0
    ) -> StreamEvent | None:
        """Return the deletion of a text; None if it is only white space.

        Args:
            deleted: Parts of the text, and the index of the chunk after which each was written.
            at: Source time in seconds.
            chunk: Index of the chunk after which the text was deleted.
        """
        whole = "".join(text for text, _ in deleted)
        first, last = len(whole) - len(whole.lstrip()), len(whole.rstrip())
        if first >= last:
            return None
        pieces: list[tuple[int, int]] = []
        start = 0
        for text, written in deleted:
            count = min(start + len(text), last) - max(start, first)
            start += len(text)
            if count <= 0:
                continue
            if pieces and pieces[-1][1] == written:
                count += pieces.pop()[0]
            pieces.append((count, written))
        return cls("revision", at, chunk=chunk, text=whole[first:last], pieces=tuple(pieces))


def queue_finish_times(chunks: Sequence[ChunkTime]) -> list[Seconds]:
    """Return the time at which each chunk is done if chunks are processed one after the other.

    Returns:
        Seconds since the stream began, one per chunk (the ``queue`` convention).
    """
    finished: list[Seconds] = []
    for chunk in chunks:
        start = max(chunk.arrival, finished[-1] if finished else 0.0)
        finished.append(start + chunk.compute)
    return finished


@dataclass(frozen=True, slots=True)
class Instance:
    """The complete output of one stream: the only input of metrics and reports.

    A simulation stores ``chunks``, from which elapsed times follow under every convention. A
    recorded log stores ``elapsed`` under its own ``convention`` and may have no chunks.

    Attributes:
        index: Position of the stream in the run.
        talk: Name of the talk.
        source_length: Duration of the source in seconds.
        text: The complete translation.
        units: Written words (or characters), in order.
        delays: Seconds of source received when each unit was written.
        elapsed: Seconds since the stream began at which each unit was written, compute included.
        reference: Reference translation.
        unit: Whether units are words or characters.
        convention: How ``elapsed`` follows from the chunk times.
        chunk_indices: Index into ``chunks`` for each unit.
        chunks: Timing of each chunk.
        speech: Target speech, in order.
        batched: Other streams shared the compute; computation-aware scores are marked.
        events: Transcripts, truncations, flushes and cuts, in order.
        recording_end: End of the recording in seconds from the start of the stream, if the stream
            is one of its segments.
        repaired: Whether the tool that wrote the log has corrected its cumulative elapsed times.
        stages: Compute time by stage, or None if it was not measured.
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
    chunk_indices: tuple[int, ...] = ()
    chunks: tuple[ChunkTime, ...] = ()
    speech: tuple[SpeechOutput, ...] = ()
    batched: bool = False
    events: tuple[StreamEvent, ...] = ()
    recording_end: Seconds | None = None
    repaired: bool = False
    stages: StageTimes | None = field(default=None, hash=False)

    def to(self, device: torch.device) -> Instance:
        """Return a copy whose target speech is on a device.

        Lightning moves what ``trainer.predict`` returns by this method.

        Args:
            device: the device.
        """
        speech = tuple(replace(output, samples=output.samples.to(device)) for output in self.speech)
        return replace(self, speech=speech)

    def with_elapsed(self, finished: Sequence[Seconds], convention: Convention) -> Instance:
        """Return a copy with other elapsed times for units and speech.

        Args:
            finished: Seconds since the stream began at which each chunk is done.
            convention: Convention under which ``finished`` was computed.
        """
        elapsed = tuple(finished[chunk] for chunk in self.chunk_indices)
        speech = tuple(replace(output, elapsed=finished[output.chunk]) for output in self.speech)
        return replace(self, elapsed=elapsed, speech=speech, convention=convention)
