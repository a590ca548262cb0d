"""Both forms generate the same units; a form that does not is detected."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fixtures.operations import Operations
from zoo.errors import ZooError
from zoo.streaming.session import Session

TINY = ["--small", "--seconds", "1", "--prefix", "3", "--new", "3", "--units", "5", "--steps", "1"]


def test_it_runs(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["simulu_step.py", *TINY])
    script.main()
    facts = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert list(facts["ms"])[-1] == "the zoo"
    assert {"step_speedup", "text_speedup"} < set(facts)
    assert (facts["units"], facts["unit_layers"]) == (5, 1)
    assert all(set(parts) == set(script.PARTS) for parts in facts["ms"].values())


def test_kept_states_take_fewer_operations(script: ModuleType, tmp_path: Path) -> None:
    options = script.arguments(TINY)
    backbone = script.network(options, tmp_path)
    counts = {}
    for name, form in script.forms(backbone, options).items():
        session = script.noise_session(backbone, options, step=0)
        with torch.inference_mode():
            form.decode(session)
            with Operations() as operations:
                form.states(session)
        counts[name] = operations.count
    assert 2 * counts["the zoo"] < counts["Transformers' generate"]


def test_a_form_with_other_units_is_detected(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = script.forms

    def with_wrong(backbone: Any, options: Any) -> Any:
        class Wrong(script.Ours):  # type: ignore[misc, name-defined]
            def states(self, session: Session) -> Tensor:
                return super().states(session)[:-1]

        found: dict[str, Any] = right(backbone, options)
        return found | {"the zoo": Wrong(backbone, old=0.0)}

    monkeypatch.setattr(script, "forms", with_wrong)
    monkeypatch.setattr(sys, "argv", ["simulu_step.py", *TINY, "--units", "30"])
    with pytest.raises(ZooError, match="generate different units"):
        script.main()


@pytest.mark.parametrize("given", [["--steps", "0"], ["--hidden", "40"]])
def test_impossible_sizes_are_refused(
    script: ModuleType, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.arguments(given)
    assert "must be" in capsys.readouterr().err
