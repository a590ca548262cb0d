"""Test sets with a YAML list of segments, as the IWSLT campaigns publish them."""

from dataclasses import dataclass

from zoo.base.talks import Talk
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import by_audio, optional, required
from zoo.data.readers.spans import read_entries


@dataclass(kw_only=True, eq=False)
class IWSLT:
    """Recordings, a YAML list of their segments, and texts with one line per segment.

    ``{split}`` in a path stands for the split, for development and test talks in one run.

    Args:
        segments: YAML list with ``offset``, ``duration`` (seconds) and ``wav`` of each segment;
            ``talks`` raises ZooError for None.
        audio: folder of the recordings; None: the folder of ``segments``.
        transcripts: text file with one line per segment; None: no transcripts.
        references: text file with one line per segment; None: scores that need references are left
            out.
        source_language: code of the source language.
        target_language: code of the target language.
        name: name of the corpus.
    """

    segments: str | None
    source_language: str
    target_language: str
    audio: str | None = None
    transcripts: str | None = None
    references: str | None = None
    name: str = "iwslt"

    def talks(self, split: str, *, limit: int | None = None) -> list[Talk]:
        """Return the recordings in the order of the list.

        The split names the rows of results, and is part of the paths that contain ``{split}``. See
        ``zoo.data.corpora.Corpus``.
        """
        listed = required(
            _of_split(self.segments, split),
            corpus="iwslt",
            key="segments",
            what="a YAML list of segments with offset, duration and wav",
        )
        audio, transcripts, references = (
            optional(_of_split(getattr(self, key), split), corpus="iwslt", key=key)
            for key in ("audio", "transcripts", "references")
        )
        entries = read_entries(
            listed,
            audio=audio or listed.parent,
            transcripts=transcripts,
            translations=references,
        )
        return build_talks(
            by_audio(entries),
            source=self.source_language,
            target=self.target_language,
            limit=limit,
        )


def _of_split(path: str | None, split: str) -> str | None:
    """Return the path of a split, whose name stands in the place of ``{split}``."""
    return None if path is None else path.replace("{split}", split)
