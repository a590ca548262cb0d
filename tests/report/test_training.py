"""The page of a training, from run folders that are written by hand."""

import json
from pathlib import Path

import pytest

from zoo.apps.report import main
from zoo.report.training import headline, tiles, write_training
from zoo.report.training_plots import running_mean, training_panels
from zoo.runs.rows.row import Row, write_rows
from zoo.runs.rows.segments import ScoredSegment, write_segments
from zoo.runs.rows.training import read_samples, read_training

HOSTILE = "</span><script>alert(1)</script>"


def training(folder: Path, *lines: str) -> Path:
    """A run folder with logged values."""
    folder.mkdir(exist_ok=True)
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    return folder


def evaluation(folder: Path, target: str, texts: list[tuple[str, str]]) -> None:
    """A development evaluation of one talk, whose segments have a reference and a hypothesis."""
    folder.mkdir(parents=True)
    row = Row(
        "a",
        None,
        data="d",
        split="dev",
        source_language="en",
        target_language=target,
        scores={},
        signatures={},
        instances="instances.log",
    )
    write_rows([row], folder / "results.json")
    segments = [
        ScoredSegment(
            talk=HOSTILE,
            segment=place,
            offset=float(place),
            duration=1.0,
            source=f"source {HOSTILE}",
            reference=reference,
            hypothesis=hypothesis,
        )
        for place, (reference, hypothesis) in enumerate(texts)
    ]
    write_segments(folder / "segments.jsonl", segments)


def test_text_of_a_run_is_no_markup(tmp_path: Path) -> None:
    run = training(tmp_path / "run", f"step,train/{HOSTILE}/loss,dev/{HOSTILE}/BLEU", "1,3.0,2.0")
    (run / "run.json").write_text(json.dumps({"name": HOSTILE, "id": HOSTILE}))
    (run / "overrides.yaml").write_text(json.dumps([HOSTILE]))
    (run / "wandb_address.txt").write_text("javascript:alert(1)\n")
    evaluation(run / "development" / "step000001", "de", [(HOSTILE, HOSTILE)])
    page = write_training(run)[0].read_text()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 8
    assert "javascript:" not in page


def test_a_run_on_the_server_is_linked(tmp_path: Path) -> None:
    run = training(tmp_path / "run", "step,train/a/loss", "1,3.0")
    (run / "wandb_address.txt").write_text("https://wandb.example/p/runs/1\n")
    (run / "config.yaml").write_text("a: 1\n")
    page = write_training(run)[0].read_text()
    assert '<a href="https://wandb.example/p/runs/1">Weights &amp; Biases</a>' in page
    assert '<a href="config.yaml">config.yaml</a>' in page


def test_the_mean_of_the_directions_ranks_the_steps(tmp_path: Path) -> None:
    run = training(
        tmp_path / "run",
        "step,dev/en-de/BLEU,dev/en-es/BLEU,dev/mean/BLEU,dev/mean/StreamLAAL",
        "1,10,30,20,1.5",
        "2,25,20,22.5,1.25",
        "3,20,20,20,1.0",
    )
    found = read_training(run)
    assert found.ranking == "mean"
    assert headline(found) == [
        (
            "Best development BLEU 22.5 at step 2 with a StreamLAAL of 1.25 s; 20.0 at the last "
            "evaluation, step 3."
        ),
        "Not finished; the last logged step is 3.",
    ]
    assert [panel.title for panel in training_panels(found)] == [
        "Development BLEU",
        "Development BLEU over StreamLAAL",
    ]
    write_training(run)


def test_a_loss_that_is_not_finite_is_named(tmp_path: Path) -> None:
    run = training(tmp_path / "run", "step,train/a/loss", "1,3.0", "2,nan", "3,inf")
    (run / "export").mkdir()
    found = read_training(run)
    assert headline(found) == [
        "Finished; the last logged step is 3.",
        "The training loss of a is not finite at step 2.",
    ]
    assert tiles(found)[0].value == "–"
    write_training(run)


def test_samples_are_spread_over_directions_and_segments(tmp_path: Path) -> None:
    """Segments without a reference are left out; an incomplete evaluation is skipped."""
    spanish = [("x", f"{place}") for place in range(9)]
    for step in (5, 10):
        outer = tmp_path / "development" / f"step{step:06d}"
        evaluation(outer / "en-de", "de", [("", "a"), ("r", f"b{step}"), ("", "c")])
        evaluation(outer / "en-es", "es", spanish)
    (tmp_path / "development" / "step000015").mkdir()
    samples = read_samples(tmp_path)
    assert [(one.direction, one.segment.segment) for one in samples] == [
        ("en-de", 1),
        ("en-es", 4),
    ]
    texts = {step: one.hypothesis for step, one in samples[0].translations.items()}
    assert texts == {5: "b5", 10: "b10"}
    assert [one.segment.segment for one in read_samples(tmp_path, count=6)] == [1, 1, 4, 7]


def test_a_running_mean_keeps_the_ends_and_the_steps() -> None:
    points = [(step, float(step % 2)) for step in range(200)]
    means = running_mean(points)
    assert [step for step, _ in means] == list(range(200))
    assert all(0.3 < value < 0.7 for _, value in means)
    assert running_mean(points[:10]) == points[:10]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--talks"], "leave out --talks, or name an evaluation"),
        (["--output", "new", "--seed", "3"], "leave out --output, --seed"),
        (["comet=[A]"], "leave out --comet"),
    ],
)
def test_options_of_evaluations_are_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training(tmp_path / "run", "step,train/a/loss", "1,3.0")
    with pytest.raises(SystemExit, match="2"):
        main([str(run), *options])
    assert message in capsys.readouterr().err
    assert not (run / "training.html").exists()


def test_a_training_without_values_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training(tmp_path / "run", "step,BLEU", ",3.0")
    with pytest.raises(SystemExit, match="2"):
        main([str(run)])
    assert "has no value of an optimizer step" in capsys.readouterr().err
