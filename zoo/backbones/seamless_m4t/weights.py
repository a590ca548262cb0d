"""Weights of published SeamlessM4T models with speech output.

The module checks a model's version and replaces its vocoder by another model's vocoder.
"""

from typing import Any

import torch
from transformers import GenerationConfig, SeamlessM4TCodeHifiGan, SeamlessM4TConfig

from zoo.backbones.pretrained.loading import load_network, load_part, model_type
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.seamless_m4t import NETWORKS
from zoo.base.errors import ZooError

NOUN = "SeamlessM4T"
VOCODER = (  # fields of a SeamlessM4TConfig that configure the vocoder
    "upsample_initial_channel",
    "upsample_rates",
    "upsample_kernel_sizes",
    "resblock_kernel_sizes",
    "resblock_dilation_sizes",
    "leaky_relu_slope",
    "unit_hifi_gan_vocab_size",
    "unit_embed_dim",
    "lang_embed_dim",
    "spkr_embed_dim",
    "vocoder_num_langs",
    "vocoder_num_spkrs",
    "variance_predictor_kernel_size",
    "var_pred_dropout",
    "sampling_rate",
)


def check_version(name: str) -> None:
    """Raise ZooError unless ``name`` is a SeamlessM4T of the first version."""
    if model_type(name, accepted=tuple(NETWORKS), noun=NOUN) == "seamless_m4t_v2":
        raise ZooError(
            f"{name} is a SeamlessM4T v2, whose text-to-unit model generates all units at once and "
            "attends to no text; speech needs a SeamlessM4T v1: facebook/hf-seamless-m4t-medium "
            "or -large, or a folder that has one."
        )


def spoken_languages(name: str) -> SpokenLanguages:
    """Read the spoken languages from a model's generation_config.json.

    Raises ZooError if the file is missing or lists no spoken languages.
    """
    return SpokenLanguages.from_generation_config(
        name, load_part("generation_config.json", GenerationConfig.from_pretrained, name)
    )


def take_vocoder(network: Any, name: str, dtype: torch.dtype) -> None:
    """Replace a network's vocoder and the vocoder's fields of the configuration.

    Args:
        network: SeamlessM4T network of Transformers; it is changed in place.
        name: Hub id or folder of the model that has the vocoder.
        dtype: Data type of the vocoder's weights.

    Raises:
        ZooError: If the model is not a SeamlessM4T v1, its files are missing, or its vocoder has
            another number of units than the network.
    """
    check_version(name)
    config = load_part("config", SeamlessM4TConfig.from_pretrained, name)
    network_units = network.config.unit_hifi_gan_vocab_size
    vocoder_units = config.unit_hifi_gan_vocab_size
    if vocoder_units != network_units:
        raise ZooError(
            f"The vocoder of {name} has {vocoder_units} units, not the {network_units} of the "
            "text-to-unit model."
        )

    network.vocoder = load_network(
        SeamlessM4TCodeHifiGan, name, dtype, key_mapping={r"^vocoder\.": ""}
    )
    for field in VOCODER:
        setattr(network.config, field, getattr(config, field))
    network.generation_config.vocoder_lang_code_to_id = dict(spoken_languages(name).voices)
