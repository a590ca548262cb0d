"""Checks of the lines of a manifest, before talks are made of them.

``aligned.schema.json`` describes the fields. The checks are written out, because a corpus has
millions of words and a validator of schemas takes several times as long.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from zoo.base.errors import MOST_SECONDS
from zoo.base.types import Seconds

TALK = (
    "version",
    "name",
    "audio",
    "offset",
    "duration",
    "source_language",
    "voice",
    "segments",
    "labels",
)
SEGMENT = ("offset", "duration", "source", "words", "targets")
TARGET = ("text", "words", "alignment", "needs")
SLACK: Seconds = 0.01  # times are rounded, so they may lie after the end of the talk by this much


def check_talk(item: Any) -> None:
    """Check one talk as JSON describes it.

    Args:
        item: value of one line, of the version that this program reads.

    Raises:
        ValueError: a field is missing, unknown, of another type or impossible; times are out of
            order; a segment lies in the one before it; or an alignment names a word that does not
            exist.
    """
    _check_keys(item, TALK, "the talk")
    for key in ("name", "source_language"):
        _check_text(item[key], key, empty=False)
    _check_text(item["voice"], "voice")
    if item["audio"] is not None:
        _check_text(item["audio"], "audio", empty=False)
    _check_number(item["offset"], "offset")
    _check_number(item["duration"], "duration", above=0)

    end = item["duration"] + SLACK
    start = before = 0.0
    for index, segment in enumerate(_list(item["segments"], "segments")):
        where = f"segments[{index}]"
        _check_segment(segment, where, end=end)
        stop = segment["offset"] + segment["duration"]
        if segment["offset"] < start:
            raise ValueError(
                f"{where} starts at {segment['offset']:g} s, before the segment before it "
                f"({start:g} s)"
            )
        # Speakers interrupt each other, so segments may overlap in part.
        if segment["offset"] < before - SLACK and stop <= before:
            raise ValueError(
                f"{where}, from {segment['offset']:g} to {stop:g} s, lies in the segment before "
                f"it, which ends at {before:g} s"
            )
        start, before = segment["offset"], stop
    for name, words in _mapping(item["labels"], "labels").items():
        _check_words(words, f"labels[{name!r}]", end=end)


def _check_segment(segment: Any, where: str, *, end: Seconds) -> None:
    """Check a segment.

    Args:
        segment: the segment.
        where: its place in the talk.
        end: latest time of the talk.
    """
    _check_keys(segment, SEGMENT, where, optional=["usable"])
    _check_number(segment["offset"], f"{where}.offset")
    _check_number(segment["duration"], f"{where}.duration", above=0)
    if segment["offset"] + segment["duration"] > end:
        raise ValueError(
            f"{where} ends at {segment['offset'] + segment['duration']:g} s, after the end of the "
            "talk"
        )
    _check_text(segment["source"], f"{where}.source")
    _check_words(segment["words"], f"{where}.words", end=end)
    if type(segment.get("usable", True)) is not bool:
        raise ValueError(f"{where}.usable is {segment['usable']!r}, not true or false")
    for code, target in _mapping(segment["targets"], f"{where}.targets").items():
        _check_target(target, f"{where}.targets[{code!r}]", sources=len(segment["words"]))


def _check_target(target: Any, where: str, *, sources: int) -> None:
    """Check a translation.

    Args:
        target: the translation.
        where: its path in the talk, for messages.
        sources: number of source words.
    """
    _check_keys(target, TARGET, where, optional=["prefixes", "original"])
    _check_text(target["text"], f"{where}.text")
    _check_text(target.get("original", ""), f"{where}.original")
    for index, word in enumerate(_list(target["words"], f"{where}.words")):
        _check_text(word, f"{where}.words[{index}]")
    for index, prefix in enumerate(_list(target.get("prefixes", []), f"{where}.prefixes")):
        _check_text(prefix, f"{where}.prefixes[{index}]", empty=False)
    for key in ("alignment", "needs"):
        indices = _list(target[key], f"{where}.{key}")
        if indices and len(indices) != len(target["words"]):
            raise ValueError(
                f"{where} has {len(target['words'])} words, but {key} has {len(indices)} entries"
            )
        for index, sources_of_word in enumerate(indices):
            for source in _list(sources_of_word, f"{where}.{key}[{index}]"):
                if type(source) is not int or not 0 <= source < sources:
                    raise ValueError(
                        f"{where}.{key}[{index}] names source word {source!r}; there are "
                        f"{sources}, counted from 0"
                    )


def _check_words(words: Any, where: str, *, end: Seconds) -> None:
    """Check words with times.

    Args:
        words: the words.
        where: their place in the talk.
        end: latest time of the talk.
    """
    before: Seconds = 0.0
    for index, word in enumerate(_list(words, where)):
        if type(word) is not list or len(word) != 3 or type(word[0]) is not str:
            raise ValueError(f"{where}[{index}] is {word!r}, not [text, start, end]")
        _, start, stop = word
        if not (_is_number(start) and _is_number(stop) and 0 <= start <= stop <= end):
            raise ValueError(
                f"{where}[{index}] lasts from {start!r} to {stop!r}; the times must be seconds in "
                "the talk, in order"
            )
        if start < before:
            raise ValueError(
                f"{where}[{index}] starts at {start:g} s, before the word before it ({before:g} s)"
            )
        before = start


def _check_keys(
    value: Any, required: Sequence[str], where: str, *, optional: Sequence[str] = ()
) -> None:
    """Raise ValueError unless a value has all required keys and no others but ``optional``."""
    keys = _mapping(value, where).keys() - set(optional)
    if missing := sorted(set(required) - keys):
        raise ValueError(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(keys - set(required)):
        raise ValueError(f"{where} has the unknown field {unknown[0]!r}")


def _check_text(value: Any, where: str, *, empty: bool = True) -> None:
    """Raise ValueError unless a value is a text; ``empty``: whether it may be empty."""
    if type(value) is not str or not (value or empty):
        raise ValueError(f"{where} is {value!r}, not {'a' if empty else 'a non-empty'} text")


def _check_number(value: Any, where: str, *, above: float = -inf) -> None:
    """Raise ValueError unless a value is a possible time, and above another one."""
    if not (_is_number(value) and above < value and 0 <= value < inf):
        allowed = "above 0" if above == 0 else "of at least 0"
        raise ValueError(f"{where} is {value!r}, not a finite number {allowed}")
    if value > MOST_SECONDS:
        raise ValueError(f"{where} is {value!r} s; no recording lasts more than {MOST_SECONDS:g} s")


def _is_number(value: Any) -> bool:
    """Return whether a value is a number (true and false are none)."""
    return type(value) is float or type(value) is int


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return a value that is a JSON object; else raise ValueError."""
    if type(value) is not dict:
        raise ValueError(f"{where} is {value!r:.60}, not an object with fields")
    return value


def _list(value: Any, where: str) -> Sequence[Any]:
    """Return a value that is a JSON array; else raise ValueError."""
    if type(value) is not list:
        raise ValueError(f"{where} is {value!r:.60}, not a list")
    return value
