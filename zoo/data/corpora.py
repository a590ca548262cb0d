"""The corpora a config can name: each gives the talks of a split. Nothing is read before ``talks`` is called."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from zoo.data import mustc
from zoo.data.minitalks import corpus as minitalks
from zoo.data.talks import Talk
from zoo.errors import ZooError


class Corpus(Protocol):
    """name: as in ``results.json``."""

    name: str

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """The talks of ``split`` in a fixed order; ``limit``: only the first ones. Raises ZooError."""


class MiniTalks:
    """The built-in corpus: made on first use, kept in the cache folder (``SIMULZOO_CACHE``)."""

    name = "minitalks"

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """train, dev or tst."""
        return minitalks.build(split, talks=limit)


class MustC:
    """A MuST-C folder in its published layout (Di Gangi et al., 2019).

    root: the folder that holds ``en-de`` (or is it). Raises ZooError from ``talks`` when it is not given or wrong.
    """

    name = "mustc"

    def __init__(self, *, root: str | None, source_language: str, target_language: str) -> None:
        self.root = root
        self.source_language = source_language
        self.target_language = target_language

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """train, dev, tst-COMMON or tst-HE, whichever the folder holds."""
        if self.root is None:
            raise ZooError("data=mustc needs data.root, the folder of your MuST-C download (the one that holds en-de).")
        return mustc.read(Path(self.root), split, self.source_language, self.target_language)[:limit]
