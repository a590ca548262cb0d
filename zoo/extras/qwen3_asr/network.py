"""The classes of Qwen3-ASR in Transformers; versions that lack them give None."""

import transformers

from zoo.backbones.architectures.thinker.network import LAYERS, ThinkerKind


def _class(name: str) -> object:
    """A class of Transformers, or None if the installed version lacks it."""
    return getattr(transformers, name, None)


KIND = ThinkerKind(
    noun="Qwen3-ASR",
    model_types=("qwen3_asr",),
    network=_class("Qwen3ASRForConditionalGeneration"),
    config=_class("Qwen3ASRConfig"),
    text=_class("Qwen3Config"),
    audio=_class("Qwen3ASREncoderConfig"),
    audio_token="audio_token_id",
    targets=rf"{LAYERS}self_attn\.[qkvo]_proj",
    unused_tokens=(),
    blind={},
    encoder=("conv2d1", "conv2d2", "conv2d3", "conv_out", "layers"),
    projector=("ln_post",),
)
