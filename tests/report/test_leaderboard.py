"""The leaderboard and the model cards are written from recorded results."""

import json
import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from zoo.apps.report import main as report
from zoo.report import card, leaderboard
from zoo.report.card import CARD, Card, read_card
from zoo.runs.rows.record import Evaluation, read_evaluations, write_evaluations
from zoo.runs.rows.row import KnobValue, Row, write_rows
from zoo.runs.rows.settings import RowSettings

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ["--published", str(ROOT / "docs" / "published.yaml")]
RECORD = ROOT / "docs" / "leaderboard.json"
SHIPPED = sorted(path for path in (ROOT / "checkpoints").iterdir() if path.is_dir())
START = "python evaluate.py"


def row(system: str, bleu: float, kind: str = "system", **settings: object) -> Row:
    return Row(
        system,
        KnobValue("m", 2) if kind == "system" else None,
        data="minitalks",
        split="tst",
        source_language="en",
        target_language="de",
        scores={"BLEU": bleu, "StreamLAAL": 1.234, "StreamLAAL_CA": 2.0, "RTF": 0.1, "DocBLEU": 9},
        signatures={"BLEU": "a|b", "DocBLEU": "c"},
        instances="instances/00/instances.log",
        kind=kind,  # type: ignore[arg-type]
        settings=RowSettings(**{"talks": 2, "view": "talks", "parameters": 7} | settings),  # type: ignore[arg-type]
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder whose commit had changes."""
    folder = tmp_path / "run"
    weights = {"backbone.checkpoint": str(tmp_path / "export")}
    rows = [
        replace(row("worse", 50.06, weights=weights), flags=("repeats words",)),
        row("better", 60.0, reference_segments=True),
        row("wait-k oracle", 99.0, "oracle"),
        row("worse offline", 95.0, "ceiling", weights=weights),
    ]
    folder.mkdir()
    write_rows(rows, folder / "results.json")
    (folder / "overrides.yaml").write_text("[system=worse, logger=csv]\n")
    (folder / "provenance.json").write_text('{"git": {"commit": "0123456789", "dirty": true}}')
    return folder


def test_the_page_of_the_repository_is_made_of_its_record(tmp_path: Path) -> None:
    leaderboard.main([str(RECORD), *PUBLISHED, "--output", str(tmp_path / "page.md")])
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "leaderboard.md").read_text()


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_card_is_made_of_the_record(folder: Path) -> None:
    found = read_card(folder)
    text = found.text(folder, read_evaluations([RECORD], start=START))
    assert text == (folder / CARD).read_text()
    assert "## Scores\n\nEvaluated on 2 talks of minitalks tst, " in text
    assert found.metadata["license"] == "apache-2.0"
    assert found.metadata["language"] == folder.name.rpartition("_")[2].split("-")
    front = yaml.safe_load(text.split("---\n")[1])
    assert [one["name"] for one in front["model-index"]] == [folder.name]


def test_rows_of_a_run_are_ranked_and_say_where_they_come_from(run: Path, tmp_path: Path) -> None:
    record, page = tmp_path / "record.json", tmp_path / "page.md"
    leaderboard.main([str(run), *PUBLISHED, "--record", str(record), "--output", str(page)])
    text = page.read_text()
    assert ", commit 0123456 with changes, by `python evaluate.py system=worse`." in text
    lines = [line.split(" | ") for line in text.partition("### English to German")[2].splitlines()]
    assert [line[0] for line in lines if len(line) > 3][:5] == [
        "| system",
        "| ---",
        "| better (on reference segments)",
        "| worse",
        "| *worse offline*",
    ]
    assert "| worse | m=2 | `export` | 50.1 | 1.23 |" in text
    assert "- worse m=2: repeats words" in text
    assert "oracle" not in record.read_text()
    assert str(tmp_path) not in record.read_text()

    leaderboard.main([str(record), *PUBLISHED, "--output", str(tmp_path / "again.md")])
    assert (tmp_path / "again.md").read_text() == text


def test_a_card_gets_the_scores_of_its_weights_and_keeps_the_rest(
    run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    written = Card(
        "mine, English to German", "Trained by\n\n    me", {card.TASK: "x"}, "## Notes\n\na"
    )
    (folder / CARD).write_text(written.text(folder))
    assert "## Scores" not in (folder / CARD).read_text()
    for _ in range(2):  # the second call replaces the scores of the first
        card.main([str(folder), "--results", str(run)])
    text = (folder / CARD).read_text()
    assert read_card(folder) == written
    assert text.count("| worse | m=2 | 50.1 | 1.23 |") == text.count("## Scores") == 1
    assert "better" not in text
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["metrics"] == ["bleu", "streamlaal"]
    (model,) = front["model-index"]
    assert [one["task"]["name"] for one in model["results"]] == ["worse m=2", "worse offline"]
    assert [one["value"] for one in model["results"][0]["metrics"]] == [50.1, 1.23]


def test_the_command_of_a_page_can_be_copied_into_a_shell(run: Path) -> None:
    typed = ['compare={a: ["policy.k=3"]}', "data.root=/my data/$x"]
    (run / "overrides.yaml").write_text(json.dumps([*typed, "logger=csv"]))
    (evaluation,) = read_evaluations([run], start=START)
    assert shlex.split(evaluation.command) == ["python", "evaluate.py", *typed]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    evaluation = Evaluation("2026-11-26", None, False, "evaluate", (row("a", 1.0),))
    write_evaluations([evaluation], tmp_path / "record.json")
    assert read_evaluations([tmp_path / "record.json"], start=START) == [evaluation]
    assert evaluation.origin == "Evaluated on 2 talks of minitalks tst, 2026-11-26, by `evaluate`."


@pytest.mark.parametrize(
    ("main", "content", "sentence"),
    [
        (leaderboard.main, "[]", "has no figures of papers: "),
        (leaderboard.main, "- [", "cannot be read: "),
        (card.main, "no front matter", "is no model card with front matter: "),
        (card.main, "---\na: b\n---\n\n# A\n\nb\n", "its front matter has no pipeline_tag."),
    ],
)
def test_a_damaged_file_is_one_sentence(
    main: Callable[[list[str]], None],
    content: str,
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / CARD).write_text(content)
    page = str(tmp_path / "page.md")
    arguments = {
        leaderboard.main: [str(RECORD), "--published", str(tmp_path / CARD), "--output", page],
        card.main: [str(tmp_path), "--results", str(RECORD)],
    }
    with pytest.raises(SystemExit):
        main(arguments[main])
    assert sentence in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [CARD]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pipe", "pipe is a pipe, a socket or a device, not a file."),  # it would be replaced
        ("none/page.md", "cannot be written: there is no folder "),
        ("/proc/simulzoo", "/proc/simulzoo"),
        ("", "there is no file or folder ''"),
    ],
)
@pytest.mark.parametrize("option", ["--output", "--record"])
def test_a_place_without_a_file_is_one_sentence(
    option: str, name: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    place = str(tmp_path / name) if name else ""
    page = ["--output", str(tmp_path / "page.md")] if option == "--record" else []
    with pytest.raises(SystemExit) as left:
        leaderboard.main([str(RECORD), *PUBLISHED, *page, option, place])
    printed = capsys.readouterr().err
    assert left.value.code == 2
    assert sentence in printed.splitlines()[-1]
    assert "Traceback" not in printed
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_run_folder_whose_name_is_no_text_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / os.fsdecode(b"r\xff")
    run.rename(other)
    with pytest.raises(SystemExit) as left:
        report([str(other), "--output", str(tmp_path / "out")])
    assert left.value.code == 2
    assert "is not in UTF-8; rename the file or folder." in capsys.readouterr().err
