"""What a configuration leaves out is filled in from the signatures of its targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from zoo.base.errors import ZooError
from zoo.config.inspection import REQUIRED, Arguments, inspect_arguments
from zoo.config.signatures import complete, part_of
from zoo.config.targets import locate

HERE = __name__


def default_clock() -> float:
    """A function as a default."""
    return 0.0


@dataclass(frozen=True)
class Search:
    """A part with plain defaults."""

    beams: int = 1
    suppress: Sequence[str] = ()


@dataclass(frozen=True)
class WideSearch(Search):
    """A part that replaces the one of the annotation."""

    width: int = 7


@dataclass
class Window:
    """A part with an argument that must be given and one from a factory."""

    size: int
    shares: Mapping[str, float] = field(default_factory=lambda: {"a": 0.5})


class Model:
    """A target with parts of each kind."""

    def __init__(
        self,
        name: str,
        *,
        window: Window | None = None,
        search: Search = WideSearch(beams=4),
        stages: Mapping[str, Window] | None = None,
        windows: Sequence[Window] = (),
        template: str | Mapping[str, Any] | Window = "plain",
        clock: Callable[[], float] = default_clock,
        device: object = object(),
    ) -> None:
        """Values are not kept."""


def model(**given: Any) -> dict[str, Any]:
    """The completed node of a ``Model``."""
    completed = complete({"_target_": f"{HERE}.Model", **given})
    assert isinstance(completed, dict)
    return completed


def test_all_arguments_of_a_target() -> None:
    search = {"_target_": f"{HERE}.WideSearch", "beams": 4, "suppress": [], "width": 7}
    clock = {"_target_": "pkgutil.resolve_name", "name": f"{HERE}.default_clock"}
    assert model(name="x") == {
        "_target_": f"{HERE}.Model",
        "name": "x",
        "window": None,
        "search": search,
        "stages": None,
        "windows": [],
        "template": "plain",
        "clock": clock,  # and no device: a configuration cannot write an object
    }
    assert model()["name"] == REQUIRED
    assert list(model(search={"beams": 2}))[:3] == ["_target_", "name", "window"]


def test_a_mapping_stands_for_the_dataclass_of_its_argument() -> None:
    window = {"_target_": f"{HERE}.Window", "size": 3, "shares": {"a": 0.5}}
    assert model(window={"size": 3})["window"] == window
    assert model(stages={"first": {"size": 3}})["stages"] == {"first": window}
    assert model(windows=[{"size": 3}])["windows"] == [window]
    assert model(template={"size": 3})["template"] == {"size": 3}  # or a free mapping


def test_what_is_missing_comes_from_the_default_instance() -> None:
    partly = model(search={"width": 9})["search"]
    assert partly == {"_target_": f"{HERE}.WideSearch", "beams": 4, "suppress": [], "width": 9}
    fresh = model(search={"_target_": f"{HERE}.Search"})["search"]
    assert fresh == {"_target_": f"{HERE}.Search", "beams": 1, "suppress": []}


def test_links_and_free_mappings_stay() -> None:
    given = {"window": "${window}", "free": {"a": {"b": [1, "x"]}}}
    assert complete(given) == given
    assert model(window="${window}")["window"] == "${window}"


def test_parts_inside_of_lists_and_free_mappings_are_completed() -> None:
    given = {"all": [{"_target_": f"{HERE}.Search"}]}
    assert complete(given)["all"][0] == {"_target_": f"{HERE}.Search", "beams": 1, "suppress": []}


def test_completing_twice_changes_nothing() -> None:
    once = model(name="x", window={"size": 3})
    assert complete(once) == once


def test_the_class_of_a_part_follows_from_its_default_or_annotation() -> None:
    found = inspect_arguments(Model).named
    assert part_of(found["search"]) == f"{HERE}.WideSearch"
    assert part_of(found["window"]) == f"{HERE}.Window"
    assert part_of(found["name"]) is part_of(found["template"]) is None
    assert inspect_arguments(dict) == Arguments({}, takes_any=True)


class Larger(Model):
    """Hands its other arguments on.

    Args:
        depth: number of layers.
    """

    def __init__(self, *, depth: int = 1, **others: Any) -> None:
        super().__init__("larger", windows=[], **others)


class Free(Model):
    """Keeps its other arguments."""

    def __init__(self, **others: Any) -> None:
        super().__init__("free")


def test_arguments_that_a_constructor_hands_on_are_those_of_its_base() -> None:
    found = inspect_arguments(Larger)
    assert list(found.named) == [
        "depth",
        "window",
        "search",
        "stages",
        "template",
        "clock",
        "device",
    ]
    assert found.named["depth"].meaning == "number of layers."
    assert not found.takes_any
    assert inspect_arguments(Free).takes_any


class Tables:
    """Has tables.

    Attributes:
        tables: the rows of each table.
    """


class FromFolder(Tables):
    """Reads its tables."""

    def __init__(self, *, tables: str) -> None:
        """Remember the folder.

        Args:
            tables: folder of the tables.
        """
        self.folder = tables


class Sorted(FromFolder):
    """Sorts its tables.

    Attributes:
        tables: the sorted tables.
    """


@pytest.mark.parametrize("target", [FromFolder, Sorted])
def test_an_argument_is_described_as_such_and_not_as_the_attribute_of_its_name(
    target: type[FromFolder],
) -> None:
    assert inspect_arguments(target).named["tables"].meaning == "folder of the tables."


def test_a_target_that_cannot_be_imported_is_one_sentence() -> None:
    with pytest.raises(ZooError, match=r"^policy\._target_ is 'nowhere\.X', which cannot be impor"):
        complete({"policy": {"_target_": "nowhere.X"}})
    with pytest.raises(
        ZooError, match=r"^_target_ is 'zoo\.base\.types\.Nothing', which cannot be"
    ):
        locate("zoo.base.types.Nothing")
