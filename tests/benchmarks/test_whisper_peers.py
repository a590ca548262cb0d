"""benchmarks/whisper_peers.py: delays of words, ratios, and what it refuses; no weights."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tests.benchmarks.conftest import load_script
from zoo.base.errors import ZooError
from zoo.base.talks import Segment, Talk, Target

TALK = Talk(
    "talk",
    Path("talk.wav"),
    3.5,
    "en",
    (
        Segment(0.0, 1.5, "Good morning.", targets={"en": Target("Good morning.")}),
        Segment(1.6, 1.9, "Thank you all.", targets={"en": Target("Thank you all.")}),
    ),
)


def test_a_word_has_the_delay_of_the_chunk_that_completes_it(script: ModuleType) -> None:
    stream = script.Stream([0.1, 0.3, 0.2, 0.2], [" Good mor", "ning.", "", " Thank you all."])
    instance = script.instance_of(stream, TALK, index=0, chunk=1.0, length=3.5)
    assert instance.units == ("Good", "morning.", "Thank", "you", "all.")
    assert instance.delays == (1.0, 2.0, 3.5, 3.5, 3.5)


def test_facts_are_those_of_the_words_and_of_the_steps(script: ModuleType) -> None:
    texts = [" Good", " morning.", "", " Thank you two."]
    facts = script.facts_of([script.Stream([0.1, 0.3, 0.2, 0.2], texts)], [TALK], [3.5], 1.0)
    assert facts["cpu_per_second"] == pytest.approx(0.8 / 3.5, abs=1e-3)
    assert (facts["ms_per_chunk"], facts["WER"], facts["words"]) == (200.0, 20.0, 5)
    assert facts["StreamLAAL"] > 0


def test_ratios_compare_each_peer_with_each_form_of_the_zoo(script: ModuleType) -> None:
    seconds = {"simulstreaming": 3.0, "faster_whisper": 1.5, "exact": 1.0, "cached": 0.5}
    facts = {form: {"cpu_per_second": value} for form, value in seconds.items()}
    assert script.ratios_of(facts) == {
        "simulstreaming_speedup": 3.0,
        "simulstreaming_cached_speedup": 6.0,
        "faster_whisper_speedup": 1.5,
        "faster_whisper_cached_speedup": 3.0,
    }
    assert script.ratios_of({"exact": {"cpu_per_second": 1.0}}) == {}


def test_a_limit_keeps_whole_segments(script: ModuleType) -> None:
    assert script.beginning(TALK, 4.0) == TALK
    first = replace(TALK, duration=1.5, segments=TALK.segments[:1])
    assert script.beginning(TALK, 3.0) == first
    assert script.beginning(TALK, 1.0) == first


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "needs --whisper FOLDER"),
        (["--whisper", "."], "needs --recordings FOLDER"),
        (["--whisper", ".", "--recordings", ".", "--simulstreaming", "nowhere"], "no folder"),
        (["--whisper", ".", "--recordings", ".", "--python", "nowhere"], "no interpreter nowhere"),
    ],
)
def test_what_is_missing_is_named_before_long_work(
    script: ModuleType, given: list[str], message: str
) -> None:
    with pytest.raises(ZooError, match=message):
        script.arguments(given)


def test_a_side_that_ends_is_named_with_its_last_line(script: ModuleType, tmp_path: Path) -> None:
    settings = {"side": "simulstreaming", "folder": str(tmp_path), "threads": 1}
    with (
        pytest.raises(ZooError, match="SimulStreaming, greedy has stopped: ModuleNotFoundError"),
        script.started("simulstreaming", settings, sys.executable, tmp_path),
    ):
        pass


def test_names_of_weights_are_openais() -> None:
    sides = load_script("whisper_sides")
    names = {
        "model.encoder.conv1.weight": "encoder.conv1.weight",
        "model.encoder.embed_positions.weight": "encoder.positional_embedding",
        "model.encoder.layers.0.self_attn.q_proj.bias": "encoder.blocks.0.attn.query.bias",
        "model.encoder.layers.0.self_attn_layer_norm.bias": "encoder.blocks.0.attn_ln.bias",
        "model.encoder.layer_norm.weight": "encoder.ln_post.weight",
        "model.decoder.embed_tokens.weight": "decoder.token_embedding.weight",
        "model.decoder.layers.5.encoder_attn.out_proj.weight": (
            "decoder.blocks.5.cross_attn.out.weight"
        ),
        "model.decoder.layers.5.encoder_attn_layer_norm.weight": (
            "decoder.blocks.5.cross_attn_ln.weight"
        ),
        "model.decoder.layers.5.final_layer_norm.weight": "decoder.blocks.5.mlp_ln.weight",
        "model.decoder.layers.5.fc2.weight": "decoder.blocks.5.mlp.2.weight",
        "model.decoder.layer_norm.bias": "decoder.ln.bias",
    }
    assert {name: sides.openai_name(name) for name in names} == names
