"""The contract of every backbone: encode audio, continue a text, keep and drop caches."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from zoo.data.talks import Talk
from zoo.errors import ZooError, unknown_choice
from zoo.languages import Language
from zoo.streaming.session import Session, SpeechRequest
from zoo.types import Capability, Cut, Hypothesis, Request, Samples


def dtype_named(name: str) -> torch.dtype:
    """The torch dtype of that name. Raises ZooError for an unknown name."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise unknown_choice("dtype", name, ("float32", "bfloat16", "float16", "float64"))
    return dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerCorpus:
    """What a tokenizer is trained on.

    Attributes:
        talks: The training talks.
        source: The language that is spoken.
        target: The language of the translations.
        size: Most tokens of the vocabulary.
        multipliers: Latency multipliers m of the training.
    """

    talks: Sequence[Talk]
    source: Language
    target: Language
    size: int
    multipliers: Collection[int]

    @property
    def translations(self) -> list[str]:
        """The translation of every segment."""
        code = self.target.code
        return [segment.targets[code].text for talk in self.talks for segment in talk.segments]

    @property
    def transcripts(self) -> list[str]:
        """The transcript of every segment."""
        return [segment.source for talk in self.talks for segment in talk.segments]


class Backbone(nn.Module, ABC):
    """A speech translation network.

    The constructor touches no disk and no network; ``load`` reads weights. ``forward`` is teacher
    forcing, on batches of the backbone's own collator.

    Attributes:
        exposes: Capabilities besides translation; known before weights are loaded.
        frame_samples: Source samples per frame, the unit of alignments and cuts; known before
            weights are loaded.
        weights_key: Constructor argument that names trained weights.
        training_arguments: Constructor arguments that an evaluation ignores.
    """

    exposes: ClassVar[frozenset[Capability]]
    weights_key: ClassVar[str] = "name"
    training_arguments: ClassVar[frozenset[str]] = frozenset()
    frame_samples: Samples

    def load(self) -> None:
        """Create modules and read weights. Called once, by the system's ``configure_model``."""

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write what ``load`` reads.

        Args:
            folder: Destination.
            dtype: Of the parameters that are written (None: as they are).

        Raises:
            ZooError: Where a backbone cannot be exported.
        """
        raise ZooError(f"{type(self).__name__} cannot be exported.")

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """Train the tokenizer of a small model and write it to ``folder``.

        Args:
            corpus: The texts.
            folder: Becomes the constructor's argument ``tokenizer``.
            arguments: The constructor's other arguments.

        Raises:
            ZooError: The family trains no tokenizer.
        """
        raise ZooError(
            f"{cls.__name__} trains no tokenizer; set training.vocabulary_size=null and name one."
        )

    @classmethod
    def exported_arguments(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Constructor arguments, as plain values, without the files that ``save`` writes."""
        saved = {cls.weights_key, "encoder_weights", "tokenizer", "vocoder"}
        return {name: None if name in saved else value for name, value in arguments.items()}

    @classmethod
    def evaluation_command(cls, overrides: Sequence[str], folder: str) -> str:
        """The command that evaluates an exported backbone.

        Args:
            overrides: What an evaluation repeats of the training's overrides.
            folder: The folder of the exported weights.
        """
        weights = f"backbone.{cls.weights_key}={folder}"
        return f"python evaluate.py {' '.join([*overrides, weights])}"

    def open(self, session: Session) -> Any:
        """Create the backbone's state of a new stream, such as caches."""
        return None

    @abstractmethod
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Answer one request per stream, as a batch.

        The audio of a request is ``session.visible_audio(request.audio_end)``, which is never
        empty. A backbone with a window of its own may call ``session.forget`` before it answers; a
        new text then begins.

        Args:
            sessions: Of the streams.
            requests: One per stream; they may differ in task.
            needs: Capabilities to compute, such as attention weights; others may be left out.

        Returns:
            One hypothesis per stream, whose ``prefix_length`` is ``session.prefix_ids.numel()``.
        """

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Keep the written part of a hypothesis in the caches.

        Args:
            session: Of the stream; the tokens join ``session.prefix_ids`` after this call.
            hypothesis: The last translation.
            tokens: Number of its new tokens that were written (0 for READ).
        """
        return

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop from the caches what the session is about to drop: its oldest tokens and frames."""
        return

    @abstractmethod
    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation of target ids: no special tokens, spaces as they are."""

    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """Parameters that can be trained separately, by name; by default those of the children."""
        return {name: child.parameters() for name, child in self.named_children()}

    def trainable(self, names: Sequence[str] | None) -> None:
        """Train only the named ``parts``; None: all. Raises ZooError for an unknown name."""
        parts = self.parts()
        names = list(parts) if names is None else names
        for name in names:
            if name not in parts:
                raise unknown_choice("part of the backbone", name, parts)
        self.requires_grad_(False)
        for parameter in (parameter for name in names for parameter in parts[name]):
            parameter.requires_grad_(True)


@runtime_checkable
class FrameEncoder(Protocol):
    """A backbone whose encoder can be trained by labels of frames."""

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """Encode audio in blocks of ``multiplier`` chunks.

        Args:
            samples: (batch, n).
            multiplier: m, the encoder's block in chunks.

        Returns:
            (batch, frames, hidden) of the last and of a middle layer.
        """


@runtime_checkable
class FeatureNormalising(Protocol):
    """A backbone that normalises features by statistics.

    A randomly initialised backbone estimates them from training audio.
    """

    def fit_features(self, samples: Iterable[Tensor]) -> None:
        """Estimate the statistics from waves (n,); does nothing if trained weights have them."""


@dataclass(frozen=True, slots=True)
class Units:
    """Speech units of one stream's kept and new text.

    Attributes:
        ids: (n,) int64, as the vocoder counts them.
        attention: (n, positions), from the query that predicts each unit to the text decoder states
            that were fed: opening, kept tokens, new tokens and perhaps the end of the text.
        opening: Number of states before the text.
        truncated: Whether a limit ended the units.
    """

    ids: Tensor
    attention: Tensor
    opening: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class UnitSpeech:
    """Speech of units.

    Attributes:
        samples: (m,) float32 at 16 kHz.
        durations: (n,) int64 of each unit, in unit frames.
    """

    samples: Tensor
    durations: Tensor


@runtime_checkable
class Speaking(Protocol):
    """A backbone that exposes SPEECH: it generates target speech from its decoder states.

    Attributes:
        unit_samples: Samples per unit frame.
    """

    unit_samples: Samples

    def check_speech(self, language: Language, *, layer: int | None) -> None:
        """Raise ZooError for a language that it does not speak, and for a layer that it lacks."""

    def generate_units(
        self, writes: Sequence[SpeechRequest], *, layer: int | None, close: bool
    ) -> list[Units]:
        """Units of each stream's kept and written text, from ``hypothesis.decoder_states``.

        Args:
            writes: One per stream.
            layer: Of the text-to-unit decoder, whose cross-attention is returned as the mean of its
                heads (None: the mean of all layers).
            close: Whether the state of an end of text is appended, as offline generation does.
        """

    def vocode(self, units: Sequence[Tensor], language: Language) -> list[UnitSpeech]:
        """Speech of (n_i,) unit ids, in the voice of a language."""
