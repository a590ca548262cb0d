"""Reads published weights of Phi-4-Multimodal in two file layouts, without running remote code.

The Transformers layout is the layout that ``save_pretrained`` writes; the speech adapter, if any,
is in the folder ``speech-lora``. The original layout is the layout of Microsoft and of StreamUni's
authors: weights have other names, and the weight files also contain the speech and vision adapters.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import GenerationConfig, Phi4MultimodalConfig
from transformers.utils import GENERATION_CONFIG_NAME

from zoo.backbones.base import is_empty
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.loading import load_part
from zoo.backbones.pretrained.lora import ADAPTER, LoraAdapter, lora_config, read_adapter
from zoo.backbones.pretrained.weights import read_tensor, tensor_files
from zoo.base.disk.parsing import read_json
from zoo.base.errors import ZooError

NOUN = "Phi-4-Multimodal"
KINDS = ("phi4_multimodal", "phi4mm")  # model_type of the Transformers and the original layout
FILES = ("*.json", "*.txt", "*.jinja", "*.safetensors")  # downloaded from the hub
LEFT = ("vision-lora/*", "onnx/*", "figures/*", "examples/*")  # not downloaded
AUDIO = r"model\.embed_tokens_extend\.audio_embed\."
NAMES = (  # regular expression of a Transformers name, replacement for the original name
    (
        rf"({AUDIO}encoder\.encoders\.\d+\.feed_forward_(?:in|out)\.)gate_up_proj\.",
        r"\1net.0.linear.",
    ),
    (rf"({AUDIO}encoder\.encoders\.\d+\.feed_forward_(?:in|out)\.)down_proj\.", r"\1net.2."),
    (rf"({AUDIO}encoder\.encoders\.\d+\.self_attn\.)([qkv])_proj\.", r"\1linear_\2."),
    (rf"({AUDIO}encoder\.encoders\.\d+\.self_attn\.)o_proj\.", r"\1linear_out."),
    (rf"({AUDIO})up_proj_for_speech\.", r"\1audio_projection.speech.0."),
    (rf"({AUDIO})down_proj_for_speech\.", r"\1audio_projection.speech.2."),
)
FIELDS = {  # of the audio encoder: name in Transformers, name in the original config.json
    "hidden_size": "attention_dim",
    "num_attention_heads": "attention_heads",
    "intermediate_size": "linear_units",
    "depthwise_separable_out_channel": "depthwise_seperable_out_channel",
    "num_blocks": "num_blocks",
    "activation": "activation",
    "chunk_size": "chunk_size",
    "left_chunk": "left_chunk",
    "dropout_rate": "dropout_rate",
    "kernel_size": "kernel_size",
    "ext_pw_out_channel": "ext_pw_out_channel",
    "depthwise_multiplier": "depthwise_multiplier",
    "conv_activation": "conv_activation",
    "input_size": "input_size",
    "conv_glu_type": "conv_glu_type",
    "time_reduction": "time_reduction",
}
TEXT_FIELDS = (  # of the causal LM, with the same names in both layouts
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "resid_pdrop",
    "embd_pdrop",
    "attention_dropout",
    "hidden_act",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "initializer_range",
    "rms_norm_eps",
    "tie_word_embeddings",
    "rope_theta",
    "rope_scaling",
    "partial_rotary_factor",
    "sliding_window",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)


@dataclass(frozen=True, slots=True)
class Published:
    """A published model on disk.

    Attributes:
        name: Hub id or folder, for error messages.
        config: Configuration of the network.
        original: Whether the weights have the names of the original layout.
        files: Path of the file that contains a weight, by the weight's name in the file.
        adapter: The speech adapter. None if the model has no speech adapter.
        generation: Content of ``generation_config.json``. None without this file.
    """

    name: str
    config: Phi4MultimodalConfig
    original: bool
    files: Mapping[str, Path]
    adapter: LoraAdapter | None
    generation: GenerationConfig | None

    def tensor(self, name: str) -> Tensor | None:
        """Read a weight, without the update of an adapter.

        Args:
            name: Name of the weight in Transformers.

        Returns:
            The weight. None if the files do not contain the weight.
        """
        stored_name = self._stored_name(name)
        adapted_name = stored_name.replace(".weight", ".base_layer.weight")  # in adapted layers
        for candidate in (stored_name, adapted_name):
            if candidate in self.files:
                return read_tensor(self.files[candidate], candidate)
        return None

    def _stored_name(self, name: str) -> str:
        """Convert the Transformers name of a weight to the weight's name in the files."""
        if self.original:
            for transformers_pattern, original_name in NAMES:
                name = re.sub(rf"^{transformers_pattern}", original_name, name)
        return name


def find_published(name: str) -> Published:
    """Find the files of a published model and read its configuration.

    Args:
        name: Hub id or folder. A model of the hub is downloaded.

    Raises:
        ZooError: If ``config.json`` or the weight files are missing, if ``model_type`` is not one
            of ``KINDS``, or if the configuration or ``generation_config.json`` is invalid.
    """
    folder = hub.local_folder(NOUN, name, files=FILES, left_out=LEFT)
    settings = _json(folder / "config.json", name)
    kind = settings.get("model_type")
    if kind not in KINDS:
        raise ZooError(
            f"{name} is a {kind!r} by its config.json; as {NOUN} it must be a {' or '.join(KINDS)}."
        )
    files = {} if is_empty() else _weight_files(folder, name)
    adapter = _adapter(folder, name, settings, files)
    try:
        config = (
            Phi4MultimodalConfig.from_dict(settings)
            if kind == KINDS[0]
            else convert_config(settings)
        )
    except (KeyError, TypeError, AttributeError, ValueError, StrictDataclassError) as error:
        raise ZooError(
            f"The config.json of {name} makes no {NOUN}: {' '.join(str(error).split())}"
        ) from error
    generation = None
    if (folder / GENERATION_CONFIG_NAME).is_file():
        generation = load_part(
            GENERATION_CONFIG_NAME, GenerationConfig.from_pretrained, str(folder)
        )
    return Published(name, config, kind == KINDS[1], files, adapter, generation)


def convert_config(settings: Mapping[str, Any]) -> Phi4MultimodalConfig:
    """Convert the content of an original ``config.json`` to a Transformers configuration.

    Raises:
        KeyError: If a required setting is missing.
    """
    audio_settings = settings["audio_processor"]["config"]
    bias = audio_settings["relative_attention_bias_args"]
    audio = {
        field: audio_settings[original_field]
        for field, original_field in FIELDS.items()
        if original_field in audio_settings
    }
    audio |= {
        "nemo_conv_channels": audio_settings["nemo_conv_settings"]["conv_channels"],
        "bias_max_distance": bias["t5_bias_max_distance"],
        "bias_symmetric": bias.get("t5_bias_symmetric", False),
        "downsample_rate": settings["embd_layer"]["audio_embd_layer"].get("downsample_rate", 1),
    }
    text = {field: settings[field] for field in TEXT_FIELDS if settings.get(field) is not None}
    return Phi4MultimodalConfig(**text, audio_config=audio)


def _weight_files(folder: Path, name: str) -> dict[str, Path]:
    """Path of the file of each weight: all files of the index, or the single file without an index.

    Raises:
        ZooError: If the folder contains neither an index nor ``model.safetensors``.
    """
    index = folder / "model.safetensors.index.json"
    single = folder / "model.safetensors"
    if index.is_file():
        shards = set(_json(index, name)["weight_map"].values())  # names of files, see settings
        return tensor_files(folder / shard for shard in sorted(shards))
    if not single.is_file():
        raise ZooError(
            f"{name} has no model.safetensors, whole or in parts; pickled weights are never opened."
        )
    return tensor_files([single])


def _adapter(
    folder: Path, name: str, settings: Mapping[str, Any], files: Mapping[str, Path]
) -> LoraAdapter | None:
    """The speech adapter, from the weight files or otherwise from the folder ``speech-lora``."""
    adapter_files = {
        weight: path
        for weight, path in files.items()
        if f".{ADAPTER}." in weight and ".lora_" in weight
    }
    if not adapter_files:
        return read_adapter(folder)
    config = lora_config(
        settings.get("speech_lora"), ("r", "lora_alpha", "dp"), f"config.json of {name}"
    )
    return LoraAdapter(config, adapter_files)


def _json(path: Path, name: str) -> dict[str, Any]:
    """Read a JSON file of the model ``name``.

    Raises:
        ZooError: If the file cannot be read or does not contain a JSON object.
    """
    try:
        settings = read_json(path)
    except (OSError, ValueError) as error:
        raise ZooError(f"{name} has no {path.name} that could be read; is it a {NOUN}?") from error
    if not isinstance(settings, dict):
        raise ZooError(f"{path} is damaged.")
    return settings
