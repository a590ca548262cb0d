"""Mistakes in sweeps, optimised scores and resumed runs are refused before weights are read."""

from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from tests.evaluation.test_bad_input import refused
from zoo.evaluation.loaded import LoadedSystems

UNKNOWN = "Unknown optimized_metric {!r}; choose one of: BLEU,"
MISTAKES = {
    "seed=range(3,3) -m": "seed=range(3,3) has no value, so that no job would run.",
    "system=glob(zz*) -m": "system=glob(zz*) has no value, so that no job would run.",
    "resume=3": "resume must name the folder of a run; there is no folder '3'.",
    "resume=''": "resume must name the folder of a run; there is no folder ''.",
    "resume=nowhere": "resume must name the folder of a run; there is no folder 'nowhere'.",
    "optimized_metric=Bleu": UNKNOWN.format("Bleu"),
    "optimized_metric=3": UNKNOWN.format("3"),
    "optimized_metric=LAAL": UNKNOWN.format("LAAL"),  # a score of sentences
    "optimized_metric=ASR_BLEU": UNKNOWN.format("ASR_BLEU"),  # a score of speech
}


@pytest.mark.parametrize("given", MISTAKES)
def test_a_mistake_is_one_sentence(
    given: str,
    evaluate: Evaluate,
    mustc: list[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LoadedSystems, "load", lambda *given: pytest.fail("weights are read"))
    refused(evaluate(*mustc, *given.split(" ")), MISTAKES[given])
    assert not [path for path in here.rglob("*") if path.is_file()]
