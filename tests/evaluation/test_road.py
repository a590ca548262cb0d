"""The road from the command to the policy is short, and no work on it is done twice."""

import gc
import traceback
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.conftest import Evaluate
from tests.fixtures.processes import ROOT
from zoo.backbones.base import reads_shapes
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.evaluation import comparison
from zoo.policies.turn_taking import TurnTaking
from zoo.systems.base import StreamingSystem

MOST_FRAMES = 12  # of this package between the command and the policy
NAMES = ("s3", "s4", "s5")  # systems with 3, 4 and 5 tokens per chunk
SHORT = ("evaluation.talks=1", "evaluation.knob_values=[2]", "evaluation.oracle_k=[]")


def test_few_frames_lie_between_the_command_and_the_policy(
    evaluate: Evaluate, mustc: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []
    decide = TurnTaking.decide

    def noted(policy: TurnTaking, *given: Any) -> Any:
        stack = traceback.extract_stack()[:-1]
        stacks.append(
            [frame.name for frame in stack if Path(frame.filename).is_relative_to(ROOT / "zoo")]
        )
        return decide(policy, *given)

    monkeypatch.setattr(TurnTaking, "decide", noted)
    assert evaluate(*mustc, *SHORT, "evaluation.upper_bound=false").code == 0
    assert stacks
    assert max(map(len, stacks)) <= MOST_FRAMES, " > ".join(max(stacks, key=len))


def test_each_system_is_composed_built_and_loaded_once(
    evaluate: Evaluate, mustc: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()
    compose, build, load = comparison.compose, StreamingSystem.__init__, InfiniSST.load

    def counted_compose(*given: Any) -> Any:
        counts["compositions"] += 1
        return compose(*given)

    def counted_build(system: StreamingSystem, **given: Any) -> None:
        counts["systems"] += 1
        build(system, **given)

    def counted_load(backbone: InfiniSST) -> None:
        counts["checks" if reads_shapes() else "loads"] += 1
        load(backbone)

    monkeypatch.setattr(comparison, "compose", counted_compose)
    monkeypatch.setattr(StreamingSystem, "__init__", counted_build)
    monkeypatch.setattr(InfiniSST, "load", counted_load)
    entries = ",".join(
        f'{name}:["backbone.search.tokens_per_chunk={tokens}"]'
        for name, tokens in (("a", 3), ("b", 4), ("c", 5))
    )
    assert evaluate(*mustc, *SHORT, f"compare={{{entries}}}").code == 0
    assert counts == {"compositions": 3, "systems": 3, "loads": 3, "checks": 2}


def test_the_weights_of_one_system_are_in_memory_at_a_time(
    evaluate: Evaluate, mustc: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    backbones: list[weakref.ref[InfiniSST]] = []
    held: list[int] = []
    load = InfiniSST.load

    def counted_load(backbone: InfiniSST) -> None:
        if not reads_shapes():
            gc.collect()
            held.append(sum(one() is not None for one in backbones))
            backbones.append(weakref.ref(backbone))
        load(backbone)

    monkeypatch.setattr(InfiniSST, "load", counted_load)
    entries = ",".join(f'{name}:["backbone.search.tokens_per_chunk={name[1]}"]' for name in NAMES)
    assert evaluate(*mustc, *SHORT, f"compare={{{entries}}}").code == 0
    assert held == [0, 0, 0]


def test_a_damaged_checkpoint_of_a_later_system_is_refused_before_anything_is_streamed(
    evaluate: Evaluate, mustc: list[str], model: Path, here: Path
) -> None:
    damaged = here / "damaged"
    damaged.mkdir()
    for path in model.iterdir():
        content = path.read_bytes()
        if path.suffix == ".safetensors":
            content = content[: len(content) // 2]
        (damaged / path.name).write_bytes(content)
    entries = f'{{a: [], b: ["backbone.checkpoint={damaged}"]}}'
    result = evaluate(*mustc, *SHORT, f"compare={entries}")
    assert result.code == 2
    assert f"{damaged / 'model.safetensors'}" in result.err
    assert not list(here.rglob("streams.jsonl"))
