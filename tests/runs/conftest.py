"""W&B offline in the test's folder, and a reader of its records."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zoo.base.machine import launch

LAUNCHERS = (
    "RANK",
    "LOCAL_RANK",
    "NODE_RANK",
    "WORLD_SIZE",
    "GROUP_RANK",
    "TORCHELASTIC_RUN_ID",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "MASTER_ADDR",
    "MASTER_PORT",
    launch.RUN_VARIABLE,
    launch.LAUNCH_VARIABLE,
    "TORCHELASTIC_USE_AGENT_STORE",
)
_WANDB = (
    "API_KEY",
    "MODE",
    "DISABLED",
    "RUN_ID",
    "RUN_GROUP",
    "SWEEP_ID",
    "DATA_DIR",
    "BASE_URL",
    "PROJECT",
    "ENTITY",
)


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No launcher, no account, nothing written outside of the test's folder."""
    for name in (*LAUNCHERS, *(f"WANDB_{name}" for name in _WANDB), "WANDB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NETRC", str(home / ".netrc"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(home / "cache"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(home / "config"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    launch.launch_name.cache_clear()
    yield
    launch.launch_name.cache_clear()


@pytest.fixture
def wandb_records() -> Callable[[Path], list[Any]]:
    """Reads the one offline W&B run under a folder: its protocol records, in order."""
    return _read_records


def _read_records(folder: Path) -> list[Any]:
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    # its service writes a moment after finish() returns, and at the latest when the process ends
    wandb.teardown()
    (file,) = folder.rglob("*.wandb")
    data, records, partial = file.read_bytes(), [], b""
    # a LevelDB log: 7 bytes of header, then blocks of records, each with a 7-byte header
    block, offset = (32_768, 7)
    while offset + 7 <= len(data):
        if block - offset % block < 7:
            offset += block - offset % block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, offset)
        partial += data[offset + 7 : offset + 7 + length]
        offset += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            record = Record()
            record.ParseFromString(partial)
            records.append(record)
            partial = b""
    return records
