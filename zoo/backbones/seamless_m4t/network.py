"""A small SeamlessM4T that writes and speaks: random initialisation, tokenizer and files."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn
from transformers import (
    GenerationConfig,
    SeamlessM4TConfig,
    SeamlessM4TFeatureExtractor,
    SeamlessM4TModel,
    SeamlessM4TTokenizer,
)

from zoo.backbones.common.pretrained import loading
from zoo.backbones.common.pretrained.loading import check_fields
from zoo.backbones.common.pretrained.weights import save_pretrained
from zoo.backbones.seamless_m4t.languages import CODES
from zoo.errors import ZooError

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # their ids are those of every SeamlessM4T
UNIT_SPECIAL = 4  # ids of the text-to-unit decoder before the units: start, padding, end, unknown


def train_pieces(
    texts: Iterable[str], *, size: int, source: str, target: str
) -> SeamlessM4TTokenizer:
    """Train a byte-pair tokenizer; the two languages have the last ids.

    Args:
        texts: To learn pieces from.
        size: Most pieces, special ones and languages included.
        source: Our code of the source language.
        target: Our code of the target language.

    Raises:
        ZooError: For a language that SeamlessM4T lacks.
    """
    for code in (source, target):
        if code not in CODES:
            raise ZooError(
                f"SeamlessM4T has no language {code!r}; choose one of: {', '.join(CODES)}."
            )
    languages = list(dict.fromkeys(f"__{CODES[code]}__" for code in (source, target)))
    tokenizer = Tokenizer(models.BPE())
    spaces, signs = (
        pre_tokenizers.Metaspace(prepend_scheme="first"),
        pre_tokenizers.Punctuation("isolated"),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [spaces, signs]
    )  # no piece has a word and its punctuation
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(languages),
        special_tokens=list(SPECIAL),
        initial_alphabet=["▁"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    merges: Any = [tuple(merge) for merge in learned["merges"]]
    return SeamlessM4TTokenizer(
        vocab=learned["vocab"],
        merges=merges,
        src_lang=CODES[source],
        tgt_lang=CODES[target],
        extra_special_tokens=languages,
    )


def random_network(
    config: Mapping[str, Any], tokenizer: Any, *, dtype: torch.dtype
) -> SeamlessM4TModel:
    """A randomly initialised network that writes and speaks the target language of its tokenizer.

    Args:
        config: Fields of ``SeamlessM4TConfig``; those of tokens follow from tokenizer and number of
            units.
        tokenizer: A ``SeamlessM4TTokenizer``.
        dtype: Of the weights.

    Raises:
        ZooError: Where the fields do not fit together.
    """
    check_fields("backbone.config", config, SeamlessM4TConfig)
    target = str(tokenizer.tgt_lang).strip("_")
    units = config.get("unit_hifi_gan_vocab_size", SeamlessM4TConfig().unit_hifi_gan_vocab_size)
    tokens = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.eos_token_id,
        "vocoder_offset": UNIT_SPECIAL,
        "t2u_vocab_size": UNIT_SPECIAL + units + 1,
    }
    network = loading.random_network(
        SeamlessM4TModel, SeamlessM4TConfig, {**config, **tokens}, noun="SeamlessM4T", dtype=dtype
    )
    for embeddings in (network.shared, network.t2u_model.get_input_embeddings()):
        with torch.no_grad():  # the decoders scale embeddings to variance 1
            nn.init.normal_(embeddings.weight, std=embeddings.embedding_dim**-0.5)
            embeddings.weight[embeddings.padding_idx] = 0
    with torch.no_grad():
        network.vocoder.hifi_gan.conv_post.weight *= (
            0.1  # else it begins loud, where its tanh learns little
        )
    network.tie_weights()
    network.generation_config = GenerationConfig(
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.eos_token_id,
        max_new_tokens=network.config.max_new_tokens,
        text_decoder_lang_to_code_id={target: tokenizer.convert_tokens_to_ids(f"__{target}__")},
        t2u_lang_code_to_id={target: UNIT_SPECIAL + units},
        vocoder_lang_code_to_id={target: 0},
    )
    return network.eval()


def save_network(
    network: SeamlessM4TModel, tokenizer: Any, folder: Path, dtype: torch.dtype | None = None
) -> None:
    """Write network (parameters in ``dtype``), tokenizer and feature extractor to ``folder``."""
    save_pretrained(network, folder, dtype)
    tokenizer.save_pretrained(folder)
    SeamlessM4TFeatureExtractor().save_pretrained(folder)
