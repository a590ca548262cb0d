"""Tiny encoder-decoders with random weights in double precision, one of each family."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    GenerationConfig,
    GenerationMixin,
    SeamlessM4TConfig,
    SeamlessM4TForSpeechToText,
    SeamlessM4Tv2Config,
    SeamlessM4Tv2ForSpeechToText,
    Speech2TextConfig,
    Speech2TextForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)
from transformers.modeling_outputs import BaseModelOutput

from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.decoding.search import SearchConfig

VOCABULARY = 40
PAD, END = 1, 2
WIDTH = 16

BART = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 24,
    "pad_token_id": PAD,
    "bos_token_id": 0,
    "eos_token_id": END,
    "decoder_start_token_id": END,
    "init_std": 0.4,
}
SEAMLESS = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "initializer_range": 0.4,
    "speech_encoder_layers": 1,
    "speech_encoder_attention_heads": 2,
    "speech_encoder_intermediate_size": 16,
    "encoder_layers": 1,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 24,
    "pad_token_id": PAD,
    "bos_token_id": 0,
    "eos_token_id": END,
    "decoder_start_token_id": END,
}


@dataclass(frozen=True)
class Family:
    """A model of Transformers and our decoder over its modules. opening: its ids before a text."""

    model: Any
    decoder: Decoder
    opening: list[int]

    @torch.inference_mode()
    def theirs(
        self, memory: Tensor, prompt: list[int], config: SearchConfig, limit: int
    ) -> list[int]:
        """Tokens of ``generate`` after ``prompt``, with the end token."""
        ids = GenerationMixin.generate(
            self.model,
            encoder_outputs=BaseModelOutput(last_hidden_state=memory[None]),
            decoder_input_ids=torch.tensor([prompt]),
            generation_config=GenerationConfig(
                max_new_tokens=limit,
                num_beams=config.beams,
                length_penalty=config.length_penalty,
                no_repeat_ngram_size=config.no_repeat_ngram,
                suppress_tokens=[PAD],
                do_sample=False,
                pad_token_id=PAD,
                bos_token_id=0,
                eos_token_id=END,
                decoder_start_token_id=END,
            ),
        )[0].tolist()[len(prompt) :]
        while ids and ids[-1] == PAD:
            ids.pop()
        return ids

    @torch.inference_mode()
    def attention(self, memory: Tensor, ids: list[int]) -> list[Tensor]:
        """Per layer (heads, len(ids), frames), all tokens fed at once."""
        out = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=memory[None]),
            decoder_input_ids=torch.tensor([ids]),
            output_attentions=True,
        )
        return [layer[0] for layer in out.cross_attentions]


Made = tuple[Any, nn.Module, nn.Linear, list[int]]


def _speech_to_text() -> Made:
    config = Speech2TextConfig(
        **BART,
        input_feat_per_channel=4,
        conv_channels=8,
        num_conv_layers=2,
        max_target_positions=64,
    )
    model = Speech2TextForConditionalGeneration(config)
    return model, model.model.decoder, model.lm_head, [END, 7]


def _whisper() -> Made:
    config = WhisperConfig(**BART, num_mel_bins=4, max_source_positions=32, max_target_positions=64)
    model = WhisperForConditionalGeneration(config)
    return model, model.model.decoder, model.proj_out, [3, 4, 5]


def _seamless(model_class: Any, config_class: Any) -> Made:
    model = model_class(config_class(**SEAMLESS))
    return model, model.text_decoder, model.lm_head, [END, 7]


MAKERS: dict[str, Callable[[], Made]] = {
    "speech_to_text": _speech_to_text,
    "whisper": _whisper,
    "seamless_m4t": lambda: _seamless(SeamlessM4TForSpeechToText, SeamlessM4TConfig),
    "seamless_m4t_v2": lambda: _seamless(SeamlessM4Tv2ForSpeechToText, SeamlessM4Tv2Config),
}


def build(name: str) -> Family:
    torch.manual_seed(3)
    model, module, head, opening = MAKERS[name]()
    model = model.double().eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        # so that answers end here and there
        head.weight[END] *= 5.0 if name == "speech_to_text" else 2.5
    return Family(model, Decoder(module, head), opening)


@pytest.fixture(scope="session")
def make_family() -> Callable[[str], Family]:
    """A family of its own, by name, that a test may change."""
    return build


@pytest.fixture(scope="session", params=list(MAKERS))
def family(request: pytest.FixtureRequest) -> Family:
    return build(request.param)


@pytest.fixture(scope="session")
def speech_to_text() -> Family:
    return build("speech_to_text")


@pytest.fixture(scope="session")
def memory() -> Callable[[int, int], Tensor]:
    """Random encoder memory (frames, width)."""

    def make(frames: int, seed: int = 0) -> Tensor:
        return torch.randn(
            frames, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )

    return make
