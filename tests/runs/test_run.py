"""Run folders and ids: taken once, kept on resuming, refused in one sentence."""

import json
from pathlib import Path

import lightning
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from zoo.base.errors import ZooError
from zoo.base.machine.launch import RUN_VARIABLE
from zoo.runs.resume import folder_to_resume
from zoo.runs.run import CHECKPOINT_KEY, open_run, run_id_of, write_card
from zoo.training.callbacks.run_identity import RunIdentity


def test_id_is_written_at_once_and_found_again(tmp_path: Path) -> None:
    run = open_run(tmp_path / "a" / "b", kind="train")
    card = json.loads((run.folder / "run.json").read_text())
    assert card["id"] == run.id == run_id_of(run.folder)
    assert len(run.id) == 10
    assert run.name == "train/b"
    other = open_run(tmp_path / "a" / "c", kind="train")
    assert other.id != run.id


def test_folder_of_a_run_is_not_taken_again(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", kind="train")
    before = (run.folder / "run.json").read_text()
    with pytest.raises(ZooError, match=f"already holds the run {run.id}"):
        open_run(tmp_path / "run", kind="train")
    other = open_run(tmp_path / "other", kind="train")
    with pytest.raises(ZooError, match="already holds"):
        open_run(tmp_path / "run", kind="train", resume=other.folder)
    assert (run.folder / "run.json").read_text() == before


def test_folder_with_somebody_elses_files_is_not_taken(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "results.json").write_text("theirs")
    with pytest.raises(ZooError, match="not empty"):
        open_run(folder, kind="evaluate")
    assert [path.name for path in folder.iterdir()] == ["results.json"]


def test_the_log_of_the_job_may_precede_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "evaluate.log").write_text("Synthesising minitalks tst: 1 of 1")
    with pytest.raises(ZooError, match="not empty"):
        open_run(folder, kind="train")
    assert open_run(folder, kind="evaluate").folder == folder


def test_resuming_keeps_id_name_and_group(tmp_path: Path) -> None:
    first = open_run(tmp_path / "launch" / "0", kind="train", name="small", multirun=True)
    again = open_run(first.folder, kind="train", name="another name", resume=first.folder)
    assert (again.id, again.name, again.group) == (first.id, "small", "launch")
    assert again.resumed
    assert not first.resumed
    elsewhere = open_run(tmp_path / "elsewhere", kind="train", resume=first.folder)
    assert elsewhere.id == first.id


def test_checkpoint_carries_the_id(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", kind="train")
    trainer = lightning.Trainer(
        default_root_dir=tmp_path,
        callbacks=[RunIdentity(run)],
        fast_dev_run=1,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(BoringModel())
    path = tmp_path / "moved.ckpt"
    trainer.save_checkpoint(path)
    assert run_id_of(path) == run.id
    resumed = open_run(tmp_path / "next", kind="train", resume=path)
    assert resumed.id == run.id


def test_a_checkpoint_without_id_is_identified_by_its_folder(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", kind="train")
    (run.folder / "checkpoints").mkdir()
    path = run.folder / "checkpoints" / "last.ckpt"
    torch.save({"state_dict": {}}, path)
    assert run_id_of(path) == run.id
    torch.save({CHECKPOINT_KEY: "abc"}, path)
    assert run_id_of(path) == "abc"


def test_export_carries_the_card(tmp_path: Path) -> None:
    run = open_run(tmp_path / "run", kind="train")
    (tmp_path / "export").mkdir()
    write_card(run, tmp_path / "export")
    assert run_id_of(tmp_path / "export") == run.id


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ZooError, match="Cannot write to the run folder"):
        open_run(tmp_path / "file" / "run", kind="train")
    with pytest.raises(ZooError, match="neither a run folder nor a checkpoint"):
        open_run(tmp_path / "new", kind="train", resume=tmp_path / "absent")
    with pytest.raises(ZooError, match="neither a run folder nor a checkpoint"):
        run_id_of(tmp_path / "file")
    assert not (tmp_path / "new").exists()
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ZooError, match="damaged"):
        run_id_of(tmp_path)


def test_child_process_uses_the_folder_of_the_main_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = open_run(tmp_path / "main", kind="train")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv(RUN_VARIABLE, str(main.folder))
    child = open_run(tmp_path / "unused", kind="train")
    assert (child.folder, child.id, child.main) == (main.folder, main.id, False)
    assert not (tmp_path / "unused").exists()


def test_job_of_a_wandb_agent_takes_its_id_and_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep7")
    monkeypatch.setenv("WANDB_RUN_ID", "agent001")
    run = open_run(tmp_path / "a", kind="train")
    assert (run.id, run.group) == ("agent001", "sweep7")
    jobs = [open_run(tmp_path / "launch" / name, kind="train", multirun=True) for name in "01"]
    # one agent call, several jobs: each its own run
    assert len({job.id for job in jobs} | {"agent001"}) == 3
    assert [job.group for job in jobs] == ["launch", "launch"]


def test_a_resumed_run_keeps_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    (tmp_path / "link").symlink_to(folder)
    assert folder_to_resume(None, tmp_path, multirun=False) is None
    assert folder_to_resume(str(folder), tmp_path / "link", multirun=False) == folder
    with pytest.raises(ZooError, match=r"cannot write to .*other; leave out hydra\.run\.dir"):
        folder_to_resume(str(folder), tmp_path / "other", multirun=False)
