"""The contract of every backbone: encode audio, continue a text, keep and drop caches."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from zoo.base.errors import ZooError, check_choice, unknown_choice
from zoo.base.languages import Language, language
from zoo.base.machine.weight_layout import arrange_linear
from zoo.base.talks import Talk
from zoo.base.types import Capability, Cut, Hypothesis, Request, Samples, UnitKind
from zoo.streaming.session import Session, SpeechRequest

DTYPES = {  # of networks, by the only name of each
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
_EMPTY: ContextVar[bool] = ContextVar("_EMPTY", default=False)  # see ``without_weights``
_SHAPES: ContextVar[bool] = ContextVar("_SHAPES", default=False)  # see ``shapes_of_weights``


def dtype_named(name: str) -> torch.dtype:
    """Return the torch dtype called ``name``. Raises ZooError for one that no network runs in."""
    if name not in DTYPES:
        raise unknown_choice("dtype", name, DTYPES)
    return DTYPES[name]


@contextmanager
def without_weights() -> Iterator[None]:
    """Create networks on the meta device: configurations and tokenizers are read, weights are not.

    Tensors of the meta device have a shape and no values.
    """
    token = _EMPTY.set(True)
    try:
        with torch.device("meta"):
            yield
    finally:
        _EMPTY.reset(token)


def is_empty() -> bool:
    """Return whether networks are created without weights."""
    return _EMPTY.get()


@contextmanager
def shapes_of_weights() -> Iterator[None]:
    """Create networks on the meta device: of weights, names and shapes are read and no values.

    A file of weights that is missing, cut off or of another network raises ZooError as it does when
    its values are read.
    """
    token = _SHAPES.set(True)
    try:
        with torch.device("meta"):
            yield
    finally:
        _SHAPES.reset(token)


def reads_shapes() -> bool:
    """Return whether names and shapes of weights are read without their values."""
    return _SHAPES.get()


def mark_restored(module: nn.Module) -> None:
    """Mark the parameters of a module as read from a checkpoint that the configuration names.

    ``Backbone.load`` reads them again when a training is resumed. Checkpoints of the training
    therefore leave out marked parameters that no stage trains, and contain all others.
    """
    for parameter in module.parameters():
        parameter.restored = True  # type: ignore[attr-defined]


@torch.no_grad()
def check_finite(module: nn.Module, name: str) -> None:
    """Check the weights that were read from a checkpoint.

    Args:
        module: Network with weights.
        name: Name or folder of the checkpoint, for the error message.

    Raises:
        ZooError: If a weight is NaN or infinite.
    """
    for parameter, values in module.named_parameters():
        # a sum needs no second tensor; it is finite unless a value is not
        if not values.is_meta and not values.sum(dtype=torch.float32).isfinite():
            raise ZooError(
                f"The weights of {name} are damaged: {parameter} has values that are NaN or "
                "infinite."
            )


def is_restored(parameter: nn.Parameter) -> bool:
    """Return whether ``mark_restored`` has marked a parameter."""
    return getattr(parameter, "restored", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerCorpus:
    """Training data and settings of a tokenizer.

    Attributes:
        talks: Training talks.
        source: Language of the speech and of the transcripts.
        target: Language of the translations.
        size: Maximum number of tokens in the vocabulary.
        multipliers: Latency multipliers m (encoder block size in chunks) used in training.
    """

    talks: Sequence[Talk]
    source: Language
    target: Language
    size: int
    multipliers: Collection[int]

    @property
    def translations(self) -> list[str]:
        """Reference translation of every segment, talk by talk."""
        return [
            segment.targets[talk.target_language(self.target.code)].text
            for talk in self.talks
            for segment in talk.segments
        ]

    @property
    def transcripts(self) -> list[str]:
        """Transcript of every segment, talk by talk."""
        return [segment.source for talk in self.talks for segment in talk.segments]

    @property
    def directions(self) -> list[tuple[Language, Language]]:
        """Source and target language of every segment, talk by talk."""
        return [
            (language(talk.source_language), language(talk.target_language(self.target.code)))
            for talk in self.talks
            for _ in talk.segments
        ]

    @property
    def unit(self) -> UnitKind:
        """Unit of the translations; words if a mixture has languages of both units."""
        units = {target.unit for _, target in self.directions} or {self.target.unit}
        return "word" if len(units) > 1 else units.pop()


# A protocol, because the contract imports no other part of zoo/backbones (``static_steps``).
@runtime_checkable
class KeepsMemory(Protocol):
    """A part of a backbone that keeps memory from search to search."""

    def free_memory(self) -> None:
        """Free the memory; the next search allocates it again."""


class Backbone(nn.Module, ABC):
    """A speech translation network.

    The constructor accesses neither disk nor network; ``load`` reads the weights. ``forward`` runs
    teacher forcing on a batch that the backbone's own collator built.

    Attributes:
        exposes: Capabilities besides translation. Available before ``load``.
        unexposed: For capabilities that other options of the backbone expose: the end of the
            sentence "the backbone does not expose it ...", which names these options.
        frame_samples: Source samples per encoder frame. Alignments and cuts count in frames.
            Available before ``load``.
        longest_input: Longest audio that the encoder accepts at once. None: any length. Available
            before ``load``.
        knob_values: Values of a latency sweep by the attribute of the system that the sweep sets:
            AlignAtt's f in frames of the backbone.
        weights_key: Name of the constructor argument that takes the trained weights.
        hub_task: Task of the Hugging Face hub for the card of an export (``pipeline_tag``).
        hub_tags: Tags of that card.
        guarded: Whether histories guard a stream by default (``restart``, ``speech``): the model
            was trained on recordings from the web, and may end or repeat its text while someone
            speaks, or write about silence.
        detects_language: Whether a stream may begin with ``zoo.base.languages.DETECTED``, which the
            backbone replaces.
        training_arguments: Names of the constructor arguments that an evaluation ignores.
        uneven_parts: Names of ``parts`` whose layers run several times for one training batch, as
            often as the batch demands. Ranks cannot gather sharded weights of such layers when the
            layers run.
    """

    exposes: ClassVar[frozenset[Capability]]
    unexposed: Mapping[Capability, str] = MappingProxyType({})
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (2, 4, 8, 12)}
    weights_key: ClassVar[str] = "name"
    hub_task: ClassVar[str] = "automatic-speech-recognition"
    hub_tags: ClassVar[Sequence[str]] = ("speech-translation", "simultaneous-translation")
    guarded: ClassVar[bool] = False
    detects_language: ClassVar[bool] = False
    training_arguments: ClassVar[frozenset[str]] = frozenset()
    uneven_parts: ClassVar[frozenset[str]] = frozenset()
    frame_samples: Samples
    longest_input: Samples | None = None

    def check_languages(self, source: Language, target: Language) -> None:
        """Check the languages of a system before weights are loaded.

        Raises:
            ZooError: If the backbone cannot translate ``source`` into ``target``.
        """
        return

    def load(self) -> None:
        """Create modules and read weights. Called once, by the system's ``configure_model``."""

    def unnamed_weights(self) -> str | None:
        """Return the argument that would name trained weights, if it names none.

        ``load`` then initialises parts of the network randomly. None: all weights are named.
        """
        return self.weights_key if getattr(self, self.weights_key, "") is None else None

    def fit_features(self, samples: Iterable[Tensor]) -> None:
        """Estimate the statistics that normalise features from waves of shape (n,) each.

        Does nothing for a backbone without such statistics or with loaded ones.
        """
        return

    def int8_layers(self) -> Iterable[nn.Module]:
        """Return the modules that get int8 weights before streaming; none by default.

        They are the linear layers that every step of decoding reads; other modules among them are
        ignored. See ``zoo.base.machine.int8``.
        """
        return ()

    def arrange(self) -> None:
        """Choose the memory layout of the weights for streaming; values stay the same."""
        arrange_linear(self)

    def release(self) -> None:
        """Free memory that parts keep from search to search, such as captured steps."""
        for module in self.modules():
            for attribute in vars(module).values():
                if isinstance(attribute, KeepsMemory):
                    attribute.free_memory()

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write the weights and files that ``load`` reads.

        Args:
            folder: Destination folder.
            dtype: Dtype of the written parameters. None keeps the dtype of each parameter.

        Raises:
            ZooError: If the backbone cannot be exported.
        """
        raise ZooError(f"{type(self).__name__} cannot be exported.")

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """Train the tokenizer of a small model and write it to ``folder``.

        Args:
            corpus: Talks, languages and vocabulary size.
            folder: Destination folder, later passed to the constructor as ``tokenizer``.
            arguments: All other constructor arguments by name.

        Raises:
            ZooError: If the backbone family cannot train a tokenizer.
        """
        raise ZooError(
            f"{cls.__name__} trains no tokenizer; set training.vocabulary_size=null and name one."
        )

    def exported_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor arguments of an exported backbone as plain values.

        Arguments that name files written by ``save`` (weights, tokenizer, vocoder) become None.

        Args:
            arguments: Arguments of the configuration.
        """
        saved = {self.weights_key, "encoder_weights", "tokenizer", "vocoder"}
        return {name: None if name in saved else value for name, value in arguments.items()}

    @classmethod
    def evaluation_overrides(cls, overrides: Sequence[str], folder: str) -> list[str]:
        """Return the overrides of ``evaluate.py`` that evaluate an exported backbone.

        Args:
            overrides: Configuration overrides of the training run that the evaluation repeats.
            folder: Folder of the exported weights.
        """
        return [*overrides, f"backbone.{cls.weights_key}={folder}"]

    def open(self, session: Session) -> Any:
        """Create the backbone's state for a new stream, such as its caches."""
        return None

    @abstractmethod
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Decode one request per stream, as a batch.

        The audio of a request is ``session.visible_audio(request.audio_end)``, which is never
        empty. A backbone with a bounded context may call ``session.forget`` before decoding. The
        hypothesis then begins a new text.

        Args:
            sessions: One session per stream.
            requests: One request per stream. Requests of one batch may have different tasks.
            needs: Capabilities whose results are required, such as alignments. The backbone may
                skip the computation of all other capabilities.

        Returns:
            One hypothesis per stream. Its ``prefix_length`` is ``session.prefix_ids.numel()``.
        """

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Keep the emitted tokens of a hypothesis in the caches.

        Args:
            session: Session of the stream. The caller appends the emitted tokens to
                ``session.prefix_ids`` after this call.
            hypothesis: Last translation of the stream.
            tokens: Number of new tokens of the hypothesis that were emitted (0 for READ).
        """
        return

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the oldest tokens and frames, as ``cut`` states, from the caches.

        The session drops the same tokens and frames after this call.
        """
        return

    def change_context(self, session: Session) -> None:
        """Drop what depends on the context of a session, which has changed.

        Raises:
            ZooError: If the new context does not fit into the prompt.
        """
        return

    @abstractmethod
    def text(self, token_ids: list[int]) -> str:
        """Detokenise target ids: special tokens are skipped, spaces are kept unchanged."""

    def transcript_text(self, token_ids: list[int]) -> str:
        """Detokenise ids of a transcript, which are target ids by default."""
        return self.text(token_ids)

    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """Return groups of parameters that can be trained separately, by group name.

        By default, each child module is one group. Groups that are iterators find a parameter when
        it is asked for, so that ``part_dtype`` takes no time in a large network.
        """
        return {name: child.parameters() for name, child in self.named_children()}

    def part_dtype(self, name: str) -> torch.dtype:
        """Return the data type of a group of ``parts``.

        A training converts the groups that it trains to float32, so groups can differ.
        """
        return next(iter(self.parts()[name])).dtype

    def trainable(self, names: Sequence[str] | None) -> None:
        """Enable gradients for the named groups of ``parts`` only.

        Args:
            names: Names of the groups to train. None trains all groups.

        Raises:
            ZooError: If a name is not in ``parts``.
        """
        parts = self.parts()
        names = list(parts) if names is None else names
        for name in names:
            check_choice("part of the backbone", name, parts)
        self.requires_grad_(False)
        for name in names:
            for parameter in parts[name]:
                parameter.requires_grad_(True)


@runtime_checkable
class FrameEncoder(Protocol):
    """A backbone whose encoder can be trained with frame-level labels."""

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """Encode audio in blocks of ``multiplier`` chunks.

        Args:
            samples: (batch, n) samples at 16 kHz.
            multiplier: Latency multiplier m, the encoder's block size in chunks.

        Returns:
            Hidden states of the last layer and of a middle layer, each (batch, frames, hidden).
        """


@dataclass(frozen=True, slots=True)
class Units:
    """Discrete speech units of one stream's kept and new text.

    Attributes:
        ids: (n,) int64 unit ids of the vocoder.
        attention: (n, positions) attention weights. Row i belongs to the query that predicts unit
            i. The positions are the text decoder states: the decoder's start ids, the kept tokens,
            the new tokens and, if ``close`` was set, the end of the text.
        opening: Number of decoder start states before the text.
        truncated: Whether generation stopped at the length limit.
    """

    ids: Tensor
    attention: Tensor
    opening: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class UnitSpeech:
    """Waveform that a vocoder synthesised from units.

    Attributes:
        samples: (m,) float32 samples at 16 kHz.
        durations: (n,) int64 duration of each unit, in unit frames.
    """

    samples: Tensor
    durations: Tensor


@runtime_checkable
class Speaking(Protocol):
    """A backbone that exposes SPEECH and generates target speech from its decoder states.

    Attributes:
        unit_samples: Samples per unit frame.
    """

    unit_samples: Samples

    def check_speech(self, language: Language) -> None:
        """Raise ZooError if the vocoder lacks the language."""

    def generate_units(self, requests: Sequence[SpeechRequest], *, close: bool) -> list[Units]:
        """Generate the units of each stream's kept and new text.

        The text-to-unit decoder attends to ``hypothesis.decoder_states``.

        Args:
            requests: One speech request per stream.
            close: Whether the decoder state of the end-of-text token is appended, as in offline
                generation.
        """

    def vocode(
        self,
        units: Sequence[Tensor],
        language: Language,
        *,
        needed: Sequence[range] | None = None,
    ) -> list[UnitSpeech]:
        """Synthesise speech.

        Args:
            units: Unit ids of each stream, (n,) int64.
            language: Language whose voice the vocoder uses.
            needed: For each stream, indices of the units whose samples are needed; the samples of
                other units may be 0. None: all units.
        """
