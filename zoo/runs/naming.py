"""Names and tags of W&B runs: the systems of a run and what its command line changed."""

from collections.abc import Sequence

from zoo.config.writing import override_key

NAMED = 3  # systems in a name; more are counted
NAME_LENGTH = 128  # characters of a name that W&B accepts
TAG_LENGTH = 64  # characters of a tag that W&B accepts
TAGS = 24  # tags of a run; W&B's filters become unreadable with more
# Overrides of these keys describe the machine or the logging, and not the results. The systems of
# `compare` are named by themselves.
LEFT_OUT = ("compare", "device", "hydra", "launcher", "logger", "resume", "threads", "trainer")


def run_name(systems: Sequence[str], overrides: Sequence[str]) -> str:
    """Return the name of a run, such as ``infinisst, streamuni seed=1``.

    Args:
        systems: names of the systems; after the first ones, the others are counted.
        overrides: overrides of the job.
    """
    named = ", ".join(systems[:NAMED])
    if len(systems) > NAMED:
        named += f" and {len(systems) - NAMED} more"
    return _shortened(" ".join([named, *_results_overrides(overrides)]), NAME_LENGTH)


def run_tags(systems: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """Return the tags of a run: its systems, then its overrides, a bounded number of them.

    Args:
        systems: names of the systems.
        overrides: overrides of the job.
    """
    tags = [_shortened(tag, TAG_LENGTH) for tag in (*systems, *_results_overrides(overrides))]
    return list(dict.fromkeys(tags))[:TAGS]


def _results_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides on which the results depend."""
    return [
        item
        for item in overrides
        if override_key(item).partition(".")[0].partition("@")[0] not in LEFT_OUT
    ]


def _shortened(text: str, length: int) -> str:
    """Return a text on one line of at most ``length`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
