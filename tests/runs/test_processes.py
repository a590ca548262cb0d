"""Real command lines: a multirun, two launches in one second, two processes.

The two processes are started by Lightning and by torchrun.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import processes
from zoo.runs.run import run_id_of

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT = 240.0  # seconds; a hang fails
APP = """
import sys
from pathlib import Path
import hydra, lightning
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel
from omegaconf import OmegaConf
from zoo.base.errors import ZooError
from zoo.base.machine.launch import register_resolvers
from zoo.training.callbacks.run_identity import RunIdentity
from zoo.runs.run import open_run
from zoo.runs.tracker import Tracker

class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        result = super().training_step(batch, batch_idx)
        self.log("train/loss", result["loss"])
        return result

def work(cfg):
    multirun = HydraConfig.get().mode is RunMode.MULTIRUN
    folder = Path(HydraConfig.get().runtime.output_dir)
    run = open_run(folder, kind="train", multirun=multirun, resume=cfg.resume)
    config = OmegaConf.to_container(cfg, resolve=True)
    overrides = list(HydraConfig.get().overrides.task)
    settings = hydra.utils.instantiate(cfg.logger)
    with Tracker(run, config=config, overrides=overrides, settings=settings) as tracker:
        if cfg.devices:
            lightning.Trainer(
                accelerator="cpu", devices=cfg.devices, strategy="ddp", max_steps=2,
                limit_val_batches=0,
                log_every_n_steps=1, logger=tracker.loggers(),
                callbacks=[RunIdentity(run), ModelCheckpoint(dirpath=run.folder / "checkpoints")],
                default_root_dir=run.folder, enable_progress_bar=False, enable_model_summary=False,
            ).fit(Model())
        tracker.log_scores("tst/en-de", {"BLEU": cfg.seed}, labels={"knob": "m=1"})

register_resolvers()

@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    try:
        work(cfg)
    except ZooError as error:
        print(error, file=sys.stderr)
        sys.exit(2)

main()
"""
CONFIG = f"""
defaults: [logger: default, hydra: default, _self_]
hydra: {{searchpath: ["file://{REPOSITORY / "conf"}"]}}
seed: 0
devices: 0
resume: null
"""

Reader = Callable[[Path], list[Any]]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder with a small program on our modules and our conf."""
    folder = tmp_path / "app"
    (folder / "conf").mkdir(parents=True)
    (folder / "train.py").write_text(APP)
    (folder / "conf" / "train.yaml").write_text(CONFIG)
    return folder


def _start(app: Path, *command: str) -> processes.Process:
    environment = {"PYTHONPATH": str(REPOSITORY), "OMP_WAIT_POLICY": "passive"}
    return processes.start(*command, folder=app, environment=environment, joined=True)


def _finish(process: processes.Process) -> str:
    output, _ = process.communicate(timeout=TIMEOUT)
    return output


def _folders(app: Path) -> list[Path]:
    """Every folder under outputs except those of W&B and checkpoints."""
    assert {path.name for path in app.iterdir()} == {"train.py", "conf", "outputs"}
    found = [path for path in (app / "outputs").rglob("*") if path.is_dir()]
    return sorted(
        path for path in found if not {"wandb", "checkpoints"} & set(path.relative_to(app).parts)
    )


def _wandb_runs(folder: Path, read: Reader) -> list[tuple[str, str]]:
    """Id and group of every W&B run under ``folder``."""
    runs = [read(file.parent) for file in sorted(folder.rglob("*.wandb"))]
    started = [
        next(record.run for record in run if record.WhichOneof("record_type") == "run")
        for run in runs
    ]
    return [(run.run_id, run.run_group) for run in started]


def _check_multirun(app: Path, read: Reader, *, trained: bool) -> None:
    """Two jobs: two folders in the launch's, two W&B runs, one group."""
    launch = next((app / "outputs" / "train").iterdir())
    assert _folders(app) == [launch.parent, launch, launch / "0", launch / "1"]
    cards = [json.loads((launch / job / "run.json").read_text()) for job in "01"]
    assert _wandb_runs(launch, read) == [(card["id"], launch.name) for card in cards]
    assert cards[0]["id"] != cards[1]["id"]
    for job in "01":
        rows = (launch / job / "metrics.csv").read_text().splitlines()
        assert rows[-1].endswith(f",m=1,{job}")  # knob and BLEU of this job's seed
        assert len(rows) == 1 + 2 * trained + 1
        saved = list((launch / job / "checkpoints").glob("*.ckpt"))
        assert [run_id_of(path) for path in saved] == [cards[int(job)]["id"]] * trained


def test_multirun_and_two_launches_at_once(
    app: Path, tmp_path: Path, wandb_records: Reader
) -> None:
    """A multirun of two jobs and two single runs, started together."""
    single = tmp_path / "single"
    single.mkdir()
    (single / "train.py").write_text(APP)
    (app / "conf").rename(tmp_path / "conf")
    for folder in (app, single):
        (folder / "conf").symlink_to(tmp_path / "conf")
    multirun = _start(app, "train.py", "-m", "seed=0,1")
    together = [_start(single, "train.py", "logger=csv") for _ in range(2)]
    for process in (multirun, *together):
        assert _finish(process) == ""
        assert process.returncode == 0
    _check_multirun(app, wandb_records, trained=False)
    outputs, first, second = _folders(single)
    assert first.parent == second.parent == outputs == single / "outputs" / "train"


def test_two_process_multirun_by_lightning(app: Path, wandb_records: Reader) -> None:
    """Children of job 0 are not taken for those of job 1, and neither start the multirun over."""
    process = _start(app, "train.py", "-m", "seed=0,1", "devices=2")
    output = _finish(process)
    assert process.returncode == 0, output
    assert output.count("GLOBAL_RANK: 1, MEMBER: 2/2") == 2, output
    _check_multirun(app, wandb_records, trained=True)


def test_two_process_multirun_by_torchrun(app: Path, wandb_records: Reader) -> None:
    command = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py")
    process = _start(app, *command, "-m", "seed=0,1", "devices=2")
    output = _finish(process)
    assert process.returncode == 0, output
    _check_multirun(app, wandb_records, trained=True)


def test_resume_and_refusals_from_the_command_line(app: Path) -> None:
    process = _start(app, "train.py", "logger=csv", "hydra.run.dir=outputs/train/mine")
    assert _finish(process) == ""
    card = (app / "outputs/train/mine/run.json").read_text()
    resumed, refused = (
        _start(app, "train.py", "logger=csv", *overrides)
        for overrides in (["resume=outputs/train/mine"], ["hydra.run.dir=outputs/train/mine"])
    )
    assert (_finish(resumed), resumed.returncode) == ("", 0)
    assert "already holds the run" in _finish(refused)
    assert refused.returncode == 2
    assert _folders(app) == [app / "outputs/train", app / "outputs/train/mine"]
    assert (app / "outputs/train/mine/run.json").read_text() == card
    assert len((app / "outputs/train/mine/metrics.csv").read_text().splitlines()) == 3
