"""Both forms generate the same tokens; a form that computes something else is detected."""

import argparse
import json
import sys
from types import ModuleType

import pytest
import torch

from zoo.base.errors import ZooError


@pytest.fixture
def options(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", ["infinisst_step.py", "--small", "--dtype", "float64"])
    return script.arguments()


@pytest.mark.usefixtures("options")
def test_the_published_form_and_the_lockstep_generate_the_same_tokens(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main()
    lines = capsys.readouterr().out.strip().splitlines()
    facts = json.loads(lines[-1])
    names = [line.partition(":")[0] for line in lines[:2]]
    assert names == list(script.NAMES) == list(facts["ms_per_chunk"])
    assert facts["tokens_per_turn"] == 10
    assert facts["fast_speedup"] > 0
    assert facts["lockstep_speedup"] > 0


def test_other_tokens_are_detected(
    script: ModuleType, options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unrotated keys in a cache that is read as rotated."""
    torch.manual_seed(0)
    backbone = script.random_backbone(options)
    session, recent = script.full_session(backbone, 1)
    assert session.backbone_state.num_cached > options.window
    blocks = torch.randn(2, 1, 15_360)
    right = script.plain_session(session, backbone.decoder, recent)
    ways = [(True, [[right]]), (False, [[script.copied(session)]])]
    assert script.compare(backbone, ways, blocks)[0].tokens != [[[]], [[]]]
    rotated = script.copied(session)
    rotated.backbone_state.encoder.left = recent.double()
    wrong = [(True, [[rotated]]), (False, [[session]])]
    with pytest.raises(ZooError, match="generate different tokens"):
        script.compare(backbone, wrong, blocks)


def test_a_size_of_nothing_is_refused(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["infinisst_step.py", "--talks", "0"])
    with pytest.raises(SystemExit) as left:
        script.main()
    assert left.value.code == 2
    assert "--talks: must be a whole number of at least 1, not 0" in capsys.readouterr().err
