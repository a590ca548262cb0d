"""The launcher of this process, by its environment variables: torchrun, srun or another one.

The rule is Lightning's: torchrun before SLURM, and a SLURM job named ``bash`` or ``interactive`` is
a shell. Two cases differ, in which Lightning waits forever for tasks that nobody starts: the script
of a batch job, which srun has not started, and a shell of ``srun --pty`` in a job of another name.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zoo.base.errors import ZooError, shorten

MOST_RANKS = 1_000_000
MOST_PORT = 65_535
SHELLS = ("bash", "interactive")  # names of jobs
PTY = "SLURM_PTY_PORT"  # srun --pty sets it
TASK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")  # each task of srun has them
Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a process among those of its launcher.

    Attributes:
        launcher: ``torchrun``, ``srun``, or ``other``: none, Lightning, mpirun, a script.
        main: Whether this process writes files and logs. It has global rank 0; without a global
            rank, it has local rank 0 on node 0.
        per_node: Number of processes per node that torchrun or srun has started; 1 for others.
        nodes: Number of their nodes; 1 for others.
    """

    launcher: Literal["torchrun", "srun", "other"]
    main: bool
    per_node: int = 1
    nodes: int = 1


def place(environment: Environment = os.environ) -> Place:
    """Return the place of this process.

    Raises:
        ZooError: A variable of the launcher is missing or has an impossible value.
    """
    _number(environment, "MASTER_PORT", 0, most=MOST_PORT)
    if "TORCHELASTIC_RUN_ID" in environment:
        return _under_torchrun(environment)
    if is_under_srun(environment):
        return _under_srun(environment)
    world = _number(environment, "WORLD_SIZE", MOST_RANKS, least=1)
    rank = _number(environment, "RANK", 0, most=world - 1)
    local = _number(environment, "LOCAL_RANK", 0)
    node = _number(environment, "NODE_RANK", _number(environment, "GROUP_RANK", 0))
    return Place("other", main=rank == 0 if "RANK" in environment else (local, node) == (0, 0))


def is_under_srun(environment: Environment = os.environ) -> bool:
    """Return whether srun has started this process as one of its tasks."""
    if "SLURM_NTASKS" not in environment or PTY in environment:
        return False
    if environment.get("SLURM_JOB_NAME") in SHELLS:
        return False
    # The batch script has the variables of a task as well, those of the first one.
    first = environment.get("SLURM_PROCID", "0") == "0"
    return not first or "SLURM_STEP_ID" in environment


def _under_torchrun(environment: Environment) -> Place:
    world = _number(environment, "WORLD_SIZE", None, least=1)
    per_node = _number(environment, "LOCAL_WORLD_SIZE", None, least=1)
    rank = _number(environment, "RANK", None, most=world - 1)
    _number(environment, "LOCAL_RANK", None, most=per_node - 1)
    if world % per_node:
        raise ZooError(
            f"WORLD_SIZE={world} is no multiple of LOCAL_WORLD_SIZE={per_node}; start as many "
            "processes on each node."
        )
    return Place("torchrun", main=rank == 0, per_node=per_node, nodes=world // per_node)


def _under_srun(environment: Environment) -> Place:
    tasks = _number(environment, "SLURM_NTASKS", None, least=1)
    nodes = _number(environment, "SLURM_NNODES", 1, least=1)
    rank = _number(environment, "SLURM_PROCID", None, most=tasks - 1)
    for name in TASK:
        _number(environment, name, None)
    _number(environment, "SLURM_JOB_ID", 0, most=1 << 63)
    _number(environment, "SLURM_STEP_ID", 0, most=1 << 63)
    if tasks == 1:
        return Place("srun", main=True)
    if "SLURM_NTASKS_PER_NODE" not in environment:
        raise ZooError(
            f"srun has started {tasks} tasks without --ntasks-per-node; write srun "
            f"--ntasks={tasks} --ntasks-per-node={max(1, tasks // nodes)}, for the ranks of a node "
            "need its number of tasks."
        )
    per_node = _number(environment, "SLURM_NTASKS_PER_NODE", None, least=1)
    if tasks != per_node * nodes:
        raise ZooError(
            f"srun has started {tasks} tasks on {nodes} nodes with {per_node} per node; start as "
            "many on each node."
        )
    return Place("srun", main=rank == 0, per_node=per_node, nodes=nodes)


def _number(
    environment: Environment,
    name: str,
    default: int | None,
    *,
    least: int = 0,
    most: int = MOST_RANKS,
) -> int:
    """Return the number in a variable. Raises ZooError if it is none or missing."""
    if name not in environment and default is not None:
        return default
    value = environment.get(name)
    if value is None:
        raise ZooError(
            f"The environment variable {name} is missing, which the launcher sets; start the "
            "command with torchrun or srun, or unset the variables of the launcher "
            "(TORCHELASTIC_RUN_ID, SLURM_NTASKS)."
        )
    number = value.strip()
    if not (number.isascii() and number.isdecimal() and len(number) <= len(str(most))):
        number = ""
    if not number or not least <= int(number) <= most:
        raise ZooError(
            f"The environment variable {name} must be a whole number from {least} to {most}, not "
            f"{shorten(repr(value))}; a launcher such as torchrun or srun sets it. Correct or "
            "unset it."
        )
    return int(number)
