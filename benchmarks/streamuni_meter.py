"""Decoder passes and time per part of a speech chain of thought."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from torch import Tensor, nn

from zoo.backbones.common.causal.layers import FastLayers
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.types import Seconds

PARTS = (
    "features",
    "audio encoder",
    "many positions",
    "token by token",
    "rest",
)  # the third and fourth: decoder passes over several positions, and over one


@dataclass(slots=True)
class Run:
    """Measurements of one stream.

    Attributes:
        seconds: per chunk.
        texts: emitted after each chunk.
        positions: new positions per decoder pass.
        spent: seconds per part, of all chunks.
    """

    seconds: list[Seconds] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    spent: dict[str, Seconds] = field(default_factory=lambda: defaultdict(float))

    @property
    def passes(self) -> int:
        """Number of decoder passes."""
        return len(self.positions)

    @property
    def milliseconds(self) -> float:
        """Mean per chunk; a chunk that cuts costs several times the median."""
        return 1000 * statistics.mean(self.seconds)

    def shares(self) -> dict[str, float]:
        """Share of the time per part."""
        whole = sum(self.seconds)
        shares = {part: self.spent[part] / whole for part in PARTS[:-1]}
        return shares | {"rest": 1 - sum(shares.values())}


class Meter:
    """Counts decoder passes and times the parts, without side effects.

    Args:
        thinker: the backbone to measure.
        run: receives the measurements.
        clock: waits for the device.
    """

    def __init__(
        self, thinker: ChainOfThought, run: Run, clock: Callable[[], Seconds] = time.perf_counter
    ) -> None:
        self.thinker = thinker
        self.run = run
        self.clock = clock
        self.part = ""
        self.start: Seconds = 0.0

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure inside this context."""
        thinker, decoder = self.thinker, self.thinker.decoder
        head = decoder.get_output_embeddings()
        with ExitStack() as stack:
            stack.enter_context(
                patch.object(thinker.spectrogram, "compute", self._timed("features", "compute"))
            )
            for name in ("encode", "project"):
                stack.enter_context(patch.object(thinker, name, self._timed("audio encoder", name)))
            # The zoo runs the layers itself; the plain loop calls Transformers' network.
            stack.enter_context(patch.object(FastLayers, "__call__", self._fast_pass()))
            for hook in (
                decoder.model.register_forward_pre_hook(self._begin_pass, with_kwargs=True),
                decoder.model.register_forward_hook(self._end_part),
                head.register_forward_pre_hook(self._begin_scores),
                head.register_forward_hook(self._end_part),
            ):
                stack.callback(hook.remove)
            yield

    def _timed(self, part: str, name: str) -> Callable[..., Any]:
        call = getattr(self.thinker.spectrogram if name == "compute" else self.thinker, name)

        def call_and_measure(*given: Any, **options: Any) -> Any:
            self.part, self.start = part, self.clock()
            result = call(*given, **options)
            self._end_part()
            return result

        return call_and_measure

    def _fast_pass(self) -> Callable[..., Tensor]:
        call = FastLayers.__call__

        def call_and_measure(layers: FastLayers, embeddings: Tensor, *given: Any) -> Tensor:
            self._count_pass(embeddings.shape[1])
            result = call(layers, embeddings, *given)
            self._end_part()
            return result

        return call_and_measure

    def _begin_pass(self, _: nn.Module, __: object, options: dict[str, Any]) -> None:
        self._count_pass(options["inputs_embeds"].shape[1])

    def _count_pass(self, new: int) -> None:
        self.run.positions.append(new)
        self.part, self.start = ("many positions" if new > 1 else "token by token"), self.clock()

    def _begin_scores(self, *_: object) -> None:
        self.start = self.clock()

    def _end_part(self, *_: object) -> None:
        self.run.spent[self.part] += self.clock() - self.start
