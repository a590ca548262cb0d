"""A tiny randomly initialised Wav2Text in double precision, with a tokenizer of bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.backbones.wav2text.transcript import SourceWords
from zoo.backbones.wav2text.wav2text import Wav2Text

ENCODER = EncoderConfig(
    conv_channels=(4, 4, 4, 4, 4, 4, 8), hidden=16, layers=2, heads=2, ff=24, window=2
)
DECODER = {
    "d_model": 16,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 24,
    "dropout": 0.0,
    "scale_embedding": True,
    "init_std": 0.3,
}

Make = Callable[..., Wav2Text]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bytes and special tokens, and three source words."""
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer([], vocabulary_size=8 + 256).save_pretrained(folder)
    SourceWords.of(["The", "old", "cat.", "cat"]).write(folder)
    return folder


@pytest.fixture(scope="session")
def make(tokenizer_folder: Path) -> Make:
    """Build and load a backbone."""

    def build(*, seed: int = 0, **options: object) -> Wav2Text:
        torch.manual_seed(seed)
        settings = {
            "encoder": ENCODER,
            "decoder": DECODER,
            "tokenizer": str(tokenizer_folder),
            "dtype": "float64",
            **options,
        }
        backbone = Wav2Text(**settings)  # type: ignore[arg-type]
        backbone.load()
        return backbone

    return build
