"""FLEURS: read sentences of FLoRes in 102 languages (Conneau et al., 2022)."""

import logging
from dataclasses import dataclass
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import (
    Recording,
    SegmentEntry,
    at,
    audio_file,
    existing_folder,
    required,
)
from zoo.data.readers.tables import read_rows
from zoo.formats.text import recording_name

logger = logging.getLogger(__name__)

# Names of the languages of the zoo in FLEURS.
FOLDERS = {
    "ar": "ar_eg",
    "ca": "ca_es",
    "cs": "cs_cz",
    "de": "de_de",
    "en": "en_us",
    "es": "es_419",
    "fa": "fa_ir",
    "fr": "fr_fr",
    "it": "it_it",
    "ja": "ja_jp",
    "ko": "ko_kr",
    "nl": "nl_nl",
    "pt": "pt_br",
    "ro": "ro_ro",
    "ru": "ru_ru",
    "th": "th_th",
    "tr": "tr_tr",
    "vi": "vi_vn",
    "zh": "cmn_hans_cn",
}
# id, file, text, normalised text, characters, samples, gender
COLUMNS = 7


@dataclass(kw_only=True, eq=False)
class Fleurs:
    """The unpacked data set: ``<root>/en_us/<split>.tsv`` and ``<root>/en_us/audio/<split>``.

    The translation of a sentence is the sentence of the same id in the other language.

    Args:
        root: folder that contains ``en_us`` and so on; ``talks`` raises ZooError for None.
        source_language: code of the source language.
        target_language: code of the target language.
    """

    name = "fleurs"

    root: str | None
    source_language: str
    target_language: str

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the recordings of train, dev or test; see ``zoo.data.corpora.Corpus``.

        FLEURS lacks some sentences in some languages. Recordings without a translation are left out
        and counted in the log.
        """
        what = "the folder that contains en_us and so on"
        root = required(self.root, corpus="fleurs", key="root", what=what)
        root = root / "data" if (root / "data").is_dir() else root
        folder = _folder(root, self.source_language)
        translations = _translations(_folder(root, self.target_language) / f"{split}.tsv")
        table = folder / f"{split}.tsv"

        recordings: list[Recording] = []
        left_out: list[str] = []
        for line, (number, name, text, *_) in read_rows(table, columns=COLUMNS):
            where = at(table, line)
            if number not in translations:
                left_out.append(where)
                continue
            entry = SegmentEntry(where, source=text, target=translations[number])
            path = audio_file(folder / "audio" / split, name, where=where)
            recordings.append(Recording(where, path, recording_name(path.name), [entry]))
        if not recordings:
            raise ZooError(f"No id of {table} is in the table of {self.target_language!r} as well.")
        if left_out:
            logger.warning(
                "%d of %d recordings have no sentence in %r and are left out, first %s",
                len(left_out),
                len(left_out) + len(recordings),
                self.target_language,
                left_out[0],
            )
        return build_talks(
            recordings, source=self.source_language, target=self.target_language, limit=limit
        )


def _folder(root: Path, language: str) -> Path:
    """Return the folder of a language. Raises ZooError if it does not exist."""
    return existing_folder(root / FOLDERS[language], corpus="FLEURS", like="a language")


def _translations(table: Path) -> dict[str, str]:
    """Return the sentences of a table by id. Raises ZooError for two sentences with one id."""
    sentences: dict[str, str] = {}
    for line, (number, _, text, *_) in read_rows(table, columns=COLUMNS):
        if sentences.setdefault(number, text) != text:
            raise ZooError(f"{at(table, line)} has another sentence for id {number!r}.")
    return sentences
