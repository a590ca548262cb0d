"""The files that benchmarks/scoring.py gives to all tools."""

import sys
from pathlib import Path
from types import ModuleType

from zoo.base.languages import language
from zoo.formats.logs import read_log
from zoo.formats.references import read_references

DE = language("de")


def test_all_formats_hold_the_same_stream_and_references(
    script: ModuleType, tmp_path: Path
) -> None:
    script.write_files(tmp_path, talks=2)
    streams = read_log(tmp_path / "instances.log", language=DE)
    others = read_log(tmp_path / "simulstream.jsonl", language=DE, format="simulstream")
    assert [one.units for one in streams] == [one.units for one in others]
    assert [one.delays for one in streams] == [one.delays for one in others]
    talks = read_references(tmp_path / "segments.yaml", tmp_path / "segments.ref", target="de")
    assert [len(segments) for segments in talks.values()] == [script.SEGMENTS] * 2


def test_an_absent_tool_is_found_before_scoring(script: ModuleType) -> None:
    assert not script.has_package(None, "simuleval")
    assert not script.has_package("/nowhere/python", "simuleval")
    assert not script.has_package(sys.executable, "no_such_package")
    assert script.has_package(sys.executable, "json")
