"""Processes of one launch: which of them is the main one, the name they share, and what one job leaves to the next.

Knows no run and no logger. A launch is one command line: one process, or several of them (torchrun, or children that
Lightning starts), doing one job or the jobs of a multirun.
"""

import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from types import FrameType

from omegaconf import OmegaConf

from zoo.errors import ZooError

RUN_VARIABLE = (
    "SIMULZOO_RUN"  # the main process hands its run folder to the children that Lightning starts
)
LAUNCH_VARIABLE = (
    "SIMULZOO_LAUNCH"  # a shared name set by hand, for launchers we cannot ask (srun, mpirun)
)
_TERMINATED = 128 + signal.SIGTERM  # exit code, as a shell counts it
_STORE_KEY = "simulzoo/launch"
# What Lightning's launcher writes into the environment; left there, the next job of a multirun takes itself for a child
# of a launcher that is gone and waits for it for ever.
_LAUNCHER_VARIABLES = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "OMP_NUM_THREADS",
)


def is_main_process(environment: Mapping[str, str] = os.environ) -> bool:
    """True on the one process that writes files and logs: global rank 0, or local rank 0 of node 0."""
    if "RANK" in environment:
        return int(environment["RANK"]) == 0
    if "SLURM_PROCID" in environment and int(environment.get("SLURM_NTASKS", 1)) > 1:
        return int(environment["SLURM_PROCID"]) == 0
    return int(environment.get("LOCAL_RANK", 0)) == 0 and int(environment.get("NODE_RANK", 0)) == 0


@cache
def launch_name() -> str:
    """The name of this launch, ``<date>_<time>_<random>``: the same on all its processes, different for every launch.

    Raises ZooError on a process that is not the main one and has no way to learn the name.
    """
    if LAUNCH_VARIABLE in os.environ:
        return os.environ[LAUNCH_VARIABLE]
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return _agreed_name()
    if is_main_process():
        return new_name()
    if RUN_VARIABLE in os.environ:
        return Path(os.environ[RUN_VARIABLE]).name
    raise ZooError(
        f"A process of rank > 0 does not know its launch; set {LAUNCH_VARIABLE} to one name on all of them."
    )


def new_name() -> str:
    """A fresh ``<date>_<time>_<random>``: sorts by time and does not collide within the same second."""
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"


def _agreed_name() -> str:
    """The main process's name, passed on through the store that torchrun keeps for its workers."""
    from torch.distributed import TCPStore

    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    key = f"{_STORE_KEY}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    if is_main_process():
        store.set(key, new_name())
    return str(store.get(key).decode())


def register_resolvers() -> None:
    """Make ``${run_folder:ROOT,RESUME}`` known to configs: ``ROOT/<launch name>``, or the run folder to resume."""
    OmegaConf.register_new_resolver("run_folder", _run_folder, replace=True)


def _run_folder(root: str, resume: str | None = None) -> str:
    if resume is not None and (Path(resume) / "run.json").is_file():
        return str(resume)
    return str(Path(root) / launch_name())


@contextmanager
def job(folder: Path, *, multirun: bool, overrides: Sequence[str]) -> Iterator[None]:
    """The surroundings of one job: children find its folder, and nothing of it is left over for the next job.

    folder: the job's run folder. multirun: this job is one of several. overrides: the overrides of this job alone,
    which become the command line of children, for they would start the whole multirun over again.
    """
    saved = {name: os.environ.get(name) for name in (*_LAUNCHER_VARIABLES, RUN_VARIABLE)}
    arguments = list(sys.argv)
    if is_main_process():
        os.environ[RUN_VARIABLE] = str(folder.resolve())
    if multirun:
        sys.argv[1:] = single_job(arguments[1:], overrides)
    try:
        yield
    finally:
        sys.argv[:] = arguments
        if saved["LOCAL_RANK"] is None and "LOCAL_RANK" in os.environ:
            _leave_process_group()
        _restore(saved)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM (a scheduler's time limit, a W&B agent's stop) end the job as an exception does: through finally."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may have handlers
        return

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def default_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set what the environment does not have yet, and take it away again."""
    missing = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def single_job(arguments: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The command line of one job of a multirun: flags but for ``-m`` stay, the overrides become the job's own."""
    flags = [
        item
        for item in arguments
        if item.startswith("-") or ("=" not in item and not item.startswith("~"))
    ]
    return [item for item in flags if item not in ("-m", "--multirun")] + list(overrides)


def _leave_process_group() -> None:
    """Children of this job are gone: a group that still counts on them would hang the next job."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def _restore(saved: Mapping[str, str | None]) -> None:
    for name, value in saved.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
