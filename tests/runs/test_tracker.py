"""One offline W&B run, read back from the file it wrote."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
import yaml
from PIL import Image

from zoo.runs import media
from zoo.runs.run import Run, open_run
from zoo.runs.tracker import Tracker, exit_code
from zoo.runs.wandb_run import WandbSettings

Reader = Callable[[Path], list[Any]]
OFF = WandbSettings(mode="disabled")
CARD = {"id": "training1", "kind": "train", "name": "x", "group": None}


def _evaluate(tracker: Tracker, folder: Path) -> None:
    """Results of an evaluation."""
    for m, latency in ((1, 1.25), (2, 1.75)):
        scores = {"BLEU": 80.0 + m, "StreamLAAL": latency, "LongAP": 0.5, "COMET": None}
        tracker.log_scores(
            "tst/en-de",
            scores,
            labels={"system": "infinisst", "knob": f"m={m}"},
            charted=["BLEU", "StreamLAAL", "COMET"],
            axis="StreamLAAL",
        )
    tracker.log_scores("tst/en-de", {"BLEU": 99.0}, labels={"system": "oracle", "knob": "k=3"})
    written = media.table(["talk", "written"], [["talk1", "Guten Tag"]] * 3)
    tracker.log_media("hypotheses", lambda: written)
    lines = {"a": [(1.75, 82.0), (1.25, 81.0)], "b": [(0.5, 7.0)]}
    tracker.log_media("curves/BLEU", lambda: media.curves(lines, x="StreamLAAL", y="BLEU"))
    Image.new("RGB", (4, 4)).save(folder / "plot.png")
    tracker.log_media("plot", lambda: media.image(folder / "plot.png"))
    (folder / "report.html").write_text("<p>page</p>")
    tracker.log_media("report", lambda: media.page(folder / "report.html"))
    soundfile.write(folder / "mix.wav", [[0.0, 0.5]] * 16_000, 8_000)
    clip = {"infinisst m=1": folder / "mix.wav"}
    tracker.log_media("speech", lambda: media.clips(clip, seconds=0.5))
    tracker.log_summary({"tst/en-de/BLEU": 81.0, "tst/en-de/best": "infinisst m=1"})
    (folder / "results.json").write_text("[]")
    tracker.log_file(folder / "results.json")


def _export(folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_offline_decoding_writes_every_word(tmp_path: Path, wandb_records: Reader) -> None:
    run = open_run(tmp_path / "launch" / "0", kind="evaluate", multirun=True)
    config = {"system": {"name": "infinisst"}, "seed": 3}
    systems = {"infinisst": {"system": {"name": "infinisst"}}}
    export = _export(tmp_path / "export")
    parent = _export(tmp_path / "parent")
    (parent / "run.json").write_text(json.dumps(CARD))
    facts = {"corpus_sha256": "c0ffee", "convention": "queue", "batch_size": 8}
    with Tracker(run, config=config, overrides=["seed=3"], facts=facts, systems=systems) as tracker:
        csv_logger, wandb_logger = tracker.loggers()
        for logger in (csv_logger, wandb_logger):
            logger.log_metrics({"train/loss": 0.5}, step=7)
        tracker.record_models({"backbone": {"name": str(parent)}})
        _evaluate(tracker, run.folder)
        tracker.log_checkpoints([export], best=export)
    records = wandb_records(run.folder)

    (started,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    logged = {update.key: json.loads(update.value_json) for update in started.config.update}
    assert (started.run_id, started.run_group, started.job_type) == (run.id, "launch", "evaluate")
    assert started.display_name == "evaluate/launch/0"
    assert list(started.tags) == ["infinisst", "seed=3"]
    assert (logged["system"], logged["systems"]) == ({"name": "infinisst"}, systems)
    assert logged["overrides"] == ["seed=3"]
    record = logged["provenance"]
    assert facts.items() <= record.items()
    assert {"git", "constraints_sha256", "versions", "hardware"} <= set(record)

    axes = {
        record.metric.name or record.metric.glob_name: record.metric.step_metric
        for record in records
    }
    assert axes["tst/en-de/BLEU"] == "tst/en-de/StreamLAAL"
    assert axes["train/*"] == axes["dev/*"] == "trainer/global_step"

    rows = [{_key(item): item.value_json for item in record.history.item} for record in records]
    names = ("system", "knob", "tst/en-de/StreamLAAL", "tst/en-de/BLEU")
    assert [tuple(row[name] for name in names) for row in rows if "system" in row] == [
        ('"infinisst"', '"m=1"', "1.25", "81"),
        ('"infinisst"', '"m=2"', "1.75", "82"),
    ]
    assert [row["trainer/global_step"] for row in rows if "train/loss" in row] == ["7"]
    absent = {"tst/en-de/COMET", "tst/en-de/LongAP"}
    assert not any(absent & set(row) for row in rows)
    summary = {_key(item): item.value_json for record in records for item in record.summary.update}
    assert (summary["tst/en-de/BLEU"], summary["tst/en-de/best"]) == ("81.0", '"infinisst m=1"')

    sent = [record.artifact for record in records if record.WhichOneof("record_type") == "artifact"]
    requests = [
        record.request.log_artifact.artifact
        for record in records
        if record.request.HasField("log_artifact")
    ]
    used, written = [item for item in (*sent, *requests) if item.type == "model"]
    assert (used.name, used.use_after_commit) == ("model-training1", True)
    assert (written.name, written.use_after_commit) == (f"model-{run.id}", False)
    assert used.digest == written.digest  # of equal files
    for item in (used, written):  # the run is a job of a multirun
        (entry,) = item.manifest.contents
        assert entry.ref.startswith("file://")
    (ended,) = [record.exit for record in records if record.WhichOneof("record_type") == "exit"]
    assert ended.exit_code == 0

    (files,) = run.folder.glob("wandb/offline-run-*/files")
    assert (files / "results.json").read_text() == "[]"
    assert yaml.safe_load((files / "config.yaml").read_text()) == config
    (table,) = files.glob("media/table/hypotheses*.json")
    assert json.loads(table.read_text())["data"] == [["talk1", "Guten Tag"]] * 3
    (chart,) = files.glob("media/table/curves/BLEU_table*.json")
    points = json.loads(chart.read_text())["data"]
    assert [point[1:] for point in points] == [["a", 81.0], ["a", 82.0], ["b", 7.0]]
    assert len(list(files.glob("media/images/plot*.png"))) == 1
    assert [path.read_text() for path in files.glob("media/html/*.html")] == ["<p>page</p>"]
    (clip,) = files.glob("media/audio/speech*.wav")
    assert soundfile.info(clip).frames == 4_000
    assert {"system", "tst/en-de/LongAP"} <= set(
        (run.folder / "metrics.csv").read_text().splitlines()[0].split(",")
    )


def test_a_comparison_has_the_configuration_of_each_system(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", kind="evaluate")
    shared = {"seed": 3, "backbone": {"name": "default"}}
    systems = {name: {"backbone": {"name": name}} for name in ("a", "b")}
    for chosen, left in ((systems, {"seed": 3}), ({"a": systems["a"]}, shared)):
        config = Tracker(run, config=shared, systems=chosen)._wandb_config({})
        assert config["systems"] == chosen
        assert {key: config[key] for key in shared if key in config} == left


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
    assert json.loads((run.folder / "provenance.json").read_text())["batch_size"] == 4
    assert yaml.safe_load((run.folder / "overrides.yaml").read_text()) == ["seed=1"]
    assert not (run.folder / "wandb").exists()


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
