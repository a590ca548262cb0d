"""State of one stream that a chain of thought keeps between requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoo.backbones.architectures.chain_of_thought.reuse import EncodedAudio, equal_rows
from zoo.backbones.decoding.batches import pick
from zoo.backbones.decoding.causal.branches import Prefilled
from zoo.backbones.decoding.continuation import Answer
from zoo.backbones.encoders.encoder_memory import EncodedStreamState
from zoo.base.types import SAMPLE_RATE, Samples, Seconds
from zoo.streaming.session import Session

# Requests whose speech embeddings are kept: that of the newest chunk, and those of the three chunks
# before it, after one of which StreamUni's policy ends a segment.
RECENT = 4


@dataclass(frozen=True, slots=True)
class SpanTranscript:
    """The transcript of one span of audio.

    Attributes:
        span: Stream position of the first sample, and number of samples.
        ids: Token ids of the transcript, without the separator.
        finished: Whether the model generated a separator or an end token.
        cache: Keys and values (layers, 2, heads, n, head size) of the prompt and of the transcript
            ids that the decoder has processed. None if keys and values are not reused.
        prompt: Embeddings (n, width) of the prompt. None if the next prompt has no position in
            common with it.
    """

    span: tuple[Samples, Samples]
    ids: list[int]
    finished: bool
    cache: Tensor | None
    prompt: Tensor | None


@dataclass(slots=True)
class ThoughtState(EncodedStreamState):
    """State of one stream: the encoder output of ``EncodedStreamState`` and the last transcript.

    Attributes:
        transcript: The transcript that was generated last. None if there is no transcript of kept
            audio.
        draft: Ids that greedy search verifies as the beginning of the next transcript.
        translated: Ids of the transcript that was translated last.
        unwritten: Ids of the last translation that were not written; the next one may begin with
            them.
        encoded: The audio that was encoded last, if the encoder has independent blocks.
        recent: Speech embeddings (T, width) of the audio of the last requests, by span.
    """

    transcript: SpanTranscript | None = None
    draft: list[int] = field(default_factory=list)
    translated: list[int] = field(default_factory=list)
    unwritten: list[int] = field(default_factory=list)
    encoded: EncodedAudio | None = None
    recent: dict[tuple[Samples, Samples], Tensor] = field(default_factory=dict)

    def remember(self, span: tuple[Samples, Samples], speech: Tensor) -> None:
        """Keep the speech embeddings of a span, and of ``RECENT`` - 1 spans before it."""
        self.recent[span] = speech
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]

    @property
    def current(self) -> SpanTranscript | None:
        """The transcript of the audio that was encoded last; None if it is not transcribed yet."""
        if self.transcript is not None and self.transcript.span == self.span:
            return self.transcript
        return None

    @property
    def seconds(self) -> Seconds:
        """Duration of the audio that was encoded last."""
        assert self.span is not None
        return self.span[1] / SAMPLE_RATE

    def begun(self, prompt: Tensor, empty: Tensor) -> Prefilled:
        """The leading positions of a prompt that the decoder has processed in the last prompt.

        The last position is never among them: the decoder computes the scores after it.

        Args:
            prompt: Embeddings (n, width).
            empty: Keys and values of no position.
        """
        last = self.transcript
        if last is None or last.cache is None or last.prompt is None:
            return Prefilled(empty)
        shared = min(equal_rows(last.prompt, prompt), len(prompt) - 1)
        return Prefilled(last.cache[:, :, :, :shared])

    def verifiable(self, separator: Sequence[int], limit: int) -> list[int]:
        """Ids to verify in one pass: the draft and the separator without its last id.

        The last id of an answer is always generated, so that search can detect the end.

        Args:
            separator: Ids of the separator.
            limit: Maximum number of generated ids of the transcript.
        """
        if not self.draft:
            return []
        return [*self.draft, *separator[:-1]][: limit - 1]

    def store(
        self,
        answer: Answer,
        parsed: tuple[list[int], int] | None,
        opening: Tensor | None,
        prompt: Tensor | None,
    ) -> None:
        """Store a generated transcript of the encoded audio.

        Args:
            answer: The generated ids, with their keys and values.
            parsed: Ids of the transcript, and number of generated ids before the separator. None if
                no separator was generated.
            opening: (layers, 2, heads, n, head size) keys and values of the prompt. None stores no
                keys and values.
            prompt: Embeddings (n, width) of the prompt. None: the next prompt reuses nothing.
        """
        assert self.span is not None
        ids, num_transcript = parsed or (answer.tokens, len(answer.tokens))
        cache = None
        if opening is not None:
            whole = torch.cat([opening, answer.generated], dim=3)
            cache = whole[:, :, :, : opening.shape[3] + num_transcript]  # without the separator
        finished = parsed is not None or answer.finished
        self.transcript = SpanTranscript(self.span, ids, finished, cache, prompt)
        self.draft = ids

    def untranslated(self) -> list[int]:
        """Ids of the draft after the translated transcript.

        The list is empty if the draft does not begin with the translated transcript.
        """
        size = len(self.translated)
        return self.draft[size:] if self.draft[:size] == self.translated else []


def encode_new(
    encode: Callable[[Sequence[Session], Sequence[Tensor]], list[Tensor]],
    sessions: Sequence[Session],
    waves: Sequence[Tensor],
) -> list[Tensor]:
    """Encode the audio that none of the last requests of its stream had.

    Args:
        encode: Returns the speech embeddings of streams with their audio.
        sessions: The streams; their states keep the speech embeddings of the last requests.
        waves: Kept audio (n,) of each stream.

    Returns:
        Speech embeddings (T, width) of each stream.
    """
    states: list[ThoughtState] = [session.backbone_state for session in sessions]
    spans = [
        (session.audio_start, len(wave)) for session, wave in zip(sessions, waves, strict=True)
    ]
    pairs = enumerate(zip(states, spans, strict=True))
    new = [index for index, (state, span) in pairs if span not in state.recent]
    if new:
        encoded = encode(pick(sessions, new), pick(waves, new))
        for index, speech in zip(new, encoded, strict=True):
            states[index].remember(spans[index], speech)
    return [state.recent[span] for state, span in zip(states, spans, strict=True)]
