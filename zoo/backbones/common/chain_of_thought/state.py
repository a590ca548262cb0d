"""State of one stream that a chain of thought keeps between requests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zoo.backbones.common.continuation import Answer
from zoo.backbones.common.encoder_memory import StreamState
from zoo.types import SAMPLE_RATE, Frames, Samples, Seconds


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript of one span of audio.

    Attributes:
        span: Stream position of the first sample, and number of samples.
        ids: Token ids of the transcript, without the separator.
        finished: Whether the model generated a separator or an end token.
        cache: Keys and values (layers, 2, heads, n, head size) of the prompt and of the transcript
            ids that the decoder has processed. None if keys and values are not reused.
        prompt: Embeddings (n, width) of the prompt.
    """

    span: tuple[Samples, Samples]
    ids: list[int]
    finished: bool
    cache: Tensor | None
    prompt: Tensor


@dataclass(frozen=True, slots=True)
class EncodedAudio:
    """The audio that was encoded last.

    Attributes:
        features: Encoder input (F, bins).
        speech: Speech embeddings (T, width).
    """

    features: Tensor
    speech: Tensor


@dataclass(slots=True)
class ThoughtState(StreamState):
    """State of one stream: the encoder output of ``StreamState`` and the last transcript.

    Attributes:
        transcript: The transcript that was generated last. None if there is no transcript of kept
            audio.
        draft: Ids that greedy search verifies as the beginning of the next transcript.
        translated: Ids of the transcript that was translated last.
        encoded: The audio that was encoded last, if the encoder has independent blocks.
    """

    transcript: Transcript | None = None
    draft: list[int] = field(default_factory=list)
    translated: list[int] = field(default_factory=list)
    encoded: EncodedAudio | None = None

    @property
    def current(self) -> Transcript | None:
        """The transcript of the audio that was encoded last; None if it is not transcribed yet."""
        if self.transcript is not None and self.transcript.span == self.span:
            return self.transcript
        return None

    @property
    def seconds(self) -> Seconds:
        """Duration of the audio that was encoded last."""
        assert self.span is not None
        return self.span[1] / SAMPLE_RATE

    def unchanged_frames(self, features: Tensor, block: Frames | None) -> Frames:
        """Number of leading frames in complete blocks that equal those encoded last.

        Args:
            features: Encoder input (F, bins).
            block: Number of frames per independent block of the encoder. None: there are none.
        """
        if block is None or self.encoded is None:
            return 0
        return equal_rows(self.encoded.features, features) // block * block

    def begun(self, prompt: Tensor) -> Tensor | None:
        """Keys and values of the leading positions that a prompt shares with the last prompt.

        The last position is never among them: the decoder computes the scores after it.

        Args:
            prompt: Embeddings (n, width).

        Returns:
            (layers, 2, heads, positions, head size), or None if nothing is reused.
        """
        if self.transcript is None or self.transcript.cache is None:
            return None
        shared = min(equal_rows(self.transcript.prompt, prompt), len(prompt) - 1)
        return self.transcript.cache[:, :, :, :shared]

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
        prompt: Tensor,
    ) -> None:
        """Store a generated transcript of the encoded audio.

        Args:
            answer: The generated ids, with their keys and values.
            parsed: Ids of the transcript, and number of generated ids before the separator. None if
                no separator was generated.
            opening: (layers, 2, heads, n, head size) keys and values of the prompt. None stores no
                keys and values.
            prompt: Embeddings (n, width) of the prompt.
        """
        assert self.span is not None
        ids, kept = parsed or (answer.tokens, len(answer.tokens))
        cache = None
        if opening is not None:
            whole = torch.cat([opening, answer.generated], dim=3)
            cache = whole[:, :, :, : opening.shape[3] + kept]  # without the separator
        finished = parsed is not None or answer.finished
        self.transcript = Transcript(self.span, ids, finished, cache, prompt)
        self.draft = ids

    def untranslated(self) -> list[int]:
        """Ids of the draft after the translated transcript.

        The list is empty if the draft does not begin with the translated transcript.
        """
        size = len(self.translated)
        return self.draft[size:] if self.draft[:size] == self.translated else []


def equal_rows(before: Tensor, now: Tensor) -> int:
    """Number of leading rows in which two tensors (rows, width) are equal."""
    size = min(len(before), len(now))
    differs = (before[:size] != now[:size]).any(dim=1)
    return int(differs.int().argmax()) if bool(differs.any()) else size
