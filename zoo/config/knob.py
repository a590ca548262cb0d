"""The key and the override that set what the latency knob of a system sets, too."""

from collections.abc import Sequence

from omegaconf import DictConfig

from zoo.config.writing import override_key


def knob_key(cfg: DictConfig) -> str | None:
    """Return the key of what a system's latency knob sets, such as ``policy.frames``.

    Args:
        cfg: configuration of one system.
    """
    knob = cfg.system.get("knob")
    if knob is None:
        return None
    part = knob.attribute.partition(".")[0]
    return str(knob.attribute if part in cfg else f"system.{knob.attribute}")


def typed_latency(cfg: DictConfig, typed: Sequence[str]) -> tuple[str, str] | None:
    """Return the override of the attribute that a system's latency knob sets, and its key.

    Args:
        cfg: configuration of one system.
        typed: overrides. The last one is in effect.

    Returns:
        For example ``policy.frames=6`` and ``policy.frames``; None if there is none.
    """
    if (key := knob_key(cfg)) is None:
        return None
    found = {override_key(item): item for item in typed}
    return (found[key], key) if key in found else None
