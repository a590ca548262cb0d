"""Both forms generate the same units; a form that does not is detected."""

import json
import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.fixtures.operations import Operations
from zoo.base.errors import ZooError

SMALL = ["simulu_step.py", "--small", "--chunks", "5"]


def test_the_shipped_model_needs_fewer_passes(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real words and units, which ``main`` compares."""
    monkeypatch.setattr(sys, "argv", SMALL)
    script.main()
    facts = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert list(facts["ms"]) == [script.PLAIN, script.OURS]
    assert {"step_speedup", "text_speedup", "unit_passes_speedup"} < set(facts)
    assert all(set(parts) == set(script.PARTS) for parts in facts["ms"].values())
    assert 1 < facts["steps"] <= 5
    assert facts["passes"][script.OURS] < 0.7 * facts["passes"][script.PLAIN]


def test_kept_states_take_fewer_operations(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {}

    def counted(one: type, name: str) -> None:
        function = getattr(one, name)

        def count(*inputs: Any, **options: Any) -> Any:
            with Operations() as operations:
                result = function(*inputs, **options)
            counts[one.__name__] = operations.count
            return result

        monkeypatch.setattr(one, name, count)

    counted(script.Generate, "states")
    counted(script.SeamlessM4TSpeech, "fed")
    monkeypatch.setattr(sys, "argv", [*SMALL[:-1], "2"])
    script.main()
    assert 2 * counts["SeamlessM4TSpeech"] < counts["Generate"]


def test_a_form_with_other_units_is_detected(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(script.Generate):  # type: ignore[misc, name-defined]
        def states(self, *inputs: Any, **options: Any) -> torch.Tensor:
            states: torch.Tensor = super().states(*inputs, **options)
            return states[:3]

    monkeypatch.setattr(script, "Generate", Wrong)
    monkeypatch.setattr(sys, "argv", SMALL)
    with pytest.raises(ZooError, match="generate different units in step 1"):
        script.main()


def test_silence_and_other_backbones_are_refused(script: ModuleType) -> None:
    system, backbone = script.load_system([], 4)
    with pytest.raises(ZooError, match="No step speaks"):
        script.compare(system, backbone, torch.zeros(2 * system.chunk_samples))
    with pytest.raises(ZooError, match="needs a SeamlessM4T with speech output"):
        script.load_system(["backbone=offline_minitalks", "synthesizer=none"], 4)


def test_impossible_sizes_are_refused(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.arguments(["--chunks", "0"])
    assert "must be" in capsys.readouterr().err
