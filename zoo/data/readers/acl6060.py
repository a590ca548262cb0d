"""ACL 60/60: talks of ACL 2022 with translations into ten languages (Salesky et al., 2023)."""

from dataclasses import dataclass

from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import by_audio, existing_folder, optional, required
from zoo.data.readers.spans import read_entries


@dataclass(kw_only=True, eq=False)
class ACL6060:
    """The unpacked data set: ``<root>/<split>/full_wavs`` and ``<root>/<split>/text/txt``.

    The data set has no times of its segments. A YAML list gives them, such as the one of the IWSLT
    campaigns.

    Args:
        root: folder that contains ``dev`` and ``eval``; ``talks`` raises ZooError for None.
        segments: YAML list with ``offset``, ``duration`` (seconds) and ``wav`` of each line of the
            texts; None: ``<root>/<split>.yaml``.
        source_language: code of the source language.
        target_language: code of the target language.
    """

    name = "acl6060"

    root: str | None
    source_language: str
    target_language: str
    segments: str | None = None

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the whole talks of dev or eval; see ``zoo.data.corpora.Corpus``."""
        what = "the folder with dev and eval of ACL 60/60 (2/acl_6060 in its archive)"
        root = required(self.root, corpus="acl6060", key="root", what=what)
        folder = existing_folder(root / split, corpus="ACL 60/60", like="a split: dev or eval")
        listed = optional(self.segments, corpus="acl6060", key="segments")
        segments = listed or root / f"{split}.yaml"
        if not segments.is_file():
            raise ZooError(
                f"There is no file {segments}; ACL 60/60 has no times of its segments, so "
                "data.segments needs a YAML list with offset, duration and wav of each line."
            )
        texts = folder / "text" / "txt"
        entries = read_entries(
            segments,
            audio=folder / "full_wavs",
            transcripts=texts / f"ACL.6060.{split}.en-xx.{self.source_language}.txt",
            translations=texts / f"ACL.6060.{split}.en-xx.{self.target_language}.txt",
        )
        return build_talks(
            by_audio(entries),
            source=self.source_language,
            target=self.target_language,
            limit=limit,
        )
