"""The interface of corpora, and the corpora in formats of the zoo.

``zoo.data.readers`` has those in the layouts of others. Nothing is read before ``talks`` is called.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from zoo.base.errors import ZooError, check_choice
from zoo.base.languages import language
from zoo.base.talks import LazyTalks, Segment, Talk, Target
from zoo.data import manifest
from zoo.data.readers.entries import optional
from zoo.formats.logs import LogFormat, read_segments
from zoo.formats.references import read_references
from zoo.formats.segment_order import in_order
from zoo.formats.text import read_lines

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


@runtime_checkable
class StoredCorpus(Corpus, Protocol):
    """Interface of a corpus whose training talks may be decoded when they are needed.

    Attributes:
        lazy: whether trainings use ``stored_talks``.
    """

    lazy: bool

    def stored_talks(self, split: str) -> LazyTalks:
        """Return the usable parts of the talks of a split, which are decoded when they are needed.

        Raises:
            ZooError: the split is unknown, damaged or without segments.
        """


class MiniTalks:
    """The built-in corpus, synthesised on first use into the cache folder (``SIMULZOO_CACHE``)."""

    name = "minitalks"

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of a split of ``zoo.data.minitalks``; see ``Corpus``."""
        from zoo.data.minitalks import corpus as minitalks

        return minitalks.build(split, talks=limit)


@dataclass(kw_only=True, eq=False)
class Aligned:
    """Talks with word alignments in ``<folder>/<split>.jsonl`` (``zoo.data.manifest``).

    Args:
        folder: folder of the manifests; ``talks`` raises ZooError for None and for manifests with
            impossible values.
        unaligned: what to do with segments without word times or without the alignment of a
            translation. ``refuse``: a training ends with an error that names the first one.
            ``skip``: trainings leave out their audio.
        lazy: whether trainings decode talks when they need them, for corpora of thousands of hours.
            They read the durations from an index of the manifest, which the first one writes
            (``zoo.data.manifest_index``). Labels, such as phonemes, are left out.
        name: name of the corpus.

    Raises:
        ZooError: ``unaligned`` is unknown.
    """

    folder: str | None
    unaligned: Literal["refuse", "skip"] = "refuse"
    lazy: bool = False
    name: str = "aligned"

    def __post_init__(self) -> None:
        check_choice("unaligned", self.unaligned, ("refuse", "skip"))

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the talks of ``<split>.jsonl``; see ``Corpus``."""
        path = self._manifest(split)
        talks = manifest.read(path, limit=limit)
        return _without_unaligned(talks, path) if self.unaligned == "skip" else talks

    def stored_talks(self, split: str) -> LazyTalks:
        """Return the usable parts of the talks of a split; see ``StoredCorpus``."""
        from zoo.data.lazy_manifest import StoredTalks

        path = self._manifest(split)
        mark_unusable = _marked if self.unaligned == "skip" else _unchanged
        talks = StoredTalks(path, unaligned=self.unaligned, mark_unusable=mark_unusable)
        description = talks.description
        if description.left_out:
            logger.warning(
                "%s: trainings leave out %d of %d segments",
                path,
                description.left_out,
                description.segments,
            )
        return talks

    def _manifest(self, split: str) -> Path:
        """Return the path of the manifest of a split. Raises ZooError if there is none."""
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
        return path


def training_talks(corpus: Corpus, split: str, *, limit: int | None = None) -> Sequence[Talk]:
    """Return the talks of a split for a training; see ``Corpus.talks``.

    Those of a lazy corpus are decoded when they are needed. A limit reads the first talks whole.
    """
    if isinstance(corpus, StoredCorpus) and corpus.lazy and limit is None:
        return corpus.stored_talks(split)
    return corpus.talks(split, limit=limit)


def _without_unaligned(talks: Sequence[Talk], path: Path) -> list[Talk]:
    """Mark the segments without word times or alignment as not usable, and log their number."""
    marked = [_marked(talk) for talk in talks]
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


def _marked(talk: Talk) -> Talk:
    """Mark the segments of a talk without word times or alignment as not usable."""
    segments = tuple(
        replace(segment, usable=segment.usable and _is_aligned(segment))
        for segment in talk.segments
    )
    return replace(talk, segments=segments)


def _unchanged(talk: Talk) -> Talk:
    return talk


def _is_aligned(segment: Segment) -> bool:
    """Return whether a segment has word times and the alignment of all its translations."""
    return bool(segment.words) and all(
        bool(target.words) == bool(target.text) and len(target.alignment) == len(target.words)
        for target in segment.targets.values()
    )


@dataclass(kw_only=True, eq=False)
class Recorded:
    """References of a recorded log, without audio.

    Args:
        segments: path of a YAML list of segments with offset, duration (seconds) and wav. Without
            it, each stream of ``log`` is one sentence, or has the segments that the log has
            (streamuni).
        references: path of a text file with one line per segment. Without it and ``segments``,
            the references in the log are used, as SimulEval does.
        log: path of the log.
        source_language: code of the source language.
        target_language: code of the target language.
        name: name of the corpus.
        format: format of the log.
        sources: path of a text file with the source text of each segment or stream, for COMET and
            error rates of transcripts.
    """

    segments: str | None
    references: str | None
    log: str | None
    source_language: str
    target_language: str
    name: str = "recorded"
    format: LogFormat = "simuleval"
    sources: str | None = None

    def talks(self, split: str, *, limit: int | None = None) -> Sequence[Talk]:
        """Return the recordings of the segment list, or the streams of the log.

        The split only names the rows of results; see ``Corpus``.
        """
        for key in ("segments", "references", "log", "sources"):
            optional(getattr(self, key), corpus="recorded", key=key)  # raises ZooError for ""
        talks = self._streams() if self.segments is None else self._recordings(self.segments)
        return talks[:limit]

    def _recordings(self, segments: str) -> list[Talk]:
        """Return one talk per recording of a segment list."""
        if self.references is None:
            raise ZooError(
                "data.segments needs data.references, a text file with one line per segment."
            )
        references = read_references(
            Path(segments),
            Path(self.references),
            target=self.target_language,
            sources=None if self.sources is None else Path(self.sources),
        )
        return [self._talk(name, segments) for name, segments in references.items()]

    def _streams(self) -> list[Talk]:
        """Return one talk per stream of the log, with the segments that the log has."""
        if self.log is None:
            raise ZooError(
                "data=recorded needs data.segments and data.references, or system=replay with "
                "system.log."
            )
        streams = read_segments(
            Path(self.log), language=language(self.target_language), format=self.format
        )
        count = sum(len(segments) for _, segments in streams)
        unit = "streams" if count == len(streams) else "segments"
        sources, references = (
            self._lines(path, count, unit) for path in (self.sources, self.references)
        )
        talks: list[Talk] = []
        for name, segments in streams:
            where = f"{self.log}: talk {name!r}"
            listed = [
                (self._segment(one, next(sources), next(references)), where) for one in segments
            ]
            talks.append(self._talk(name, in_order(listed, where)))
        return talks

    def _lines(self, path: str | None, count: int, unit: str) -> Iterator[str | None]:
        """Yield the lines of a text file, or None for ever without a file.

        Raises:
            ZooError: the file has another number of lines than the log has streams or segments.
        """
        if path is None:
            return repeat(None)
        lines = read_lines(Path(path))
        if len(lines) != count:
            raise ZooError(f"{self.log} has {count} {unit} but {path} has {len(lines)} lines.")
        return iter(lines)

    def _segment(self, segment: Segment, source: str | None, reference: str | None) -> Segment:
        """Return a segment of the log with other texts; None: those of the log."""
        source = segment.source if source is None else source
        targets = segment.targets
        if reference is not None:
            targets = {self.target_language: Target(reference)}
        return replace(segment, source=source, targets=targets)

    def _talk(self, name: str, segments: Sequence[Segment]) -> Talk:
        """Return a talk without audio that ends with its last segment."""
        end = max(segment.end for segment in segments)
        return Talk(name, None, end, self.source_language, tuple(segments))
