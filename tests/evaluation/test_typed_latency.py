"""A typed value of the key that a latency knob sets is the only value that is evaluated."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from zoo.base.errors import ZooError
from zoo.config import build, compose
from zoo.evaluation.comparison import keep_typed_latency
from zoo.evaluation.settings import Settings, knob_values

SHORT = ("evaluation.talks=1", "evaluation.upper_bound=false", "evaluation.oracle_k=[]")


@pytest.mark.parametrize(
    ("system", "typed", "value"),
    [
        ("alignatt", "policy.frames=6", 6),
        ("edatt", "policy.alpha=0.25", 0.25),
        ("infinisst", "system.latency_multiplier=6", 6),
        ("local_agreement", "system.chunk_seconds=0.5", 0.5),
        ("simulu", "++policy.frames=3", 3),
        ("streamatt", "policy.frames=6", 6),
        ("streamatt_plus", "policy.frames=6", 6),
        ("streamuni", "policy.k=2", 2),
        ("wait_k", "policy.k=4", 4),
    ],
)
def test_a_typed_value_is_the_only_one(system: str, typed: str, value: float) -> None:
    given = [f"system={system}", typed]
    cfg = compose("evaluate", given)
    keep_typed_latency(cfg, given)
    assert knob_values(build(cfg.system), Settings()) == [value]


def test_other_keys_leave_the_values_of_the_knob() -> None:
    given = ["system=wait_k", "system.chunk_seconds=0.5"]
    cfg = compose("evaluate", given)
    keep_typed_latency(cfg, given)
    assert knob_values(build(cfg.system), Settings()) == [3, 5, 7, 9]


@pytest.mark.parametrize("rival", ["evaluation.knob_values=[2,4]", "system.knob.values=[2,4]"])
def test_two_lists_of_values_are_refused(rival: str) -> None:
    given = ["system=streamatt", "policy.frames=6", rival]
    with pytest.raises(ZooError, match=r"^policy\.frames=6 sets the latency .* leave one of them"):
        keep_typed_latency(compose("evaluate", given), given)


def labels(folder: Path) -> list[tuple[str, float]]:
    """The system and the latency setting of each row of the only run below a folder."""
    (results,) = folder.glob("outputs/**/results.json")
    return [(row["system"], row["knob"]["value"]) for row in json.loads(results.read_text())]


def test_rows_have_the_typed_value(evaluate: Evaluate, mustc: list[str], here: Path) -> None:
    result = evaluate(*mustc, *SHORT, "system.latency_multiplier=3")
    assert result.code == 0
    assert labels(here) == [("infinisst", 3)]


def test_an_entry_of_a_comparison_has_its_own_value(
    evaluate: Evaluate, mustc: list[str], here: Path
) -> None:
    compare = "compare={a: ['system.latency_multiplier=3'], b: ['system.knob.values=[1,2]']}"
    assert evaluate(*mustc, *SHORT, compare).code == 0
    assert labels(here) == [("a", 3), ("b", 1), ("b", 2)]
