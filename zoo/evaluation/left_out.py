"""The rows of an experiment that need XTTS-v2, where it is missing or lacks the language."""

from typing import NamedTuple

from zoo.config import Config, choices, overrides, plain
from zoo.config.size import SMALL
from zoo.languages import language

PARTS = "xtts"  # key of an experiment: name and reference of XTTS-v2, both null by default
CHOICE = "synthesizer=xtts"  # in the entry of a row


class LeftOut(NamedTuple):
    """Rows that an evaluation leaves out.

    Attributes:
        names: their names in ``compare``.
        notes: a sentence for the user; none at the small size, whose rows do without XTTS-v2.
    """

    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def left_out(cfg: Config) -> LeftOut:
    """Return the rows with XTTS-v2 if none of its parts is named or it lacks the target language.

    If one of the parts is named, the rows stay, and what is missing is an error.

    Args:
        cfg: configuration of the job.
    """
    config = plain(cfg)
    if PARTS not in config:
        return LeftOut()
    names = tuple(name for name, entry in config["compare"].items() if CHOICE in entry)
    if config[PARTS]["name"] is None and config[PARTS]["reference"] is None:
        if choices(overrides()).get("size") == SMALL:
            return LeftOut(names)
        reason = "set xtts.name=FOLDER and xtts.reference=RECORDING (docs/simulu.md)"
    else:
        from zoo.synthesizers.xtts import CODES  # imports torch

        target = language(config["target_language"])
        if target.code in CODES:
            return LeftOut()
        reason = f"XTTS-v2 does not support {target.name}"
    return LeftOut(names, (f"Rows {', '.join(names)} are left out: {reason}.",))
