"""Samplers for talks that are decoded when they are needed: a pass in windows of talks."""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

import numpy as np

from zoo.base.errors import ZooError
from zoo.base.talks import LazyTalks, Talk
from zoo.data.sampling import EncodeTalks, Example, Pass, Sampler

WINDOW_HOURS = 100.0  # of audio in one window, on average


class WindowedSampler(Sampler):
    """Samples windows of talks, one after the other, in a random order of talks in each pass.

    A window is what a schedule plans at once: enough talks for batches of similar durations, few
    enough for the memory and the time of a plan. The order of the talks is a pure function of the
    number of the pass, and the same for all seeds of a training.

    Args:
        talks: Training talks, at least one.
        make: Returns the sampler of the talks of a window, given the number of windows per pass.
        hours: Duration of the talks of a window in hours.
    """

    def __init__(
        self,
        talks: LazyTalks,
        make: Callable[[Sequence[Talk], int], Sampler],
        *,
        hours: float = WINDOW_HOURS,
    ) -> None:
        self._talks = talks
        self._make = make
        self._windows = min(len(talks), max(1, round(talks.hours / hours)))
        self._made = lru_cache(maxsize=1)(self._window)

    def windows(self, kind: int) -> int:
        """Return the number of windows of a pass; see ``Sampler``."""
        return self._windows

    def window(self, number: int) -> Sampler:
        """Return the sampler of the talks of a window; see ``Sampler``."""
        return self._made(number)

    @cached_property
    def kinds(self) -> Sequence[float]:
        """Shares of the kinds of examples, which all windows have; see ``Sampler``."""
        return self.window(0).kinds

    def plan(self, kind: int, random: np.random.Generator) -> Pass:
        """A pass is planned window by window."""
        raise NotImplementedError("plan the windows one after the other")

    def examples(
        self, kind: int, positions: np.ndarray, random: np.random.Generator
    ) -> Sequence[Example]:
        """Examples are made by the sampler of their window."""
        raise NotImplementedError("take the examples of a window")

    def encode(self, encode_talks: EncodeTalks) -> None:
        """Refuse to encode all talks before the training."""
        raise ZooError(
            "Talks of data.lazy=true are not encoded before a training; set encoded=false in the "
            "sampling of all stages."
        )

    def _window(self, number: int) -> Sampler:
        """Make the sampler of a window."""
        number_of_pass, number_in_pass = divmod(number, self._windows)
        order = np.random.default_rng([number_of_pass]).permutation(len(self._talks))
        indices = np.array_split(order, self._windows)[number_in_pass]
        return self._make([self._talks[index] for index in indices.tolist()], self._windows)
