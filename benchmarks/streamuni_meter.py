"""Where the time of a speech chain of thought goes. Knows no policy and no words."""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from torch import nn

from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.types import Seconds

PARTS = (
    "features",
    "audio encoder",
    "many positions",
    "token by token",
    "rest",
)  # of one pass of the decoder, each


@dataclass(slots=True)
class Run:
    """What one stream did. seconds: per chunk. texts: written after each chunk. positions: new ones, per decoder pass.
    spent: seconds per part, all chunks together."""

    seconds: list[Seconds] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    spent: dict[str, Seconds] = field(default_factory=lambda: defaultdict(float))

    @property
    def passes(self) -> int:
        """Of the decoder."""
        return len(self.positions)

    @property
    def milliseconds(self) -> float:
        """Mean per chunk: one that cuts costs several times what most cost."""
        return 1000 * statistics.mean(self.seconds)

    def shares(self) -> dict[str, float]:
        """Of the time, per part."""
        whole = sum(self.seconds)
        shares = {part: self.spent[part] / whole for part in PARTS[:-1]}
        return shares | {"rest": 1 - sum(shares.values())}


class Meter:
    """Counts the decoder's passes and times its parts; nothing is changed. clock: one that waits for the device."""

    def __init__(
        self, thinker: ChainOfThought, run: Run, clock: Callable[[], Seconds] = time.perf_counter
    ) -> None:
        self.thinker = thinker
        self.run = run
        self.clock = clock
        self.part = ""
        self.begun: Seconds = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While this lasts."""
        thinker, decoder = self.thinker, self.thinker.decoder
        head = decoder.get_output_embeddings()
        with ExitStack() as stack:
            stack.enter_context(
                patch.object(thinker.spectrogram, "look", self._timed("features", "look"))
            )
            for name in ("encode", "project"):
                stack.enter_context(patch.object(thinker, name, self._timed("audio encoder", name)))
            for hook in (
                decoder.model.register_forward_pre_hook(self._entered, with_kwargs=True),
                decoder.model.register_forward_hook(self._left),
                head.register_forward_pre_hook(self._scoring),
                head.register_forward_hook(self._left),
            ):
                stack.callback(hook.remove)
            yield

    def _timed(self, part: str, name: str) -> Callable[..., Any]:
        call = getattr(self.thinker.spectrogram if name == "look" else self.thinker, name)

        def answer(*given: Any, **options: Any) -> Any:
            self.part, self.begun = part, self.clock()
            result = call(*given, **options)
            self._left()
            return result

        return answer

    def _entered(self, _: nn.Module, __: object, options: dict[str, Any]) -> None:
        new = options["inputs_embeds"].shape[1]
        self.run.positions.append(new)
        self.part, self.begun = ("many positions" if new > 1 else "token by token"), self.clock()

    def _scoring(self, *_: object) -> None:
        self.begun = self.clock()

    def _left(self, *_: object) -> None:
        self.run.spent[self.part] += self.clock() - self.begun
