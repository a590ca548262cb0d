"""MuST-C in its published layout (Di Gangi et al., 2019; Cattoni et al., 2021), releases 1 to 3.

``<root>/en-de/data/<split>/txt/<split>.yaml|.en|.de`` and ``<root>/en-de/data/<split>/wav/*.wav``:
the texts have one line per item of the YAML list (``duration``, ``offset``, ``speaker_id``,
``wav``). The releases differ in their talks and language pairs, not in this layout.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.readers.building import build_talks
from zoo.data.readers.entries import Recording, SegmentEntry, by_audio, required
from zoo.data.readers.spans import read_entries
from zoo.formats.segment_order import SAME


@dataclass(kw_only=True, eq=False)
class MustC:
    """A MuST-C folder.

    Args:
        root: folder that contains ``en-de``, or ``en-de`` itself; ``talks`` raises ZooError for
            None.
        source_language: code of the source language.
        target_language: code of the target language.
        further_targets: codes of further languages whose translations the segments get. Their
            folders, such as ``en-es``, must have the same recordings, by name, and segments.
        whole: whether a talk has its whole audio file; otherwise it begins with its first segment
            and ends with its last one.
    """

    name = "mustc"

    root: str | None
    source_language: str
    target_language: str
    further_targets: Sequence[str] = ()
    whole: bool = True

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
        source = self.source_language
        recordings = self._recordings(root, split, self.target_language)
        talks = build_talks(recordings, source=source, target=self.target_language, limit=limit)
        for code in self.further_targets:
            others = _in_order(self._recordings(root, split, code), recordings)
            translated = build_talks(others, source=source, target=code, limit=limit)
            talks = [_with_targets(*pair) for pair in zip(talks, translated, strict=True)]
        return talks if self.whole else [_between_segments(talk) for talk in talks]

    def _recordings(self, root: Path, split: str, target: str) -> list[Recording]:
        """Return the recordings of one language pair."""
        source = self.source_language
        folder = _split_folder(root, split=split, pair=f"{source}-{target}")
        texts = folder / "txt"
        entries = read_entries(
            texts / f"{split}.yaml",
            audio=folder / "wav",
            transcripts=texts / f"{split}.{source}",
            translations=texts / f"{split}.{target}",
        )
        return by_audio(entries)


def _in_order(others: Sequence[Recording], recordings: Sequence[Recording]) -> list[Recording]:
    """Return the recordings of a pair in the order of another pair's.

    Raises:
        ZooError: one pair has a recording or a segment that the other one lacks.
    """
    by_name, names = {one.name: one for one in others}, {one.name for one in recordings}
    lost = [one for one in recordings if one.name not in by_name]
    lost += [one for one in others if one.name not in names]
    if lost:
        raise ZooError(
            f"{lost[0].where}: the recording {lost[0].name!r} is not in all folders of "
            "data.further_targets and the target language."
        )
    for one in recordings:
        first, second = (sorted(each.entries, key=_start) for each in (one, by_name[one.name]))
        for entry, other in zip(first, second, strict=False):
            if not _is_same(entry, other):
                raise ZooError(
                    f"{other.where}: the segment at {other.offset:.2f} s differs in times or "
                    f"transcript from the one of {entry.where}; data.further_targets needs the "
                    "same segments."
                )
        if len(first) != len(second):
            longer, count = max(first, second, key=len), min(len(first), len(second))
            raise ZooError(
                f"{longer[count].where}: another folder of data.further_targets lacks this segment."
            )
    return [by_name[one.name] for one in recordings]


def _start(entry: SegmentEntry) -> float:
    """Return the start of a segment in seconds."""
    return entry.offset


def _is_same(one: SegmentEntry, other: SegmentEntry) -> bool:
    """Return whether two entries have the same times and transcript."""
    times = (one.offset - other.offset, (one.duration or 0.0) - (other.duration or 0.0))
    return max(map(abs, times)) < SAME and one.source.split() == other.source.split()


def _with_targets(talk: Talk, other: Talk) -> Talk:
    """Return a talk whose segments also have the translations of another talk's."""
    pairs = zip(talk.segments, other.segments, strict=True)
    return replace(
        talk,
        segments=tuple(replace(one, targets={**one.targets, **two.targets}) for one, two in pairs),
    )


def _between_segments(talk: Talk) -> Talk:
    """Return a talk from the start of its first segment to the end of its last one."""
    start, end = talk.segments[0].offset, max(segment.end for segment in talk.segments)
    return replace(
        talk,
        offset=talk.offset + start,
        duration=end - start,
        segments=tuple(replace(one, offset=one.offset - start) for one in talk.segments),
    )


def _split_folder(root: Path, *, split: str, pair: str) -> Path:
    """Return the folder of a split. Raises ZooError if it does not exist."""
    base = root / pair if (root / pair).is_dir() else root
    if not (base / "data").is_dir():
        raise ZooError(
            f"MuST-C is not in {root}: it has no folder {pair}/data; "
            "download the corpus by hand and unpack it there."
        )
    splits = sorted(path.name for path in (base / "data").iterdir() if path.is_dir())
    if split not in splits:
        listed = ", ".join(splits) or "none"
        raise ZooError(f"MuST-C in {base} has no split {split!r}; it has: {listed}.")
    return base / "data" / split
