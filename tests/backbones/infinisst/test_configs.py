"""Values that give no network, no search or no window are refused at construction."""

from collections.abc import Callable

import pytest
import torch

from zoo.backbones.architectures.speech_llm.prompt import Template
from zoo.backbones.decoding.causal.decoder import build_decoder
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.infinisst.search import TurnSearchConfig
from zoo.backbones.infinisst.window import WindowConfig
from zoo.base.errors import ZooError


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [
        (EncoderConfig, {"conv_channels": (8,) * 6}, "7 conv_channels, not 6"),
        (EncoderConfig, {"hidden": 16, "heads": 3}, "2 x heads divides"),
        (EncoderConfig, {"layers": 0}, "at least 1"),
        (EncoderConfig, {"window": 0}, "at least 1"),
        (EncoderConfig, {"left_pad": 79}, "from 80 to 399 samples, not 79"),
        (EncoderConfig, {"left_pad": 400}, "from 80 to 399 samples, not 400"),
        (TurnSearchConfig, {"beams": 0}, "beams of at least 1"),
        (TurnSearchConfig, {"tokens_per_chunk": 0}, "tokens_per_chunk of at least 1"),
        (TurnSearchConfig, {"repetition_penalty": 0.0}, "repetition_penalty above 0"),
        (TurnSearchConfig, {"no_repeat_ngram": -1}, "no_repeat_ngram"),
        (
            TurnSearchConfig,
            {"no_repeat_ngram": 1, "repetition": "prompt"},
            "the end could not be generated",
        ),
        (
            TurnSearchConfig,
            {"tokens_per_chunk": 1, "at_limit": "drop"},
            "at least 2: no id could be kept",
        ),
        (TurnSearchConfig, {"lookback": -1}, "lookback of at least 0"),
        (TurnSearchConfig, {"suppress": ["(", ""]}, "empty text"),
        (WindowConfig, {"size": -1}, "at least 0, not -1"),
        (Template, {"instruction": "{speaker}"}, r"no other braces.*'\{speaker\}'"),
        (Template, {"instruction": "{}"}, "no other braces"),
        (Template, {"instruction": "{source.name}"}, "no other braces"),
        (Template, {"instruction": "{source[code]}"}, "no other braces"),
        (Template, {"latency": "{latency}"}, "no other braces"),
    ],
)
def test_contradictory_options_are_refused(
    kind: Callable[..., object], wrong: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ZooError, match=sentence):
        kind(**wrong)


def test_an_unknown_decoder_is_refused() -> None:
    with pytest.raises(ZooError, match="no decoder of model_type 'nope'"):
        build_decoder({"model_type": "nope"}, vocabulary=8, embedding_std=None, dtype=torch.float32)
    with pytest.raises(ZooError, match="The weights of /nowhere cannot be loaded"):
        build_decoder("/nowhere", vocabulary=8, embedding_std=None, dtype=torch.float32)
