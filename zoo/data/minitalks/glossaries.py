"""Glossaries of the splits of minitalks with invented names, written into the cache folder."""

from pathlib import Path

from zoo.data.cache import cache_root, lock_folder
from zoo.data.minitalks.names import names_of
from zoo.data.minitalks.recording import SPLITS
from zoo.data.minitalks.version import version_name
from zoo.disk.files import write_text
from zoo.errors import ZooError

ALL = "names"  # the glossary of all talks


def glossary_folder(split: str, *, cache: Path | None = None) -> Path:
    """Return the folder of the glossaries of a split; write them if they are missing.

    The folder has ``<talk>.txt`` with the names of each talk and ``names.txt`` with all of them, a
    name per line.

    Args:
        split: ``tst_names`` or ``train_names``.
        cache: cache folder of all corpora; None: ``$SIMULZOO_CACHE`` or ``~/.cache/simulzoo``.

    Raises:
        ZooError: the split has no invented names, or the cache is not writable.
    """
    if split not in SPLITS or not SPLITS[split].named:
        named = ", ".join(name for name, spec in SPLITS.items() if spec.named)
        raise ZooError(f"Split {split!r} of minitalks has no glossaries; choose one of: {named}.")
    folder = cache_root(cache) / f"minitalks-{version_name()}" / f"{split}_glossaries"
    if (folder / f"{ALL}.txt").is_file():
        return folder
    names = {f"{split}-{talk:03d}": names_of(split, talk) for talk in range(SPLITS[split].talks)}
    every = tuple(sorted({name for some in names.values() for name in some}))
    with lock_folder(folder):
        for file, some in (*names.items(), (ALL, every)):  # the last file marks completion
            write_text(folder / f"{file}.txt", "".join(f"{name}\n" for name in some))
    return folder
