"""Mistakes in a configuration as one sentence, with the possible choices where they are known."""

import re
import shlex
from collections.abc import Iterator, Sequence

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from zoo.base.errors import ZooError, did_you_mean, unknown_choice
from zoo.config.sources import Folders
from zoo.config.unknown import groups_with, unknown_key

# Beginnings of the lines in messages of Hydra and OmegaConf that describe their own syntax and
# classes, which do not help a user of the zoo.
_HINTS = (
    "To append",
    "See https",
    "full_key",
    "object_type",
    "reference_type",
    "Config search path",
    "Set the",
)
_BRACKETS = ("[", "{", "'", '"')  # beginnings of values that have a grammar of their own
# Patterns of messages, and sentences that replace them.
_SENTENCES = {
    r"^In 'experiment/([^']+)': Could not override '([^']+)'": (
        "Experiment {0!r} is not for {command}.py, which has no {1!r}."
    ),
    r"^Could not override '([^']+)@([^']*)'": "{0} has no place {1!r} here; write {0}=CHOICE.",
    r"^Could not override '([^'@]+)'\.\s*No match in the defaults list": (
        "{command}.py has no group {0!r}; {command}.py --help lists its groups."
    ),
    r"^Could not append to config. An item is already at '([^']+)'": (
        "The key {0!r} exists; write {0}=... without +."
    ),
    r"^Ambiguous value for argument '([^=]+)=(.*)'\s*1\.": (
        "{0}={1} has several values; add -m for a job each, or, if {0} takes a list, write "
        "'{0}=[{1}]'; a single value with commas needs two pairs of quotes: '{0}=\"{1}\"'."
    ),
    r"Interpolation key '([^']+)' not found": (
        "${{{0}}} refers to the key {0!r}, which does not exist."
    ),
    r"Missing mandatory value: (\S+)": "{0} needs a value; write {0}=VALUE.",
    r"Unsupported interpolation type (\S+)": ("${{{0}:...}} calls {0!r}, which does not exist."),
}


def explained(
    error: HydraException | OmegaConfBaseException,
    config_name: str,
    given: Sequence[str],
    folders: Folders = (),
) -> str:
    """Return one sentence about wrong overrides, with the possible choices if they are known.

    Args:
        error: error of Hydra or OmegaConf.
        config_name: ``train`` or ``evaluate``.
        given: overrides.
        folders: additional folders of a new loader; see ``job_loader``.
    """
    for cause in causes(error):
        if isinstance(cause, ZooError):
            return str(cause)

    if isinstance(error, OverrideParseException):
        return unreadable(error.override, config_name, folders)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        sentence = str(unknown_choice(group, name, error.options))
        if not folders and any(item.startswith("resume=") for item in given):
            sentence += " A run that was started with --config-dir is resumed with it."
        return sentence

    text = str(error)  # only it has the key
    if found := re.match(r"Could not override '([^'@]+)'", text):
        key = getattr(error.__cause__, "full_key", None) or found[1]
        if sentence := unknown_key(config_name, key, given, folders):
            return sentence
    for pattern, sentence in _SENTENCES.items():
        if found := re.search(pattern, text):
            return sentence.format(*found.groups(), command=config_name)
    if unfit := re.match(r"Error merging override (.*)", text):
        reason = one_line(list(causes(error))[-1]).partition(" (")[0]
        return f"{unfit[1]} does not fit: {reason.rstrip('.')}."

    sentences = dict.fromkeys(one_line(item) for item in (error, *causes(error)))
    return " ".join(sentences)


def unreadable(override: str, config_name: str, folders: Folders) -> str:
    """Return a sentence about an override that Hydra's grammar does not accept."""
    key, equals, value = override.partition("=")
    if key == "compare":
        return (
            f"Cannot read {override!r}; write 'compare={{NAME: [\"key=value\"], ...}}', with "
            "quotes around it and around each override."
        )
    if equals and key and not value.startswith(_BRACKETS):
        return (
            f"Cannot read {override!r}; write key=value, and a value with spaces, signs or letters "
            f"beyond a to z with two pairs of quotes: {quote_override(key, value)}."
        )
    if equals and key:
        return (
            f"Cannot read {override!r}; write key=value, with all brackets and quotes closed, and "
            "'key=\"a value\"' if it has spaces or signs."
        )
    groups = [f"{group}={key}" for group in groups_with(config_name, key, folders)]
    return f"Cannot read {override!r}; write key=value or group=choice.{did_you_mean(groups)}"


def quote_override(key: str, value: str) -> str:
    """Return an override with any text as its value, as a shell takes it."""
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', value)
    return shlex.quote(f'{key}="{escaped}"')


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the cause of an error, the cause of the cause, and so on."""
    while (cause := error.__cause__) is not None:
        yield cause
        error = cause


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line, without Hydra's hints about its own syntax."""
    text = re.sub(r"^\w+ raised while resolving interpolation: ", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(_HINTS))
