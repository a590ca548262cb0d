"""User errors: one sentence that names the problem and the valid choices.

Entry points print the sentence without a traceback and exit with code 2.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from math import inf

BAD_INPUT = 2  # exit code of wrong input
CLOSED_PIPE = 141  # exit code of a shell command whose output nobody reads any more
INTERRUPTED = 130  # exit code of a shell command that Ctrl-C ended
TERMINATED = 143  # the same for SIGTERM
HUNG_UP = 129  # the same for SIGHUP, that the terminal was closed
SIMILAR = 0.8  # of a mistyped name, twice the equal characters over the characters of both
LONGEST_VALUE = 100  # characters of a value in a sentence
LONGEST = 200  # bytes of a name; file systems allow 255 for a name with additions


MOST = 1e9  # largest number that a setting may have, unless it is one of these
MOST_BY_NAME = {  # settings that determine memory or processes, and large ones, by their name
    **dict.fromkeys(("workers", "data_workers", "jobs", "samplers", "devices", "num_nodes"), 1024),
    **dict.fromkeys(("beams", "ns_steps", "samples"), 1000),
    **dict.fromkeys(("layers", "heads", "keep_best", "median_filter", "iterations"), 10_000),
    **dict.fromkeys(("batch_size", "offline_batch_size", "rank", "hidden", "ff"), 100_000),
    **dict.fromkeys(("max_tokens", "max_units", "tokens_per_chunk", "latency_tokens"), 1_000_000),
    **dict.fromkeys(("vocabulary_size", "resamples", "latency_multiplier"), 1_000_000),
    **dict.fromkeys(("trials", "examples", "count"), 100_000_000),
    **dict.fromkeys(("resampling_seed", "seed", "peak_operations"), 2**63 - 1),
}
MOST_SECONDS = 1e7  # of settings that end in "seconds": four months


class ZooError(Exception):
    """An error in the input or the configuration that the user can correct."""


def unknown_choice(
    noun: str, name: object, choices: Iterable[object], meant: Collection[str] = ()
) -> ZooError:
    """Return the error for a name that is not one of the valid choices.

    ``unknown_choice("language", "Ed", ["de", "es"])`` has the message
    "Unknown language 'Ed'; choose one of: de, es." The message names a similar choice, if there is
    one: "Did you mean streamatt?"

    Args:
        noun: Kind of thing that the name should denote.
        name: The invalid name.
        choices: The valid names.
        meant: Names that the user may have meant, where these are known otherwise.
    """
    names = [str(choice) for choice in choices]
    shown = shorten(name)  # similar choices of a long name take seconds to find
    return ZooError(
        f"Unknown {noun} {shown!r}; choose one of: {', '.join(names)}."
        f"{did_you_mean(meant or similar(shown, names))}"
    )


def similar(name: str, choices: Iterable[str]) -> list[str]:
    """Return the choice that a mistyped name resembles most, in a list; empty if none does.

    Only the last components of keys with a dot are compared, because the others are equal.
    """
    by_last = {choice.rpartition(".")[2].lower(): choice for choice in choices}
    last = name.rpartition(".")[2].lower()
    return [by_last[found] for found in get_close_matches(last, by_last, n=1, cutoff=SIMILAR)]


def did_you_mean(names: Collection[str]) -> str:
    """Return a question after a space that names what the user may have meant; empty without."""
    return f" Did you mean {' or '.join(names)}?" if names else ""


def check_choice(noun: str, value: object, choices: Collection[object]) -> None:
    """Raise the ZooError of ``unknown_choice`` if ``value`` is not among ``choices``."""
    if value not in choices:
        raise unknown_choice(noun, value, choices)


def check_numbers(
    owner: str,
    /,
    *,
    least: float = -inf,
    above: float = -inf,
    most: float = inf,
    **values: float | None,
) -> None:
    """Check that numbers are in a range.

    Args:
        owner: Part that takes the numbers, as the error names it.
        least: Smallest value that is allowed.
        above: Number that each value must exceed.
        most: Largest value that is allowed; by default, that of the name (``largest``).
        values: Numbers by name. None is always allowed.

    Raises:
        ZooError: If a number is outside of the range.
    """
    for name, value in values.items():
        limit = min(most, largest(name))
        if value is None or (least <= value <= limit and value > above):
            continue
        if value > limit and most == inf:
            wanted = f"of at most {limit:.15g}"
        elif above > -inf:
            wanted = f"above {above:.15g}" + (f" and at most {most:.15g}" if most < inf else "")
        elif most < inf:
            wanted = f"from {least:.15g} to {most:.15g}"
        else:
            wanted = f"of at least {least:.15g}"
        raise ZooError(f"{owner} needs {name} {wanted}, not {shorten(value)}.")


def largest(name: str) -> float:
    """Return the largest value of a setting, by the last component of its key."""
    if name.endswith("seconds"):
        return MOST_SECONDS
    return MOST_BY_NAME.get(name, MOST)


def check_name(owner: str, name: str) -> None:
    """Raise ZooError unless a name can be that of a row, with a file of that name."""
    if not name.strip() or not name.isprintable() or len(name.encode(errors="replace")) > LONGEST:
        raise ZooError(
            f"{owner} needs a name of 1 to {LONGEST} bytes that can be printed, not "
            f"{name[: LONGEST // 4]!r}."
        )


def shorten(value: object) -> str:
    """Return a value as a sentence shows it: at most LONGEST_VALUE characters.

    A whole number of thousands of digits has no text in Python.
    """
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST_VALUE:
        return f"a whole number of more than {LONGEST_VALUE} digits"
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def shorten_list(names: Iterable[str], most: int = 3) -> str:
    """Join at most ``most`` names: ["a", "b", "c", "d"] becomes "a, b, c and 1 more"."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
