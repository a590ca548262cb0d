"""The weights of a comparison: one size for all systems, or a refusal."""

from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from zoo.base.errors import ZooError
from zoo.config import choices, compose, plain
from zoo.runs.weights import weights_of

TABLES = (
    "benchmark",
    "simulu_cascades",
    "simulu_options",
    "streamuni_baselines",
    "streamuni_released",
    "streamuni_truncation",
)
SIZES = {"minitalks": True, "published": False}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("table", TABLES)
def test_one_override_replaces_the_models_of_a_table(table: str, size: str) -> None:
    given = [f"experiment={table}", f"size={size}"]
    entries = plain(compose("evaluate", given))["compare"]
    for name, entry in entries.items():
        backbone = str(choices([*given, *entry])["backbone"])
        assert backbone.endswith("_minitalks") == SIZES[size], name


def test_no_value_of_a_small_model_is_beside_another_backbone() -> None:
    given = ["system=streamatt", "backbone=seamless_m4t", "synthesizer=seamless_tts"]
    message = (
        r"^synthesizer\.name is \$\{size\.weights\.speech\}, of the small model .*=seamless_m4t; "
    )
    for config in ("evaluate", "translate"):
        with pytest.raises(ZooError, match=message):
            compose(config, given)
        compose(config, [*given, "synthesizer.name=facebook/hf-seamless-m4t-large"])
        compose(config, ["system=streamatt", "synthesizer=seamless_tts"])


@pytest.mark.parametrize("size", SIZES)
def test_synthesizers_have_the_size(size: str) -> None:
    given = [f"size={size}", "system=simulu"]
    cascade = plain(compose("evaluate", [*given, "synthesizer=seamless_tts"]))
    assert ("minitalks" in weights_of(cascade)["synthesizer.name"]) == SIZES[size]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "experiment=streamuni_baselines backbone=phi4_multimodal",
            (
                "backbone=phi4_multimodal would not replace the backbone of all compared systems "
                "(streamuni: phi4_minitalks, "
            ),
        ),
        (
            "experiment=benchmark backbone.checkpoint=somewhere",
            "backbone.checkpoint=somewhere would not replace the backbone of all compared systems",
        ),
        (
            "experiment=simulu_cascades synthesizer=espeak",
            "synthesizer=espeak would not replace the synthesizer of all compared systems",
        ),
        (
            'size=published compare={a:["system=streamuni"]}',
            "size=published would not change compare.a, which names its backbone without ${size",
        ),
        (
            'backbone=lst compare={a:["system=streamuni"],b:["system=nonsense"]}',
            "Unknown system 'nonsense'; choose one of: alignatt, doa, edatt,",
        ),
        (
            "experiment=infinisst_ablation_windows backbone.encoder.window=12",
            (
                "compare.ws5 has backbone.encoder.window=5, so that backbone.encoder.window=12 "
                "would have no effect on it; write a compare of your own, or leave out "
            ),
        ),
        (
            "experiment=infinisst_ablation_windows backbone.checkpoint=mine backbone.dtype=float32",
            "write size.weights.infinisst=..., or leave out backbone.checkpoint.",
        ),
        (
            "backbone=infinisst backbone.checkpoint=mine experiment=infinisst_ablation_windows",
            "backbone=infinisst would not replace the backbone of all compared systems",
        ),
        (
            "experiment=simulu_cascades system.chunk_seconds=0.5",
            "write chunk_seconds=..., or leave out system.chunk_seconds.",
        ),
        ("size=published", "size=published chooses the models of a comparison, and there is none"),
        ("size=huge", "choose one of: llama8b, minitalks, published"),
    ],
)
def test_a_table_of_two_sizes_is_refused(
    given: str, message: str, evaluate: Evaluate, here: Path
) -> None:
    refused = evaluate(*given.split(), "logger=csv", tiny=False)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err
    assert list(here.iterdir()) == []


def test_weights_of_a_system_are_named_by_their_keys() -> None:
    found = weights_of(plain(compose("evaluate", ["system=streamuni", "backbone=cascade"])))
    assert found == {
        "backbone.name": "microsoft/Phi-4-mini-instruct",
        "backbone.transcriber.name": "openai/whisper-large-v3",
    }


@pytest.mark.parametrize("size", SIZES)
def test_one_key_replaces_the_weights_of_a_family(size: str) -> None:
    given = ["experiment=streamuni_baselines", f"size={size}", "size.weights.phi4=mine"]
    entries = plain(compose("evaluate", given))["compare"]
    named = {
        name: plain(compose("evaluate", [*given, *entry]))["backbone"].get("name")
        for name, entry in entries.items()
    }
    assert {name for name, weights in named.items() if weights == "mine"} == {
        name for name in named if name.startswith(("streamuni", "phi4"))
    }


@pytest.mark.parametrize("table", ["streamuni_baselines", "streamuni_simulst", "infinisst_main"])
def test_weights_of_a_small_entry_are_those_of_its_backbone(table: str) -> None:
    entries = plain(compose("evaluate", [f"experiment={table}"]))["compare"]
    for entry in entries.values():
        own = [item for item in entry if not item.startswith("backbone.")]
        assert (
            weights_of(plain(compose("evaluate", entry)))
            == weights_of(plain(compose("evaluate", own)))
            != {}
        )


def test_one_chunk_length_reaches_all_rows() -> None:
    for given, key in (
        (["experiment=streamuni_baselines", "system.chunk_seconds=0.32"], None),
        (["experiment=simulu_cascades", "chunk_seconds=0.32"], "local_agreement"),
    ):
        entries = plain(compose("evaluate", given))["compare"]
        for name, entry in entries.items():
            if key is None or key not in name:
                assert compose("evaluate", [*given, *entry]).system.chunk_seconds == 0.32


@pytest.mark.parametrize(("size", "seconds"), [("minitalks", 1.28), ("published", 0.5)])
@pytest.mark.parametrize("table", ["simulu_cascades", "simulu_options", "simulu_word_histories"])
def test_simulu_has_the_chunk_of_its_size(table: str, size: str, seconds: float) -> None:
    given = [f"experiment={table}", f"size={size}"]
    entries = plain(compose("evaluate", given))["compare"]
    entry = next(entry for name, entry in entries.items() if name in ("simulu", "words_10"))
    assert compose("evaluate", [*given, *entry]).system.chunk_seconds == seconds


def test_an_entry_that_the_user_types_may_differ_and_may_have_links(
    evaluate: Evaluate, mustc: list[str]
) -> None:
    given = [
        'compare={a: ["backbone=${size.infinisst}"], b: ["system.knob.values=[3]"]}',
        "system.knob.values=[2]",
        "evaluation.talks=1",
    ]
    small = [item for item in mustc if not item.startswith("backbone=")]
    result = evaluate(*small, *given, "evaluation.upper_bound=false")
    assert result.code == 0, result.err


def test_random_weights_are_allowed_only_by_name(
    evaluate: Evaluate, mustc: list[str], model: Path, here: Path
) -> None:
    random = ["backbone.checkpoint=null", f"backbone.tokenizer={model}"]
    refused = evaluate(*mustc, *random, "evaluation.talks=1")
    assert refused.code == 2
    assert "backbone.checkpoint of 'infinisst' is null, so that parts" in refused.err
    assert list(here.iterdir()) == []
    short = ["evaluation.talks=1", "evaluation.knob_values=[2]", "evaluation.upper_bound=false"]
    allowed = evaluate(*mustc, *random, *short, "evaluation.random_weights=true")
    assert allowed.code == 0, allowed.err
