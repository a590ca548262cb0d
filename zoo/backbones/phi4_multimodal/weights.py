"""Weights of a Phi-4-Multimodal in a folder, in either of two layouts, without running remote code.

transformers: as ``save_pretrained`` writes it; an adapter may be in ``speech-lora``. original:
Microsoft's and that of StreamUni's authors: names of their own, both adapters among the weights.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import Phi4MultimodalConfig

from zoo.backbones.common.lora import ADAPTER, Adapter, lora_config, read_adapter
from zoo.backbones.common.pretrained import hub
from zoo.backbones.common.pretrained.weights import read_tensor, tensor_files
from zoo.errors import ZooError

NOUN = "Phi-4-Multimodal"
KINDS = ("phi4_multimodal", "phi4mm")  # by config.json: of transformers, original
FILES = ("*.json", "*.txt", "*.jinja", "*.safetensors")
LEFT = ("vision-lora/*", "onnx/*", "figures/*", "examples/*")
AUDIO = r"model\.embed_tokens_extend\.audio_embed\."
NAMES = (  # Transformers' and the original's
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
FIELDS = {  # of the audio encoder: Transformers' and the original's
    "hidden_size": "attention_dim",
    "num_attention_heads": "attention_heads",
    "intermediate_size": "linear_units",
    "depthwise_separable_out_channel": "depthwise_seperable_out_channel",
    **{
        name: name
        for name in (
            "num_blocks",
            "activation",
            "chunk_size",
            "left_chunk",
            "dropout_rate",
            "kernel_size",
        )
    },
    **{
        name: name
        for name in ("ext_pw_out_channel", "depthwise_multiplier", "conv_activation", "input_size")
    },
    **{name: name for name in ("conv_glu_type", "time_reduction")},
}
TEXT_FIELDS = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "resid_pdrop", "embd_pdrop", "attention_dropout", "hidden_act"),
    *(
        "max_position_embeddings",
        "original_max_position_embeddings",
        "initializer_range",
        "rms_norm_eps",
    ),
    *(
        "tie_word_embeddings",
        "rope_theta",
        "rope_scaling",
        "partial_rotary_factor",
        "sliding_window",
    ),
    *("bos_token_id", "eos_token_id", "pad_token_id"),
)


@dataclass(frozen=True, slots=True)
class Published:
    """A published model on disk.

    Attributes:
        name: Hub id or folder, for messages.
        config: Of the network.
        original: Whether weights have the original's names.
        files: The file of each weight, by its name there.
        adapter: The speech adapter, if there is one.
    """

    name: str
    config: Phi4MultimodalConfig
    original: bool
    files: Mapping[str, Path]
    adapter: Adapter | None

    def tensor(self, name: str) -> Tensor | None:
        """A weight by Transformers' name, without an adapter, or None."""
        for there in (
            self._there(name),
            self._there(name).replace(".weight", ".base_layer.weight"),
        ):
            if there in self.files:
                return read_tensor(self.files[there], there)
        return None

    def _there(self, name: str) -> str:
        if self.original:
            for ours, theirs in NAMES:
                name = re.sub(rf"^{ours}", theirs, name)
        return name


def published(name: str) -> Published:
    """The model in a folder or of the hub. Raises ZooError for what is missing or another model."""
    folder = Path(name)
    if not folder.is_dir():
        hub.check(NOUN, name)
        folder = Path(
            snapshot_download(name, allow_patterns=list(FILES), ignore_patterns=list(LEFT))
        )
    settings = _json(folder / "config.json", name)
    kind = settings.get("model_type")
    if kind not in KINDS:
        raise ZooError(
            f"{name} is a {kind!r} by its config.json; as {NOUN} it must be a {' or '.join(KINDS)}."
        )
    files = _weights(folder, name)
    adapter = _adapter(folder, name, settings, files)
    try:
        config = (
            Phi4MultimodalConfig.from_dict(settings) if kind == KINDS[0] else converted(settings)
        )
    except (KeyError, TypeError, AttributeError, ValueError, StrictDataclassError) as error:
        raise ZooError(
            f"The config.json of {name} makes no {NOUN}: {' '.join(str(error).split())}"
        ) from error
    return Published(name, config, kind == KINDS[1], files, adapter)


def converted(settings: Mapping[str, Any]) -> Phi4MultimodalConfig:
    """Transformers' config from the settings of the original."""
    audio_settings = settings["audio_processor"]["config"]
    bias = audio_settings["relative_attention_bias_args"]
    audio = {
        ours: audio_settings[theirs] for ours, theirs in FIELDS.items() if theirs in audio_settings
    }
    audio |= {
        "nemo_conv_channels": audio_settings["nemo_conv_settings"]["conv_channels"],
        "bias_max_distance": bias["t5_bias_max_distance"],
        "bias_symmetric": bias.get("t5_bias_symmetric", False),
        "downsample_rate": settings["embd_layer"]["audio_embd_layer"].get("downsample_rate", 1),
    }
    text = {field: settings[field] for field in TEXT_FIELDS if settings.get(field) is not None}
    return Phi4MultimodalConfig(**text, audio_config=audio)


def _weights(folder: Path, name: str) -> dict[str, Path]:
    """The file of each weight: those of the index, or the only one."""
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.is_file():
        shards = set(_json(index, name).get("weight_map", {}).values())
        return tensor_files(folder / shard for shard in sorted(shards))
    if not single.is_file():
        raise ZooError(
            f"{name} has no model.safetensors, whole or in parts; pickled weights are never opened."
        )
    return tensor_files([single])


def _adapter(
    folder: Path, name: str, settings: Mapping[str, Any], files: Mapping[str, Path]
) -> Adapter | None:
    """The speech adapter: among the weights, else in a folder beside them."""
    within = {
        weight: path
        for weight, path in files.items()
        if f".{ADAPTER}." in weight and ".lora_" in weight
    }
    if not within:
        return read_adapter(folder)
    described = settings.get("speech_lora")
    return Adapter(
        lora_config(described, ("r", "lora_alpha", "dp"), f"config.json of {name}"), within
    )


def _json(path: Path, name: str) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ZooError(f"{name} has no {path.name} that could be read; is it a {NOUN}?") from error
    if not isinstance(settings, dict):
        raise ZooError(f"{path} is damaged.")
    return settings
