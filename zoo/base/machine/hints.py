"""How hints to the user name the commands."""

import sys
from pathlib import Path

SCRIPTS = ("train", "evaluate")  # in the repository
PREFIX = "simulzoo-"  # of the installed commands (pyproject.toml)
INSTALLED = (Path(__file__).parents[1] / "conf").is_dir()  # a wheel has conf/ in the package


def job_command(job: str) -> str:
    """Return the words that start a job.

    Args:
        job: ``train``, ``evaluate``, ``translate`` or ``prepare``.

    Returns:
        ``simulzoo evaluate`` if the user has started an installed command or the package is
        installed without the repository; otherwise ``python evaluate.py``. The repository has no
        script for the others: ``python -m zoo translate``.
    """
    installed = INSTALLED or Path(sys.argv[0]).name.startswith(PREFIX)
    if installed:
        return f"{PREFIX}{job}"
    return f"python {job}.py" if job in SCRIPTS else f"python -m zoo.{job}"
