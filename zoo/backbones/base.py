"""The contract of every network: how to listen, what to say next, what to keep. Knows no policy and no clock."""

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
    """A type of weights by its name in torch. Raises ZooError for a name that there is not."""
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
    """A speech translation network behind one contract.

    The constructor touches no disk and no network; weights arrive in ``load``. ``exposes`` and ``frame_samples`` are
    known before that. A ``forward`` (teacher forcing, for training) takes what the backbone's own collate makes.
    """

    exposes: ClassVar[frozenset[Capability]]
    weights_key: ClassVar[str] = "name"  # the constructor argument that names trained weights
    training_arguments: ClassVar[frozenset[str]] = frozenset()  # of no use in an evaluation
    frame_samples: Samples  # source samples per frame, the unit of alignments and cuts

    def load(self) -> None:
        """Create modules and read weights. Called once, from the system's ``configure_model``."""

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write what ``load`` reads to ``folder``. Raises ZooError where a backbone cannot be exported."""
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
        """The backbone's state for a new stream (caches)."""
        return None

    @abstractmethod
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Answer one request per stream, as a batch. ``needs``: compute nothing else (attention weights cost).

        Requests of one batch may differ in task. ``session.visible_audio(request.audio_end)`` is the
        audio to go by, never empty. ``hypothesis.prefix_length`` equals
        ``session.prefix_ids.numel()``: a backbone with a window of its own empties both with
        ``session.forget`` here, before it answers (a turn then begins a text of its own).
        """

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """The first ``tokens`` (0 when READ) new tokens of ``hypothesis`` were written: keep that part of the caches.

        ``hypothesis`` is the last translation answered; its tokens join ``session.prefix_ids`` after this call.
        """
        return

    def forget(self, session: Session, cut: Cut) -> None:
        """Kept tokens and frames are about to be dropped from the session: drop them from the caches."""
        return

    @abstractmethod
    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation of target ids (special tokens left out, spaces untouched)."""

    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """What can be trained apart, by name: the children, unless a backbone draws other lines."""
        return {name: child.parameters() for name, child in self.named_children()}

    def trainable(self, names: Sequence[str]) -> None:
        """Train only the named ``parts``, freeze the rest. Raises ZooError on an unknown name."""
        parts = self.parts()
        for name in names:
            if name not in parts:
                raise unknown_choice("part of the backbone", name, parts)
        self.requires_grad_(False)
        for parameter in (parameter for name in names for parameter in parts[name]):
            parameter.requires_grad_(True)


@runtime_checkable
class FrameEncoder(Protocol):
    """A backbone whose encoder can be trained on its own, frame by frame."""

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """(batch, n) samples to (batch, frames, hidden) of the last and of a middle layer; blocks of m chunks."""


@runtime_checkable
class FeatureNormalising(Protocol):
    """A backbone that hears by statistics of its features; one of random weights takes them from training audio."""

    def fit_features(self, samples: Iterable[Tensor]) -> None:
        """Take them from waves (n,), unless trained weights brought their own."""


@dataclass(frozen=True, slots=True)
class Units:
    """Speech units of one stream's kept and new text.

    ids: (n,) int64, as the vocoder counts them. attention: (n, positions), of the query that predicts each unit over
    the text decoder states that were fed: the opening, kept tokens, new tokens and perhaps the end of the text.
    opening: how many states stand before the text. truncated: a limit cut them, there would have been more.
    """

    ids: Tensor
    attention: Tensor
    opening: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Voiced:
    """Speech of units. samples: (m,) float32 at 16 kHz; durations: (n,) int64 of each unit, in unit frames."""

    samples: Tensor
    durations: Tensor


@runtime_checkable
class Speaking(Protocol):
    """A backbone that can speak its own decoder states; one that exposes SPEECH is this, too."""

    unit_samples: Samples  # per unit frame

    def check_speech(self, language: Language, *, layer: int | None) -> None:
        """Raise ZooError for a language that it does not speak, and for a layer (see below) that it lacks."""

    def generate_units(
        self, writes: Sequence[SpeechRequest], *, layer: int | None, close: bool
    ) -> list[Units]:
        """Units of each stream's kept and written text, from ``hypothesis.decoder_states``.

        layer: of the text-to-unit decoder, whose cross-attention is told, as the mean of its heads (None: mean of all
        layers). close: the state of an end of text follows, as offline generation feeds it.
        """

    def vocode(self, units: Sequence[Tensor], language: Language) -> list[Voiced]:
        """Speech of (n_i,) unit ids, in the voice of a language."""
