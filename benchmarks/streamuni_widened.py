"""Embeds a small trained Phi-4-Multimodal decoder in a larger one that generates the same tokens.

Each matrix of the small decoder fills a corner of the large one, and all other weights are zero:
every pass costs what a large decoder's costs, and the output stays the same up to rounding. Norms
are rescaled, because they divide by the width.
"""

import torch
from torch import Tensor, nn
from transformers import Phi4MultimodalConfig, Phi4MultimodalForCausalLM

from zoo.backbones.phi4_multimodal.network import speech_only
from zoo.errors import ZooError


def widen(
    small: Phi4MultimodalForCausalLM, *, hidden: int, intermediate: int, layers: int, heads: int
) -> Phi4MultimodalForCausalLM:
    """A decoder of these shapes that generates the tokens of ``small``.

    Args:
        small: the trained network; head size and heads per key head are kept.
        hidden: decoder width.
        intermediate: width of the feed-forward layers.
        layers: decoder layers.
        heads: attention heads of the decoder.

    Raises:
        ZooError: ``small`` does not fit into these shapes.
    """
    config = _config(
        small.config, hidden=hidden, intermediate=intermediate, layers=layers, heads=heads
    )
    model = speech_only(Phi4MultimodalForCausalLM(config)).to(small.dtype)
    old = small.state_dict()
    with torch.no_grad():
        for name, weight in model.state_dict().items():  # tied weights share memory
            _fill(name, weight, old, small.config, config)
    for name, buffer in model.named_buffers():
        buffer.copy_(small.get_buffer(name))
    model.config._attn_implementation = small.config._attn_implementation
    return model.eval()


def decoder_parameters(model: nn.Module) -> int:
    """Parameters of the decoder's layers, without embeddings and audio encoder."""
    return sum(weight.numel() for weight in model.model.layers.parameters())


def _config(
    config: Phi4MultimodalConfig, *, hidden: int, intermediate: int, layers: int, heads: int
) -> Phi4MultimodalConfig:
    size = head_size(config)
    shared = config.num_attention_heads // key_heads(config)
    least = (
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
        config.num_attention_heads,
    )
    if (
        any(
            new < old for new, old in zip((hidden, intermediate, layers, heads), least, strict=True)
        )
        or heads % shared
    ):
        raise ZooError(
            "A decoder of hidden, intermediate, layers and heads "
            f"{list(least)} does not fit into one of "
            f"{[hidden, intermediate, layers, heads]}."
        )
    return Phi4MultimodalConfig(
        **config.to_dict()
        | {
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads // shared,
            "head_dim": size,
            "rms_norm_eps": config.rms_norm_eps * config.hidden_size / hidden,
        }
    )


def head_size(config: Phi4MultimodalConfig) -> int:
    """Width of one head."""
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


def key_heads(config: Phi4MultimodalConfig) -> int:
    """Number of heads of keys and values."""
    return config.num_key_value_heads or config.num_attention_heads


def _fill(
    name: str,
    weight: Tensor,
    old: dict[str, Tensor],
    small: Phi4MultimodalConfig,
    large: Phi4MultimodalConfig,
) -> None:
    """Write one tensor of the large network, in place."""
    if name in old and old[name].shape == weight.shape:
        weight.copy_(old[name])
        return
    weight.zero_()
    if name not in old:  # an added layer: its output is zero
        return
    source = old[name]
    rows = _rows(name, small, large, len(source))
    if source.dim() == 1:
        scale = (small.hidden_size / large.hidden_size) ** 0.5 if "norm" in name else 1.0
        weight[rows] = scale * source
    else:
        weight[torch.tensor(rows)[:, None], torch.arange(source.shape[1])] = source


def _rows(
    name: str, small: Phi4MultimodalConfig, large: Phi4MultimodalConfig, count: int
) -> list[int]:
    """Rows of a large matrix that hold those of the small one.

    Queries, keys and values are stacked in one matrix, and so are gates and values of feed-forward
    layers.
    """
    if name.endswith("gate_up_proj.weight"):
        half = small.intermediate_size
        return [*range(half), *range(large.intermediate_size, large.intermediate_size + half)]
    if name.endswith("qkv_proj.weight"):
        size = head_size(small)
        queries, keys = small.num_attention_heads * size, key_heads(small) * size
        wide, shared = large.num_attention_heads * size, key_heads(large) * size
        return [
            *range(queries),
            *range(wide, wide + keys),
            *range(wide + shared, wide + shared + keys),
        ]
    return list(range(count))
