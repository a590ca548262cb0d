"""python evaluate.py with training-free policies: each backbone from a folder, and errors."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from tests.fixtures.tiny_models import Overrides, tiny_models

SHORT = ("logger=csv", "threads=1", "backbone.max_tokens=8")
# Every backbone once, every system at least once: the system, its knob and a value of the knob.
SYSTEMS = {
    "lst": ("streamatt", "f", 2),
    "offline_minitalks": ("wait_k", "k", 1),
    "seamless_m4t": ("alignatt", "f", 2),
    "seamless_m4t_v2": ("local_agreement", "chunk", 0.96),
    "speech_to_text": ("edatt", "alpha", 0.2),
    "whisper": ("streamatt", "f", 25),
}
ALL_VOICED = {
    "wait_k": ["history.threshold=0"],
    "local_agreement": ["history.threshold=0"],
}  # the corpus is noise
MISFITS = {
    "system=streamatt backbone=infinisst_minitalks": (
        "Policy AlignAtt needs alignment, prefix, which"
    ),
    "system=wait_k backbone=infinisst_minitalks": (
        "Policy WaitK needs prefix, which backbone InfiniSST does not expose"
    ),
    "system=infinisst history=recent_words": (
        "History RecentWords needs alignment, audio_trimming, which backbone"
    ),
    "system=streamatt policy=turn_taking": (
        "Policy TurnTaking needs turns, which backbone Wav2Text does not expose"
    ),
    "system=wait_k backbone=lst policy.count=words": (
        "Policy WaitK needs transcript, which backbone LST does not"
    ),
    "system=alignatt policy.frames=0": "AlignAtt needs frames of at least 1, not 0.",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Overrides]:
    return tiny_models(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("backbone", SYSTEMS)
def test_a_model_from_a_folder_is_evaluated(
    backbone: str,
    evaluate: Evaluate,
    here: Path,
    mustc: list[str],
    corpus: Path,
    tiny: dict[str, Overrides],
) -> None:
    """A row at the knob's value with the system's own settings, and a row of whole sentences."""
    system, knob, value = SYSTEMS[backbone]
    (corpus / "de-en").symlink_to(corpus / "en-de")
    languages = (
        ["source_language=de", "target_language=en"] if backbone == "whisper" else []
    )  # it writes English only
    one = [
        f"system={system}",
        *tiny[backbone],
        *languages,
        *mustc,
        f"evaluation.knob_values=[{value}]",
    ]
    done = evaluate(
        *one, *SHORT, *ALL_VOICED.get(system, []), "evaluation.batch_size=2", tiny=False
    )
    assert done.code == 0, done.err
    (run,) = (here / "outputs" / "evaluate").iterdir()
    row, ceiling = json.loads((run / "results.json").read_text())
    preset = "offline_minitalks"  # another backbone is part of the row's name
    name = system if backbone == preset else f"{system}+backbone={backbone}"
    assert (row["system"], row["knob"], row["kind"]) == (
        name,
        {"name": knob, "value": value},
        "system",
    )
    assert {"BLEU", "StreamLAAL", "LongYAAL"} <= set(row["scores"])
    assert (ceiling["system"], ceiling["kind"]) == (f"{name} offline", "ceiling")
    talks = [json.loads(line) for line in (run / row["instances"]).read_text().splitlines()]
    assert len(talks) == 2
    assert any(talk["prediction"] for talk in talks)


@pytest.mark.parametrize("given", MISFITS)
def test_incompatible_options_are_refused_at_construction(
    given: str, evaluate: Evaluate, here: Path, mustc: list[str]
) -> None:
    refused = evaluate(*given.split(), *mustc, "logger=csv", tiny=False)
    assert (refused.code, refused.out) == (2, "")
    assert MISFITS[given] in refused.err
    assert len(refused.err.strip().splitlines()) == 1
    assert list(here.iterdir()) == []
