"""Manifests are written and read back; errors name the cause."""

from dataclasses import replace
from pathlib import Path

import pytest

from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target, Word
from zoo.data import manifest


def talk(folder: Path) -> Talk:
    target = Target("Gute Katze.", ("Gute", "Katze."), ((0,), (1,)), ((0, 1), ()))
    words = (Word("Good", 1.0, 1.25), Word("cat.", 1.25, 1.75))
    segment = Segment(
        1.0,
        0.75,
        "Good cat.",
        words,
        {"de": target, "zh": Target("好猫。", prefixes=("好",), original="")},
    )
    labels = {"phonemes": (Word("g", 1.0, 1.125),)}
    return Talk(
        "t-0",
        folder / "wav" / "t-0.wav",
        3.5,
        "en",
        (segment, Segment(2.0, 0.5, "", usable=False)),
        0.25,
        "f1",
        labels,
    )


def test_round_trip(tmp_path: Path) -> None:
    talks = [talk(tmp_path), Talk("t-1", tmp_path.parent / "b.wav", 1.0, "en", ())]
    talks += [Talk("t-2", None, 1.0, "en", ())]  # of a recorded log
    manifest.write(tmp_path / "m.jsonl", talks)
    assert manifest.read(tmp_path / "m.jsonl") == talks
    assert [path.name for path in tmp_path.iterdir()] == ["m.jsonl"]


def test_audio_paths_move_with_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    manifest.write(tmp_path / "old" / "m.jsonl", [talk(tmp_path / "old")])
    (tmp_path / "old").rename(tmp_path / "new")
    assert (
        manifest.read(tmp_path / "new" / "m.jsonl")[0].audio == tmp_path / "new" / "wav" / "t-0.wav"
    )


def test_damaged_or_foreign_manifests(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with pytest.raises(ZooError, match="does not exist"):
        manifest.read(path)
    manifest.write(path, [talk(tmp_path)])
    line = path.read_text()
    for damaged, what in (
        (line.replace('"version": 1', '"version": 9'), "version 9"),
        (line + line[:50], "line 2"),
        (line.replace('"segments"', '"parts"'), "segments"),
        (line.replace('"version": 1, ', ""), "line 1: no field 'version'"),
        (line.replace('"source": "', '"source": "\\ud800'), "line 1: a text with half of a"),
        (line.replace('"source": "', '"source": "\\u0000'), "line 1: a text with a zero byte"),
    ):
        path.write_text(damaged)
        with pytest.raises(ZooError, match=what):
            manifest.read(path)


def test_lines_after_the_limit_are_not_read(tmp_path: Path) -> None:
    talks = [replace(talk(tmp_path), name=f"t-{number}") for number in range(3)]
    path = tmp_path / "m.jsonl"
    manifest.write(path, talks)
    with path.open("a") as file:
        file.write("{damaged")
    assert manifest.read(path, limit=2) == talks[:2]
    assert manifest.read(path, limit=3) == talks
    with pytest.raises(ZooError, match="at line 4"):
        manifest.read(path)
    with pytest.raises(ZooError, match="at least 1 talk, not -1"):
        manifest.read(path, limit=-1)


@pytest.mark.parametrize("separator", ["\x85", "\u2028", "\x0b"])
def test_other_line_separators_belong_to_a_text(tmp_path: Path, separator: str) -> None:
    one = replace(talk(tmp_path), name=f"a{separator}b")
    manifest.write(tmp_path / "m.jsonl", [one])
    assert manifest.read(tmp_path / "m.jsonl") == [one]
