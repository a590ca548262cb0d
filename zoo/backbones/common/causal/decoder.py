"""Causal LMs of Transformers: loading, grouped attention that can be recorded, exact rotary
positions.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.initialization import no_init_weights
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from zoo.errors import ZooError

STATIC_ROPE = ("default", "linear", "llama3", "yarn")
ATTENTION = "zoo_grouped"


@dataclass(slots=True)
class Recorder:
    """Records attention weights of one pass through the decoder; the pass itself is unchanged.

    Attributes:
        heads: Per layer the heads that are recorded (None: all of its heads).
        rows: Number of newest positions that are recorded.
        recorded: Per layer (batch, rows, heads, keys), at least in float32.
    """

    heads: Mapping[int, Sequence[int] | None]
    rows: int
    recorded: list[Tensor] = field(default_factory=list)

    def record(
        self, layer: int, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float
    ) -> None:
        """Record one layer; for the arguments see ``grouped_attention``."""
        if layer not in self.heads:
            return
        chosen = self.heads[layer]
        heads = range(query.shape[1]) if chosen is None else list(chosen)
        groups = query.shape[1] // key.shape[1]
        scores = (
            query[:, heads, -self.rows :] @ key[:, [head // groups for head in heads]].mT * scaling
        )
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if mask is not None:
            scores = scores + mask[:, :, -self.rows :]
        self.recorded.append(scores.softmax(dim=-1).transpose(1, 2))

    def weights(self) -> Tensor:
        """(batch, rows, heads of all layers, keys)."""
        return torch.cat(self.recorded, dim=2)


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    recorder: Recorder | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Transformers' sdpa, without copying shared keys: under a mask, heads that share keys become
    one head.

    Args:
        module: The attention layer.
        query: (batch, heads, new, head size).
        key: (batch, shared heads, keys, head size).
        value: (batch, shared heads, keys, head size).
        attention_mask: (batch, 1, new, keys), bool or added to the scores (with a recorder: added).
        recorder: Records attention weights (None: none).
        options: ``scaling`` and ``dropout`` of Transformers.

    Returns:
        (batch, new, heads, head size), and None for the weights.
    """
    if recorder is not None:
        recorder.record(
            cast("int", module.layer_idx), query, key, attention_mask, options["scaling"]
        )
    groups = query.shape[1] // key.shape[1]
    if attention_mask is None or groups == 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    folded = query.reshape(key.shape[0], key.shape[1], -1, key.shape[3])
    mask = attention_mask.repeat(1, 1, groups, 1)
    attended = F.scaled_dot_product_attention(
        folded, key, value, attn_mask=mask, scale=options["scaling"], dropout_p=options["dropout"]
    )
    return attended.reshape(query.shape).transpose(1, 2), None


AttentionInterface.register(ATTENTION, grouped_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


def build_decoder(
    model: str | Mapping[str, Any],
    *,
    vocabulary: int,
    embedding_std: float | None,
    dtype: torch.dtype,
    empty: bool = False,
) -> PreTrainedModel:
    """A Llama-style causal LM with exact rotary angles.

    Args:
        model: Hub id or folder, whose weights are read, or fields of a config (randomly
            initialised).
        vocabulary: Size of the tokenizer; a pretrained model with fewer embeddings gets more.
        embedding_std: Standard deviation of randomly initialised embeddings (None: the model's
            default).
        dtype: Of the weights.
        empty: Whether weights are read later: only the config is used.

    Raises:
        ZooError: Where the model cannot be loaded or is of another kind.
    """
    if isinstance(model, str) and not empty:
        try:
            decoder = AutoModelForCausalLM.from_pretrained(
                model, dtype=dtype, attn_implementation=ATTENTION
            )
        except (OSError, ValueError) as error:
            raise ZooError(
                f"No decoder could be loaded from {model}; it must be a folder or a hub name."
            ) from error
        if decoder.config.vocab_size < vocabulary:
            decoder.resize_token_embeddings(vocabulary)
    else:
        config = decoder_config(model, vocabulary=vocabulary)
        with no_init_weights() if empty else nullcontext():
            decoder = AutoModelForCausalLM.from_config(
                config, dtype=dtype, attn_implementation=ATTENTION
            )
        decoder.tie_weights()
        if embedding_std is not None and not empty:
            nn.init.normal_(decoder.get_input_embeddings().weight, std=embedding_std)
    if not _llama_style(decoder):
        raise ZooError(
            f"A {decoder.config.model_type} does not fit as decoder; it must be a Llama-style "
            "causal LM (keys of their own, rotary positions on whole heads, plain softmax), as "
            "Llama, Mistral, Qwen2 and Qwen3 are."
        )
    decoder.model.rotary_emb = Rotary(decoder.model.rotary_emb)
    return decoder


def _llama_style(decoder: PreTrainedModel) -> bool:
    """Whether the rotation of cached keys can be changed."""
    attention: Any = getattr(getattr(decoder.base_model, "layers", [None])[0], "self_attn", None)
    rotary = getattr(decoder.base_model, "rotary_emb", None)
    if (
        not hasattr(attention, "k_proj")
        or rotary is None
        or getattr(attention, "attn_logit_softcapping", None)
    ):
        return False
    return not hasattr(rotary, "inv_freq") or 2 * rotary.inv_freq.numel() == attention.head_dim


def decoder_config(model: str | Mapping[str, Any], *, vocabulary: int) -> PreTrainedConfig:
    """The config of a hub id or folder, or of the fields in ``model``, with at least ``vocabulary``
    embeddings.
    """
    if isinstance(model, str):
        try:
            config = AutoConfig.from_pretrained(model)
        except (OSError, ValueError) as error:
            raise ZooError(
                f"{model} has no decoder's config.json; it must be a folder or a hub name."
            ) from error
        config.vocab_size = max(config.vocab_size, vocabulary)
        return config
    fields = {"vocab_size": vocabulary, "pad_token_id": None} | dict(model)
    try:
        return AutoConfig.for_model(**fields)
    except ValueError as error:
        raise ZooError(
            f"Transformers has no decoder of model_type {fields.get('model_type')!r}."
        ) from error
    except StrictDataclassError as error:
        raise ZooError(
            f"The decoder's fields do not fit together: {error.__cause__ or error}"
        ) from error


def rotary_of(decoder: PreTrainedModel) -> "Rotary":
    """The rotary angles of a decoder made by ``build_decoder``."""
    return cast("Rotary", decoder.get_submodule("model.rotary_emb"))


class Rotary(nn.Module):
    """The LM's own rotary angles in double precision, so that positions can grow for hours."""

    def __init__(self, rotary: Any) -> None:
        super().__init__()
        if rotary.rope_type not in STATIC_ROPE:
            raise ZooError(
                f"RoPE type {rotary.rope_type!r} is not supported; choose one of: "
                f"{', '.join(STATIC_ROPE)}."
            )
        self.inv_freq = nn.Buffer(rotary.inv_freq.clone(), persistent=False)
        self.scaling = float(rotary.attention_scaling)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines (batch, positions, head size) for positions (batch, positions), in the
        type of ``x``.
        """
        cos, sin = self._angles(position_ids)
        return (cos * self.scaling).to(x.dtype), (sin * self.scaling).to(x.dtype)

    def shift(self, keys: Tensor, positions: int) -> Tensor:
        """Rotate ``keys`` (..., head size) by ``positions`` more positions."""
        cos, sin = self._angles(torch.tensor([positions], device=keys.device))
        dtype = torch.promote_types(keys.dtype, torch.float32)
        first, second = keys.chunk(2, dim=-1)
        turned = keys * cos.to(dtype) + torch.cat([-second, first], dim=-1) * sin.to(dtype)
        return turned.to(keys.dtype)

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions[..., None].double() * self.inv_freq.double()
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()
