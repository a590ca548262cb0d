"""The compute of a row: its stages, and what other work on the machine may have added to it."""

import os
from collections.abc import Sequence

from zoo.base.machine.cores import usable_cores
from zoo.base.types import Instance, StageTimes
from zoo.runs.rows.row import Row
from zoo.runs.rows.settings import Compute

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


def compute_facts(instances: Sequence[Instance]) -> Compute | None:
    """Return what is known of the machine during some streams; None without stages."""
    measured = _measured(instances)
    chunks = sum(len(instance.chunks) for instance, _ in measured)
    total = sum(sum(stages.seconds.values()) for _, stages in measured)
    if not chunks or not total:
        return None
    return Compute(
        chunk_seconds=round(sum(one.source_length for one, _ in measured) / chunks, 3),
        cpu_share=round(sum(stages.cpu for _, stages in measured) / total, 3),
        load_average=round(os.getloadavg()[0], 3),
        cores=usable_cores(),
    )


def load_note(rows: Sequence[Row]) -> str:
    """Return a sentence about the rows that were streamed on a loaded machine, or ""."""
    found = [row.settings.compute for row in rows if row.has_loaded_machine]
    loaded = [compute for compute in found if compute is not None]
    if not loaded:
        return ""
    streamed = [row for row in rows if row.settings.compute is not None]
    share = min(compute.cpu_share for compute in loaded)
    load = max(compute.load_average for compute in loaded)
    return (
        f"Computation-aware times of {len(loaded)} of {len(streamed)} rows are too high: the "
        f"machine was loaded (load average up to {load:.1f} on {loaded[0].cores} cores; the thread "
        f"that streams had a CPU for {share:.0%} of its time)."
    )


def _measured(instances: Sequence[Instance]) -> list[tuple[Instance, StageTimes]]:
    """Return the streams with audio whose stages were measured, with these."""
    return [(one, one.stages) for one in instances if one.stages and one.source_length > 0]
