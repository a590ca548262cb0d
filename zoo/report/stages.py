"""Stacked bars of the compute time of each row by stage, as HTML."""

import html
from collections.abc import Iterator, Sequence

from zoo.report.table import number
from zoo.results.groups import by_test_set, test_set_label
from zoo.results.row import Row
from zoo.streaming.stages import STAGES

LOADED = "the machine was loaded"


def stage_section(rows: Sequence[Row]) -> str:
    """Return the section with one bar per row whose stages were measured; empty without such rows.

    A bar is as long as the seconds of compute per second of audio. The page's script finds the row
    of a bar by ``data-row``.
    """
    longest = max((sum(row.stages.values()) for row in rows), default=0.0)
    if not longest:
        return ""
    used = [stage for stage in STAGES if any(row.stages.get(stage) for row in rows)]
    keys = "".join(f'<span class="stage {stage}">{stage}</span>' for stage in used)
    sets = "".join(
        f"<h3>{html.escape(test_set_label(key))}</h3>"
        f'<ul class="stages">{"".join(_bars(group, rows, longest))}</ul>'
        for key, group in by_test_set(rows).items()
        if any(row.stages for row in group)
    )
    return (
        '<section id="compute" aria-labelledby="compute-title">'
        '<h2 id="compute-title">Compute by stage</h2>'
        '<p class="note">Seconds of compute per second of audio. Streams of a batch share the time '
        f'of their steps.</p><p class="note stage-keys">{keys}</p>{sets}</section>'
    )


def _bars(group: Sequence[Row], rows: Sequence[Row], longest: float) -> Iterator[str]:
    """Yield the ``li`` of each row of a test set whose stages were measured.

    Args:
        group: rows of the test set.
        rows: rows of the report.
        longest: value of a bar of full length.
    """
    for place, row in enumerate(rows):
        if not row.stages or not any(row is other for other in group):
            continue
        label = html.escape(row.label)
        note = f' <small class="flag">{LOADED}</small>' if row.has_loaded_machine else ""
        total = sum(row.stages.values())
        parts = "".join(
            f'<span class="stage {stage}" style="width:{100 * value / longest:.3f}%"></span>'
            for stage in STAGES
            if (value := row.stages.get(stage))
        )
        yield (
            f'<li data-row="{place}" title="{_description(row)}"><span>{label}{note}</span>'
            f'<span class="stage-bar" role="img" aria-label="{_description(row)}">{parts}</span>'
            f"<span>{number(total, 3)}</span></li>"
        )


def _description(row: Row) -> str:
    """Return the compute of each stage per second of audio, and per chunk if that is known."""
    compute = row.settings.compute
    texts = []
    for stage in STAGES:
        if value := row.stages.get(stage):
            per_chunk = (
                f" ({1000 * value * compute.chunk_seconds:.1f} ms per chunk)" if compute else ""
            )
            texts.append(f"{stage} {number(value, 4)}{per_chunk}")
    return html.escape(", ".join(texts))
