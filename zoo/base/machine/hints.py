"""How hints to the user name the commands."""

import sys
from pathlib import Path

SCRIPTS = ("train", "evaluate")  # in the repository
SCRIPT = "simulzoo"  # the installed command (pyproject.toml)
INSTALLED = (Path(__file__).parents[2] / "conf").is_dir()  # a wheel has conf/ in the package


def job_command(job: str) -> str:
    """Return the words that start a job.

    Args:
        job: ``train``, ``evaluate``, or another command of ``python -m zoo``.

    Returns:
        ``python evaluate.py`` for the scripts of the repository; see ``program`` for the others,
        and for a package that is installed without the repository.
    """
    if job in SCRIPTS and not _is_installed():
        return f"python {job}.py"
    return program(job)


def program(command: str) -> str:
    """Return the words that start a command: ``simulzoo report`` or ``python -m zoo report``.

    The former if the user has started the installed command, or the package is installed without
    the repository.

    Args:
        command: Name of the command.
    """
    return f"{SCRIPT if _is_installed() else 'python -m zoo'} {command}"


def _is_installed() -> bool:
    started = (sys.argv[0], *sys.orig_argv[1:2])  # runpy replaces the former
    return INSTALLED or any(Path(name).name == SCRIPT for name in started)
