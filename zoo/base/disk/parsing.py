"""JSON and YAML of unknown origin: content that no reader can take is an error of the format.

Both parsers call themselves for each level of nesting. Python's end in a RecursionError, and that
of libyaml in a segmentation fault. A few lines of aliases in YAML stand for billions of values, of
two equal keys one would be lost, and a number of hundreds of digits is none that a reader can use.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import inf, isinf
from pathlib import Path
from typing import Any

import yaml

from zoo.base.disk.files import check_regular
from zoo.base.errors import ZooError, shorten

DEEPEST = 1000  # most levels of nesting that are read
LARGEST_FILE = 2**26  # bytes; the indices of the largest published models have a tenth
LONGEST_NUMBER = 309  # digits of a whole number; Python has no float for larger ones
LARGEST_NUMBER = 1e12  # of times and counts in files: 31,000 years in seconds
MOST_VALUES = 10_000  # that aliases in YAML may stand for, and one per character of the text
# What Python raises where a value of a file is used that has another type, shape or size.
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_BLOCKS = re.compile(rf"(?:[-?:][ \t]+){{{DEEPEST}}}")  # nested lists on one line: "- - - "
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MERGE = re.compile(r"<<\s*['\"]?\s*:")
_FIELD = re.compile(r"\{[^{}]*[.\[:!][^{}]*\}")  # {name.attribute}, {name[0]}, {name:>9}, {name!r}
_SafeLoader: type[yaml.SafeLoader] = getattr(  # ten times faster where libyaml is built in
    yaml, "CSafeLoader", yaml.SafeLoader
)


class Loader(_SafeLoader):  # type: ignore[valid-type, misc]
    """Refuses equal keys and numbers of many digits."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping. Raises ConstructorError for equal keys."""
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "two keys of a mapping are equal", node.start_mark
            )
        return mapping

    def construct_yaml_int(self, node: yaml.Node) -> int:
        """Return a whole number. Raises ValueError if it has too many digits."""
        if len(node.value) >= LONGEST_NUMBER:
            raise ValueError(f"a number of {len(node.value)} digits")
        return int(super().construct_yaml_int(node))


Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)


def parse_json(text: str | bytes, *, constants: bool = True) -> Any:
    """Parse JSON.

    Whatever it accepts has the same value in ``json.loads``, the parser of all libraries here: what
    they could read in another way is an error.

    Args:
        text: the document; bytes are UTF-8.
        constants: whether NaN and infinities are read, which Python accepts and JSON does not.

    Raises:
        ValueError: the text is no JSON, or JSON that no reader can take: equal keys, a number of
            hundreds of digits, values that are nested too deeply.
    """
    document = text if isinstance(text, str) else text.decode()
    constant = None if constants else _refuse_constant
    try:
        return json.loads(
            document, parse_constant=constant, parse_int=_whole, object_pairs_hook=_mapping
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_bounded(path: Path, most: int = LARGEST_FILE) -> bytes:
    """Return the content of a file from elsewhere, which may be a sparse one of terabytes.

    Args:
        path: the file.
        most: most bytes that are read.

    Raises:
        ZooError: the path is a pipe, a socket or a device, of which reading may never end.
        OSError: the file cannot be read.
        ValueError: the file is larger.
    """
    check_regular(path)
    if path.stat().st_size > most:
        raise ValueError(f"more than {most} bytes")
    return path.read_bytes()


def read_json(path: Path) -> Any:
    """Parse a file of JSON from elsewhere, which is UTF-8.

    Raises:
        ZooError: see ``read_bounded``.
        OSError: the file cannot be read.
        ValueError: it is no JSON, see ``parse_json``, or larger than any file of settings.
    """
    return parse_json(read_bounded(path))


def read_yaml(path: Path) -> Any:
    """Parse a file of YAML from elsewhere, which is UTF-8.

    Raises:
        ZooError: see ``read_bounded``.
        OSError: the file cannot be read.
        ValueError: it is no text, or larger than any file of settings.
        yaml.YAMLError: it is no YAML, see ``parse_yaml``.
    """
    return parse_yaml(read_bounded(path).decode())


def bounded_number(
    value: object, *, least: float = -LARGEST_NUMBER, most: float = LARGEST_NUMBER
) -> float:
    """Return a number of a file.

    Args:
        value: a number, or the text of one.
        least: smallest value that is allowed.
        most: largest value that is allowed.

    Raises:
        ValueError: the value is none, NaN or out of these bounds.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{shorten(repr(value))} is no number")
    try:
        found = float(value)
    except OverflowError:
        found = inf
    if not least <= found <= most:
        raise ValueError(f"{shorten(value)} is no number from {least:g} to {most:g}")
    return found


def bounded_whole(value: object, *, least: int = 0, most: int = int(LARGEST_NUMBER)) -> int:
    """Return a whole number of a file; see ``bounded_number``."""
    found = bounded_number(value, least=least, most=most)
    if found != int(found):
        raise ValueError(f"{shorten(value)} is no whole number")
    return int(found)


def _whole(text: str) -> int:
    """Return a whole number. Raises ValueError if it has too many digits."""
    if len(text) > LONGEST_NUMBER or isinf(float(text)):
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the mapping of a JSON object. Raises ValueError for equal keys."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        equal = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"two keys {shorten(repr(equal))} of an object are equal")
    return mapping


def parse_object(line: str | bytes, where: str) -> dict[str, Any]:
    """Parse a line of JSON lines.

    Args:
        line: one JSON object.
        where: file and line, for error messages.

    Raises:
        ZooError: the line is no JSON, has equal keys or a number that is none, or is not an object.
    """
    try:
        content = parse_json(line, constants=False)
    except ValueError as error:
        raise ZooError(f"{where}, is not JSON: {_reason(error)}.") from error
    if not isinstance(content, dict):
        raise ZooError(f"{where}, is not a JSON object.")
    return content


def parse_list(text: str, where: str) -> list[dict[str, Any]]:
    """Parse a JSON list of objects.

    Args:
        text: the list.
        where: its file, for error messages.

    Raises:
        ZooError: the text is no JSON, has equal keys or a number that is none, or is not a list of
            objects.
    """
    try:
        content = parse_json(text, constants=False)
    except ValueError as error:
        line = f", line {error.lineno}," if isinstance(error, json.JSONDecodeError) else ""
        raise ZooError(f"{where}{line} is not JSON: {_reason(error)}.") from error
    if not isinstance(content, list):
        raise ZooError(f"{where} is not a JSON list.")
    for number, item in enumerate(content, start=1):
        if not isinstance(item, dict):
            raise ZooError(f"{where}, item {number}, is not a JSON object.")
    return content


def _refuse_constant(name: str) -> None:
    """Raise ValueError for NaN and infinities, which Python accepts and JSON does not."""
    raise ValueError(f"{name} is no number")


def _reason(error: ValueError) -> object:
    """Return why a text is no JSON, without the place, which its callers name."""
    return error.msg if isinstance(error, json.JSONDecodeError) else error


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
    """Parse YAML. Raises yaml.YAMLError if the text is no YAML, or stands for too much.

    It may be nested too deeply, have aliases for too many values, or merge keys (``<<: *name``): a
    few lines of them expand to millions of entries. Of two equal keys one would be lost. Whatever
    it accepts has the same value in ``yaml.safe_load``, or is refused there.
    """
    return parse_yaml_list(text)[0]


def parse_yaml_list(text: str) -> tuple[Any, list[int]]:
    """Parse YAML as ``parse_yaml``; also return the line of each item if it is a list."""
    check_depth(text)
    if _MERGE.search(text):
        raise yaml.YAMLError("merge keys (<<) are not read")
    if "\ufeff" in text[1:]:  # libyaml skips it, the parser in Python keeps it
        raise yaml.YAMLError("a byte order mark stands after the beginning")
    try:
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            content = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (RecursionError, *MALFORMED) as error:
        # raised for values such as the date 2024-99-99
        raise yaml.YAMLError(f"a value cannot be read ({error})") from error
    if "*" in text and _count_values(content, {}) > MOST_VALUES + len(text):
        raise yaml.YAMLError("aliases (*) stand for too many values")
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    return content, [item.start_mark.line + 1 for item in items]


def _count_values(node: Any, known: dict[int, float]) -> float:
    """Return the number of values in a parsed node; an alias counts as often as it is written."""
    if not isinstance(node, dict | list):
        return 1
    if id(node) not in known:
        known[id(node)] = inf  # of a node within itself
        inner = [*node, *node.values()] if isinstance(node, dict) else node
        known[id(node)] = 1 + sum(_count_values(item, known) for item in inner)
    return known[id(node)]
