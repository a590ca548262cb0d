"""JSON and YAML of unknown origin: content that no reader can take is an error of the format.

Both parsers call themselves for each level of nesting. Python's end in a RecursionError, and that
of libyaml in a segmentation fault.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

import yaml

from zoo.errors import ZooError

DEEPEST = 1000  # most levels of nesting that are read
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_BLOCKS = re.compile(rf"(?:[-?:][ \t]+){{{DEEPEST}}}")  # nested lists on one line: "- - - "
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MERGE = re.compile(r"<<\s*['\"]?\s*:")
_FIELD = re.compile(r"\{[^{}]*[.\[:!][^{}]*\}")  # {name.attribute}, {name[0]}, {name:>9}, {name!r}
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where libyaml is built in


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError if the text is no JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def parse_object(line: str | bytes, where: str) -> dict[str, Any]:
    """Parse a line of JSON lines.

    Args:
        line: one JSON object.
        where: file and line, for error messages.

    Raises:
        ZooError: the line is no JSON, has a number that is none, or is not an object.
    """
    try:
        content = json.loads(line, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ZooError(f"{where}, is not JSON: {error.msg}.") from error
    # Raised for a constant such as NaN, and for an integer of thousands of digits.
    except ValueError as error:
        raise ZooError(f"{where}, is not JSON: {error}.") from error
    except RecursionError as error:
        raise ZooError(f"{where}, is nested too deeply.") from error
    if not isinstance(content, dict):
        raise ZooError(f"{where}, is not a JSON object.")
    return content


def parse_list(text: str, where: str) -> list[dict[str, Any]]:
    """Parse a JSON list of objects.

    Args:
        text: the list.
        where: its file, for error messages.

    Raises:
        ZooError: the text is no JSON, has a number that is none, or is not a list of objects.
    """
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ZooError(f"{where}, line {error.lineno}, is not JSON: {error.msg}.") from error
    # Raised for a constant such as NaN, and for an integer of thousands of digits.
    except ValueError as error:
        raise ZooError(f"{where} is not JSON: {error}.") from error
    except RecursionError as error:
        raise ZooError(f"{where} is nested too deeply.") from error
    if not isinstance(content, list):
        raise ZooError(f"{where} is not a JSON list.")
    for number, item in enumerate(content, start=1):
        if not isinstance(item, dict):
            raise ZooError(f"{where}, item {number}, is not a JSON object.")
    return content


def _refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and infinities, which Python accepts and JSON does not."""
    raise ValueError(f"{name} is no number")


def check_depth(text: str) -> None:
    """Raise yaml.YAMLError if a text of YAML is nested so deeply that parsers crash."""
    brackets = text.encode(errors="replace").translate(None, _OTHERS)
    depth = max(accumulate(1 if item in b"[{" else -1 for item in brackets), default=0)
    if depth > DEEPEST or _BLOCKS.search(text):
        raise yaml.YAMLError("nested too deeply")


def has_control_characters(text: str) -> bool:
    """Whether a text has control characters but tab and newline, or marks of direction."""
    return bool(_CONTROL.search(text))


def texts_in(node: Any) -> Iterator[str]:
    """Yield all texts among parsed values, keys of mappings included."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from texts_in(key)
            yield from texts_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts_in(value)


def is_plain_template(text: str) -> bool:
    """Whether ``str.format`` only inserts values: ``{name}``, without attributes and widths."""
    return not _FIELD.search(text.replace("{{", "").replace("}}", ""))


def parse_yaml(text: str) -> Any:
    """Parse YAML. Raises yaml.YAMLError if the text is no YAML, or nested too deeply.

    Merge keys (``<<: *name``) are refused: a few lines of them expand to millions of entries.
    """
    check_depth(text)
    if _MERGE.search(text):
        raise yaml.YAMLError("merge keys (<<) are not read")
    try:
        return yaml.load(text, Loader=Loader)
    except (RecursionError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        # raised for values such as the date 2024-99-99
        raise yaml.YAMLError(f"a value cannot be read ({error})") from error
