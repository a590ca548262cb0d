"""Every field of a manifest is checked, and its JSON schema describes the same fields."""

import copy
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import manifest

SCHEMA = json.loads((files("zoo.data") / "aligned.schema.json").read_text(encoding="utf-8"))
Change = Callable[[dict[str, Any]], object]


def good() -> dict[str, Any]:
    target = Target("Gute Katze.", ("Gute", "Katze."), ((0,), (1,)), ((0, 1), ()), ("Gute",))
    words = (Word("Good", 1.0, 1.25), Word("cat.", 1.25, 1.75))
    segments = (Segment(1, 0.75, "Good cat.", words, {"de": target}), Segment(2.0, 0.5, ""))
    talk = Talk("t-0", Path("/a/b.wav"), 3.5, "en", segments, labels={"phonemes": words})
    item: dict[str, Any] = json.loads(manifest.encode(talk, folder=Path("/a")))
    return item


def first(item: dict[str, Any]) -> dict[str, Any]:
    segment: dict[str, Any] = item["segments"][0]
    return segment


SHAPES: dict[str, tuple[Change, str]] = {
    "an unknown field": (lambda item: item.update(names="x"), "the talk has the unknown field"),
    "a missing field": (lambda item: item.pop("voice"), "the talk lacks voice"),
    "another version": (lambda item: item.update(version=9), "version 9"),
    "a name that is a number": (lambda item: item.update(name=3), "name is 3"),
    "an empty name": (lambda item: item.update(name=""), "name is ''"),
    "an empty path": (lambda item: item.update(audio=""), "audio is ''"),
    "a voice that is null": (lambda item: item.update(voice=None), "voice is None"),
    "an offset below 0": (lambda item: item.update(offset=-1.0), r"offset is -1\.0"),
    "no duration": (lambda item: item.update(duration=0), "duration is 0, .*above 0"),
    "a duration that is true": (lambda item: item.update(duration=True), "duration is True"),
    "a duration that is text": (lambda item: item.update(duration="3"), "duration is '3'"),
    "segments by name": (lambda item: item.update(segments={}), "segments is {}, not a list"),
    "a segment that is a list": (lambda item: item.update(segments=[[]]), r"segments\[0\] is \[\]"),
    "a mistyped usable": (
        lambda item: first(item).update(useable=False),
        "unknown field 'useable'",
    ),
    "usable as a number": (lambda item: first(item).update(usable=0), "usable is 0"),
    "a transcript that is null": (lambda item: first(item).update(source=None), "source is None"),
    "labels as a list": (lambda item: item.update(labels=[]), r"labels is \[\], not an object"),
    "words as text": (lambda item: first(item).update(words="Good"), "words is 'Good'"),
    "a word without its end": (lambda item: first(item)["words"][0].pop(), r"words\[0\] is"),
    "a time that is text": (
        lambda item: first(item)["words"][0].__setitem__(1, "1"),
        r"words\[0\] lasts from '1'",
    ),
    "a translation that is text": (
        lambda item: first(item).update(targets={"de": "Katze"}),
        r"targets\['de'\] is 'Katze'",
    ),
    "an index that is text": (
        lambda item: first(item)["targets"]["de"].update(alignment=[["0"], []]),
        "names source word '0'",
    ),
    "an alignment of numbers": (
        lambda item: first(item)["targets"]["de"].update(alignment=[0, 1]),
        r"alignment\[0\] is 0, not a list",
    ),
    "a prefix without translation": (
        lambda item: first(item)["targets"]["de"].update(prefixes=[""]),
        r"prefixes\[0\] is '', not a non-empty text",
    ),
    "an original that is no text": (
        lambda item: first(item)["targets"]["de"].update(original=None),
        r"original is None, not a text",
    ),
    "prefixes that are one text": (
        lambda item: first(item)["targets"]["de"].update(prefixes="Eine"),
        r"prefixes is 'Eine', not a list",
    ),
    "a target word that is null": (
        lambda item: first(item)["targets"]["de"].update(words=[None, "a"]),
        r"words\[0\] is None",
    ),
}
VALUES: dict[str, tuple[Change, str]] = {
    "a duration of ages": (
        lambda item: item.update(duration=1e300),
        r"duration is 1e\+300 s; no recording lasts more than 1e\+07 s",
    ),
    "a duration that is infinite": (
        lambda item: item.update(duration=float("inf")),
        "duration is inf",
    ),
    "an offset that is not a number": (
        lambda item: item.update(offset=float("nan")),
        "offset is nan",
    ),
    "a segment after the talk": (
        lambda item: first(item).update(duration=9.0),
        r"segments\[0\] ends at 10 s",
    ),
    "segments out of order": (
        lambda item: item["segments"].reverse(),
        r"segments\[1\] starts at 1 s, before",
    ),
    "words out of order": (
        lambda item: first(item)["words"].reverse(),
        r"words\[1\] starts at 1 s, before",
    ),
    "a word that ends before it starts": (
        lambda item: first(item)["words"][0].__setitem__(2, 0.5),
        r"words\[0\] lasts from 1\.0 to 0\.5",
    ),
    "a label after the talk": (
        lambda item: item["labels"]["phonemes"][1].__setitem__(2, 4.0),
        r"labels\['phonemes'\]\[1\] lasts",
    ),
    "one alignment for two words": (
        lambda item: first(item)["targets"]["de"]["alignment"].pop(),
        "has 2 words, but alignment has 1",
    ),
    "a need of a word that does not exist": (
        lambda item: first(item)["targets"]["de"].update(needs=[[2], []]),
        r"needs\[0\] names source word 2; there are 2",
    ),
    "a number of 400 digits": (lambda item: first(item).update(duration=10**400), "401 digits"),
}


def read(folder: Path, *items: dict[str, Any]) -> list[Talk]:
    path = folder / "train.jsonl"
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items))
    return manifest.read(path)


@pytest.mark.parametrize("name", [*SHAPES, *VALUES])
def test_an_impossible_field_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    change, sentence = {**SHAPES, **VALUES}[name]
    wrong = copy.deepcopy(good())
    change(wrong)
    other = {**good(), "name": "t-1"}
    with pytest.raises(ZooError, match=rf"train\.jsonl cannot be read at line 2: .*{sentence}"):
        read(tmp_path, other, wrong)
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(wrong) == (name in VALUES)


def test_what_the_zoo_writes_is_valid(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(good(), SCHEMA)
    [talk] = read(tmp_path, good())
    assert json.loads(manifest.encode(talk, folder=tmp_path)) == {**good(), "audio": "b.wav"}


def test_two_talks_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"line 2: an earlier talk has the name 't-0'"):
        read(tmp_path, good(), good())
