"""The smallest Phi-4-Multimodal: fields of its config, and Microsoft's layout of one."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.fixtures.shapes import phi4_audio_shape, text_shape

RANK, ALPHA = 3, 6

CONFIG = text_shape(
    heads=2,
    shared=1,
    tie_word_embeddings=True,
    audio_config=phi4_audio_shape(initializer_range=0.3),
)


def original(folder: Path, there: Path, *, seed: int = 1) -> None:
    """Converts a folder of Transformers to the layout of Microsoft and of StreamUni's authors."""
    torch.manual_seed(seed)
    shutil.copytree(
        folder, there, ignore=shutil.ignore_patterns("model.safetensors", "config.json")
    )
    settings = json.loads((folder / "config.json").read_text())
    (there / "config.json").write_text(json.dumps(_config(settings)))
    tokenizer = json.loads((there / "tokenizer_config.json").read_text())
    (there / "tokenizer_config.json").write_text(
        json.dumps({**tokenizer, "tokenizer_class": "GPT2TokenizerFast"})
    )
    names = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        names[_name(name)] = tensor
        if re.match(r"model\.layers\.\d+\.(self_attn|mlp)\.", name):
            stem = name.removesuffix(".weight")
            names[f"{stem}.base_layer.weight"] = names.pop(name)
            for adapter, rank in (("speech", RANK), ("vision", 2)):
                names[f"{stem}.lora_A.{adapter}.weight"] = torch.randn(rank, tensor.shape[1])
                names[f"{stem}.lora_B.{adapter}.weight"] = torch.randn(tensor.shape[0], rank)
    halves = [dict(list(names.items())[place::2]) for place in range(2)]
    for place, half in enumerate(halves):
        save_file(half, there / f"model-0000{place}-of-00002.safetensors")
    index = {
        name: f"model-0000{place}-of-00002.safetensors"
        for place, half in enumerate(halves)
        for name in half
    }
    (there / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def _name(name: str) -> str:
    """Audio and vision have names of their own."""
    for ours, theirs in {
        "gate_up_proj.": "net.0.linear.",
        "down_proj.": "net.2.",
        "q_proj.": "linear_q.",
        "k_proj.": "linear_k.",
        "v_proj.": "linear_v.",
        "o_proj.": "linear_out.",
    }.items():
        if "audio_embed.encoder" in name:
            name = name.replace(ours, theirs)
    for kind in ("speech", "vision"):
        whose = "speech" if kind == "speech" else "vision_speech"
        name = name.replace(f"up_proj_for_{whose}", f"audio_projection.{kind}.0")
        name = name.replace(f"down_proj_for_{whose}", f"audio_projection.{kind}.2")
    return name.replace("image_embed.img_encoder", "image_embed.img_processor")


def _config(settings: dict[str, Any]) -> dict[str, Any]:
    """Only what differs from Transformers' defaults, and what no reader may use."""
    audio = settings["audio_config"]
    kept = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    )
    kept += (
        "num_key_value_heads",
        "tie_word_embeddings",
        "bos_token_id",
        "pad_token_id",
        "initializer_range",
    )
    return {name: settings[name] for name in kept} | {
        "model_type": "phi4mm",
        "auto_map": {
            "AutoConfig": "configuration_phi4mm.Phi4MMConfig",
            "AutoTokenizer": "gone.Gone",
        },
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.75,
        "rope_scaling": {"type": "longrope", "long_factor": [2.0] * 3, "short_factor": [1.5] * 3},
        "original_max_position_embeddings": 4096,
        "max_position_embeddings": 131072,
        "sliding_window": 262144,
        "speech_lora": {"r": RANK, "lora_alpha": ALPHA, "dp": 0.01, "layer": "layers.*"},
        "vision_lora": {"r": 2, "lora_alpha": 4, "dp": 0.0, "layer": "layers.*"},
        "embd_layer": {"audio_embd_layer": {"compression_rate": 8, "downsample_rate": 1}},
        "audio_processor": {
            "name": "cascades",
            "config": {
                "attention_dim": audio["hidden_size"],
                "attention_heads": audio["num_attention_heads"],
                "linear_units": audio["intermediate_size"],
                "num_blocks": audio["num_blocks"],
                "ext_pw_out_channel": audio["ext_pw_out_channel"],
                "depthwise_seperable_out_channel": audio["depthwise_separable_out_channel"],
                "kernel_size": audio["kernel_size"],
                "cnn_layer_norm": True,
                "input_layer": "nemo_conv",
                "nemo_conv_settings": {"conv_channels": audio["nemo_conv_channels"]},
                "relative_attention_bias_args": {
                    "type": "t5",
                    "t5_bias_max_distance": audio["bias_max_distance"],
                },
            },
        },
    }
