"""One offline W&B run, read back from the file it wrote."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from zoo.tracking.run import Run, open_run
from zoo.tracking.tracker import Tracker, exit_code
from zoo.tracking.wandb_run import WandbSettings

Reader = Callable[[Path], list[Any]]
OFF = WandbSettings(mode="disabled")


def _evaluate(tracker: Tracker, folder: Path) -> None:
    """Results of an evaluation."""
    for m, latency in ((1, 1.25), (2, 1.75)):
        tracker.log_scores("tst/en-de", {"StreamLAAL": latency, "COMET": None}, knob=("m", m))
    tracker.log_table("tst/en-de/hypotheses", ["talk", "written"], [["talk1", "Guten Tag"]])
    tracker.log_curve("tst/en-de/curve", x=("StreamLAAL", [1.25, 1.75]), ys={"BLEU": [80.0, 82.0]})
    Image.new("RGB", (4, 4)).save(folder / "plot.png")
    tracker.log_image("tst/en-de/plot", folder / "plot.png")
    (folder / "results.json").write_text("[]")
    tracker.log_file(folder / "results.json")


def _export(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_offline_decoding_writes_every_word(tmp_path: Path, wandb_records: Reader) -> None:
    run = open_run(tmp_path / "launch" / "0", kind="evaluate", multirun=True)
    config = {"system": {"name": "infinisst"}, "seed": 3}
    export = _export(tmp_path / "export")
    facts = {"corpus_sha256": "c0ffee", "convention": "queue", "batch_size": 8}
    with Tracker(run, config=config, overrides=["seed=3"], facts=facts) as tracker:
        csv_logger, wandb_logger = tracker.loggers()
        for logger in (csv_logger, wandb_logger):
            logger.log_metrics({"train/loss": 0.5}, step=7)
        tracker.use_checkpoint(export, run_id="training1")
        _evaluate(tracker, run.folder)
        tracker.log_checkpoints([export], best=export)
    records = wandb_records(run.folder)

    (started,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    logged = {update.key: json.loads(update.value_json) for update in started.config.update}
    assert (started.run_id, started.run_group, started.job_type) == (run.id, "launch", "evaluate")
    assert started.display_name == "evaluate/launch/0"
    assert logged["system"] == {"name": "infinisst"}
    assert logged["overrides"] == ["seed=3"]
    record = logged["provenance"]
    assert facts.items() <= record.items()
    assert {"git", "constraints_sha256", "versions", "hardware"} <= set(record)

    axes = {
        record.metric.name or record.metric.glob_name: record.metric.step_metric
        for record in records
    }
    assert axes["tst/en-de/StreamLAAL"] == "tst/en-de/m"
    assert axes["train/*"] == axes["dev/*"] == "trainer/global_step"

    rows = [{_key(item): item.value_json for item in record.history.item} for record in records]
    assert [
        (row["tst/en-de/m"], row["tst/en-de/StreamLAAL"])
        for row in rows
        if "tst/en-de/StreamLAAL" in row
    ] == [
        ("1", "1.25"),
        ("2", "1.75"),
    ]
    assert [row["trainer/global_step"] for row in rows if "train/loss" in row] == ["7"]
    assert not any("tst/en-de/COMET" in row for row in rows)

    sent = [record.artifact for record in records if record.WhichOneof("record_type") == "artifact"]
    requests = [
        record.request.log_artifact.artifact
        for record in records
        if record.request.HasField("log_artifact")
    ]
    models = [
        (item.name, item.use_after_commit) for item in (*sent, *requests) if item.type == "model"
    ]
    assert models == [("model-training1", True), (f"model-{run.id}", False)]
    (ended,) = [record.exit for record in records if record.WhichOneof("record_type") == "exit"]
    assert ended.exit_code == 0

    (files,) = run.folder.glob("wandb/offline-run-*/files")
    assert (files / "results.json").read_text() == "[]"
    assert yaml.safe_load((files / "config.yaml").read_text()) == config
    assert len(list(files.glob("media/table/tst/en-de/hypotheses*.json"))) == 1
    assert len(list(files.glob("media/images/tst/en-de/plot*.png"))) == 1
    assert "StreamLAAL" in (run.folder / "metrics.csv").read_text()


def _key(item: Any) -> str:
    return item.key or ".".join(item.nested_key)


def test_failing_job_is_finished_with_its_code_and_resumed(
    tmp_path: Path, wandb_records: Reader
) -> None:
    run = open_run(tmp_path / "run", kind="train")
    with pytest.raises(KeyboardInterrupt), Tracker(run, config={"seed": 1}):
        raise KeyboardInterrupt
    (ended,) = [
        record.exit
        for record in wandb_records(run.folder)
        if record.WhichOneof("record_type") == "exit"
    ]
    assert ended.exit_code == 130

    again = open_run(run.folder, kind="train", resume=run.folder)
    with Tracker(again, config={"seed": 1, "steps": 9}):
        pass
    starts = list(run.folder.glob("wandb/offline-run-*/*.wandb"))
    assert [path.name for path in starts] == [f"run-{run.id}.wandb"] * 2
    assert yaml.safe_load((run.folder / "config.yaml").read_text()) == {"seed": 1}
    assert yaml.safe_load((run.folder / "config.2.yaml").read_text()) == {"seed": 1, "steps": 9}


def test_sigterm_ends_through_finally(tmp_path: Path, wandb_records: Reader) -> None:
    run = open_run(tmp_path / "run", kind="train")
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), Tracker(run, config={}):
        os.kill(os.getpid(), signal.SIGTERM)
    (ended,) = [
        record.exit
        for record in wandb_records(run.folder)
        if record.WhichOneof("record_type") == "exit"
    ]
    assert ended.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def _run(folder: Path) -> Run:
    return open_run(folder, kind="evaluate")


def test_without_wandb_the_folder_has_it_all(tmp_path: Path) -> None:
    run = _run(tmp_path / "run")
    with Tracker(
        run, config={"seed": 1}, overrides=["seed=1"], facts={"batch_size": 4}, settings=OFF
    ) as tracker:
        assert [logger.name for logger in tracker.loggers()] == ["csv"]
        _evaluate(tracker, run.folder)
        tracker.use_checkpoint(tmp_path / "absent", run_id="x")
    assert json.loads((run.folder / "provenance.json").read_text())["batch_size"] == 4
    assert yaml.safe_load((run.folder / "overrides.yaml").read_text()) == ["seed=1"]
    assert not (run.folder / "wandb").exists()


def test_an_error_of_wandb_is_logged_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        offline = True

        def log(self, row: dict[str, float]) -> None:
            raise ConnectionError("gone")

        def finish(self, exit_code: int) -> None:
            raise ConnectionError("gone")

    run = _run(tmp_path / "run")
    with Tracker(run, config={}, settings=OFF) as tracker:
        tracker._wandb = Broken()  # type: ignore[assignment]
        tracker.log_scores("tst/en-de", {"BLEU": 1.0}, knob=None)
    assert caplog.messages == ["W&B: ConnectionError: gone"] * 2
    assert "tst/en-de/BLEU" in (run.folder / "metrics.csv").read_text()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (SystemExit(), 0),
        (SystemExit(2), 2),
        (SystemExit("no"), 1),
        (KeyboardInterrupt(), 130),
        (OSError(), 1),
    ],
)
def test_exit_code(error: BaseException | None, code: int) -> None:
    assert exit_code(error) == code
