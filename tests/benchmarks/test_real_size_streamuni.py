"""The published sizes on the meta device, and a run at a small size."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import real_size
from zoo.errors import ZooError
from zoo.types import Request, SpeechChunk, Task

TINY = {
    "phi4_multimodal": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "audio_config.hidden_size": 16,
        "audio_config.intermediate_size": 24,
        "audio_config.num_blocks": 1,
        "audio_config.num_attention_heads": 2,
        "audio_config.ext_pw_out_channel": 16,
        "audio_config.depthwise_separable_out_channel": 16,
        "audio_config.nemo_conv_channels": 4,
    },
    "qwen2_5_omni": {
        "text_config.hidden_size": 64,
        "text_config.intermediate_size": 48,
        "text_config.num_hidden_layers": 2,
        "text_config.num_attention_heads": 1,
        "text_config.num_key_value_heads": 1,
        "audio_config.d_model": 16,
        "audio_config.encoder_layers": 1,
        "audio_config.encoder_attention_heads": 2,
        "audio_config.encoder_ffn_dim": 24,
    },
}
TINY["qwen2_5_omni"] |= {"text_config.rope_parameters.mrope_section": "[8,12,12]"}


def tiny(backbone: str) -> list[str]:
    return [f"backbone.config.{name}={value}" for name, value in TINY[backbone].items()]


@pytest.mark.parametrize(
    ("backbone", "text", "whole"),
    [
        ("phi4_multimodal", 3_836_021_760, 4.3e9),  # Phi-4-mini
        ("qwen2_5_omni", 7_615_616_512, 8.3e9),  # Qwen2.5 7 B
    ],
)
def test_the_real_size_is_the_published(
    script: ModuleType, tmp_path: Path, backbone: str, text: int, whole: float
) -> None:
    size = script.SIZES[backbone]["real"]
    cfg = script.compose_size(backbone, size, [], str(tmp_path))
    _, thinker = script.build_random(cfg, size, torch.device("meta"))
    assert sum(weight.numel() for weight in thinker.parts()["decoder"]) == text
    assert sum(weight.numel() for weight in thinker.model.parameters()) == pytest.approx(
        whole, rel=0.01
    )
    assert thinker.model.dtype == torch.bfloat16
    table = size.tokens * thinker.decoder.model.config.hidden_size
    tied = backbone == "phi4_multimodal"
    assert script.bytes_per_pass(thinker) == 2 * (text if tied else text - table)


def test_random_weights_generate_the_dictated_tokens(script: ModuleType, tmp_path: Path) -> None:
    """Three tokens per second in whatever length, and the same again after the separator."""
    size = script.SIZES["phi4_multimodal"]["small"]
    cfg = script.compose_size("phi4_multimodal", size, tiny("phi4_multimodal"), str(tmp_path))
    system, thinker = script.build_random(cfg, size, torch.device("cpu"))
    session = system.open("")
    with script.Dictation(thinker).dictating():
        for seconds, words in (
            (1, "We walked to"),
            (4, "We walked to the old harbour because the morning was warm and"),
        ):
            session.receive(SpeechChunk(torch.randn(seconds * 16_000 - session.audio.numel())))
            [transcription] = thinker.decode(
                [session], [Request(task=Task.TRANSCRIPTION)], frozenset()
            )
            [translation] = thinker.decode(
                [session], [Request(transcript_ids=transcription.token_ids)], frozenset()
            )
            assert transcription.transcript == words
            assert (translation.finished, translation.truncated) == (True, False)
            assert thinker.text(translation.token_ids.tolist()) == f" {words}"
        session.prefix_ids = translation.token_ids[:5]
        [rest] = thinker.decode(
            [session], [Request(transcript_ids=transcription.token_ids, max_words=2)], frozenset()
        )
        assert thinker.text(rest.token_ids.tolist()).startswith(" harbour because")
    [free] = thinker.decode(
        [session], [Request(transcript_ids=transcription.token_ids, max_words=2)], frozenset()
    )
    assert not thinker.text(free.token_ids.tolist()).startswith(" harbour")


@pytest.mark.parametrize("backbone", sorted(TINY))
def test_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], backbone: str
) -> None:
    given = ["system=streamuni", f"backbone={backbone}", *tiny(backbone), "device=cpu"]
    monkeypatch.setattr(sys, "argv", ["real_size.py", "--minutes", "0.25", *given])
    real_size.main()
    printed = capsys.readouterr().out
    assert f"size small of {backbone} on CPU" in printed
    assert "NOT the real size" in printed
    facts = json.loads(printed.splitlines()[-1])
    assert (facts["backbone"], facts["chunks"]) == (backbone, 23)
    assert facts["cuts"] >= 1
    assert 30 < facts["words"] <= 45  # three tokens per second of 14.7 s, punctuation among them
    assert facts["ms_per_token"] > facts["floor_ms_per_token"] > 0
    assert 1 < facts["passes_per_chunk"] < 12


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--minutes", "0.1"], "at least 20 chunks"),
        (["backbone=phi4_minitalks"], "phi4_multimodal, qwen2_5_omni"),
    ],
)
def test_impossible_options_are_refused(
    monkeypatch: pytest.MonkeyPatch, given: list[str], sentence: str
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["real_size.py", "system=streamuni", *given, *tiny("phi4_multimodal")]
    )
    with pytest.raises(ZooError, match=sentence):
        real_size.main()
