"""The text LLM of a cascade: checks, loading and the first pass over a batch of prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from zoo.backbones.decoding.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.decoding.causal.decoder import ATTENTION, decoder_config
from zoo.backbones.pretrained.loading import (
    check_tokenizer,
    from_config,
    load_network,
    load_part,
    model_type,
)
from zoo.backbones.pretrained.lora import LoraConfig, install, read_adapter
from zoo.base.errors import ZooError

# Values of model_type. Some layers of a Gemma 3 attend to a window; those of the other LLMs attend
# to all earlier positions.
KINDS = ("phi3", "llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "gemma3_text")
VISION = "gemma3"  # a Gemma 3 with a vision encoder, of which the text part translates
# Layers that an adapter changes: attention, and the feed-forward layers unless they are experts.
ADAPTED = r"model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj"
TEXT_NAMES = {r"^(model\.)?language_model\.(model\.)?": "model."}  # names of its weights there


def check(name: str | None, config: Mapping[str, Any] | None) -> None:
    """Check that the text LLM has a supported architecture.

    Args:
        name: Hub id or folder. None checks ``config`` instead.
        config: Fields of the Transformers configuration.

    Raises:
        ZooError: If ``model_type`` is missing or is not one of ``KINDS``, or of ``name`` neither
            ``VISION``.
    """
    if name is not None:
        model_type(name, accepted=(*KINDS, VISION), noun="translator")
    elif config is None or config.get("model_type") not in KINDS:
        actual = None if config is None else config.get("model_type")
        raise ZooError(
            f"backbone.config needs a model_type, one of: {', '.join(KINDS)}; not {actual}."
        )


def build(
    name: str | None,
    config: Mapping[str, Any] | None,
    *,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    lora: LoraConfig | None = None,
) -> PreTrainedModel:
    """Load a pretrained causal LM, or initialise a causal LM randomly.

    Args:
        name: Hub id or folder. None initialises the LM randomly from ``config``.
        config: Fields of the Transformers configuration.
        tokenizer: Tokenizer of the LM; its largest id determines the vocabulary size of a randomly
            initialised LM.
        dtype: Floating-point type of the weights.
        lora: Trainable adapter. An adapter in the folder is loaded; otherwise a new adapter is
            added. None merges an adapter in the folder into the weights.

    Raises:
        ZooError: If weights cannot be loaded, if ``config`` has an unknown or invalid field, if the
            tokenizer has ids beyond the vocabulary of the LM, or if the adapter in the folder does
            not match ``lora``.
    """
    if name is None:
        # The template defines the end token, so the configuration needs no special ids.
        no_special_ids = {"bos_token_id": None, "eos_token_id": None}
        vocabulary_size = max(tokenizer.get_vocab().values()) + 1
        model_config = decoder_config(
            no_special_ids | dict(config or {}), vocabulary=vocabulary_size
        )
        model: PreTrainedModel = from_config(
            AutoModelForCausalLM, model_config, dtype, attn_implementation=ATTENTION
        )
        model.tie_weights()
    else:
        model = _pretrained(name, dtype)
        model.set_attn_implementation(ATTENTION)
    # Transformers' grouped product of experts, its default, does not exist in float64.
    if dtype == torch.float64 and getattr(model.config, "num_experts", None):
        model.set_experts_implementation("eager")
    check_tokenizer(
        tokenizer, name or tokenizer.name_or_path, scores=model.config.vocab_size, tokens={}
    )
    install(model, read_adapter(Path(name)) if name else None, lora, ADAPTED)
    return model


def _pretrained(name: str, dtype: torch.dtype) -> PreTrainedModel:
    """Load the causal LM of a hub id or folder, without a vision encoder."""
    if model_type(name, accepted=(*KINDS, VISION), noun="translator") != VISION:
        model: PreTrainedModel = load_network(AutoModelForCausalLM, name, dtype)
        return model
    config: Any = load_part("translator", AutoConfig.from_pretrained, name)
    text: PreTrainedModel = load_network(
        Gemma3ForCausalLM, name, dtype, config=config.text_config, key_mapping=TEXT_NAMES
    )
    # Transformers would save it under the names of the whole model, which TEXT_NAMES do not give.
    text._weight_conversions = None  # type: ignore[assignment]
    return text


def prefill(model: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> CausalBranches:
    """Process a batch of prompts, given as token ids, and return the branches after the prompts."""
    cache = empty_cache(model)
    return CausalBranches(model, [Prefilled(cache) for _ in prompts], embed(model, prompts))


def embed(model: PreTrainedModel, prompts: Sequence[Sequence[int]]) -> list[Tensor]:
    """Embed prompts of n token ids each as (n, width)."""
    layer = model.get_input_embeddings()
    return [layer(torch.tensor(list(prompt), device=model.device)) for prompt in prompts]
