"""The text LLM of a cascade: how it is found, and a look at a batch of prompts. Knows no prompt, search or audio."""

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

KINDS = (
    "phi3",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
)  # whose layers all attend to all that stands before


def check(name: str | None, config: Mapping[str, Any] | None) -> None:
    """Raise ZooError unless ``name``, or the fields of ``config``, are a text LLM's that can translate here."""
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
    """A causal LM with the weights of ``name``, or with random ones and the fields of ``config``.

    Raises ZooError on what does not fit, the tokenizer among it.
    """
    if name is None:
        unnamed = dict.fromkeys(
            ("bos_token_id", "eos_token_id")
        )  # the backbone knows what ends an answer
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
    """What follows the prompts (ids), in progress, as a batch."""
    embed = model.get_input_embeddings()
    ids = [torch.tensor(list(prompt), device=model.device) for prompt in prompts]
    cache = empty_cache(model)
    return CausalBranches(model, [Prefilled(cache) for _ in ids], [embed(one) for one in ids])
