"""When W&B is on, and that it neither asks nor takes a run down with it."""

from pathlib import Path
from typing import Any

import pytest
import wandb

from zoo.base.errors import ZooError
from zoo.runs.run import open_run
from zoo.runs.wandb_run import Mode, WandbSettings, has_key, resolve_mode, start

KEY = {"WANDB_API_KEY": "k" * 40}


@pytest.mark.parametrize(
    ("setting", "environment", "mode"),
    [
        (None, {}, "offline"),
        (None, KEY, "online"),
        (None, {**KEY, "WANDB_MODE": "offline"}, "offline"),
        (None, {**KEY, "WANDB_MODE": "dryrun"}, "offline"),
        (None, {**KEY, "WANDB_MODE": "disabled"}, "disabled"),
        (None, {**KEY, "WANDB_DISABLED": "true"}, "disabled"),
        (None, {"WANDB_MODE": "online"}, "offline"),  # would ask for the key
        ("online", {}, "offline"),
        ("online", {**KEY, "WANDB_MODE": "offline"}, "online"),
        ("offline", {**KEY, "WANDB_MODE": "online"}, "offline"),
        ("disabled", {**KEY, "WANDB_MODE": "online"}, "disabled"),
    ],
)
def test_mode(setting: Mode | None, environment: dict[str, str], mode: str, tmp_path: Path) -> None:
    assert resolve_mode(setting, {"NETRC": str(tmp_path / "absent"), **environment}) == mode


def test_key_in_netrc(tmp_path: Path) -> None:
    path = tmp_path / "netrc"
    environment = {"NETRC": str(path)}
    assert not has_key(environment)
    path.write_text("machine api.wandb.ai login user password secret\n")
    path.chmod(0o600)
    assert has_key(environment)
    assert not has_key({**environment, "WANDB_BASE_URL": "https://wandb.example.org"})
    path.write_text("machine")
    assert not has_key(environment)


@pytest.mark.usefixtures("_no_home")
def test_there_is_no_key_without_a_home_folder() -> None:
    assert not has_key({})
    assert resolve_mode(None, {}) == "offline"


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(
        ZooError, match="Unknown W&B mode 'on'; choose one of: online, offline, disabled"
    ):
        WandbSettings(mode="on")  # type: ignore[arg-type]
    with pytest.raises(ZooError, match=r"Unknown logger\.checkpoints 'copy'; choose"):
        WandbSettings(checkpoints="copy")  # type: ignore[arg-type]


def test_checkpoints_of_a_group_are_logged_by_reference(tmp_path: Path) -> None:
    single = open_run(tmp_path / "single", kind="train")
    job = open_run(tmp_path / "launch" / "0", kind="train", multirun=True)
    assert not WandbSettings().by_reference(single)
    assert WandbSettings().by_reference(job)
    assert WandbSettings(checkpoints="reference").by_reference(single)
    assert not WandbSettings(checkpoints="upload").by_reference(job)


def test_unreachable_server_means_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    wandb.teardown()  # it reads the environment once
    run = open_run(tmp_path / "run", kind="train")
    started = start(run, WandbSettings(init_timeout=1.0), {"seed": 1})
    [message] = [record.message for record in caplog.records if record.name.startswith("zoo.")]
    assert message.startswith("W&B continues offline: ")
    assert started is not None
    assert started.offline
    assert started.run.id == run.id
    started.finish(0)
    wandb.teardown()


def test_a_broken_wandb_disables_its_logger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("no service")

    monkeypatch.setattr("wandb.init", broken)
    run = open_run(tmp_path / "run", kind="train")
    assert start(run, WandbSettings(), {}) is None
    assert caplog.messages == ["W&B is disabled, metrics.csv is still written: no service."]
    assert start(run, WandbSettings(mode="disabled"), {}) is None
