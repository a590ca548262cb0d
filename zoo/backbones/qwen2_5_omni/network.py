"""The classes of Qwen2.5-Omni's thinker in Transformers."""

from transformers import (
    Qwen2_5OmniAudioEncoderConfig,
    Qwen2_5OmniTextConfig,
    Qwen2_5OmniThinkerConfig,
    Qwen2_5OmniThinkerForConditionalGeneration,
)

from zoo.backbones.architectures.thinker.network import LAYERS, UNUSED, ThinkerKind

KIND = ThinkerKind(
    noun="Qwen2.5-Omni",
    model_types=("qwen2_5_omni", "qwen2_5_omni_thinker"),
    network=Qwen2_5OmniThinkerForConditionalGeneration,
    config=Qwen2_5OmniThinkerConfig,
    text=Qwen2_5OmniTextConfig,
    audio=Qwen2_5OmniAudioEncoderConfig,
    audio_token="audio_token_index",
    targets=rf"{LAYERS}(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)",
    unused_tokens=(*UNUSED, "image_token_index", "video_token_index"),
    blind={"depth": 0, "fullatt_block_indexes": []},
    encoder=("conv1", "conv2", "layers"),
    projector=("ln_post", "proj"),
)
