"""The commands that hints to the user name."""

import sys
from pathlib import Path

INSTALLED = (Path(__file__).parent / "conf").is_dir()  # a wheel has conf/ in the package


def job_command(job: str) -> str:
    """Return the words that start a job.

    Args:
        job: ``train`` or ``evaluate``.

    Returns:
        ``simulzoo-evaluate`` if the user has started an installed command or the package is
        installed without the repository; otherwise ``python evaluate.py``.
    """
    installed = INSTALLED or Path(sys.argv[0]).name.startswith("simulzoo-")
    return f"simulzoo-{job}" if installed else f"python {job}.py"
