"""real_size: its arithmetic computed by hand, and a run at a tiny size."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from zoo.errors import ZooError

TINY = (
    (
        "backbone.decoder={model_type: llama, hidden_size: 16, intermediate_size: 24, "
        "num_hidden_layers: 2, "
        "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 300}"
    ),
    "backbone.encoder.conv_channels=[4,4,4,4,4,4,8]",
    "backbone.encoder.hidden=16",
    "backbone.encoder.layers=2",
    "backbone.encoder.heads=2",
    "backbone.encoder.ff=24",
    "backbone.window.size=100",
)


def test_the_context_of_a_token(script: ModuleType, tmp_path: Path) -> None:
    cfg = script.compose_size(script.SIZES["small"], TINY, str(tmp_path))
    _, backbone = script.build_random(cfg, torch.device("cpu"))
    attention, feed_forward, norms = 16 * (16 + 8 + 8 + 16), 3 * 16 * 24, 2 * 16
    weights = (
        2 * (attention + feed_forward + norms) + 16 + 300 * 16
    )  # the head; the table of embeddings is not read
    assert script.bytes_per_token(backbone) == 4 * (weights + 100 * 2 * 2 * 2 * 4)
    assert script.weight_bytes(backbone.decoder) == 4 * (weights + 300 * 16)


def test_the_real_size_is_the_papers(script: ModuleType, tmp_path: Path) -> None:
    cfg = script.compose_size(script.SIZES["real"], (), str(tmp_path))
    decoder = cfg.backbone.decoder
    head, layers, hidden = (
        decoder.hidden_size // decoder.num_attention_heads,
        decoder.num_hidden_layers,
        4096,
    )
    attention = 2 * hidden * hidden + 2 * hidden * head * decoder.num_key_value_heads
    parameters = layers * (attention + 3 * hidden * decoder.intermediate_size + 2 * hidden) + hidden
    assert parameters + 2 * decoder.vocab_size * hidden == 8_030_261_248  # Llama 3.1 8 B
    assert cfg.backbone.dtype == "bfloat16"


def test_it_runs(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["system=infinisst", *TINY, "system.latency_multiplier=1", "device=cpu"]
    given.append("backbone.capture=static")
    monkeypatch.setattr(sys, "argv", ["real_size.py", given[0], "--minutes", "0.6", *given[1:]])
    script.main()
    printed = capsys.readouterr().out
    assert "size small on CPU" in printed
    assert "NOT the real size" in printed
    facts = json.loads(printed.splitlines()[-1])
    assert (facts["benchmark"], facts["size"], facts["turns"]) == ("real_size", "small", 37)
    assert facts["overrides"] == given
    assert (facts["m"], facts["tokens_per_turn"], facts["beams"]) == (1, script.TOKENS, 4)
    assert facts["ms_per_token"] > facts["floor_ms_per_token"] > 0
    assert facts["ms_per_turn"] > 3 * facts["ms_per_token"]
    assert facts["capture_speedup"] > 0
    assert (
        0.5 < facts["rtf"] * 960 / facts["ms_per_turn"] < 20
    )  # a mean over a median: other load may slow a turn down


@pytest.mark.parametrize(
    ("given", "sentence"),
    [(["system=infinisst"], "at least 20 turns"), (["--size", "huge"], "real")],
)
def test_impossible_options_are_refused(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    sentence: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["real_size.py", "--minutes", "0.1", *given, *TINY])
    with pytest.raises(SystemExit) as left:
        script.main()
    assert left.value.code == 2
    assert sentence in capsys.readouterr().err


def test_another_system_is_refused(script: ModuleType, tmp_path: Path) -> None:
    cfg = script.compose_size(
        script.SIZES["small"], ["system=replay", "system.log=x"], str(tmp_path)
    )
    with pytest.raises(ZooError, match="infinisst and streamuni, not of system=replay"):
        script.build_random(cfg, torch.device("cpu"))
