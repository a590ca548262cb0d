"""The provenance of a run as its page shows it."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from zoo.base.machine.hints import job_command
from zoo.runs.provenance import provenance


def page_context(facts: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, str]:
    """Return the provenance of the run, as the report shows it.

    Args:
        facts: further facts by name.
        overrides: overrides of the job.
    """
    record = provenance()
    git, hardware = record["git"], record["hardware"]
    commit = f"{git['commit']}{' (with changes)' if git['dirty'] else ''}" if git else "unknown"
    parts = [hardware["cpu"], f"{hardware['usable_cores']} cores"]
    if hardware["torch_threads"] is not None:
        parts += [f"{hardware['torch_threads']} threads", *hardware["gpus"]]
    return {
        "command": f"{job_command('evaluate')} {shlex.join(overrides)}".strip(),
        "date": f"{datetime.now():%Y-%m-%d %H:%M}",
        **{name.replace("_", " "): str(value) for name, value in facts.items()},
        "git commit": commit,
        "machine": ", ".join(parts),
    }
