"""The main process, names of launches, and files of a job."""

import os
import re
import socket
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from zoo.base.errors import ZooError
from zoo.base.machine import launch


def test_names_differ_within_a_second_and_stay_within_a_launch() -> None:
    names = {launch.new_name() for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_[0-9a-f]{6}", name) for name in names)
    assert launch.launch_name() == launch.launch_name()


def test_other_process_needs_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(ZooError, match="SIMULZOO_LAUNCH"):
        launch.launch_name()
    monkeypatch.setenv(launch.LAUNCH_VARIABLE, "job-17")
    assert launch.launch_name() == "job-17"


@pytest.mark.parametrize("name", ["", " ", ".", "..", "../x", "/tmp/x", "a\x1b[2J", "x" * 300])
def test_a_name_of_the_user_is_that_of_a_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(launch.LAUNCH_VARIABLE, name)
    with pytest.raises(ZooError, match="SIMULZOO_LAUNCH"):
        launch.launch_name()


def test_a_store_that_is_gone_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "STORE_SECONDS", 1)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(ZooError, match="MASTER_ADDR is not set"):
        launch.launch_name()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
    with pytest.raises(ZooError, match=r"store at 127\.0\.0\.1:\d+ .* does not answer within 1 s"):
        launch.launch_name()


def test_resolver_gives_a_new_folder_or_the_one_to_resume(tmp_path: Path) -> None:
    launch.register_resolvers()
    config = OmegaConf.create({"resume": None, "dir": "${run_folder:outputs/train,${resume}}"})
    assert config.dir == f"outputs/train/{launch.launch_name()}"
    config.resume = str(tmp_path)
    # not a run: refused later, not written into
    assert config.dir == f"outputs/train/{launch.launch_name()}"
    (tmp_path / "run.json").write_text("{}")
    assert config.dir == str(tmp_path)


def test_job_hands_its_folder_to_children_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["train.py", "-m", "seed=0,1", "--config-name", "tiny", "~logger"]
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with launch.job(tmp_path, multirun=True, overrides=["seed=1", "~logger"]):
        assert sys.argv == ["train.py", "--config-name", "tiny", "seed=1", "~logger"]
        assert os.environ[launch.RUN_VARIABLE] == str(tmp_path)
        # as Lightning does
        os.environ.update(LOCAL_RANK="0", WORLD_SIZE="2", MASTER_PORT="1", OMP_NUM_THREADS="1")
    assert sys.argv == ["train.py", "-m", "seed=0,1", "--config-name", "tiny", "~logger"]
    assert not {"LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT", launch.RUN_VARIABLE} & set(os.environ)
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_single_run_keeps_its_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "seed=1", "hydra.run.dir=elsewhere"])
    with launch.job(tmp_path, multirun=False, overrides=["seed=1"]):
        assert sys.argv == ["train.py", "seed=1", "hydra.run.dir=elsewhere"]
