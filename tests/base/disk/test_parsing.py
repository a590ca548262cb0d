"""JSON and YAML that stand for more than a reader can use are refused when they are parsed."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from zoo.base.disk.parsing import (
    bounded_number,
    bounded_whole,
    parse_json,
    parse_list,
    parse_object,
    parse_yaml,
    parse_yaml_list,
)
from zoo.base.errors import ZooError


def bomb(item: str, join: str) -> str:
    """Nine lines of YAML that stand for 9 ** 8 values."""
    lines = [f"a0: &a0 {item}"]
    lines += [f"a{n}: &a{n} {join.format(*[f'*a{n - 1}'] * 9)}" for n in range(1, 9)]
    return "\n".join(lines)


LISTS = "[{}, {}, {}, {}, {}, {}, {}, {}, {}]"
MAPPINGS = "{{a: {}, b: {}, c: {}, d: {}, e: {}, f: {}, g: {}, h: {}, i: {}}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (bomb("lol", LISTS), "aliases"),
        (bomb("lol", MAPPINGS), "aliases"),
        ("&a [*a]", "aliases"),
        ("a: &a {b: *a}", "aliases"),
        ("a: 1\nb: 2\na: 3", "two keys of a mapping are equal"),
        ("- {offset: 1, offset: 2}", "two keys of a mapping are equal"),
        ("[1, 2" + "9" * 400 + "]", "a number of 401 digits"),
        ("9" * 5000, "a number of 5000 digits"),
        ("0x" + "f" * 400, "a number of 402 digits"),
    ],
)
@pytest.mark.parametrize("parse", [parse_yaml, parse_yaml_list])
def test_yaml_that_stands_for_too_much(
    parse: Callable[[str], Any], text: str, problem: str
) -> None:
    before = time.process_time()
    with pytest.raises(yaml.YAMLError) as raised:
        parse(text)
    assert problem in str(raised.value)
    assert time.process_time() - before < 5


def test_yaml_with_some_aliases_and_its_lines() -> None:
    text = "- &a {x: 1}\n- *a\n\n- [*a, '*b']\n"
    assert parse_yaml_list(text) == ([{"x": 1}, {"x": 1}, [{"x": 1}, "*b"]], [1, 1, 4])
    assert parse_yaml("") is None


@pytest.mark.parametrize("digits", [309, 400, 5000])
def test_json_with_a_number_of_many_digits(digits: int) -> None:
    text = '{"a": ' + "9" * digits + "}"
    with pytest.raises(ValueError, match="digits"):
        parse_json(text)
    with pytest.raises(ZooError, match=r"^here, is not JSON: .*digits"):
        parse_object(text, "here")
    with pytest.raises(ZooError, match=r"^here is not JSON: .*digits"):
        parse_list(f"[{text}]", "here")
    assert parse_json(f'{{"a": {10**30}}}') == {"a": 10**30}


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"b": [{"a": {}, "c": 1, "a": {}}]}'])
def test_json_with_equal_keys(text: str) -> None:
    with pytest.raises(ValueError, match="two keys 'a' of an object are equal"):
        parse_json(text)
    with pytest.raises(ZooError, match=r"^here, is not JSON: two keys 'a' of an object are equal"):
        parse_object(text, "here")
    with pytest.raises(ZooError, match=r"^here is not JSON: two keys 'a' of an object are equal"):
        parse_list(f"[{text}]", "here")
    assert parse_json('{"a": {"b": 1}, "b": {"a": 2}}') == {"a": {"b": 1}, "b": {"a": 2}}


@pytest.mark.parametrize(
    "value",
    [True, None, [], "", "abc", "nan", "inf", "9" * 400, "9" * 5000, 10**400, 1e13, -1e13, "1e400"],
)
def test_what_is_no_number_of_a_file(value: object) -> None:
    for convert in (bounded_number, bounded_whole):
        with pytest.raises(ValueError, match=r".") as raised:
            convert(value)
        assert len(str(raised.value)) < 200


def test_numbers_of_a_file() -> None:
    assert [bounded_number(value) for value in (1, "2.5", -3.0)] == [1.0, 2.5, -3.0]
    assert [bounded_whole(value) for value in (1, "2", 3.0)] == [1, 2, 3]
    with pytest.raises(ValueError, match="no whole number"):
        bounded_whole("2.5")
    with pytest.raises(ValueError, match="from 0 to"):
        bounded_whole(-1)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "latin-1"])
def test_bytes_of_json_are_utf_8(encoding: str) -> None:
    assert parse_json('{"é": 1}'.encode()) == {"é": 1}
    with pytest.raises(ValueError, match=r"decode|BOM"):
        parse_json('{"é": 1}'.encode(encoding))


def test_yaml_has_a_byte_order_mark_at_its_beginning_alone() -> None:
    assert parse_yaml("\ufeffa: 1") == {"a": 1}
    with pytest.raises(yaml.YAMLError, match="byte order mark"):
        parse_yaml("---\n\ufeff")
