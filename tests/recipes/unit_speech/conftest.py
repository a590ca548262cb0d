"""A tiny random SeamlessM4T with speech output, and clips of target speech."""

from pathlib import Path

import pytest
import soundfile
import torch

from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.seamless_m4t.network import train_pieces
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.backbones.seamless_m4t.units import Codebook
from zoo.base.languages import language
from zoo.base.talks import Talk, Word
from zoo.base.types import SAMPLE_RATE
from zoo.data.clips import Clip
from zoo.data.excerpts import Excerpt

TINY = {
    "hidden_size": 16,
    "initializer_range": 0.3,  # so large that the output of each part changes the next
    "speech_encoder_layers": 1,
    "speech_encoder_attention_heads": 2,
    "speech_encoder_intermediate_size": 16,
    "conv_depthwise_kernel_size": 3,
    "position_embeddings_type": "rotary",
    "encoder_layers": 1,
    "encoder_ffn_dim": 16,
    "encoder_attention_heads": 2,
    "decoder_layers": 1,
    "decoder_ffn_dim": 16,
    "decoder_attention_heads": 2,
    "t2u_encoder_layers": 1,
    "t2u_encoder_ffn_dim": 16,
    "t2u_encoder_attention_heads": 2,
    "t2u_decoder_layers": 2,
    "t2u_decoder_ffn_dim": 16,
    "t2u_decoder_attention_heads": 2,
    "unit_hifi_gan_vocab_size": 8,
    "unit_embed_dim": 4,
    "lang_embed_dim": 2,
    "spkr_embed_dim": 2,
    "vocoder_num_langs": 1,
    "vocoder_num_spkrs": 1,
    "upsample_initial_channel": 8,
    "upsample_rates": [10, 8, 4],
    "upsample_kernel_sizes": [20, 16, 8],
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "speech_encoder_layerdrop": 0.0,
    "adaptor_dropout": 0.0,
}
WORDS = (("Das", "Haus", "fiel."), ("Oh",))


@pytest.fixture
def speaking(tmp_path: Path) -> SeamlessM4TSpeech:
    """Of random weights, with a codebook of eight units."""
    texts = ["Das Haus fiel.", "Oh the house fell."]
    tokenizer = str(tmp_path / "tokenizer")
    train_pieces(texts, size=60, source="en", target="de").save_pretrained(tokenizer)
    torch.manual_seed(0)
    backbone = SeamlessM4TSpeech(
        config=TINY, tokenizer=tokenizer, reader=True, alignment=AlignmentConfig(layer=0)
    )
    backbone.load()
    backbone.codebook = Codebook(torch.randn(8, 16), penalty=0.0)
    return backbone


@pytest.fixture
def clips(tmp_path: Path) -> list[Clip]:
    """Two clips whose words last a quarter of a second each, of a talk of noise."""
    torch.manual_seed(1)
    soundfile.write(
        tmp_path / "talk.wav", (0.1 * torch.randn(2 * SAMPLE_RATE)).numpy(), SAMPLE_RATE
    )
    talk = Talk("talk", tmp_path / "talk.wav", 2.0, "en", ())
    examples = []
    for words in WORDS:
        excerpt = Excerpt(talk, 0.2, 1.5, (), words, language("de"))
        times = tuple(
            Word(word, 0.25 * place, 0.25 * place + 0.25) for place, word in enumerate(words)
        )
        examples.append(Clip(excerpt, 0.1 * torch.randn(4000 * len(words)), times, (), "de"))
    return examples
