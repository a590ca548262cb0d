"""What the tracker receives from an evaluation.

The keys are the same for one system and for a comparison, and their number does not depend on the
number of systems: a system and its latency setting are values, and not parts of keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from zoo.base.disk.run_folder import RESULTS
from zoo.base.types import Seconds
from zoo.formats.speech import mix_file
from zoo.runs import media
from zoo.runs.provenance import git_state
from zoo.runs.rows.groups import by_test_set, test_set_label
from zoo.runs.rows.matched import MatchedCurve
from zoo.runs.rows.names import DOCUMENTS, columns, find_entry, is_comet, main_score, table_kind
from zoo.runs.rows.row import Row
from zoo.runs.rows.streams import ReportStream
from zoo.runs.segment_table import segment_table
from zoo.runs.tracker import Tracker

# columns of the table of results before and after the scores
IDENTITY = ("system", "knob", "value", "kind", "data", "split", "direction")
STAGES_PREFIX = "RTF_"  # beginning of the names of the compute of a stage
ORIGIN = ("flags", "convention", "weights", "parameters", "commit")
MATCHED = (
    *("test set", "system", "baseline", "latency", "value", "quality"),
    *("score", "baseline score", "difference", "low", "high", "p"),
)
# qualities that have a chart over latency, as those of COMET do
MAIN_QUALITIES = (main_score("quality"), main_score("quality", "speech"))
CLIPS = 8  # target speech in W&B: the first talk of so many rows,
CLIP: Seconds = 30.0  # and of each its beginning

Lines = dict[str, list[tuple[float, float]]]  # points of each line of a chart


def log_row(tracker: Tracker, row: Row) -> None:
    """Log scores under keys such as ``tst/en-de/StreamLAAL``.

    W&B receives the scores of systems that the printed table shows, over their latency.

    Args:
        tracker: receives the scores.
        row: row of results.
    """
    tracker.log_scores(
        row.prefix,
        {**row.scores, **stage_scores(row)},
        labels={"system": row.system, "knob": row.knob_label},
        charted=table_scores(row) if row.kind == "system" else (),
        axis=latency(row),
    )


def log_comet(tracker: Tracker, rows: Sequence[Row]) -> None:
    """Log the COMET scores of all rows, which follow after the last row; see ``log_row``."""
    for row in rows:
        names = row.settings.comet
        scores = {
            name: value
            for name, value in row.scores.items()
            if name.removeprefix(DOCUMENTS) in names
        }
        axis = latency(row)
        log_row(tracker, replace(row, scores={axis: row.scores.get(axis), **scores}))


def log_results(
    tracker: Tracker,
    rows: Sequence[Row],
    streams: Sequence[ReportStream],
    *,
    folder: Path,
    plot: Path | None,
    page: Path,
) -> None:
    """Log the results of a finished evaluation.

    Args:
        tracker: receives tables, charts, media and files.
        rows: all rows.
        streams: streams of the rows.
        folder: run folder.
        plot: PNG of the curves (None: no row has a quality).
        page: HTML report.
    """
    commit = git_state()
    table = results_table(rows, commit="" if commit is None else commit.commit)
    tracker.log_media("results", partial(media.table, *table))
    for (x, y), lines in joint_curves(rows).items():
        tracker.log_media(f"curves/{y}", partial(media.curves, lines, x=x, y=y))
    tracker.log_media("hypotheses", partial(segment_table, rows, streams))
    if plot is not None:
        tracker.log_media("plot", partial(media.image, plot))
    tracker.log_media("report", partial(media.page, page))
    if spoken := speech(rows, streams, folder):
        tracker.log_media("speech", partial(media.clips, spoken, seconds=CLIP))
    tracker.log_summary(summary(rows))
    tracker.log_file(folder / RESULTS)


def log_matched(tracker: Tracker, curves: Sequence[MatchedCurve]) -> None:
    """Log the table of the systems at equal latency; nothing without any."""
    lines: list[list[object]] = [
        [
            test_set_label(curve.test_set),
            curve.system,
            curve.baseline,
            curve.latency,
            point.latency,
            curve.quality,
            point.quality,
            point.baseline,
            point.quality - point.baseline,
            *point.interval,
            point.p_value,
        ]
        for curve in curves
        for point in curve.points
    ]
    if lines:
        tracker.log_media("matched", partial(media.table, MATCHED, lines))


def stage_scores(row: Row) -> dict[str, float]:
    """Return the compute of each stage of a row by name, such as ``RTF_encoder``."""
    return {STAGES_PREFIX + stage: value for stage, value in row.stages.items()}


def table_scores(row: Row) -> list[str]:
    """Return the names of a row's scores that the printed table shows."""
    return [column.score for column in columns([row])]


def latency(row: Row) -> str:
    """Return the name of the latency on a horizontal axis."""
    return main_score("latency", table_kind(row))


def results_table(
    rows: Sequence[Row], *, commit: str
) -> tuple[tuple[str, ...], list[list[object]]]:
    """Return the names of the columns and the lines of the table of results.

    Args:
        rows: rows of results, also references.
        commit: git commit of the code.
    """
    scores = dict.fromkeys(name for row in rows for name in (*row.scores, *stage_scores(row)))
    values = [{**row.scores, **stage_scores(row)} for row in rows]
    lines: list[list[object]] = [
        [
            row.system,
            None if row.knob is None else row.knob.name,
            None if row.knob is None else float(row.knob.value),
            row.kind,
            row.data,
            row.split,
            f"{row.source_language}-{row.target_language}",
            *(found.get(name) for name in scores),
            "; ".join(row.flags),
            row.settings.convention,
            ", ".join(row.settings.weights.values()),
            row.settings.parameters,
            commit,
        ]
        for row, found in zip(rows, values, strict=True)
    ]
    return (*IDENTITY, *scores, *ORIGIN), lines


def joint_curves(
    rows: Sequence[Row],
) -> dict[tuple[str, str], dict[str, list[tuple[float, float]]]]:
    """Return the points of quality over latency of all systems.

    Args:
        rows: rows of results.

    Returns:
        By the names of latency and quality, the points of each system; with several test sets, a
        line is named by its system and its direction.
    """
    systems = [row for row in rows if row.kind == "system"]
    several = len({row.test_set for row in systems}) > 1
    charts: dict[tuple[str, str], Lines] = {}
    for row in systems:
        line = f"{row.system} ({row.prefix})" if several else row.system
        for quality in row.scores:
            if quality not in MAIN_QUALITIES and not is_comet(quality):
                continue
            is_speech = find_entry(quality).of == "speech"
            axis = main_score("latency", "speech") if is_speech else latency(row)
            x, y = row.scores.get(axis), row.scores[quality]
            if x is not None and y is not None:
                charts.setdefault((axis, quality), {}).setdefault(line, []).append((x, y))
    return charts


def summary(rows: Sequence[Row]) -> dict[str, float | str]:
    """Return the scores of the best row of each test set.

    The best row is the one with the highest BLEU (of speech, without text) among the rows of
    systems without a flag, or among all if each has one. Without references it is the first row.

    Args:
        rows: rows of results.

    Returns:
        The scores under the keys of ``log_row``, and the system and its setting as ``best``.
    """
    values: dict[str, float | str] = {}
    for group in by_test_set([row for row in rows if row.kind == "system"]).values():
        best = max(group, key=lambda row: (not row.flags, quality(row)))
        shown = {name: best.scores.get(name) for name in table_scores(best)}
        values |= {
            f"{best.prefix}/{name}": value for name, value in shown.items() if value is not None
        }
        values[f"{best.prefix}/best"] = best.label
    return values


def quality(row: Row) -> float:
    """Return the BLEU of a row, or that of its target speech; -1 without both."""
    values = [row.scores.get(name) for name in MAIN_QUALITIES]
    return next((value for value in values if value is not None), -1.0)


def speech(
    rows: Sequence[Row], streams: Sequence[ReportStream], folder: Path
) -> Mapping[str, Path]:
    """Return the stereo files of source and target speech of the first talk of the first rows.

    Args:
        rows: rows of results.
        streams: streams of the rows.
        folder: run folder.

    Returns:
        The paths by caption.
    """
    found: dict[str, Path] = {}
    for stream in streams:
        row = rows[stream.row]
        path = (folder / row.instances).parent / mix_file(stream.instance.talk)
        if stream.instance.speech and path.is_file() and len(found) < CLIPS:
            found.setdefault(row.label, path)
    return {f"{name}: source left, target right": path for name, path in found.items()}
