"""The checkpoint in the repository translates a talk of the test set."""

from pathlib import Path

import pytest

from zoo.config import build, compose
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings
from zoo.systems.base import StreamingSystem

FOLDER = Path(__file__).resolve().parents[3] / "checkpoints" / "cascade_minitalks_en-de"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the checkpoint is not here")
def test_it_translates_a_talk(tmp_path: Path) -> None:
    cfg = compose("evaluate", ["system=streamuni", "backbone=cascade_minitalks"])
    system: StreamingSystem = build(cfg.system)
    system.configure_model()
    talks = build(cfg.data).talks("tst", limit=1)
    settings = Settings(upper_bound=False, oracle_k=(), knob_values=[3])
    row = next(
        iter(
            Evaluator(corpus="minitalks", talks=talks, settings=settings, folder=tmp_path).run(
                system
            )
        )
    )
    assert row.flags == ()
    assert (row.scores["BLEU"] or 0) > 45
    assert 0.5 < (row.scores["StreamLAAL"] or 0) < 4
