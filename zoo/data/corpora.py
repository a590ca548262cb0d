"""Corpora for configuration: each returns the talks of a split.

Nothing is read before ``talks`` is called. Readers that load audio are imported there as well: the
references of a recorded log need no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zoo.data import manifest
from zoo.data.talks import Segment, Talk, Target
from zoo.errors import ZooError
from zoo.formats.logs import LogFormat, read_log
from zoo.formats.references import read_references
from zoo.formats.text import read_lines
from zoo.languages import language


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
        name: name of the corpus.
    """

    folder: str | None
    name: str = "aligned"

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
        talks = manifest.read(path)[:limit]
        for talk in talks:
            for number, segment in enumerate(talk.segments):
                _check_alignment(segment, where=f"Segment {number} of talk {talk.name!r}")
        return talks


def _check_alignment(segment: Segment, *, where: str) -> None:
    """Raise ZooError unless every target word is aligned to existing source words."""
    for code, target in segment.targets.items():
        if len(target.words) != len(target.alignment):
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
