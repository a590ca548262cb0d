"""The text LLM of a cascade: loading, and branches after a batch of prompts."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from zoo.backbones.common.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.common.causal.decoder import ATTENTION, decoder_config
from zoo.backbones.common.pretrained.loading import (
    check_tokenizer,
    load_network,
    model_type,
)
from zoo.errors import ZooError

KINDS = ("phi3", "llama", "mistral", "qwen2", "qwen3")  # all layers attend to all earlier positions


def check(name: str | None, config: Mapping[str, Any] | None) -> None:
    """Raise ZooError unless ``name``, or else ``config``, describes a supported text LLM."""
    if name is not None:
        model_type(name, wanted=KINDS, noun="translator")
    elif config is None or config.get("model_type") not in KINDS:
        found = None if config is None else config.get("model_type")
        raise ZooError(
            f"backbone.config needs a model_type, one of: {', '.join(KINDS)}; not {found}."
        )


def build(
    name: str | None,
    config: Mapping[str, Any] | None,
    *,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
) -> PreTrainedModel:
    """The causal LM.

    Args:
        name: Hub id or folder; None: randomly initialised by ``config``.
        config: Fields of a configuration of Transformers.
        tokenizer: Of the LM.
        dtype: Of the weights.

    Raises:
        ZooError: Where weights, fields or tokenizer do not fit.
    """
    if name is None:
        unnamed = {"bos_token_id": None, "eos_token_id": None}  # the template states the end
        made = decoder_config(
            unnamed | dict(config or {}), vocabulary=max(tokenizer.get_vocab().values()) + 1
        )
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            made, dtype=dtype, attn_implementation=ATTENTION
        )
        model.tie_weights()
    else:
        model = load_network(AutoModelForCausalLM, name, dtype)
        model.set_attn_implementation(ATTENTION)
    check_tokenizer(
        tokenizer, name or tokenizer.name_or_path, scores=model.config.vocab_size, tokens={}
    )
    return model


def prefill(model: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> CausalBranches:
    """Branches after prompts of ids, as a batch."""
    embed = model.get_input_embeddings()
    ids = [torch.tensor(list(prompt), device=model.device) for prompt in prompts]
    cache = empty_cache(model)
    return CausalBranches(model, [Prefilled(cache) for _ in ids], [embed(one) for one in ids])
