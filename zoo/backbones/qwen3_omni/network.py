"""The classes of Qwen3-Omni's thinker in Transformers."""

from transformers import Qwen3OmniMoeThinkerConfig, Qwen3OmniMoeThinkerForConditionalGeneration
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import (
    Qwen3OmniMoeAudioEncoderConfig,
    Qwen3OmniMoeTextConfig,
)

from zoo.backbones.architectures.thinker.network import LAYERS, UNUSED, ThinkerKind

KIND = ThinkerKind(
    noun="Qwen3-Omni",
    model_types=("qwen3_omni_moe", "qwen3_omni_moe_thinker"),
    network=Qwen3OmniMoeThinkerForConditionalGeneration,
    config=Qwen3OmniMoeThinkerConfig,
    text=Qwen3OmniMoeTextConfig,
    audio=Qwen3OmniMoeAudioEncoderConfig,
    audio_token="audio_token_id",
    targets=rf"{LAYERS}self_attn\.[qkvo]_proj",
    unused_tokens=(*UNUSED, "image_token_id", "video_token_id"),
    blind={"depth": 0, "deepstack_visual_indexes": []},
    encoder=("conv2d1", "conv2d2", "conv2d3", "conv_out", "layers"),
    projector=("ln_post", "proj1", "proj2"),
)
