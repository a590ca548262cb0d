"""Texts and COMET scores of rows: segments, and whole talks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.progress import show_progress
from zoo.formats.text import Record
from zoo.metrics.comet.scorer import Comet, CometModel, Text
from zoo.metrics.signature import Score, signature
from zoo.runs.rows.row import TalkScores
from zoo.runs.rows.segments import ScoredSegment

MEAN = "COMET_MEAN"  # mean of several models, as InfiniSST's paper reports XCOMET-XL and -XXL


def score_names(models: Sequence[CometModel]) -> dict[str, str]:
    """Return the names of the models by the names of their scores, and of their mean if several."""
    names = {model.score: model.name for model in models}
    return names | {MEAN: " + ".join(names.values())} if len(names) > 1 else names


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Texts of a row.

    Attributes:
        segments: all segments, talk after talk.
        talks: name of the talk of each segment.
        documents: text of each whole talk, by its name; empty for offline output.
    """

    segments: Sequence[Text]
    talks: Sequence[str]
    documents: Mapping[str, Text]

    @classmethod
    def of(
        cls,
        segments: Sequence[ScoredSegment],
        outputs: Mapping[str, str],
        *,
        source: Language,
        target: Language,
    ) -> "RowTexts":
        """Join the segments of each talk to a document.

        Args:
            segments: all segments, talk after talk.
            outputs: whole output for each talk, by its name; empty: no documents.
            source: source language.
            target: target language.

        Raises:
            ZooError: a talk has no source text.
        """
        texts = [Text(one.source, one.hypothesis, one.reference) for one in segments]
        talks = [segment.talk for segment in segments]
        parts: dict[str, list[Text]] = {}
        for talk, text in zip(talks, texts, strict=True):
            parts.setdefault(talk, []).append(text)
        if texts and not any(text.source.strip() for text in texts):
            raise no_source(talks[0])
        documents = {
            talk: Text(
                source.join(text.source.strip() for text in parts[talk]),
                output.strip(),
                target.join(text.reference.strip() for text in parts[talk]),
            )
            for talk, output in outputs.items()
        }
        return cls(texts, talks, documents)


@dataclass(frozen=True, slots=True)
class RowScores:
    """COMET scores of a row, by the name of the score.

    Attributes:
        segments: score of each segment.
        documents: score of each whole talk, by the name of the talk.
        talks: mean over the segments of each talk, by the name of the talk.
    """

    segments: dict[str, list[float]]
    documents: dict[str, dict[str, float]]
    talks: dict[str, dict[str, float]]

    def scores(self, models: Sequence[CometModel], resegmentation: str | None) -> dict[str, Score]:
        """Return the scores of the row: the means over segments, and over talks with ``Doc``.

        Args:
            models: the models.
            resegmentation: how the output was assigned to segments, for the signature.
        """
        facts: dict[str, dict[str, str | bool | None]] = {
            model.score: {
                "model": model.name,
                "files": model.fingerprint[:12],
                "reference": model.reference,
                "unbabel-comet": model.version,
            }
            for model in models
        }
        if MEAN in self.segments:
            facts[MEAN] = {"models": score_names(models)[MEAN], "unbabel-comet": models[0].version}
        found: dict[str, Score] = {}
        for name, own in facts.items():
            signed = signature(name, **own, reseg=resegmentation)
            found[name] = Score(name, fmean(self.segments[name]), signed)
            if documents := list(self.documents[name].values()):
                whole = f"Doc{name}"
                found[whole] = Score(whole, fmean(documents), signature(whole, **own))
        return found

    def added_to(self, talks: Sequence[TalkScores]) -> tuple[TalkScores, ...]:
        """Return the scores of talks, with those of COMET."""
        return tuple(
            TalkScores(talk.talk, talk.seconds, talk.scores | self._of_talk(talk.talk))
            for talk in talks
        )

    def _of_talk(self, talk: str) -> dict[str, float | None]:
        """Return the scores of a single talk."""
        scores: dict[str, float | None] = {}
        for prefix, found in (("", self.talks), ("Doc", self.documents)):
            scores |= {prefix + name: values.get(talk) for name, values in found.items()}
        return scores


def score_rows(comet: Comet, rows: Sequence[RowTexts]) -> list[RowScores]:
    """Score the segments and documents of all rows in one process.

    Raises ZooError if the process stops.
    """
    texts = [text for row in rows for text in (*row.segments, *row.documents.values())]
    scored = dict(comet.score(texts, _shown))
    if len(scored) > 1:
        scored[MEAN] = [fmean(values) for values in zip(*scored.values(), strict=True)]
    found: list[RowScores] = []
    start = 0
    for row in rows:
        middle, end = start + len(row.segments), start + len(row.segments) + len(row.documents)
        segments = {name: values[start:middle] for name, values in scored.items()}
        found.append(
            RowScores(
                segments=segments,
                documents={
                    name: dict(zip(row.documents, values[middle:end], strict=True))
                    for name, values in scored.items()
                },
                talks={name: _means(row.talks, values) for name, values in segments.items()},
            )
        )
        start = end
    return found


def _means(talks: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Return the mean over the segments of each talk."""
    by_talk: dict[str, list[float]] = {}
    for talk, value in zip(talks, values, strict=True):
        by_talk.setdefault(talk, []).append(value)
    return {talk: fmean(found) for talk, found in by_talk.items()}


def no_source(talk: str) -> ZooError:
    """Return the error of a talk without source text."""
    return ZooError(
        f"COMET reads the source text, and talk {talk!r} has none "
        "(data=recorded takes it from data.sources)."
    )


def _shown(lines: Iterable[Record], total: int) -> Iterator[Record]:
    """Yield scored lines and show how many of them are done."""
    return show_progress(lines, total=total, title="COMET")
