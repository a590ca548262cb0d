"""The smallest Phi-4-Multimodal: fields of its config."""

from typing import Any

CONFIG: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "initializer_range": 0.3,
    "tie_word_embeddings": True,
    "audio_config": {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_blocks": 3,
        "num_attention_heads": 2,
        "ext_pw_out_channel": 16,
        "depthwise_separable_out_channel": 16,
        "nemo_conv_channels": 4,
        "bias_max_distance": 20,
        "initializer_range": 0.3,
    },
}
