"""Tables of scores in Markdown, for pages and model cards."""

from collections.abc import Sequence

from zoo.report.table import cell
from zoo.runs.rows.names import Column
from zoo.runs.rows.row import Row


def system_name(row: Row) -> str:
    """Return the name of a system, in italics for an offline row, which no stream is."""
    if row.kind != "system":
        return f"*{row.system}*"
    return f"{row.system} (on reference segments)" if row.has_reference_segments else row.system


def score_headings(shown: Sequence[Column]) -> list[str]:
    """Return the heading of each column: the name of the score and its unit."""
    return [f"{one.score} ({one.unit})" if one.unit else one.score for one in shown]


def score_cells(row: Row, shown: Sequence[Column]) -> list[str]:
    """Return the scores of a row as texts."""
    return [cell(row, column).strip() for column in shown]


def markdown_table(
    texts: Sequence[str], numbers: Sequence[str], lines: Sequence[Sequence[str]]
) -> str:
    """Return a table.

    Args:
        texts: headings of the first columns, which are aligned to the left.
        numbers: headings of the other columns, which are aligned to the right.
        lines: cells of each line.
    """
    rule = [*("---" for _ in texts), *("---:" for _ in numbers)]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ([*texts, *numbers], rule, *escaped))
