"""Small SeamlessM4T networks with text and speech output.

The module trains a tokenizer, initialises a network at random and writes its files.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

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

from zoo.backbones.pretrained import loading
from zoo.backbones.pretrained.loading import check_fields
from zoo.backbones.pretrained.weights import save_pretrained
from zoo.backbones.seamless_m4t.languages import CODES
from zoo.base.errors import ZooError

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")  # ids 0 to 3 in every SeamlessM4T tokenizer
UNIT_SPECIAL = 4  # ids of the text-to-unit decoder before the units: start, padding, end, unknown


def train_pieces(
    texts: Iterable[str], *, size: int, source: str, target: str
) -> SeamlessM4TTokenizer:
    """Train a byte-pair tokenizer whose last ids are the tokens of the two languages.

    Args:
        texts: Training texts.
        size: Largest size of the vocabulary, special tokens and language tokens included.
        source: The zoo's code of the source language.
        target: The zoo's code of the target language.

    Raises:
        ZooError: If SeamlessM4T does not support one of the languages.
    """
    for code in (source, target):
        if code not in CODES:
            raise ZooError(
                f"SeamlessM4T has no language {code!r}; choose one of: {', '.join(CODES)}."
            )
    languages = list(dict.fromkeys(f"__{CODES[code]}__" for code in (source, target)))
    tokenizer = Tokenizer(models.BPE())
    spaces = pre_tokenizers.Metaspace(prepend_scheme="first")
    punctuation = pre_tokenizers.Punctuation("isolated")
    # No token contains both letters of a word and punctuation
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([spaces, punctuation])
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(languages),
        special_tokens=list(SPECIAL),
        initial_alphabet=["▁"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges: Any = [tuple(merge) for merge in model["merges"]]
    return SeamlessM4TTokenizer(
        vocab=model["vocab"],
        merges=merges,
        src_lang=CODES[source],
        tgt_lang=CODES[target],
        extra_special_tokens=languages,
    )


def random_network(
    config: Mapping[str, Any], tokenizer: Any, *, dtype: torch.dtype
) -> SeamlessM4TModel:
    """Create a randomly initialised network for the target language of a tokenizer.

    Args:
        config: Fields of ``SeamlessM4TConfig``. Vocabulary sizes and token ids are overwritten:
            their values follow from the tokenizer and the number of units.
        tokenizer: ``SeamlessM4TTokenizer`` of the text decoder.
        dtype: Data type of the weights.

    Returns:
        The network, in evaluation mode.

    Raises:
        ZooError: If a field is unknown, or the fields do not fit together.
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

    with torch.no_grad():
        # The decoders multiply embeddings by sqrt(width), so this makes their variance 1
        for embedding in (network.shared, network.t2u_model.get_input_embeddings()):
            nn.init.normal_(embedding.weight, std=embedding.embedding_dim**-0.5)
            embedding.weight[embedding.padding_idx] = 0
        # Small weights keep the output tanh away from saturation, where its gradient vanishes
        network.vocoder.hifi_gan.conv_post.weight *= 0.1
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
    return cast("SeamlessM4TModel", network.eval())


def save_network(
    network: SeamlessM4TModel, tokenizer: Any, folder: Path, dtype: torch.dtype | None = None
) -> None:
    """Write network, tokenizer and feature extractor.

    Args:
        network: Network to write.
        tokenizer: Tokenizer of the network.
        folder: Folder to write to.
        dtype: Data type of the written parameters; None keeps the data type of each parameter.
    """
    save_pretrained(network, folder, dtype)
    tokenizer.save_pretrained(folder)
    SeamlessM4TFeatureExtractor().save_pretrained(folder)
