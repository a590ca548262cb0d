"""MuST-C in its published layout (Di Gangi et al., 2019; Cattoni et al., 2021), releases 1 to 3.

``<root>/en-de/data/<split>/txt/<split>.yaml|.en|.de`` and ``<root>/en-de/data/<split>/wav/*.wav``:
the texts have one line per item of the YAML list (``duration``, ``offset``, ``speaker_id``,
``wav``). The releases differ in their talks and language pairs, not in this layout.
"""

from dataclasses import dataclass
from pathlib import Path

from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import by_audio, required
from zoo.data.readers.spans import read_entries
from zoo.data.talks import Talk
from zoo.errors import ZooError


@dataclass(kw_only=True, eq=False)
class MustC:
    """A MuST-C folder.

    Args:
        root: folder that contains ``en-de``, or ``en-de`` itself; ``talks`` raises ZooError for
            None.
        source_language: code of the source language.
        target_language: code of the target language.
    """

    name = "mustc"

    root: str | None
    source_language: str
    target_language: str

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the talks of train, dev, tst-COMMON or tst-HE in the order of the YAML file.

        See ``zoo.data.corpora.Corpus``.
        """
        root = required(
            self.root,
            corpus="mustc",
            key="root",
            what="the folder of your MuST-C download (the one that contains en-de)",
        )
        source, target = self.source_language, self.target_language
        folder = _split_folder(root, split=split, pair=f"{source}-{target}")
        texts = folder / "txt"
        entries = read_entries(
            texts / f"{split}.yaml",
            audio=folder / "wav",
            transcripts=texts / f"{split}.{source}",
            translations=texts / f"{split}.{target}",
        )
        return build_talks(by_audio(entries), source=source, target=target, limit=limit)


def _split_folder(root: Path, *, split: str, pair: str) -> Path:
    """Return the folder of a split. Raises ZooError if it does not exist."""
    base = root / pair if (root / pair).is_dir() else root
    if not (base / "data").is_dir():
        raise ZooError(
            f"MuST-C is not in {root}: it has no folder {pair}/data; "
            "download the corpus by hand and unpack it there."
        )
    folder = base / "data" / split
    if not folder.is_dir():
        splits = (
            ", ".join(sorted(path.name for path in (base / "data").iterdir() if path.is_dir()))
            or "none"
        )
        raise ZooError(f"MuST-C in {base} has no split {split!r}; it has: {splits}.")
    return folder
