"""CoVoST 2: sentences of Common Voice with translations (Wang et al., 2021)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zoo.base.errors import ZooError, check_choice
from zoo.base.talks import Talk
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import SegmentEntry, at, audio_file, by_audio, required
from zoo.data.readers.tables import read_table

SPLITS = ("train", "dev", "test")
# Rows of train that the first edition of CoVoST had in another split.
TRAIN = ("train", "train_covost")
CODES = {"zh": "zh-CN"}  # codes of Common Voice that differ from ours


@dataclass(kw_only=True, eq=False)
class CoVoST2:
    """Common Voice with the translations of CoVoST 2; each sentence is a talk of one segment.

    Args:
        root: folder of the source language of Common Voice (``clips``, ``validated.tsv``) with the
            tables of CoVoST 2, or the folder that contains it under the code of the language;
            ``talks`` raises ZooError for None.
        source_language: code of the source language.
        target_language: code of the target language.
    """

    name = "covost2"

    root: str | None
    source_language: str
    target_language: str

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the sentences of train, dev or test; see ``zoo.data.corpora.Corpus``."""
        what = "the folder of Common Voice (clips, validated.tsv) and of the CoVoST 2 tables"
        folder = required(self.root, corpus="covost2", key="root", what=what)
        check_choice("split of CoVoST 2", split, SPLITS)
        source = CODES.get(self.source_language, self.source_language)
        target = CODES.get(self.target_language, self.target_language)
        root = folder / source if (folder / source).is_dir() else folder
        pair = f"covost_v2.{source}_{target}"
        entries = (
            (audio_file(root / "clips", clip, where=entry.where), entry)
            for clip, entry in _rows(root, pair, split)
        )
        return build_talks(
            by_audio(entries),
            source=self.source_language,
            target=self.target_language,
            limit=limit,
        )


def _rows(root: Path, pair: str, split: str) -> Iterator[tuple[str, SegmentEntry]]:
    """Yield clip and segment of each row of a split.

    The table of a split, which the tool of CoVoST 2 writes, has transcripts and translations. The
    published table has the translations of all splits; its transcripts are in ``validated.tsv``.

    Raises:
        ZooError: there is no table, or a table is damaged.
    """
    ready = root / f"{pair}.{split}.tsv"
    if ready.is_file():
        for number, row in read_table(ready, needed=("path", "sentence", "translation")):
            yield row["path"], _entry(ready, number, row["sentence"], row["translation"], row)
        return

    table = root / f"{pair}.tsv"
    if not table.is_file():
        raise ZooError(f"CoVoST 2 in {root} has neither {ready.name} nor {table.name}.")
    validated = root / "validated.tsv"
    sentences = {row["path"]: row for _, row in read_table(validated, needed=("path", "sentence"))}
    splits = TRAIN if split == "train" else (split,)
    for number, row in read_table(table, needed=("path", "translation", "split")):
        if row["split"] in splits:
            if row["path"] not in sentences:
                raise ZooError(f"{at(table, number)}: {validated} has no clip {row['path']}.")
            known = sentences[row["path"]]
            yield row["path"], _entry(table, number, known["sentence"], row["translation"], known)


def _entry(path: Path, line: int, source: str, target: str, row: dict[str, str]) -> SegmentEntry:
    """Return the segment of a row; a backslash in the tables precedes a literal character."""
    transcript, translation = (re.sub(r"\\(.)", r"\1", text) for text in (source, target))
    speaker = row.get("client_id", "")
    return SegmentEntry(at(path, line), source=transcript, target=translation, speaker=speaker)
