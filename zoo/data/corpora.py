"""Corpora for configuration: each returns the talks of a split.

Nothing is read before ``talks`` is called. Readers that load audio are imported there as well: the
references of a recorded log need no torch.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from zoo.data import manifest
from zoo.data.talks import Segment, Talk, Target
from zoo.errors import ZooError, check_choice
from zoo.formats.logs import LogFormat, read_log
from zoo.formats.references import read_references
from zoo.formats.text import read_lines
from zoo.languages import language

logger = logging.getLogger(__name__)


class Corpus(Protocol):
    """Interface of a corpus.

    Attributes:
        name: name of the corpus in ``results.json``.
    """

    name: str

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of a split in a fixed order.

        Args:
            split: name of the split.
            limit: number of talks from the start of the split (None: all talks).

        Raises:
            ZooError: the split is unknown, or files are missing or damaged.
        """


class MiniTalks:
    """The built-in corpus, synthesised on first use into the cache folder (``SIMULZOO_CACHE``)."""

    name = "minitalks"

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of train, dev or tst; see ``Corpus``."""
        from zoo.data.minitalks import corpus as minitalks

        return minitalks.build(split, talks=limit)


@dataclass(kw_only=True, eq=False)
class MustC:
    """A MuST-C folder in its published layout (Di Gangi et al., 2019).

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

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of train, dev, tst-COMMON or tst-HE; see ``Corpus``."""
        if self.root is None:
            raise ZooError(
                "data=mustc needs data.root, the folder of your MuST-C download "
                "(the one that contains en-de)."
            )
        from zoo.data import mustc

        return mustc.read(Path(self.root), split, self.source_language, self.target_language)[
            :limit
        ]


@dataclass(kw_only=True, eq=False)
class Aligned:
    """Talks with word alignments in ``<folder>/<split>.jsonl`` (``zoo.data.manifest``).

    Args:
        folder: folder of the manifests; ``talks`` raises ZooError for None and for alignments to
            words that do not exist.
        unaligned: what to do with segments without word times or without the alignment of a
            translation. ``refuse``: a training ends with an error that names the first one.
            ``skip``: trainings leave out their audio.
        name: name of the corpus.

    Raises:
        ZooError: ``unaligned`` is unknown.
    """

    folder: str | None
    unaligned: Literal["refuse", "skip"] = "refuse"
    name: str = "aligned"

    def __post_init__(self) -> None:
        check_choice("unaligned", self.unaligned, ("refuse", "skip"))

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of ``<split>.jsonl``; see ``Corpus``."""
        if self.folder is None:
            raise ZooError(
                "data=aligned needs data.folder, the folder with train.jsonl, dev.jsonl and so on."
            )
        path = Path(self.folder) / f"{split}.jsonl"
        if not path.is_file():
            splits = (
                ", ".join(sorted(file.stem for file in Path(self.folder).glob("*.jsonl"))) or "none"
            )
            raise ZooError(f"There is no split {split!r} in {self.folder}; it has: {splits}.")
        talks = manifest.read(path, limit=limit)
        for talk in talks:
            for number, segment in enumerate(talk.segments):
                _check_alignment(segment, where=f"Segment {number} of talk {talk.name!r}")
        return _without_unaligned(talks, path) if self.unaligned == "skip" else talks


def _without_unaligned(talks: Sequence[Talk], path: Path) -> list[Talk]:
    """Mark the segments without word times or alignment as not usable, and log their number."""
    marked = [
        replace(
            talk,
            segments=tuple(
                replace(segment, usable=segment.usable and _is_aligned(segment))
                for segment in talk.segments
            ),
        )
        for talk in talks
    ]
    segments = [segment for talk in marked for segment in talk.segments]
    left_out = [segment for segment in segments if not segment.usable]
    if left_out:
        logger.warning(
            "%s: trainings leave out %d of %d segments (%.1f minutes) without words or alignment",
            path,
            len(left_out),
            len(segments),
            sum(segment.duration for segment in left_out) / 60,
        )
    return marked


def _is_aligned(segment: Segment) -> bool:
    """Return whether a segment has word times and the alignment of all its translations."""
    return bool(segment.words) and all(
        bool(target.words) == bool(target.text) and len(target.alignment) == len(target.words)
        for target in segment.targets.values()
    )


def _check_alignment(segment: Segment, *, where: str) -> None:
    """Check the word alignments of a segment; only trainings refuse translations without one.

    Raises:
        ZooError: An alignment lacks target words or names source words that do not exist.
    """
    for code, target in segment.targets.items():
        if target.alignment and len(target.words) != len(target.alignment):
            raise ZooError(
                f"{where} has {len(target.words)} words in {code!r}, "
                f"but {len(target.alignment)} alignments."
            )
        for places in target.alignment:
            if any(not 0 <= place < len(segment.words) for place in places):
                raise ZooError(
                    f"{where} aligns {code!r} to word {max(places)} "
                    f"of {len(segment.words)} (from 0)."
                )


@dataclass(kw_only=True, eq=False)
class Recorded:
    """References of a recorded log, without audio.

    Args:
        segments: path of a YAML list of segments with offset, duration (seconds) and wav. Without
            it, each stream of ``log`` is one sentence.
        references: path of a text file with one line per segment. Without it and ``segments``,
            the references in the log are used, as SimulEval does.
        log: path of the log.
        source_language: code of the source language.
        target_language: code of the target language.
        name: name of the corpus.
        format: format of the log.
    """

    segments: str | None
    references: str | None
    log: str | None
    source_language: str
    target_language: str
    name: str = "recorded"
    format: LogFormat = "simuleval"

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the recordings of the segment list, or the streams of the log.

        The split only names the rows of results; see ``Corpus``.
        """
        talks = self._streams() if self.segments is None else self._recordings(self.segments)
        return talks[:limit]

    def _recordings(self, segments: str) -> list[Talk]:
        """Return one talk per recording of a segment list."""
        if self.references is None:
            raise ZooError(
                "data.segments needs data.references, a text file with one line per segment."
            )
        found = read_references(Path(segments), Path(self.references), target=self.target_language)
        return [self._talk(name, segments) for name, segments in found.items()]

    def _streams(self) -> list[Talk]:
        """Return one talk of one segment per stream of the log."""
        if self.log is None:
            raise ZooError(
                "data=recorded needs data.segments and data.references, or system=replay with "
                "system.log."
            )
        instances = read_log(
            Path(self.log), language=language(self.target_language), format=self.format
        )
        texts = [instance.reference for instance in instances]
        if self.references is not None:
            texts = read_lines(Path(self.references))
            if len(texts) != len(instances):
                raise ZooError(
                    f"{self.log} has {len(instances)} streams "
                    f"but {self.references} has {len(texts)} lines."
                )
        return [
            self._talk(
                one.talk,
                [Segment(0.0, one.source_length, "", targets={self.target_language: Target(text)})],
            )
            for one, text in zip(instances, texts, strict=True)
        ]

    def _talk(self, name: str, segments: Sequence[Segment]) -> Talk:
        """Return a talk without audio that ends with its last segment."""
        end = max(segment.end for segment in segments)
        return Talk(name, None, end, self.source_language, tuple(segments))
