"""Compares the systems of finished rows at equal latency, from the segments on disk."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from zoo.evaluation.significance import SUFFIXES, is_named, quality_metrics, segments_of_row
from zoo.metrics.matched import (
    Counts,
    DrawnRow,
    Values,
    common_latencies,
    difference_at,
    draw_counts,
    mean_of_draws,
    outside_rows,
    quality_of_draws,
)
from zoo.metrics.significance import Resampling
from zoo.runs.rows.groups import by_system, by_test_set
from zoo.runs.rows.matched import MatchedCurve, MatchedPoint, OutsideRow
from zoo.runs.rows.names import comet_scores, main_score
from zoo.runs.rows.row import Row, TestSet
from zoo.runs.rows.segments import ScoredSegment

LATENCY = main_score("latency")  # a score of segments, of which that of a row is the mean


def match_latencies(
    rows: Sequence[Row], folder: Path, resampling: Resampling, *, baseline: str | None = None
) -> list[MatchedCurve]:
    """Compare each system with the baseline at the latencies that both reach.

    Systems that receive the reference segments are compared like the others; a table marks them.

    Args:
        rows: rows of results with references, which have passed ``with_significance``.
        folder: folder to which the paths of the logs are relative.
        resampling: number of resamples and seed.
        baseline: label of a row or name of a system; None: the first system of each test set.

    Returns:
        One curve for each system, quality and latency (ideal, and computation-aware if all rows
        have elapsed times).
    """
    curves: list[MatchedCurve] = []
    for key, group in by_test_set(rows).items():
        streamed = [row for row in group if row.kind == "system" and row.has_references]
        systems = {one[0].system: one for one in by_system(streamed)}
        if len(systems) < 2:
            continue
        named = [row for row in streamed if baseline and is_named(row.label, baseline)]
        base = (named or streamed)[0].system
        drawn = {name: _System(one, folder, resampling) for name, one in systems.items()}
        for name, system in drawn.items():
            if name != base:
                curves += _compared(key, (base, drawn[base]), (name, system))
    return curves


class _System:
    """Draws of all rows of a system.

    Args:
        rows: rows of one system.
        folder: folder to which the paths of the logs are relative.
        resampling: number of resamples and seed.

    Attributes:
        rows: draws of the rows by the names of latency and quality.
    """

    def __init__(self, rows: Sequence[Row], folder: Path, resampling: Resampling) -> None:
        self.rows: dict[tuple[str, str], list[DrawnRow]] = {}
        for row in rows:
            segments = segments_of_row(row, folder)
            size, seed = len(segments), resampling.seed
            counts = draw_counts(size, resamples=resampling.resamples, seed=seed)
            qualities = _qualities(row, segments, counts)
            for suffix in SUFFIXES:
                values = [segment.scores.get(LATENCY + suffix) for segment in segments]
                latencies = mean_of_draws(values, counts)
                if np.isnan(latencies).any():
                    continue
                for name, scores in qualities.items():
                    drawn = DrawnRow(latencies, scores, row.knob_label)
                    self.rows.setdefault((LATENCY + suffix, name), []).append(drawn)


def _qualities(row: Row, segments: Sequence[ScoredSegment], counts: Counts) -> dict[str, Values]:
    """Return the quality of each draw by name: sacreBLEU's metrics and COMET."""
    texts = [segment.hypothesis for segment in segments]
    references = [segment.reference for segment in segments]
    qualities = {
        name: quality_of_draws(metric, texts, references, counts)
        for name, metric in quality_metrics(row).items()
    }
    for name in comet_scores([row]):
        qualities[name] = mean_of_draws([one.scores.get(name) for one in segments], counts)
    return qualities


def _compared(
    key: TestSet, base: tuple[str, _System], other: tuple[str, _System]
) -> list[MatchedCurve]:
    """Return the comparisons of a system with the baseline; both with their names."""
    curves: list[MatchedCurve] = []
    for (latency, quality), base_rows in base[1].rows.items():
        rows = other[1].rows.get((latency, quality))
        if rows is None:
            continue
        points = [difference_at(one, base_rows, rows) for one in common_latencies(base_rows, rows)]
        curves.append(
            MatchedCurve(
                test_set=key,
                baseline=base[0],
                system=other[0],
                latency=latency,
                quality=quality,
                points=tuple(MatchedPoint(**asdict(point)) for point in points),
                outside=tuple(
                    OutsideRow(system, row.setting, float(row.latencies[0]))
                    for system, own, limits in (
                        (base[0], base_rows, rows),
                        (other[0], rows, base_rows),
                    )
                    for row in outside_rows(own, limits)
                ),
            )
        )
    return curves
