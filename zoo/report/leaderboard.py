"""The leaderboard: shipped systems, best first, and figures of papers in a table of their own.

``python -m zoo leaderboard RUN [RUN ...] --record docs/leaderboard.json`` writes the page of
finished evaluations, and what the page needs of them, from which it can be written again.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import parse_yaml
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.machine.commands import named_path, run_script
from zoo.base.machine.hints import job_command, program
from zoo.report.markdown import markdown_table, score_cells, score_headings, system_name
from zoo.runs.rows.groups import by_test_set
from zoo.runs.rows.names import main_score, table_kind
from zoo.runs.rows.record import Evaluation, read_evaluations, shown_columns, write_evaluations
from zoo.runs.rows.row import Row, TestSet, first_problem
from zoo.runs.rows.settings import STRICT

DOCS = Path("docs")  # of the repository, from whose top folder the command is run


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Rows of a table of a paper.

    Attributes:
        paper: name of the paper.
        place: table of the paper.
        corpus: test set and what one stream is.
        direction: source and target language, such as ``en-de``.
        quality: score of quality, as the paper names it.
        latency: score of latency with its unit.
        rows: system, latency setting, quality and latency, as printed.
    """

    __pydantic_config__ = STRICT
    paper: str
    place: str
    corpus: str
    direction: str
    quality: str
    latency: str
    rows: list[tuple[str, str, str, str]]


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of papers.

    Attributes:
        papers: title of each paper and the conventions of its scores, by name.
        tables: rows of their tables.
    """

    __pydantic_config__ = STRICT
    papers: Mapping[str, str]
    tables: list[PaperTable]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page of the evaluations that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("leaderboard"), description=__doc__)
    parser.add_argument(
        "runs",
        nargs="+",
        type=named_path,
        metavar="RUN",
        help="run folder, folder of run folders, or a file of --record",
    )
    parser.add_argument(
        "--record", type=named_path, help="file to write what the page needs of the runs"
    )
    parser.add_argument(
        "--published", type=named_path, default=DOCS / "published.yaml", help="figures of papers"
    )
    parser.add_argument(
        "--output", type=named_path, default=DOCS / "leaderboard.md", help="page to write"
    )
    given = parser.parse_args(arguments)

    def write() -> None:
        evaluations = read_evaluations(given.runs, start=job_command("evaluate"))
        page = leaderboard(evaluations, read_published(given.published))
        if given.record:
            write_evaluations(evaluations, given.record)
        write_text(given.output, page)
        print(f"leaderboard: {given.output}")

    run_script(write, given.output.parent)


def read_published(path: Path) -> Published:
    """Read the figures of papers. Raises ZooError for a file of another form."""
    from pydantic import TypeAdapter, ValidationError  # as in zoo.runs.rows.row

    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
        return TypeAdapter(Published).validate_python(content)
    except ValidationError as error:
        raise ZooError(f"{path} has no figures of papers: {first_problem(error)}.") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ZooError(f"{path} cannot be read: {error}.") from error


def leaderboard(evaluations: Sequence[Evaluation], published: Published) -> str:
    """Return the page in Markdown.

    Args:
        evaluations: evaluations of shipped systems; their rows are in one table per test set.
        published: figures of papers.
    """
    rows = [row for evaluation in evaluations for row in evaluation.rows]
    parts = [_BEGIN, "## Shipped systems", _SHIPPED, *(one.origin for one in evaluations)]
    for key, group in by_test_set(rows).items():
        parts += [f"### {_title(key)}", _ranked(group)]
    parts += ["## Published figures", _PUBLISHED, _papers(published)]
    for direction in dict.fromkeys(table.direction for table in published.tables):
        tables = [table for table in published.tables if table.direction == direction]
        parts += [f"### Published, {_direction(*direction.split('-'))}", _printed(tables)]
    return "\n\n".join(parts) + "\n"


_BEGIN = """# Leaderboard

This page is generated. Evaluate the shipped systems and write it again by

```sh
python evaluate.py experiment=leaderboard
python -m zoo leaderboard outputs/evaluate/RUN --record docs/leaderboard.json
```"""
_SHIPPED = """The small models in `checkpoints/` on the built-in corpus, which is synthetic speech
with a closed grammar ([minitalks](minitalks.md)). Rows are ordered by quality; compare systems at
similar latency. [Metrics](metrics.md) defines the scores. Results at all latency settings on the
whole test set are on the pages of the systems ([InfiniSST](infinisst.md#results),
[StreamUni](streamuni.md#results), [training-free policies](policies.md#results),
[SimulU](simulu.md#results))."""
_PUBLISHED = """!!! warning
    Each paper has a corpus, models and scores of its own. Do not compare these figures with those
    above, and compare them with each other only within one corpus and one score.

Figures that the papers print in tables (`docs/published.yaml`). Those that they draw as curves are
left out; [the papers](papers.md) has the command for each table and figure."""


def _title(key: TestSet) -> str:
    """Return the heading of a test set."""
    data, split, source, target, talks = key
    return ", ".join(filter(None, (_direction(source, target), f"{data} {split}".strip(), talks)))


def _direction(source: str, target: str) -> str:
    """Return two language codes as names."""
    return f"{language(source).name} to {language(target).name}"


def _ranked(rows: Sequence[Row]) -> str:
    """Return the table of a test set: systems by quality, then offline rows by quality."""
    quality = main_score("quality", table_kind(rows[0]))
    ranked = sorted(
        rows,
        key=lambda row: (row.kind != "system", -(row.scores.get(quality) or 0.0)),
    )
    shown = shown_columns(rows)
    lines = [
        [system_name(row), row.knob_label or "–", _weights(row), *score_cells(row, shown)]
        for row in ranked
    ]
    table = markdown_table(["system", "setting", "weights"], score_headings(shown), lines)
    flags = [f"- {row.label}: {flag}" for row in ranked for flag in row.flags]
    return "\n\n".join([table, *(["\n".join(flags)] if flags else [])])


def _weights(row: Row) -> str:
    """Return the names of the weights of a row."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(row.settings.weights.values()))


def _papers(published: Published) -> str:
    """Return the list of the papers."""
    return "\n".join(f"- **{name}**: {title}" for name, title in published.papers.items())


def _printed(tables: Sequence[PaperTable]) -> str:
    """Return one table with the rows of tables of papers."""
    lines = [
        [
            system,
            setting,
            table.corpus,
            f"{quality} {table.quality}",
            f"{latency} {table.latency}",
            f"{table.paper}, {table.place}",
        ]
        for table in tables
        for system, setting, quality, latency in table.rows
    ]
    names = ["system", "setting", "corpus", "quality", "latency", "source"]
    return markdown_table(names, [], lines)


if __name__ == "__main__":
    main()
