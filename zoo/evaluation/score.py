"""From the streams of a run folder to its rows: scores, segments, logs for other tools.

Whatever streamed - a system on one or many ranks, a recorded log, an oracle - has written the
streams of its row to the row's folder (``zoo.runs.rows.store``). Everything after that is computed
here, from these files.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from zoo.base.disk.run_folder import RESULTS
from zoo.base.languages import language as find_language
from zoo.base.talks import Talk
from zoo.base.types import Convention, Instance
from zoo.evaluation.comet import with_comet
from zoo.evaluation.compute import compute_facts, stage_parts
from zoo.evaluation.matched import match_latencies
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.segments import offline_segments, write_segment_files
from zoo.evaluation.settings import Settings, resampling
from zoo.evaluation.significance import with_significance
from zoo.evaluation.talks import has_references
from zoo.formats.speech import without_samples
from zoo.metrics.comet.scorer import Comet
from zoo.metrics.latency import SegmentLatency
from zoo.metrics.sums import SummedMetric
from zoo.runs.rows.files import report_streams, write_files
from zoo.runs.rows.matched import MatchedCurve, write_matched
from zoo.runs.rows.regimes import with_regimes
from zoo.runs.rows.row import Row, write_rows
from zoo.runs.rows.segments import ScoredSegment, write_spoken_segments
from zoo.runs.rows.settings import Better, MetricFacts, RowSettings
from zoo.runs.rows.store import StreamStore
from zoo.runs.rows.streams import ReportStream, write_talks


class ScoredRun:
    """The rows of a run folder, whose ``results.json`` is complete after every row.

    Args:
        folder: run folder.
        talks: talks of the run.
        scorer: scores the streams.

    Attributes:
        rows: rows that are scored so far.
        streams: streams of every row, for the report.
        matched: the systems at equal latency; empty without a test of significance.
        scorer: scores the streams.
    """

    def __init__(self, folder: Path, *, talks: Sequence[Talk], scorer: Scorer) -> None:
        self.folder = folder
        self.rows: list[Row] = []
        self.streams: list[ReportStream] = []
        self.matched: list[MatchedCurve] = []
        self.scorer = scorer
        self._talks = talks

    @property
    def settings(self) -> Settings:
        """The settings of the evaluation."""
        return self.scorer.settings

    def score(
        self,
        row: Row,
        talks: Sequence[Talk],
        *,
        with_speech: bool = False,
    ) -> Row:
        """Score the streams of a row and write its files and ``results.json``.

        Args:
            row: row without scores; its folder has a stream per talk. The settings of a row that
                was streamed in this run have the number of ranks. Flags of a row are kept.
            talks: talks of the row.
            with_speech: whether the system has target speech.

        Returns:
            The row with its scores.

        Raises:
            ZooError: the streams on disk are damaged.
        """
        folder = (self.folder / row.instances).parent
        instances = list(StreamStore(folder).read().values())
        target = find_language(row.target_language)
        is_offline, is_referenced = row.kind == "ceiling", has_references(talks)
        if is_offline:
            scored = self.scorer.offline(instances, talks, target, with_speech=with_speech)
            segments: Sequence[ScoredSegment] = offline_segments(talks, instances, language=target)
        else:
            scored = self.scorer.streamed(
                instances,
                talks,
                target,
                with_speech=with_speech,
                check_health=row.kind == "system",
            )
            segments = scored.segments or ()
        row = replace(
            row,
            scores={name: score.value for name, score in scored.scores.items()},
            signatures={name: score.signature for name, score in scored.scores.items()},
            flags=(*row.flags, *scored.flags),
            talks=scored.talks,
            stages=stage_parts(instances),
            settings=replace(
                row_settings(row, self.settings, instances, talks), segments=len(segments)
            ),
        )
        write_files(self.folder / row.instances, instances, talks, scored.transcripts)
        write_segment_files(folder, talks, segments, referenced=is_referenced)
        write_spoken_segments(folder, scored.spoken)
        if not self.rows:
            write_talks(self.folder, self._talks)
        if not is_offline:
            # The report needs no samples of target speech, and an hour of speech has 230 MB.
            silent = [without_samples(instance) for instance in instances]
            self.streams += report_streams(
                len(self.rows), silent, talks, segments, spoken=scored.spoken
            )
        self.rows.append(row)
        self._write_rows()
        return self.rows[-1]

    def add_comet(self, comet: Comet) -> None:
        """Add COMET scores to all rows. Raises ZooError if the COMET process stops."""
        logs = [self.folder / row.instances for row in self.rows]
        self.rows = with_comet(self.rows, logs, comet)
        self._write_rows()

    def add_significance(self) -> None:
        """Add the intervals and tests of the settings to all rows, and compare the systems.

        Does nothing without tests.

        Raises ZooError if the settings name a baseline that no row has.
        """
        wanted = resampling(self.settings)
        if wanted is not None:
            baseline = self.settings.baseline
            self.rows = with_significance(self.rows, self.folder, wanted, baseline=baseline)
            self._write_rows()
            self.matched = match_latencies(self.rows, self.folder, wanted, baseline=baseline)
            write_matched(self.folder, self.matched)

    def _write_rows(self) -> None:
        self.rows = with_regimes(self.rows)
        write_rows(self.rows, self.folder / RESULTS)


def row_settings(
    row: Row, settings: Settings, instances: Sequence[Instance], talks: Sequence[Talk]
) -> RowSettings:
    """Return the settings of a row, with those of the evaluation on which its scores depend.

    Args:
        row: row without scores.
        settings: settings of the evaluation.
        instances: streams of the row.
        talks: talks of the row.
    """
    is_referenced = has_references(talks)
    metrics = settings.metrics.items() if is_referenced else ()
    return replace(
        row.settings,
        batch_size=row.settings.batch_size or settings.batch_size,
        convention=convention_of(instances, settings.convention),
        resegmentation=settings.resegmentation,
        encoder=settings.resegmenter.encoder_name,
        rules=settings.rules,
        view=settings.view,
        talks=len(talks),
        metrics={name: metric_facts(metric) for name, metric in metrics},
        references=is_referenced,
        compute=None if row.settings.ranks is None else compute_facts(instances),
    )


def metric_facts(metric: SummedMetric) -> MetricFacts:
    """Return how a metric of the configuration is shown."""
    better: dict[bool | None, Better | None] = {True: "higher", False: "lower", None: None}
    return MetricFacts(
        axis="latency" if isinstance(metric, SegmentLatency) else "quality",
        unit=metric.unit,
        digits=metric.digits,
        better=better[metric.higher_is_better],
    )


def convention_of(instances: Sequence[Instance], wanted: Convention) -> Convention | None:
    """Return the elapsed convention of computation-aware scores.

    Args:
        instances: streams of one row.
        wanted: configured convention.

    Returns:
        ``wanted`` if the streams have chunk times; otherwise the convention of the recorded log, or
        None for a log without elapsed times.
    """
    if any(instance.chunks for instance in instances):
        return wanted
    return next((instance.convention for instance in instances if instance.elapsed), None)
