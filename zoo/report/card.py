"""Model cards: front matter of the Hugging Face hub, text, and recorded scores.

``python -m zoo card FOLDER [FOLDER ...] --results RUN [RUN ...]`` writes the scores of
finished evaluations into the cards of exported checkpoints; what else a card says is kept.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import parse_yaml
from zoo.base.errors import ZooError
from zoo.base.machine.commands import named_path, run_script
from zoo.base.machine.hints import job_command, program
from zoo.report.markdown import markdown_table, score_cells, score_headings, system_name
from zoo.runs.rows.names import find_entry
from zoo.runs.rows.record import Evaluation, read_evaluations, shown_columns
from zoo.runs.rows.row import Row

CARD = "README.md"
SCORES = "## Scores"
TASK = "pipeline_tag"
WER = "ASR_WER"  # of a recogniser
_FRONT = "---\n"
# Keys of the front matter that follow from the rows of results.
_METRICS, _INDEX = "metrics", "model-index"
_SECTION = re.compile(rf"^{SCORES}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Card:
    """A model card without scores.

    Attributes:
        title: heading.
        about: text below the heading.
        metadata: front matter by the keys of the hub; ``pipeline_tag`` is the task of the model.
        notes: sections that follow the scores; empty: none.
    """

    title: str
    about: str
    metadata: dict[str, Any]
    notes: str = ""

    def text(self, folder: Path, evaluations: Sequence[Evaluation] = ()) -> str:
        """Return the card with the scores of the checkpoint.

        Args:
            folder: folder of the checkpoint.
            evaluations: finished evaluations, also of other checkpoints.
        """
        found = [(one, _rows_of(folder, one)) for one in evaluations]
        scored = [(one, rows) for one, rows in found if rows]
        metadata = {**self.metadata, **_hub_scores(folder.name, self.metadata[TASK], scored)}
        front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=100)
        sections = [f"# {self.title}", self.about]
        if scored:
            sections += [SCORES, *(_table(one, rows) for one, rows in scored)]
        if self.notes:
            sections.append(self.notes)
        return f"{_FRONT}{front}{_FRONT}\n" + "\n\n".join(sections) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write scores into the cards that the command line names.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("card"), description=__doc__)
    parser.add_argument(
        "folders",
        nargs="+",
        type=named_path,
        metavar="FOLDER",
        help="exported or shipped checkpoint",
    )
    parser.add_argument(
        "--results",
        nargs="+",
        type=named_path,
        required=True,
        metavar="RUN",
        help="run folder of evaluate.py, or docs/leaderboard.json",
    )
    given = parser.parse_args(arguments)

    def write() -> None:
        evaluations = read_evaluations(given.results, start=job_command("evaluate"))
        cards = {folder: read_card(folder) for folder in given.folders}
        for folder, card in cards.items():
            write_text(folder / CARD, card.text(folder, evaluations))
            print(f"card: {folder / CARD}")

    run_script(write)


def read_card(folder: Path) -> Card:
    """Read the card of a checkpoint; its scores are left out.

    Raises:
        ZooError: the folder has no card with front matter and a heading.
    """
    path = folder / CARD
    try:
        text = path.read_text(encoding="utf-8")
        _, front, body = re.split(rf"^{_FRONT}", text, maxsplit=2, flags=re.MULTILINE)
        metadata = parse_yaml(front)
        heading, about = body.strip().split("\n", maxsplit=1)
        if not isinstance(metadata, dict) or TASK not in metadata:
            raise ValueError(f"its front matter has no {TASK}")
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ZooError(f"{path} is no model card with front matter: {error}.") from error
    kept = {key: value for key, value in metadata.items() if key not in (_METRICS, _INDEX)}
    about, mark, notes = _SECTION.sub("", about).partition("\n## ")
    return Card(
        title=heading.removeprefix("# "),
        about=about.strip(),
        metadata=kept,
        notes=f"{mark}{notes}".strip(),
    )


def _rows_of(folder: Path, evaluation: Evaluation) -> list[Row]:
    """Return the rows that score the weights of a folder.

    They are those of the systems whose backbone has the weights. For a recogniser, they are a row
    with its word error rate on clean target speech.
    """
    rows = [
        row
        for row in evaluation.rows
        if any(
            _is_folder(name, folder)
            for key, name in row.settings.weights.items()
            if key.startswith("backbone.") and key.count(".") == 1  # not of a part of a cascade
        )
    ]
    transcribed = [
        replace(row, system="clean target speech", knob=None, scores={WER: row.scores[WER]})
        for row in evaluation.rows
        if f"|asr:{folder.name}|" in row.signatures.get(WER, "")
    ]
    return rows or transcribed[:1]


def _is_folder(name: str, folder: Path) -> bool:
    """Return whether recorded weights are those of a folder; a record has names without paths."""
    return name == folder.name or Path(name).resolve() == folder.resolve()


def _table(evaluation: Evaluation, rows: Sequence[Row]) -> str:
    """Return the scores of the rows, and where they come from."""
    shown = shown_columns(rows)
    lines = [[system_name(row), row.knob_label or "–", *score_cells(row, shown)] for row in rows]
    flags = [f"- {row.label}: {flag}" for row in rows for flag in row.flags]
    table = markdown_table(["system", "setting"], score_headings(shown), lines)
    return "\n\n".join([evaluation.origin, table, *(["\n".join(flags)] if flags else [])])


def _hub_scores(
    name: str, task: str, scored: Sequence[tuple[Evaluation, Sequence[Row]]]
) -> dict[str, Any]:
    """Return the front matter of scores: types of the metrics, and the results of the hub.

    Args:
        name: name of the model.
        task: task of the model on the hub.
        scored: evaluations with the rows of the model.
    """
    results = [_result(task, evaluation, row) for evaluation, rows in scored for row in rows]
    if not results:
        return {}
    types = [metric["type"] for result in results for metric in result["metrics"]]
    return {
        _METRICS: list(dict.fromkeys(types)),
        _INDEX: [{"name": name, "results": results}],
    }


def _result(task: str, evaluation: Evaluation, row: Row) -> dict[str, Any]:
    """Return a row as an entry of ``model-index``; arguments as ``_hub_scores``."""
    metrics = [
        {
            "type": column.score.lower(),
            "name": f"{column.score} ({column.unit})" if column.unit else column.score,
            "value": round(value, find_entry(column.score, [row]).digits),
        }
        for column in shown_columns([row])
        if (value := row.scores.get(column.score)) is not None
    ]
    return {
        "task": {"type": task, "name": row.label},
        "dataset": {
            "type": row.data,
            "name": f"{row.data}, {evaluation.talks}",
            "config": f"{row.source_language}-{row.target_language}",
            "split": row.split,
        },
        "metrics": metrics,
    }


if __name__ == "__main__":
    main()
