"""The rows of an experiment whose synthesizer is not named or lacks the language."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from zoo.base.languages import language
from zoo.config import Config, choices, choices_of, compose, overrides, plain, target_of
from zoo.config.size import SMALL

GROUP = "synthesizer"
PAGE = "docs/simulu.md"  # on synthesizers


class LeftOut(NamedTuple):
    """Rows that an evaluation leaves out.

    Attributes:
        names: their names in ``compare``.
        notes: a sentence for the user; none at the small size, whose rows do without weights that
            only a user can name.
    """

    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def left_out(cfg: Config) -> LeftOut:
    """Return the rows whose synthesizer is not named or does not support the target language.

    An experiment names the parts of a synthesizer for all rows under its name, such as ``xtts``. If
    one of ``Synthesizer.user_parts`` is named, the rows stay, and what is missing is an error.

    Args:
        cfg: configuration of the job.
    """
    config = plain(cfg)
    names: list[str] = []
    notes: list[str] = []
    for choice in choices_of("evaluate", GROUP):
        entries = (config["compare"] or {}).items() if choice in config else ()
        rows = [name for name, entry in entries if f"{GROUP}={choice}" in entry]
        if rows and (reason := _problem(choice, config)) is not None:
            names += rows
            notes += [f"Rows {', '.join(rows)} are left out: {reason}."] if reason else []
    return LeftOut(tuple(names), tuple(notes))


def _problem(choice: str, config: Mapping[str, Any]) -> str | None:
    """Return why a synthesizer is left out, empty at the small size; None: it is not."""
    kind: Any = target_of(compose("evaluate", [f"{GROUP}={choice}"])[GROUP])
    parts = kind.user_parts
    if not parts or any(config[choice][part] is not None for part in parts):
        problem: str | None = kind.problem(language(config["target_language"]))
        return problem
    if choices(overrides()).get("size") == SMALL:
        return ""
    return f"set {' and '.join(f'{choice}.{part}={parts[part]}' for part in parts)} ({PAGE})"
