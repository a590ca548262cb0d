"""SeamlessM4T of random weights that behaves enough like a trained one to be streamed.

Knows no policy.
"""

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

SHARPER, LOUDER = 3, 3  # than random cross-attention, so that words depend on what is heard
END, CERTAIN = 45, 1000  # position of a text's end, and the weight that decides it


def vocabulary(size: int, seed: int) -> dict[str, int]:
    """Made-up pieces, six of ten of which begin a word."""
    letters = random.Random(seed)
    ids = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3}
    while len(ids) < size:
        piece = "".join(letters.choices(string.ascii_lowercase, k=letters.randint(2, 5)))
        ids.setdefault("▁" + piece if letters.random() < 0.6 else piece, len(ids))
    return ids


def made(folder: Path, options: argparse.Namespace, samples: Tensor) -> float:
    """Save a SeamlessM4T v1 of random weights; millions of parameters of its speech encoder and
    text decoder.
    """
    tokenizer = SeamlessM4TTokenizer(
        vocab=vocabulary(options.vocabulary, options.seed),
        merges=[],
        additional_special_tokens=["__eng__", "__deu__"],
        src_lang="eng",
        tgt_lang="deu",
    )
    tiny = {
        f"t2u_{part}_{name}": 1
        for part in ("encoder", "decoder")
        for name in ("layers", "attention_heads")
    }
    config = SeamlessM4TConfig(
        vocab_size=len(tokenizer),
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
        initializer_range=options.hidden**-0.5,  # so that attention looks somewhere
        tie_word_embeddings=False,  # else the last token is always the next one
        **tiny,
    )
    torch.manual_seed(options.seed)
    model = SeamlessM4TModel(config)
    with torch.no_grad():
        model.lm_head.weight.normal_(
            std=4 / options.hidden**0.5
        )  # far apart: rounding must not choose the words
        model.lm_head.weight[[0, 1, 2, -2, -1]] = 0  # special tokens are no words
        listening(
            model,
            SeamlessM4TFeatureExtractor()(samples.numpy(), return_tensors="pt").input_features,
        )
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
    SeamlessM4TProcessor(SeamlessM4TFeatureExtractor(), tokenizer).save_pretrained(folder)
    used = (model.speech_encoder, model.text_decoder, model.lm_head)
    return round(sum(weight.numel() for part in used for weight in part.parameters()) / 1e6, 1)


def listening(model: SeamlessM4TModel, features: Tensor) -> None:
    """Let words depend on what is heard, and let texts end near position ``END``.

    features: (1, n, 160) of speech.

    One activation is kept for the end: the cosine of the position that turns negative there.
    """
    decoder, head, width = model.text_decoder, model.lm_head.weight, model.config.hidden_size
    memory = model.speech_encoder(features).last_hidden_state
    waves = 10_000 ** (-torch.arange(width // 2) / (width // 2 - 1))
    place = width // 2 + int((waves * END - torch.pi / 2).abs().argmin())
    for layer in decoder.layers:
        heard = layer.cross_attention
        heard.v_proj.bias.copy_(-heard.v_proj.weight @ memory[0].mean(dim=0))
        heard.q_proj.weight *= SHARPER
        heard.out_proj.weight *= LOUDER
        for last in (layer.self_attn.out_proj, heard.out_proj, layer.ffn.fc2):
            last.weight[place] = 0
    decoder.embed_tokens.weight[:, place] = 0
    head[:, place] = 0
    head[model.config.eos_token_id] = -CERTAIN * torch.eye(width)[place]
