"""A system x talks -> streams -> scores -> rows. Knows no Hydra and no logger."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from zoo.data.talks import Talk
from zoo.data.views import sentences
from zoo.errors import ZooError, unknown_choice
from zoo.evaluation.heard import Heard, Listeners, SpeechScorer
from zoo.evaluation.recorded import InstanceSource, matched
from zoo.evaluation.references import wait_k_oracle
from zoo.evaluation.sources import reference_segments, sources
from zoo.files import write_text
from zoo.formats.simuleval import write_log
from zoo.formats.speech import unloaded, write_speech
from zoo.languages import Language
from zoo.metrics.flags import flags
from zoo.metrics.longform import ScoredSegment, score_talks
from zoo.metrics.resegment import Resegmentation
from zoo.metrics.rules import find_rules
from zoo.metrics.sentences import score_sentences
from zoo.metrics.signature import Score
from zoo.progress import audio_progress
from zoo.recognisers.base import Recogniser
from zoo.report.payload import ReportSegment, ReportStream
from zoo.report.results import KnobValue, Row, write_rows
from zoo.streaming.simulate import simulate
from zoo.systems.base import StreamingSystem
from zoo.types import Convention, Instance, Samples

RowKind = Literal["system", "ceiling", "oracle"]
View = Literal["talks", "segments"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to evaluate.

    split, talks: which talks (None: all of the split). view: whole recordings, or their reference segments one by one.
    knob_values: None takes the system's own list. batch_size: streams in lockstep. upper_bound: a row that hears each
    segment whole before it writes. rules: whose counting (``zoo.metrics.rules``). oracle_k: rows of a gold-word wait-k
    oracle (needs word times). recogniser: what hears systems that speak (None: their speech is not scored by its
    words). utmos: path of a network that judges how natural it sounds (``zoo/metrics/naturalness.py``).
    """

    split: str = "tst"
    talks: int | None = None
    view: View = "talks"
    knob_values: Sequence[float] | None = None
    batch_size: int = 1
    convention: Convention = "queue"
    resegmentation: Resegmentation = "mwer"
    rules: str = "zoo"
    upper_bound: bool = True
    oracle_k: Sequence[int] = (3, 5, 7)
    recogniser: Recogniser | None = None
    utmos: str | None = None

    def __post_init__(self) -> None:
        for noun, value, choices in (
            ("view", self.view, get_args(View)),
            ("elapsed convention", self.convention, get_args(Convention)),
            ("re-segmentation", self.resegmentation, get_args(Resegmentation)),
        ):
            if value not in choices:
                raise unknown_choice(noun, value, choices)
        find_rules(self.rules)
        for name, counts in (
            ("batch_size", [self.batch_size]),
            ("talks", [self.talks]),
            ("oracle_k", self.oracle_k),
        ):
            for count in counts:
                if count is not None and count < 1:
                    raise ZooError(f"evaluation.{name} must be at least 1, not {count}.")
        if self.knob_values is not None and not self.knob_values:
            raise ZooError(
                "evaluation.knob_values is empty; name at least one value, or null for the system's own."
            )


def knob_values(system: StreamingSystem, settings: Settings) -> Sequence[float | None]:
    """The knob's settings to evaluate (None: there is no knob). Raises ZooError for one that the system cannot take."""
    given = settings.knob_values
    if system.knob is None:
        if given is not None:
            raise ZooError(
                f"System {system.name!r} has no latency knob; leave evaluation.knob_values out."
            )
        return [None]
    values = list(system.knob.values if given is None else given)
    if not values:
        raise ZooError(
            f"The knob {system.knob.name!r} of system {system.name!r} has no values; name at least one."
        )
    for value in values:
        system.check_knob(value)
    return values


@dataclass
class Evaluation:
    """Rows of one or more systems and, for the report, every stream of every row."""

    rows: list[Row] = field(default_factory=list)
    streams: list[ReportStream] = field(default_factory=list)


class Evaluator:
    """Evaluates systems on the same talks and keeps the run folder up to date after every row.

    corpus: its name. talks: recordings with references. folder: where logs and ``results.json`` go. listeners: who
    hears what systems say (None: nobody).
    """

    def __init__(
        self,
        *,
        corpus: str,
        talks: Sequence[Talk],
        settings: Settings,
        folder: Path,
        listeners: Listeners | None = None,
    ) -> None:
        self.corpus = corpus
        self.settings = settings
        self.folder = folder
        self.talks = viewed(talks, settings)
        self.evaluation = Evaluation()
        self.listeners = listeners or Listeners()
        self._speech = SpeechScorer(self.listeners, talks, settings.resegmentation, settings.rules)

    def run(
        self, system: StreamingSystem | InstanceSource, *, upper_bound: bool = True
    ) -> Iterator[Row]:
        """A row per knob setting, then the system's upper bound; one row for what is recorded. Raises ZooError.

        upper_bound: false where the same network has been heard whole under another policy: it would say the same.
        """
        if isinstance(system, StreamingSystem):
            yield from self._knob_rows(system)
            if upper_bound and self.settings.upper_bound:
                yield self._upper_bound(system)
            return
        instances, talks = matched(system, self.talks, all_streams=self.settings.talks is None)
        row = self._row(system.name, None, system.source_language, system.target_language)
        yield self._scored(row, instances, talks, system.target_language, speaking=speaks(system))

    def _knob_rows(self, system: StreamingSystem) -> Iterator[Row]:
        system.eval()
        for value in knob_values(system, self.settings):
            if value is not None:
                system.turn_knob(value)
            knob = (
                None if value is None or system.knob is None else KnobValue(system.knob.name, value)
            )
            name = system.name if knob is None else f"{system.name} {knob.name}={knob.value:g}"
            instances = self._stream(system, self.talks, name, chunk_samples=system.chunk_samples)
            row = self._row(system.name, knob, system.source_language, system.target_language)
            yield self._scored(
                row, instances, self.talks, system.target_language, speaking=speaks(system)
            )

    def _upper_bound(self, system: StreamingSystem) -> Row:
        whole = sentences(self.talks) if self.settings.view == "talks" else self.talks
        instances = self._stream(system, whole, f"{system.name} offline", chunk_samples=None)
        row = self._row(
            f"{system.name} offline",
            None,
            system.source_language,
            system.target_language,
            "ceiling",
        )
        return self._ceiling(row, instances, whole, system.target_language, speaking=speaks(system))

    def oracles(self, target: Language, source: Language) -> Iterator[Row]:
        """The wait-k oracle's rows; none on talks without word times."""
        if not all(segment.words for talk in self.talks for segment in talk.segments):
            return
        for k in self.settings.oracle_k:
            instances = wait_k_oracle(self.talks, target, k)
            row = self._row("wait-k oracle", KnobValue("k", k), source, target, "oracle")
            yield self._scored(row, instances, self.talks, target)

    def _row(
        self,
        system: str,
        knob: KnobValue | None,
        source: Language,
        target: Language,
        kind: RowKind = "system",
    ) -> Row:
        """A row that waits for its scores."""
        return Row(
            system,
            knob,
            data=self.corpus,
            split=self.settings.split,
            source_language=source.code,
            target_language=target.code,
            scores={},
            signatures={},
            instances="",
            kind=kind,
        )

    def _stream(
        self,
        system: StreamingSystem,
        talks: Sequence[Talk],
        name: str,
        *,
        chunk_samples: Samples | None,
    ) -> list[Instance]:
        streams = sources(talks, system.target_language, chunk_samples=chunk_samples)
        with audio_progress(name, sum(talk.duration for talk in talks)) as report:
            done = simulate(system, streams, batch_size=self.settings.batch_size, on_chunk=report)
            return sorted(done, key=lambda instance: instance.index)

    def _scored(
        self,
        row: Row,
        instances: list[Instance],
        talks: Sequence[Talk],
        target: Language,
        *,
        speaking: bool = False,
    ) -> Row:
        references = [reference_segments(talk, target) for talk in talks]
        result = score_talks(
            instances,
            references,
            language=target,
            convention=self.settings.convention,
            resegmentation=self.settings.resegmentation,
            rules=self.settings.rules,
            speaking=speaking,
        )
        scores = dict(result.scores)
        if all(
            len(segments) == 1 for segments in references
        ):  # each stream is a sentence: sentence metrics hold too
            texts = [segment.text for (segment,) in references]
            scores |= self._sentence_scores(instances, texts, target, speaking=speaking)
        wanted = [[segment.text for segment in segments] for segments in references]
        heard = self._speech.score(instances, wanted, target) if speaking else Heard({})
        scores |= heard.scores
        problems = flags(instances, scores, speaking=speaking) if row.kind == "system" else ()
        return self._keep(
            row,
            instances,
            talks,
            scores,
            transcripts=heard.transcripts,
            flagged=tuple(problems),
            segments=result.segments,
        )

    def _ceiling(
        self,
        row: Row,
        instances: list[Instance],
        talks: Sequence[Talk],
        target: Language,
        *,
        speaking: bool,
    ) -> Row:
        texts = [
            target.join(segment.text for segment in reference_segments(talk, target))
            for talk in talks
        ]
        scores = self._sentence_scores(instances, texts, target, speaking=speaking)
        quality = {name: score for name, score in scores.items() if name in ("BLEU", "chrF")}
        heard = (
            self._speech.score(instances, [[text] for text in texts], target)
            if speaking
            else Heard({})
        )
        return self._keep(
            row, instances, talks, quality | heard.scores, transcripts=heard.transcripts
        )

    def _sentence_scores(
        self,
        instances: Sequence[Instance],
        texts: Sequence[str],
        target: Language,
        *,
        speaking: bool,
    ) -> dict[str, Score]:
        convention, rules = self.settings.convention, self.settings.rules
        return score_sentences(
            instances, texts, language=target, convention=convention, rules=rules, speaking=speaking
        )

    def _keep(
        self,
        row: Row,
        instances: list[Instance],
        talks: Sequence[Talk],
        scores: dict[str, Score],
        *,
        transcripts: Sequence[str],
        flagged: tuple[str, ...] = (),
        segments: Sequence[ScoredSegment] | None = None,
    ) -> Row:
        """Write the row's files, add it and rewrite ``results.json``: a run that is stopped keeps what it has."""
        place = len(self.evaluation.rows)
        log = Path("instances") / f"{place:02d}-{_slug(row)}" / "instances.log"
        write_files(self.folder / log, instances, talks, transcripts)
        row = replace(
            row,
            scores={name: score.value for name, score in scores.items()},
            signatures={name: score.signature for name, score in scores.items()},
            instances=str(log),
            flags=flagged,
            settings={
                "batch_size": self.settings.batch_size,
                "convention": convention_of(instances, self.settings.convention),
                "resegmentation": self.settings.resegmentation,
                "rules": self.settings.rules,
                "view": self.settings.view,
                "talks": len(talks),
            },
        )
        self.evaluation.rows.append(row)
        if segments is not None:
            shown = [unloaded(instance) for instance in instances]  # an hour of speech is 230 MB
            self.evaluation.streams += report_streams(place, shown, talks, segments)
        write_rows(self.evaluation.rows, self.folder / "results.json")
        return row


def write_files(
    log: Path, instances: Sequence[Instance], talks: Sequence[Talk], transcripts: Sequence[str]
) -> None:
    """Write the log, target speech beside it, and what a recogniser heard: a line per talk, its name, a tab, words."""
    log.parent.mkdir(parents=True, exist_ok=True)
    write_log(log, instances)
    write_speech(log.parent, instances, talks)
    if transcripts:
        lines = [f"{one.talk}\t{text}\n" for one, text in zip(instances, transcripts, strict=True)]
        write_text(log.with_name("heard.txt"), "".join(lines))


def report_streams(
    row: int,
    instances: Sequence[Instance],
    talks: Sequence[Talk],
    segments: Sequence[ScoredSegment],
) -> Iterator[ReportStream]:
    """What the page shows of each talk of a row; ``segments`` come talk after talk."""
    remaining = iter(segments)
    for instance, talk in zip(instances, talks, strict=True):
        shown = tuple(
            ReportSegment(
                scored.offset, scored.duration, segment.source, scored.reference, scored.hypothesis
            )
            for segment, scored in zip(talk.segments, remaining, strict=False)
        )
        yield ReportStream(row, instance, talk, shown)


def speaks(system: StreamingSystem | InstanceSource) -> bool:
    """Whether target speech is to be expected. Raises ZooError for a recording that cannot be read."""
    if isinstance(system, StreamingSystem):
        return system.synthesizer is not None
    return any(instance.speech for instance in system.instances())


def viewed(talks: Sequence[Talk], settings: Settings) -> list[Talk]:
    """Whole recordings, or one talk per reference segment."""
    return list(talks) if settings.view == "talks" else sentences(talks)


def convention_of(instances: Sequence[Instance], wanted: Convention) -> Convention | None:
    """Under which convention computation-aware scores stand: ``wanted`` where there are chunk times, else as logged.

    None: no elapsed times are known.
    """
    if any(instance.chunks for instance in instances):
        return wanted
    return next((instance.convention for instance in instances if instance.elapsed), None)


def _slug(row: Row) -> str:
    """A folder's name: a system may be called anything, also ``a/b``."""
    knob = "" if row.knob is None else f"-{row.knob.name}{row.knob.value:g}"
    return re.sub(r"[^\w.=+-]+", "-", f"{row.system}{knob}")
