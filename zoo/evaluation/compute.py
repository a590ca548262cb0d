"""The compute of a row: its stages, and what other work on the machine may have added to it."""

import os
from collections.abc import Sequence
from typing import Any

from zoo.machine.cores import usable_cores
from zoo.results.row import Row
from zoo.types import Instance, StageTimes

DIGITS = 6  # of seconds per second


def stage_parts(instances: Sequence[Instance]) -> dict[str, float]:
    """Return the compute of some streams by stage, in seconds per second of audio.

    Empty if no stream has stages.
    """
    measured = _measured(instances)
    audio = sum(instance.source_length for instance, _ in measured)
    totals: dict[str, float] = {}
    for _, stages in measured:
        for name, seconds in stages.seconds.items():
            totals[name] = totals.get(name, 0.0) + seconds
    return {name: round(seconds / audio, DIGITS) for name, seconds in totals.items()}


def compute_facts(instances: Sequence[Instance]) -> dict[str, Any]:
    """Return entries of ``settings`` about the compute of some streams; none without stages.

    They are the mean duration of a chunk in seconds, the share of the compute time in which the
    streaming thread had a CPU, the load average of the last minute, and the number of cores.
    """
    measured = _measured(instances)
    chunks = sum(len(instance.chunks) for instance, _ in measured)
    total = sum(sum(stages.seconds.values()) for _, stages in measured)
    if not chunks or not total:
        return {}
    facts = {
        "chunk_seconds": sum(instance.source_length for instance, _ in measured) / chunks,
        "cpu_share": sum(stages.cpu for _, stages in measured) / total,
        "load_average": os.getloadavg()[0],
    }
    rounded = {name: round(value, 3) for name, value in facts.items()}
    return {"compute": {**rounded, "cores": usable_cores()}}


def load_note(rows: Sequence[Row]) -> str:
    """Return a sentence about the rows that were streamed on a loaded machine, or ""."""
    loaded = [row.settings["compute"] for row in rows if row.has_loaded_machine]
    if not loaded:
        return ""
    share = min(facts["cpu_share"] for facts in loaded)
    load = max(facts["load_average"] for facts in loaded)
    return (
        f"Computation-aware times of {len(loaded)} of {len(rows)} rows are too high: the machine "
        f"was loaded (load average up to {load:.1f} on {loaded[0]['cores']} cores; the thread that "
        f"streams had a CPU for {share:.0%} of its time)."
    )


def _measured(instances: Sequence[Instance]) -> list[tuple[Instance, StageTimes]]:
    """Return the streams whose stages were measured, with these."""
    return [(one, one.stages) for one in instances if one.stages is not None]
