"""python evaluate.py with training-free policies: each backbone from a folder, and errors."""

import json
from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from tests.fixtures.streams import white_noise
from tests.fixtures.tiny_models import Overrides, tiny_models
from zoo.base.audio import files as audio
from zoo.base.types import SAMPLE_RATE

SHORT = ("logger=csv", "threads=1", "backbone.max_tokens=8")
# Every backbone once, every system at least once: the system, its knob and a value of the knob.
SYSTEMS = {
    "canary": ("streamatt", "f", 2),
    "fbk_conformer": ("alignatt", "f", 2),
    "lst": ("streamatt", "f", 2),
    "offline_minitalks": ("wait_k", "k", 1),
    "seamless_m4t": ("alignatt", "f", 2),
    "seamless_m4t_v2": ("local_agreement", "chunk", 0.96),
    "speech_to_text": ("edatt", "alpha", 0.2),
    "whisper": ("streamatt", "f", 25),
}
ALL_VOICED = {  # the corpus is noise
    "offline_minitalks": ["history.threshold=0"],
    "seamless_m4t_v2": ["history.threshold=0"],
    "whisper": ["history.speech=null"],
}
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
    if backbone == "canary":
        pytest.importorskip("transformers", minversion="5.23")
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
        *one, *SHORT, *ALL_VOICED.get(backbone, []), "evaluation.batch_size=2", tiny=False
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
    weights = [given.partition("=")[2] for given in tiny[backbone] if "/" in given]
    assert list(row["settings"]["weights"].values()) == weights
    assert row["settings"]["parameters"] > 1000
    page = (run / "report.html").read_text()
    assert all(f"{name}: {place} (" in page for place in weights)
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


@pytest.fixture
def long_talk(tmp_path: Path) -> list[str]:
    """Overrides of a corpus with one German talk of 33 s, one segment."""
    split = tmp_path / "long" / "de-en" / "data" / "tst-COMMON"
    (split / "txt").mkdir(parents=True)
    (split / "wav").mkdir()
    audio.write(split / "wav" / "ted_1.wav", white_noise(33 * SAMPLE_RATE, scale=0.1))
    item = "- {duration: 33.0, offset: 0.0, speaker_id: s, wav: ted_1.wav}"
    for suffix, line in (("yaml", item), ("de", "Eins zwei."), ("en", "One two.")):
        (split / "txt" / f"tst-COMMON.{suffix}").write_text(line + "\n")
    languages = ["source_language=de", "target_language=en"]
    data = ["data=mustc", f"data.root={tmp_path / 'long'}", "evaluation.split=tst-COMMON"]
    return [*data, *languages]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("system=alignatt", "may keep 33 s of talk 'ted_1'"),
        ("system=streamatt system.chunk_seconds=1.28", "may keep 30.08 s of talk 'ted_1'"),
    ],
)
def test_whisper_is_refused_more_than_30_seconds_before_its_weights_are_read(
    options: str, kept: str, evaluate: Evaluate, long_talk: list[str], tmp_path: Path, here: Path
) -> None:
    (tmp_path / "empty").mkdir()
    weights = ["backbone=whisper", f"backbone.name={tmp_path / 'empty'}"]
    refused = evaluate(*options.split(), *weights, *long_talk, "logger=csv", tiny=False)
    assert (refused.code, refused.out) == (2, "")
    assert "Whisper encodes at most 30 s at once" in refused.err
    assert kept in refused.err


def test_an_offline_row_that_cannot_be_decoded_is_skipped_with_a_note(
    evaluate: Evaluate, long_talk: list[str], tiny: dict[str, Overrides], here: Path
) -> None:
    chosen = ["system=streamatt", "system.chunk_seconds=1.2", "evaluation.knob_values=[25]"]
    done = evaluate(*chosen, *tiny["whisper"], *long_talk, *SHORT, tiny=False)
    assert done.code == 0, done.err
    assert "The row streamatt+backbone=whisper offline is skipped: Whisper encodes" in done.out
    (run,) = (here / "outputs" / "evaluate").iterdir()
    [row] = json.loads((run / "results.json").read_text())
    assert row["kind"] == "system"
