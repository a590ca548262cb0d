"""The index that benchmarks/manifests.py repeats is that of a longer manifest."""

from pathlib import Path
from types import ModuleType

import pytest

from zoo.data.corpora import Aligned


def test_a_repeated_index_has_all_talks(script: ModuleType, tmp_path: Path) -> None:
    script.prepare(tmp_path, 6, 2)
    talks = Aligned(folder=str(tmp_path), lazy=True).stored_talks("train")
    assert talks.hours == pytest.approx(6)
    assert len({talk.name for talk in talks}) == len(talks) == 24
    assert [one.source for one in talks[-1].segments] == [one.source for one in talks[7].segments]
    assert [one.offset for one in talks[-1].outline] == [one.offset for one in talks[7].segments]


def test_the_measures_of_a_small_manifest(script: ModuleType, tmp_path: Path) -> None:
    script.prepare(tmp_path, 6, 2)
    found = script.measure(tmp_path, steps=2, block=2)
    assert (found["hours"], found["talks"], found["segments"]) == (6.0, 24, 6 * 720)
    assert found["steps_per_pass"] >= 6
