"""What streams in an evaluation: a system of the zoo, or an agent of another tool."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightning
import torch

from zoo.base.errors import ZooError, check_name, check_numbers
from zoo.base.languages import language, spoken_language
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Action, Instance, Samples, Seconds, SpeechChunk
from zoo.streaming.callback import StreamCallback
from zoo.streaming.queue import TalkQueue
from zoo.streaming.simulate import Stream, simulate
from zoo.streaming.sources import source

MOST_STEP: Seconds = 3600.0  # longest step; the longest of a paper has 12 s


@dataclass(frozen=True, slots=True)
class Knob:
    """The setting that trades latency for quality.

    Attributes:
        name: Name in results.
        attribute: Dotted path of the attribute of the system that the knob sets.
        values: Values of a latency sweep; empty, those that the backbone lists for the attribute,
            because a number of frames has another duration in each backbone.
        least: Smallest valid value.
    """

    name: str
    attribute: str
    values: Sequence[float] = ()
    least: float = 1

    def check(self, value: object) -> None:
        """Check a value.

        Raises:
            ZooError: The value is no finite number, below ``least``, or fractional while all
                ``values`` are integers.
        """
        whole = all(isinstance(number, int) for number in self.values)
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or (whole and not isinstance(value, int))
            or not self.least <= value < math.inf
        ):
            kind = "a whole number" if whole else "a number"
            raise ZooError(
                f"Knob {self.name} must be {kind} of at least {self.least:g}, not {value!r}."
            )


class System(lightning.LightningModule):
    """A system for one language direction, which streams in Lightning's Trainer.

    Each step processes ``chunk_seconds * latency_multiplier`` seconds of audio.

    Args:
        name: Name of the system in results.
        source_language: Code of the source language.
        target_language: Code of the target language.
        chunk_seconds: Duration of a base chunk in seconds.
        latency_multiplier: Number of base chunks per step.
        knob: The latency setting of the system. None: no latency setting.

    Attributes:
        weights: Hub ids and folders of the weights by key of the configuration, as results name
            them. Empty if the system was not created by ``zoo.load``.

    Raises:
        ZooError: A language is unknown, a number is out of range, or the name is empty or too long.
    """

    def __init__(
        self,
        *,
        name: str,
        source_language: str,
        target_language: str,
        chunk_seconds: Seconds,
        latency_multiplier: int = 1,
        knob: Knob | None = None,
    ) -> None:
        super().__init__()
        check_name("system.name", name)
        check_numbers(f"System {name!r}", above=0, chunk_seconds=chunk_seconds)
        check_numbers(f"System {name!r}", least=1, latency_multiplier=latency_multiplier)
        check_step(name, chunk_seconds, latency_multiplier)
        self.name = name
        self.source_language = spoken_language(source_language)
        self.target_language = language(target_language)
        self.chunk_seconds = chunk_seconds
        self.latency_multiplier = latency_multiplier
        self.knob = knob
        self.weights: Mapping[str, str] = {}

    def __repr__(self) -> str:
        facts = [repr(self.name), self.direction, *self._described_parts()]
        value = self.knob_value
        if self.knob is not None and value is not None:
            facts.append(f"{self.knob.name}={value:g}")
        return f"{type(self).__name__}({', '.join(facts)})"

    def _described_parts(self) -> list[str]:
        """Return the parts of the system for its ``repr``, such as ``policy=TurnTaking``."""
        return []

    def load(self) -> None:
        """Load weights and what else takes long, once. Raises ZooError for what is missing."""
        raise NotImplementedError

    def probe(self) -> None:
        """Check what ``load`` needs besides weights, such as a server; nothing by default.

        Raises:
            ZooError: It is missing.
        """

    def configure_model(self) -> None:
        """Load weights once; Lightning may call this hook more than once."""
        self.load()

    @property
    def parts(self) -> str:
        """The parts on which the attributes of the system depend, for messages."""
        return "these settings"

    @property
    def uses_reference_segments(self) -> bool:
        """Whether the system receives the reference segments of a talk."""
        return False

    @property
    def emits_speech(self) -> bool:
        """Whether the output has target speech; needs no weights."""
        raise NotImplementedError

    def open(self, talk: str, *, segments: Sequence[tuple[Seconds, Seconds]] = ()) -> Any:
        """Open a stream.

        Args:
            talk: Name of the talk.
            segments: (begin, end) of the reference segments in seconds, if known.

        Returns:
            The state of the new stream; its attribute ``source_ended`` is True after the last
            chunk.
        """
        raise NotImplementedError

    def step(self, sessions: Sequence[Any], chunks: Sequence[SpeechChunk]) -> list[Action]:
        """Process one chunk of each stream.

        Args:
            sessions: Live streams.
            chunks: The next chunk of each stream.

        Returns:
            The output of each stream.
        """
        raise NotImplementedError

    def talk_problem(self, talks: Sequence[Talk], *, whole: bool = False) -> str | None:
        """Check before streaming whether the system accepts talks: their audio and context.

        Args:
            talks: Talks to stream.
            whole: Whether each talk is one chunk, for offline decoding.

        Returns:
            A sentence about the first talk that cannot be streamed; None if there is none.
        """
        return None

    def unnamed_weights(self) -> str | None:
        """Return the key of weights that name none, so that parts are randomly initialised.

        None: all weights are named. The default is that of a system without such keys.
        """
        return None

    @property
    def direction(self) -> str:
        """Language direction, such as ``en-de``."""
        return f"{self.source_language.code}-{self.target_language.code}"

    @property
    def chunk_samples(self) -> Samples:
        """Source samples per step."""
        return round(self.chunk_seconds * self.latency_multiplier * SAMPLE_RATE)

    @property
    def knob_value(self) -> float | None:
        """The value of the latency knob; None without a knob or if it sets what is no number."""
        if self.knob is None:
            return None
        value: object = self
        for name in self.knob.attribute.split("."):
            value = getattr(value, name, None)
        return value if isinstance(value, int | float) else None

    def turn_knob(self, value: float) -> None:
        """Set the latency knob. Raises ZooError as :meth:`check_knob` does."""
        owner, attribute = self.check_knob(value)
        setattr(owner, attribute, value)

    def check_knob(self, value: float) -> tuple[object, str]:
        """Check a value of the latency knob without setting it; needs no weights.

        Returns:
            The object that owns the attribute, and the name of the attribute.

        Raises:
            ZooError: The system has no knob, lacks the attribute, or the value is invalid.
        """
        if self.knob is None:
            raise ZooError(f"System {self.name!r} has no latency knob.")
        self.knob.check(value)
        if self.knob.attribute == "chunk_seconds":
            check_step(self.name, value, self.latency_multiplier)
        if self.knob.attribute == "latency_multiplier":
            check_step(self.name, self.chunk_seconds, value)

        *path, last = self.knob.attribute.split(".")
        owner: object = self
        for name in path:
            owner = getattr(owner, name, None)
        if not hasattr(owner, last):
            raise ZooError(
                f"The knob {self.knob.name!r} of system {self.name!r} sets {self.knob.attribute}, "
                f"which it lacks with {self.parts}; set system.knob=null, "
                f"or name, attribute, values and least of another knob."
            )
        return owner, last

    def stream(
        self, queue: TalkQueue, on_chunk: Callable[[Stream], None] | None = None
    ) -> Iterator[Instance]:
        """Stream the talks that this rank claims from a queue.

        Args:
            queue: Talks with audio.
            on_chunk: Function that receives a stream after each of its chunks.

        Returns:
            One instance per talk, in the order in which streams finish.
        """
        size = None if queue.whole else self.chunk_samples
        streams = (
            source(talk, self.target_language, chunk_samples=size, index=index)
            for index, talk in queue
        )
        return simulate(self, streams, batch_size=queue.batch_size, on_chunk=on_chunk)

    def predict_step(self, batch: TalkQueue, batch_idx: int = 0) -> list[Instance]:
        """Stream the talks that this rank claims and call the hooks of ``StreamCallback``.

        Args:
            batch: The queue of all ranks.
            batch_idx: Index of the batch; a queue is the only batch.

        Returns:
            One instance per talk that this rank has streamed.
        """
        callbacks = self.trainer.callbacks  # type: ignore[attr-defined]  # Lightning sets it late
        followers = [callback for callback in callbacks if isinstance(callback, StreamCallback)]

        def on_chunk(stream: Stream) -> None:
            for follower in followers:
                follower.on_chunk_end(self.trainer, self, stream.newest)

        instances = []
        # Mixed precision is for training only: hypotheses do not depend on the trainer's precision.
        with torch.autocast(self.device.type, enabled=False):
            for instance in self.stream(batch, on_chunk):
                instances.append(instance)
                for follower in followers:
                    follower.on_talk_end(self.trainer, self, instance)
        return instances

    # The callbacks receive the instances; Lightning ignores what these two steps return.
    test_step = predict_step  # type: ignore[assignment]
    validation_step = predict_step  # type: ignore[assignment]


def check_step(name: str, chunk_seconds: Seconds, latency_multiplier: float) -> None:
    """Raise ZooError for a step that is longer than any talk or has no sample.

    A model may write as many words as the audio of a step allows, so that a much too large step
    would never end.

    Args:
        name: Name of the system.
        chunk_seconds: Duration of a base chunk.
        latency_multiplier: Number of base chunks per step.
    """
    step = chunk_seconds * latency_multiplier
    if step > MOST_STEP:
        raise ZooError(
            f"System {name!r} needs steps (chunk_seconds x latency_multiplier) of at most "
            f"{MOST_STEP:g} s, not {step:g} s."
        )
    if round(step * SAMPLE_RATE) < 1:
        raise ZooError(
            f"System {name!r} needs steps (chunk_seconds x latency_multiplier) of at least one "
            f"sample ({1 / SAMPLE_RATE:g} s), not {step:g} s."
        )
