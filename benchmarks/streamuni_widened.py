"""A small trained Phi-4-Multimodal in the shapes of a large one: every pass costs what a large
one's costs, and it says what the small one says, up to rounding.

Each matrix of the small decoder fills a corner of a large one, all else is zero: what is added is
computed and comes to nothing. Norms are scaled, for they divide by the width. Knows no audio, no
prompt and no text.
"""

import torch
from torch import Tensor, nn
from transformers import Phi4MultimodalConfig, Phi4MultimodalForCausalLM

from zoo.backbones.phi4_multimodal.network import speech_only
from zoo.errors import ZooError

Places = list[int]


def widened(
    small: Phi4MultimodalForCausalLM, *, hidden: int, intermediate: int, layers: int, heads: int
) -> Phi4MultimodalForCausalLM:
    """A decoder of these shapes with the words of ``small``; heads keep their size and how many
    share keys.

    Raises ZooError for a shape that ``small`` does not fit into.
    """
    config = _config(
        small.config, hidden=hidden, intermediate=intermediate, layers=layers, heads=heads
    )
    model = speech_only(Phi4MultimodalForCausalLM(config)).to(small.dtype)
    old = small.state_dict()
    with torch.no_grad():
        for name, weight in model.state_dict().items():  # tied ones are the same memory
            _fill(name, weight, old, small.config, config)
    for name, buffer in model.named_buffers():
        buffer.copy_(small.get_buffer(name))
    model.config._attn_implementation = small.config._attn_implementation
    return model.eval()


def decoder_parameters(model: nn.Module) -> int:
    """Parameters of the decoder's layers, without embeddings and audio."""
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
            f"A decoder of hidden, intermediate, layers and heads {list(least)} does not fit into one of "
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
    """Heads of keys and values."""
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
    if name not in old:  # a layer on top: adds nothing
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
) -> Places:
    """Where the rows of a matrix go: queries, keys and values lie behind each other, so do gates
    and the rest.
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
