"""Which plain values fit which annotations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from zoo.base.errors import ZooError
from zoo.base.kinds import as_json, described, fits, from_json, kind_of
from zoo.config.arguments import check_arguments, check_recorded


@dataclass
class Part:
    """Something a config names."""

    size: int
    unit: Literal["tokens", "turns"] = "tokens"


def target(
    count: int, *, ratio: float = 1.0, names: Sequence[str] = (), part: Part | None = None
) -> None:
    """Something else."""


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1, int),
        (1, float),
        (1.5, float),
        (True, bool),
        ("a", str),
        (None, int | None),
        (2, int | None),
        ("a", Literal["a", "b"]),
        ([1, 2], Sequence[int]),
        ([1, 2], tuple[float, ...]),
        ([], list[str]),
        ({"a": 1}, Mapping[str, int]),
        ({"a": [1]}, Mapping[str, Any]),
        ("a", str | Mapping[str, Any]),
        ("a", Path),
        ({"_target_": "x"}, Part),
        ({"_target_": "x"}, int),
        (3, Any),
    ],
)
def test_fits(value: Any, hint: Any) -> None:
    assert fits(value, kind_of(hint))
    assert from_json(as_json(kind_of(hint))) == kind_of(hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("1", int),
        (1.0, int),
        (True, int),
        (True, float),
        (1, bool),
        (1, str),
        (None, int),
        ("x", int | None),
        ("c", Literal["a", "b"]),
        ([1, "x"], Sequence[int]),
        ("abc", Sequence[str]),
        (1, Sequence[int]),
        ({"a": "x"}, Mapping[str, int]),
        ([], Mapping[str, int]),
        (3, Part),
        (None, Part),
    ],
)
def test_does_not_fit(value: Any, hint: Any) -> None:
    assert not fits(value, kind_of(hint))


def test_the_sentence_names_key_type_and_value() -> None:
    with pytest.raises(ZooError, match=r"^a\.size must be a whole number, not 'x'\.$"):
        check_arguments(Part, {"size": "x"}, where="a.")
    with pytest.raises(ZooError, match=r"^a\.unit must be one of tokens, turns, not null\.$"):
        check_arguments(Part, {"size": 1, "unit": None}, where="a.")
    with pytest.raises(ZooError, match=r"^ratio must be a number, not true\.$"):
        check_arguments(target, {"count": 1, "ratio": True}, where="")
    with pytest.raises(ZooError, match=r"^part must be a mapping \(size, unit\) or null, not 3\.$"):
        check_arguments(target, {"part": 3}, where="")
    with pytest.raises(
        ZooError, match=r"^Unknown key 'a\.sise'; choose one of: a\.size, a\.unit\.$"
    ):
        check_arguments(Part, {"sise": 1}, where="a.")


def test_what_cannot_be_asked_is_not_checked() -> None:
    check_arguments(dict, {"anything": object()}, where="")
    check_arguments(lambda **more: None, {"anything": 1}, where="")
    check_arguments(target, {"count": 1, "names": ["a"], "part": {"_target_": "x"}}, where="")


def test_words_for_annotations() -> None:
    assert described(kind_of(int | None)) == "a whole number or null"
    assert described(kind_of(Sequence[float])) == "a list (a number each)"
    assert described(kind_of(Mapping[str, int])) == "a mapping"


def test_values_are_checked_before_anything_is_imported() -> None:
    streams = {"_target_": "zoo.history.recent_words.RecentWords", "words": "${words}"}
    check_recorded({"history": streams, "own": {"_target_": "nowhere.Thing", "size": "x"}})
    with pytest.raises(ZooError, match=r"^all\.0\.words must be a whole number, not 'x'\.$"):
        check_recorded({"all": [{**streams, "words": "x"}]})
