"""A small real training has a page and a plot, also one that ends early."""

import csv
import json
import signal
from pathlib import Path

import pytest
from PIL import Image

from tests.training.jobs import train, train_and_kill
from tests.training.test_resume import of_steps
from zoo.apps.report import main

STEPS = {"recognition": 4, "translation": 6, "long_segments": 4}
EVALUATED = (7, 14)
GIVEN = [
    *(one for one in of_steps(STEPS) if not one.startswith("training.evaluate")),
    "backbone.search.tokens_per_chunk=2",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training with two development evaluations and W&B offline."""
    folder = tmp_path_factory.mktemp("training") / "run"
    wandb = ["logger=default", "logger.mode=offline"]
    train(folder, [*GIVEN, *wandb, "training.evaluate_every_steps=7"])
    return folder


def logged(run: Path, name: str) -> dict[int, float]:
    """Values of a name in ``metrics.csv`` by step."""
    with (run / "metrics.csv").open() as file:
        return {int(row["step"]): float(row[name]) for row in csv.DictReader(file) if row.get(name)}


def test_the_page_has_the_numbers_of_the_training(run: Path) -> None:
    page = (run / "training.html").read_text()
    assert "Finished" in page
    bleu = logged(run, "dev/en-de/BLEU")
    assert tuple(bleu) == EVALUATED
    best = max(bleu, key=lambda step: bleu[step])
    assert f"Best development BLEU {bleu[best]:.1f} at step {best}" in page
    for stage, first in zip(STEPS, (0, 4, 10), strict=True):
        losses = logged(run, f"train/{stage}/loss")
        assert list(losses) == list(range(first, first + STEPS[stage]))
        start, *_, end = losses.values()
        steps = f"{first} to {first + STEPS[stage] - 1}"
        assert f"<td>{steps}</td><td>{start:.3f}</td><td>{end:.3f}</td>" in page
    for step in EVALUATED:
        for stage in ("translation", "long_segments"):
            for loss in [logged(run, f"dev/{stage}/loss").get(step)]:
                assert loss is None or f"<td>{loss:.3f}</td>" in page
    for title in ("Loss", "Development BLEU", "Learning rate", "Throughput (tokens per second)"):
        assert f"<figcaption>{title}</figcaption><svg" in page
    assert '<a href="config.yaml">' in page
    assert "script" not in page.replace("script-src", "")
    with Image.open(run / "training.png") as plot:
        assert plot.width > 1500


def test_the_page_has_the_translations_of_each_evaluation(run: Path) -> None:
    page = (run / "training.html").read_text()
    assert page.count('<audio controls preload="metadata" src="data:audio/mpeg;base64,') == 3
    shown = 0
    for line in (run / "development" / "step000014" / "segments.jsonl").read_text().splitlines():
        segment = json.loads(line)
        if f"segment {segment['segment'] + 1}, at" in page:
            shown += 1
            assert segment["source"] in page
            assert segment["reference"] in page
    assert shown == 3
    assert page.count('<ol class="translations">') == 3
    assert page.count('<span class="step">7') == page.count('<span class="step">14') == 3


def test_wandb_has_a_table_of_the_translations(run: Path) -> None:
    files = sorted(run.glob("wandb/**/media/table/samples_*.table.json"))
    sizes = [len(json.loads(file.read_text())["data"]) for file in files]
    assert sorted(sizes) == [3, 6]
    table = json.loads(max(files, key=lambda file: file.stat().st_size).read_text())
    assert table["columns"][:4] == ["step", "direction", "talk", "segment"]
    assert {line[0] for line in table["data"]} == set(EVALUATED)
    assert list(run.glob("wandb/**/media/html/report_*.html"))
    assert not (run / "wandb_address.txt").exists()


def test_the_command_writes_the_same_page_again(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [run / name for name in ("training.html", "training.png")]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    main([str(run)])
    assert [file.read_bytes() for file in files] == before
    printed = capsys.readouterr().out
    assert all(str(file) in printed for file in files)


def test_a_killed_training_has_the_page_of_its_last_evaluation(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train_and_kill(folder, [*GIVEN, "training.evaluate_every_steps=5"], stages=STEPS, step=6)
    page = (folder / "training.html").read_text()
    assert "Not finished; the last logged step is 5." in page
    assert '<span class="step">5 <b>best</b></span>' in page


def test_a_training_without_evaluations_has_its_page_after_sigterm(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    never = ["training.evaluate_every_steps=1000", "training.evaluate_last=false"]
    train_and_kill(
        folder, [*GIVEN, *never], stages=STEPS, step=5, number=signal.SIGTERM, exit_code=143
    )
    page = (folder / "training.html").read_text()
    last = max(logged(folder, "train/learning_rate"))
    assert "Not finished; the last logged step is" in page
    assert last >= 5
    assert "<figcaption>Loss</figcaption>" in page
    assert not any(text in page for text in ("Development BLEU", "Sample translations"))
