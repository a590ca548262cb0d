"""A queue of talks that the ranks of an evaluation share: each talk is claimed by one rank."""

import itertools
from collections.abc import Collection, Iterator, Sequence

from torch.utils.data import IterableDataset

from zoo.base.talks import Talk
from zoo.streaming.ranks import ranks

_NUMBERS = itertools.count()


class TalkQueue:
    """Talks to stream. Each rank claims the next talk when it has a free slot, longest talk first.

    Iterating claims talks, so two iterations of one queue share the talks.

    Args:
        talks: All talks of the evaluation, in the same order on all ranks.
        corpus: Name of the corpus, for results.
        split: Name of the split, for logged scores.
        whole: Whether each talk is one chunk, for offline decoding.
        batch_size: Number of talks that one rank streams in lockstep.
        name: Name of the shared counters of this queue, unique in the process group. None: a
            number, equal on all ranks that create the same queues in the same order.

    Attributes:
        finished: Positions of talks that an interrupted run has already streamed.
    """

    def __init__(
        self,
        talks: Sequence[Talk],
        *,
        corpus: str = "",
        split: str = "tst",
        whole: bool = False,
        batch_size: int = 1,
        name: str | None = None,
    ) -> None:
        self.talks = talks
        self.corpus = corpus
        self.split = split
        self.whole = whole
        self.batch_size = batch_size
        self.name = name or f"queue{next(_NUMBERS)}"
        self.finished: Collection[int] = ()

    def __iter__(self) -> Iterator[tuple[int, Talk]]:
        """Yield the position in ``talks`` and the talk of each claim of this rank."""
        order = sorted(range(len(self.talks)), key=lambda index: -self.talks[index].duration)
        shared = ranks()
        while (claim := shared.add(f"{self.name}/claims", 1)) <= len(order):
            index = order[claim - 1]
            if index not in self.finished:
                yield index, self.talks[index]

    def unfinished(self) -> list[tuple[int, Talk]]:
        """Return the talks of all ranks that are still to be streamed."""
        return [item for item in enumerate(self.talks) if item[0] not in self.finished]

    def only(self, indices: Collection[int]) -> "TalkQueue":
        """Return a queue of this rank alone with some of the talks, which keep their positions."""
        queue = _LocalQueue(
            self.talks,
            corpus=self.corpus,
            split=self.split,
            whole=self.whole,
            batch_size=self.batch_size,
            name=f"{self.name}/local",
        )
        queue.finished = [index for index in range(len(self.talks)) if index not in indices]
        return queue


class _LocalQueue(TalkQueue):
    """A queue that is not shared with other ranks."""

    def __iter__(self) -> Iterator[tuple[int, Talk]]:
        return iter(self.unfinished())


class OneBatch(IterableDataset[TalkQueue]):
    """The only batch of a streaming evaluation: the queue itself, the same on every rank.

    An iterable data set has no sampler that Lightning would distribute over the ranks.
    """

    def __init__(self, queue: TalkQueue) -> None:
        self.queue = queue

    def __iter__(self) -> Iterator[TalkQueue]:
        yield self.queue
