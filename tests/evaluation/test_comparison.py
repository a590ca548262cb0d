"""The weights of a comparison: one size for all systems, or a refusal."""

from pathlib import Path

import pytest

from tests.evaluation.conftest import Evaluate
from zoo.config import choices, compose, plain
from zoo.errors import ZooError
from zoo.tracking.weights import weights_of

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
        r"^synthesizer\.name is \$\{size\.text_to_speech\}, of the small model .*=seamless_m4t; "
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
            "Unknown system 'nonsense'; choose one of: alignatt, edatt,",
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
