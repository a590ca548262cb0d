"""Output does not depend on order, batch and ranks: a cheap selection of the systems."""

from types import ModuleType

import pytest

from zoo.config import build, compose

ALONE = {"a": (("one", 1.0), ("two", 2.0)), "b": (("three", 1.0),)}


@pytest.mark.parametrize(
    ("run", "differing", "first"),
    [
        (dict(ALONE), 0, ""),
        (ALONE | {"b": (("drei", 1.0),)}, 1, "b, word 1: 'three' became 'drei'"),
        (ALONE | {"a": (("one", 1.0), ("two", 3.0))}, 1, "a, word 2: 'two' became 'two'"),
        (ALONE | {"a": (("one", 1.0),)}, 1, "a, word 2: 'two' became the end"),
        ({"a": ALONE["a"]}, 1, "b, word 1: 'three' became the end"),
    ],
)
def test_a_difference_is_named(
    run: dict[str, object], differing: int, first: str, script: ModuleType
) -> None:
    assert script.compare("way", ALONE, run) == script.Outcome("way", differing, first)


@pytest.mark.parametrize("name", ["infinisst", "streamatt"])
def test_shipped_systems_are_independent(name: str, script: ModuleType) -> None:
    talks = list(build(compose("evaluate").data).talks("tst", limit=3))
    found = script.outcomes(
        script.SYSTEMS[name], talks, dtype="float64", chunks=8, batches=[2], ranks=[2]
    )
    assert [(one.way, one.first) for one in found] == [
        (way, "") for way in ("reversed", "shuffled", "batch 2", "batch 2, reversed", "2 ranks")
    ]


def test_the_parts_of_every_system_fit(script: ModuleType) -> None:
    for name, overrides in script.SYSTEMS.items():
        assert build(compose("evaluate", overrides).system).name, name
