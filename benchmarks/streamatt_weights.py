"""A randomly initialised SeamlessM4T whose output depends on the audio."""

import argparse
import random
import string
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    SeamlessM4TConfig,
    SeamlessM4TFeatureExtractor,
    SeamlessM4TModel,
    SeamlessM4TProcessor,
    SeamlessM4TTokenizer,
)

from harness import parameters_millions

SHARPEN, AMPLIFY = 3, 3  # factors on random cross-attention, so that words depend on the audio
END, END_WEIGHT = 45, 1000  # position at which texts end, and the weight that ends them


def vocabulary(size: int, seed: int) -> dict[str, int]:
    """Random pieces and their ids; six of ten pieces begin a word."""
    letters = random.Random(seed)
    ids = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}
    while len(ids) < size:
        piece = "".join(letters.choices(string.ascii_lowercase, k=letters.randint(2, 5)))
        ids.setdefault("▁" + piece if letters.random() < 0.6 else piece, len(ids))
    return ids


def save_random_seamless(folder: Path, options: argparse.Namespace, samples: Tensor) -> float:
    """Save a randomly initialised SeamlessM4T v1 and its processor.

    Args:
        folder: receives the checkpoint.
        options: sizes and seed of ``streamatt_step.py``.
        samples: (n,) speech that calibrates the cross-attention.

    Returns:
        Millions of parameters of speech encoder, text decoder and head.
    """
    tokenizer = SeamlessM4TTokenizer(
        vocab=vocabulary(options.vocabulary, options.seed),
        merges=[],
        additional_special_tokens=["__eng__", "__deu__"],
        src_lang="eng",
        tgt_lang="deu",
    )
    torch.manual_seed(options.seed)
    model = SeamlessM4TModel(random_config(options, len(tokenizer)))
    extractor = SeamlessM4TFeatureExtractor()
    with torch.no_grad():
        scale = 4 / options.hidden**0.5  # scores far apart: rounding must not decide
        model.lm_head.weight.normal_(std=scale)
        model.lm_head.weight[[0, 1, 2, -2, -1]] = 0  # special tokens are no words
        features = extractor(samples.numpy(), return_tensors="pt").input_features
        let_audio_decide(model, features)

    model.generation_config = GenerationConfig(
        decoder_start_token_id=3,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
        max_new_tokens=options.max_tokens,
    )
    codes = {code: tokenizer.convert_tokens_to_ids(f"__{code}__") for code in ("eng", "deu")}
    model.generation_config.text_decoder_lang_to_code_id = codes
    model.save_pretrained(folder)
    SeamlessM4TProcessor(extractor, tokenizer).save_pretrained(folder)
    return parameters_millions(model.speech_encoder, model.text_decoder, model.lm_head)


def random_config(options: argparse.Namespace, vocabulary_size: int) -> SeamlessM4TConfig:
    """Shapes of speech encoder and text decoder; all other parts are as small as possible."""
    unused = {
        f"t2u_{part}_{name}": 1
        for part in ("encoder", "decoder")
        for name in ("layers", "attention_heads")
    }
    return SeamlessM4TConfig(
        vocab_size=vocabulary_size,
        hidden_size=options.hidden,
        speech_encoder_layers=options.encoder_layers,
        speech_encoder_attention_heads=options.heads,
        speech_encoder_intermediate_size=4 * options.hidden,
        encoder_layers=1,
        decoder_layers=options.decoder_layers,
        decoder_ffn_dim=4 * options.hidden,
        decoder_attention_heads=options.heads,
        encoder_attention_heads=options.heads,
        encoder_ffn_dim=8,
        t2u_encoder_ffn_dim=8,
        t2u_decoder_ffn_dim=8,
        t2u_vocab_size=8,
        unit_hifi_gan_vocab_size=8,
        unit_embed_dim=8,
        upsample_initial_channel=32,
        initializer_range=options.hidden**-0.5,  # so that attention is not uniform
        tie_word_embeddings=False,  # tied weights would predict the last token again
        **unused,
    )


def let_audio_decide(model: SeamlessM4TModel, features: Tensor) -> None:
    """Change random weights so that words depend on the audio and texts end near position ``END``.

    One activation is reserved for the end: the cosine of the position that becomes negative there.

    Args:
        model: changed in place.
        features: (1, n, 160) of speech.
    """
    decoder, head, width = model.text_decoder, model.lm_head.weight, model.config.hidden_size
    memory = model.speech_encoder(features).last_hidden_state
    waves = 10_000 ** (-torch.arange(width // 2) / (width // 2 - 1))
    place = width // 2 + int((waves * END - torch.pi / 2).abs().argmin())
    for layer in decoder.layers:
        cross = layer.cross_attention
        cross.v_proj.bias.copy_(-cross.v_proj.weight @ memory[0].mean(dim=0))
        cross.q_proj.weight *= SHARPEN
        cross.out_proj.weight *= AMPLIFY
        for last in (layer.self_attn.out_proj, cross.out_proj, layer.ffn.fc2):
            last.weight[place] = 0
    decoder.embed_tokens.weight[:, place] = 0
    head[:, place] = 0
    head[model.config.eos_token_id] = -END_WEIGHT * torch.eye(width)[place]
