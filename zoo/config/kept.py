"""Results that depend on files, kept until one of the files changes."""

import pickle
import sys
from collections.abc import Hashable, Iterable
from contextlib import suppress
from functools import reduce
from io import BytesIO
from pathlib import Path
from typing import Any

States = dict[Path, tuple[int, int]]  # of files: time of the last change and size


class Kept:
    """Results by key. Each use gets a copy.

    Results are pickled: to load the pickle of a configuration takes a tenth of the time of
    ``copy.deepcopy``.
    """

    def __init__(self, most: int = 256) -> None:
        """Keep the newest results.

        Args:
            most: number of results.
        """
        self._most = most
        self._results: dict[Hashable, tuple[bytes, States]] = {}

    def get(self, key: Hashable) -> Any | None:
        """Return a copy of a result; None if there is none or one of its files has changed."""
        if key not in self._results:
            return None
        content, states = self._results[key]
        return _Unpickler(BytesIO(content)).load() if states == file_states(states) else None

    def keep(self, key: Hashable, result: Any, states: States) -> None:
        """Keep a result; one that cannot be pickled is not kept.

        These are configurations of Hydra's launchers, whose modules Hydra imports twice.

        Args:
            key: what the result depends on besides the files.
            result: any value.
            states: states of the files when they were read.
        """
        try:
            content = pickle.dumps(result)
        except pickle.PicklingError:
            return
        while len(self._results) >= self._most:
            del self._results[next(iter(self._results))]
        self._results[key] = (content, dict(states))


class _Unpickler(pickle.Unpickler):
    """Reads what ``Kept`` has pickled in this process: nothing is imported for it."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class of a module that is imported."""
        return reduce(getattr, name.split("."), sys.modules[module])


def file_states(paths: Iterable[Path]) -> States:
    """Return the states of those files that exist."""
    found = {}
    for path in paths:
        with suppress(FileNotFoundError):
            status = path.stat()
            found[path] = (status.st_mtime_ns, status.st_size)
    return found
