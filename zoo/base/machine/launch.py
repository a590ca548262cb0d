"""Processes of one launch: the main process, the shared name, and the environment of each job.

A launch is one command line. It runs in one process or in several (torchrun, or child processes
that Lightning starts) and does one job or the jobs of a multirun.
"""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from omegaconf import OmegaConf

from zoo.base.disk.files import check_links
from zoo.base.disk.run_folder import RUN_CARD
from zoo.base.errors import ZooError, check_name, shorten
from zoo.base.machine.launcher import place

# Environment variable with the run folder of the main process. The child processes that Lightning
# starts read it.
RUN_VARIABLE = "SIMULZOO_RUN"
# Environment variable in which a user sets the name of the launch, for launchers that give their
# processes no common store (mpirun).
LAUNCH_VARIABLE = "SIMULZOO_LAUNCH"
_STORE_KEY = "simulzoo/launch"
STORE_SECONDS = 30  # a store of torchrun exists before its workers
NAME_SECONDS = 300  # for the main process to start, on a busy machine
# Lightning's launcher sets these variables. If they stay, the next job of a multirun runs as a
# child process and waits forever for a main process that has ended.
_LAUNCHER_VARIABLES = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "OMP_NUM_THREADS",
)


def is_main_process(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process writes files and logs; see ``Place``."""
    return place(environment).main


@cache
def launch_name() -> str:
    """Return the name of this launch, ``<date>_<time>_<random>``, equal on all of its processes.

    Raises:
        ZooError: this process is not the main process and has no access to the name.
    """
    if (name := os.environ.get(LAUNCH_VARIABLE)) is not None:
        _check_name(name)
        return name
    here = place()
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return _agreed_name()
    if here.launcher == "srun" and here.per_node * here.nodes > 1 and "SLURM_JOB_ID" in os.environ:
        return f"slurm_{os.environ['SLURM_JOB_ID']}_{os.environ.get('SLURM_STEP_ID', '0')}"
    if here.main:
        return new_name()
    if RUN_VARIABLE in os.environ:
        return Path(os.environ[RUN_VARIABLE]).name
    raise ZooError(
        f"A process of rank > 0 has no name of its launch; set {LAUNCH_VARIABLE} to the same name "
        "on all processes."
    )


def _check_name(name: str) -> None:
    """Raise ZooError unless the name of a launch can be that of a folder."""
    if not name.strip() or name in (".", "..") or "/" in name or not name.isprintable():
        raise ZooError(
            f"{LAUNCH_VARIABLE} must be the name of a folder, such as job-17, not "
            f"{shorten(repr(name))}; correct or unset it."
        )
    check_name(LAUNCH_VARIABLE, name)


def new_name() -> str:
    """Return a new name, ``<date>_<time>_<random>``: names sort by time and are unique."""
    return f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(3)}"


def _agreed_name() -> str:
    """Return the name that the main process has written to torchrun's store."""
    from torch.distributed import TCPStore

    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name):
            raise ZooError(f"{name} is not set, which torchrun sets; start the command with it.")
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    key = f"{_STORE_KEY}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    reason = f"torchrun's store at {host}:{port} (MASTER_ADDR, MASTER_PORT)"
    try:
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=STORE_SECONDS))
    except (RuntimeError, ValueError) as error:
        raise ZooError(
            f"{reason} does not answer within {STORE_SECONDS} s; start the command with torchrun "
            "again, or unset its variables."
        ) from error
    store.set_timeout(timedelta(seconds=NAME_SECONDS))
    try:
        if is_main_process():
            store.set(key, new_name())
        return str(store.get(key).decode())
    except RuntimeError as error:
        raise ZooError(f"{reason} has no name of the launch from the main process.") from error


def register_resolvers() -> None:
    """Register ``${run_folder:ROOT,RESUME}``: ``ROOT/<launch name>``, or the run to resume."""
    OmegaConf.register_new_resolver("run_folder", _run_folder, replace=True)


def _run_folder(root: str, resume: object = None) -> str:
    # a value of another type is refused later, with an error that explains it
    if isinstance(resume, str) and (Path(resume) / RUN_CARD).is_file():
        check_links(Path(resume))  # check links before Hydra appends to the log in the folder
        return resume
    return str(Path(root) / launch_name())


@contextmanager
def job(folder: Path, *, multirun: bool, overrides: Sequence[str]) -> Iterator[None]:
    """Set the environment of one job and restore it afterwards.

    Args:
        folder: run folder of the job; child processes write to it as well.
        multirun: whether the job is one of several. Child processes then run with the overrides of
            this job, since the command line of the launch would start the whole multirun again.
        overrides: overrides of this job.
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
def default_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set the variables that the environment lacks, and remove them afterwards."""
    missing = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def single_job(arguments: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the command line of one job of a multirun.

    Args:
        arguments: command line of the launch; its flags, except ``-m``, apply to each job.
        overrides: overrides of the job.
    """
    flags = [
        item
        for item in arguments
        if item.startswith("-") or ("=" not in item and not item.startswith("~"))
    ]
    return [item for item in flags if item not in ("-m", "--multirun")] + list(overrides)


def _leave_process_group() -> None:
    """Leave the process group of child processes that have ended; the next job would hang in it."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def _restore(saved: Mapping[str, str | None]) -> None:
    for name, value in saved.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
