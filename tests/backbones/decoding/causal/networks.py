"""Random causal LMs of all kinds."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from zoo.backbones.decoding.causal.decoder import ATTENTION

MODELS = {
    "llama": {},
    "mistral": {"sliding_window": None},
    "qwen2": {},
    "qwen3": {"head_dim": 8},
    "phi3": {"partial_rotary_factor": 0.5, "pad_token_id": 0},
}


def network(kind: str, dtype: torch.dtype = torch.float64, **fields: Any) -> PreTrainedModel:
    """A random causal LM with two layers, four query heads and two key-value heads."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 64}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = AutoConfig.for_model(kind, **(sizes | heads | MODELS[kind] | fields))
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=ATTENTION)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or "bias" in name:
                weight.normal_(mean=1.0)
    return model.eval()
