"""Flicker of systems that revise their output."""

from collections.abc import Sequence

from zoo.base.types import Instance
from zoo.metrics.rules import plain_length
from zoo.metrics.signature import Score, signature


def normalized_erasure(instances: Sequence[Instance]) -> Score | None:
    """Return the deleted units as a share of the units of the final output.

    Arivazhagan et al. (2020), "Re-translation versus Streaming for Simultaneous Translation",
    section 4.2, over all streams as in simulstream. Revised words are counted as whole words.

    Args:
        instances: Streams.

    Returns:
        The score; its value is None without output. None: nothing was deleted.
    """
    deleted = [
        plain_length(event.text, instance.unit)
        for instance in instances
        for event in instance.events
        if event.kind == "revision"
    ]
    if not deleted:
        return None
    units = sum(len(instance.units) for instance in instances)
    name = "NormalizedErasure"
    facts = signature(name, unit=instances[0].unit)
    return Score(name, sum(deleted) / units if units else None, facts)
