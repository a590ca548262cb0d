"""A Llama written out plainly, one position at a time, keys kept without rotation as in the paper: an oracle."""

import torch
from torch import Tensor
from transformers import PreTrainedModel


def turned(x: Tensor, position: int, base: float = 10_000.0) -> Tensor:
    """Rotary position of (..., head size), written with complex numbers."""
    half = x.shape[-1] // 2
    frequencies = 1.0 / base ** (torch.arange(half, dtype=torch.float32) / half)  # single precision in checkpoints too
    angles = position * frequencies.double()
    pairs = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], dim=-1)


class PlainDecoder:
    """The instruction's keys and those of the newest positions, concatenated; rotation on top of them."""

    def __init__(self, model: PreTrainedModel, instruction: int) -> None:
        self.model = model
        self.instruction = instruction
        self.kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in model.model.layers]

    def slide(self, positions: int) -> None:
        """Keep the instruction and the newest ``positions``."""
        for kept in self.kept:
            rest = kept[self.instruction :]
            kept[self.instruction :] = rest[max(0, len(rest) - positions) :]

    @torch.inference_mode()
    def feed(self, embedding: Tensor) -> Tensor:
        """One position, (hidden,); log-probabilities (vocabulary,) of the next token."""
        x = embedding
        for layer, kept in zip(self.model.model.layers, self.kept, strict=True):
            x = x + self._attend(layer.self_attn, layer.input_layernorm(x), kept)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.lm_head(self.model.model.norm(x)).log_softmax(-1)

    def _attend(self, attention: torch.nn.Module, x: Tensor, kept: list[tuple[Tensor, Tensor]]) -> Tensor:
        size = attention.head_dim
        query, key, value = (
            projection(x).view(-1, size) for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        kept.append((key, value))
        shared = query.shape[0] // key.shape[0]
        keys = torch.stack([turned(key, position) for position, (key, _) in enumerate(kept)])
        query = turned(query, len(kept) - 1)
        heads = []
        for head in range(query.shape[0]):
            weights = (keys[:, head // shared] @ query[head] / size**0.5).softmax(-1)
            heads.append(weights @ torch.stack([value[head // shared] for _, value in kept]))
        return attention.o_proj(torch.cat(heads))
