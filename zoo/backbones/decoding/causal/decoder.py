"""Causal LMs of Transformers: loading, attention with recorded weights, exact rotary positions."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
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

from zoo.backbones.pretrained.loading import (
    from_config,
    load_network,
    load_part,
    loader_errors,
)
from zoo.backbones.pretrained.settings import check_settings
from zoo.base.errors import ZooError

STATIC_ROPE = ("default", "linear", "llama3", "yarn")
ATTENTION = "zoo_grouped"


@dataclass(slots=True)
class Recorder:
    """Records attention weights during one forward pass without changing the outputs.

    Attributes:
        heads: Recorded heads by layer index. A value of None records all heads of the layer.
        rows: Number of final query positions that are recorded.
        recorded: One tensor (batch, rows, heads, keys) per recorded layer, at least float32.
    """

    heads: Mapping[int, Sequence[int] | None]
    rows: int
    recorded: list[Tensor] = field(default_factory=list)

    def record(
        self, layer: int, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float
    ) -> None:
        """Record the attention weights of one layer.

        Args:
            layer: Index of the layer.
            query: (batch, heads, new, head size).
            key: (batch, key-value heads, keys, head size).
            mask: (batch, 1, new, keys) added to the scores; None masks nothing.
            scaling: Factor on the scores.
        """
        if layer not in self.heads:
            return
        chosen = self.heads[layer]
        heads, key_heads = head_indices(
            tuple(range(query.shape[1]) if chosen is None else chosen),
            query.shape[1] // key.shape[1],
            query.device,
        )
        scores = query[:, heads, -self.rows :] @ key[:, key_heads].mT * scaling
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if mask is not None:
            scores = scores + mask[:, :, -self.rows :]
        self.recorded.append(scores.softmax(dim=-1).transpose(1, 2))

    def weights(self) -> Tensor:
        """Return all recorded weights, (batch, rows, heads of all recorded layers, keys)."""
        return torch.cat(self.recorded, dim=2)


@cache
def head_indices(
    heads: tuple[int, ...], heads_per_key: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return query heads, and the key head of each of them, as indices.

    They are kept, because a CUDA graph cannot contain their copy from the host.

    Args:
        heads: Query heads.
        heads_per_key: Number of query heads that share a key head.
        device: Device of the indices.
    """
    with torch.inference_mode(False):
        indices = torch.tensor(heads, device=device)
        return indices, indices // heads_per_key


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    recorder: Recorder | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Grouped-query attention that does not repeat keys and values for each query head.

    With a mask, the query heads that share a key-value head are folded into one head with more
    query positions. Without a mask, Transformers' own sdpa function is called.

    Args:
        module: Attention layer of Transformers.
        query: (batch, heads, new, head size).
        key: (batch, key-value heads, keys, head size).
        value: (batch, key-value heads, keys, head size).
        attention_mask: (batch, 1, new, keys) mask, bool or added to the scores. With a recorder,
            the mask must be additive. None masks nothing.
        recorder: Recorder of attention weights. None records no weights.
        options: ``scaling`` and ``dropout``, as Transformers passes both.

    Returns:
        (batch, new, heads, head size) outputs, and None in place of the attention weights.
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
        model: Hub id or folder of a pretrained model, or the fields of a config. A model built from
            fields is randomly initialised.
        vocabulary: Size of the tokenizer. The embeddings of a pretrained model are extended to this
            size.
        embedding_std: Standard deviation of randomly initialised embeddings. None uses the default
            of the model class.
        dtype: Dtype of the weights.
        empty: Whether the caller loads the weights later. Only the config is read then.

    Raises:
        ZooError: If the model cannot be loaded or is not a Llama-style causal LM.
    """
    if isinstance(model, str) and not empty:
        decoder = load_network(AutoModelForCausalLM, model, dtype, attn_implementation=ATTENTION)
        if decoder.config.vocab_size < vocabulary:
            decoder.resize_token_embeddings(vocabulary)
    else:
        config = decoder_config(model, vocabulary=vocabulary)
        fills = no_init_weights() if empty else nullcontext()
        with loader_errors("No decoder could be created"), fills:
            decoder = from_config(
                AutoModelForCausalLM, config, dtype, attn_implementation=ATTENTION
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
    return cast("PreTrainedModel", decoder)


def _llama_style(decoder: PreTrainedModel) -> bool:
    """Whether cached keys can be rotated to new positions, as in Llama."""
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
    """Load or build the config of a causal LM.

    Args:
        model: Hub id or folder of a pretrained model, or the fields of a config.
        vocabulary: Size of the tokenizer. A loaded config gets at least this vocabulary size.

    Raises:
        ZooError: If no config can be loaded, a field is refused (see ``settings``), or the fields
            do not form a valid config.
    """
    if isinstance(model, str):
        config: PreTrainedConfig = load_part("decoder's config", AutoConfig.from_pretrained, model)
        config.vocab_size = max(config.vocab_size, vocabulary)
        return config
    fields = {"vocab_size": vocabulary, "pad_token_id": None} | dict(model)
    check_settings("The decoder's configuration", fields)
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
    """Return the ``Rotary`` module of a decoder built by ``build_decoder``."""
    return cast("Rotary", decoder.get_submodule("model.rotary_emb"))


class Rotary(nn.Module):
    """Rotary position embedding of an LM in double precision.

    Double precision keeps the angles exact for the large positions of streams that last hours.
    """

    def __init__(self, rotary: Any) -> None:
        """Copy the frequencies of a Transformers rotary module.

        Args:
            rotary: Rotary module of Transformers.

        Raises:
            ZooError: If the RoPE type is not in ``STATIC_ROPE``.
        """
        super().__init__()
        if rotary.rope_type not in STATIC_ROPE:
            raise ZooError(
                f"RoPE type {rotary.rope_type!r} is not supported; choose one of: "
                f"{', '.join(STATIC_ROPE)}."
            )
        self.inv_freq = nn.Buffer(rotary.inv_freq.clone(), persistent=False)
        self.scaling = float(rotary.attention_scaling)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Compute cosines and sines.

        Args:
            x: Tensor whose dtype the result has.
            position_ids: (batch, positions).

        Returns:
            Cosines and sines, (batch, positions, head size) each.
        """
        cos, sin = self._angles(position_ids)
        return (cos * self.scaling).to(x.dtype), (sin * self.scaling).to(x.dtype)

    def shift(self, keys: Tensor, positions: int) -> Tensor:
        """Rotate keys that are already rotated by further positions.

        Args:
            keys: (..., head size) rotated keys.
            positions: Number of positions by which the keys move; may be negative.
        """
        cos, sin = self._angles(torch.tensor([positions], device=keys.device))
        dtype = torch.promote_types(keys.dtype, torch.float32)
        first, second = keys.chunk(2, dim=-1)
        rotated = keys * cos.to(dtype) + torch.cat([-second, first], dim=-1) * sin.to(dtype)
        return rotated.to(keys.dtype)

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions[..., None].double() * self.inv_freq.double()
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()
