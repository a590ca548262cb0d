"""What the ranks of an evaluation share: counters, and which ranks have finished or stopped.

Everything is kept in the store of torch.distributed's process group, so no rank waits in a
collective operation. Without a process group there is one rank, and the counters are local.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from torch import distributed

from zoo.base.errors import ZooError
from zoo.base.types import Seconds

BEAT: Seconds = 2.0  # interval of the heartbeats
SILENT: Seconds = 30.0  # a rank without a heartbeat for this time has stopped
POLL: Seconds = 0.05


class Ranks:
    """The ranks of the current process group.

    Attributes:
        rank: Rank of this process.
        count: Number of ranks.
    """

    def __init__(self) -> None:
        together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if together else 0
        self.count = distributed.get_world_size() if together else 1
        # the only access to a group's store; Lightning initialises the group without returning it
        self._store = distributed.distributed_c10d._get_default_store() if together else None
        self._local: Counter[str] = Counter()
        if self._store is not None:
            threading.Thread(target=self._beat, daemon=True, name="heartbeat").start()

    def add(self, name: str, amount: int) -> int:
        """Add to a counter that all ranks share.

        Args:
            name: Name of the counter.
            amount: Number to add; 0 reads the counter.

        Returns:
            The sum so far.

        Raises:
            ZooError: Rank 0, which keeps the counters, has stopped.
        """
        if self._store is None:
            self._local[name] += amount
            return self._local[name]
        try:
            return int(self._store.add(f"simulzoo/{name}", amount))
        except RuntimeError as error:
            raise ZooError("Rank 0 has stopped, so this rank cannot continue.") from error

    def finish(self, name: str) -> None:
        """Announce that this rank has finished a piece of work."""
        self.add(f"{name}/finished/{self.rank}", 1)

    def wait(
        self,
        name: str,
        on_wait: Callable[[], None] | None = None,
        *,
        among: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """Wait until ranks have finished a piece of work or have stopped.

        Args:
            name: Name of the work.
            on_wait: Function that is called regularly while this rank waits.
            among: Ranks to wait for. None: all others.

        Returns:
            The ranks that have stopped without finishing.
        """
        waiting = set(range(self.count) if among is None else among) - {self.rank}
        last_beat = dict.fromkeys(waiting, -1)
        last_time = dict.fromkeys(waiting, time.monotonic())
        stopped: list[int] = []
        while waiting:
            for rank in sorted(waiting):
                if self.add(f"{name}/finished/{rank}", 0):
                    waiting.remove(rank)
                    continue
                beat = self.add(f"beat/{rank}", 0)
                if beat != last_beat[rank]:
                    last_beat[rank], last_time[rank] = beat, time.monotonic()
                elif time.monotonic() - last_time[rank] > SILENT:
                    waiting.remove(rank)
                    stopped.append(rank)
            if waiting:
                time.sleep(POLL)
                if on_wait:
                    on_wait()
        return stopped

    def _beat(self) -> None:
        """Count the heartbeats of this rank until the process or rank 0 ends."""
        try:
            while True:
                self.add(f"beat/{self.rank}", 1)
                time.sleep(BEAT)
        except ZooError:
            return


def ranks() -> Ranks:
    """Return the ranks of the current process group; one object per group."""
    together = distributed.is_available() and distributed.is_initialized()
    return _ranks(id(distributed.group.WORLD) if together else None)


@cache
def _ranks(group: int | None) -> Ranks:
    return Ranks()
