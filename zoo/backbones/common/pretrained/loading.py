"""Parts of Transformers' models by hub id or folder: configurations, tokenizers, weights, encoder
layers.

What cannot be loaded, or differs from what is needed, is a ZooError of one sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.masking_utils import create_bidirectional_mask
from transformers.utils import logging

from zoo.backbones.common.pretrained import hub
from zoo.errors import ZooError, shorten_list, unknown_choice
from zoo.types import SAMPLE_RATE

LOAD_ERRORS = (OSError, ValueError, TypeError, KeyError, ImportError, RuntimeError, SafetensorError)
CONFIG_ERRORS = (TypeError, ValueError, KeyError, RuntimeError, StrictDataclassError)

Part = TypeVar("Part")


def model_type(name: str, *, wanted: Sequence[str], noun: str) -> str:
    """The model type in a config.json.

    Args:
        name: Hub id or folder.
        wanted: Model types that fit.
        noun: What the model is used as, for messages.

    Raises:
        ZooError: Where there is no config.json, or one of another type.
    """
    hub.check(noun, name)
    try:
        settings, _ = PreTrainedConfig.get_config_dict(name)
    except LOAD_ERRORS as error:
        raise ZooError(f"There is no {noun} in {name}: {_first_sentence(error)}") from error
    found = settings.get("model_type")
    if found not in wanted:
        what = (
            f"is a {found!r} by its config.json"
            if found
            else "has no config.json that states a model type"
        )
        choices = " or ".join(repr(kind) for kind in wanted)
        raise ZooError(f"{name} {what}; as {noun} it must be a {choices}.")
    return str(found)


def check_fields(where: str, given: Iterable[str], config: Any) -> None:
    """Raise ZooError for a field that a configuration of Transformers lacks; it would be ignored
    silently.

    Args:
        where: Configuration key of the fields, for the message.
        given: Names of fields.
        config: The configuration's class.
    """
    known = sorted(field.name for field in fields(config))
    for name in given:
        if name not in known:
            raise unknown_choice(f"field of {where}", name, known)


def random_network(
    network: Any, config: Any, settings: Mapping[str, Any], *, noun: str, dtype: torch.dtype
) -> Any:
    """A randomly initialised network of Transformers.

    Args:
        network: Class of the network.
        config: Class of its configuration.
        settings: Fields of the configuration.
        noun: Name of the network, for messages.
        dtype: Of the weights.

    Raises:
        ZooError: Where the fields do not fit together.
    """
    try:
        return network._from_config(config(**settings), dtype=dtype)
    except CONFIG_ERRORS as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise ZooError(f"backbone.config makes no {noun}: {reason}") from error


def load_network(network: Any, name: str, dtype: torch.dtype, **options: Any) -> Any:
    """A network with its weights, in evaluation mode.

    Transformers prefers safetensors and reads the older format without unpickling code. Weights of
    parts that the class lacks are left out.

    Args:
        network: Class of the network.
        name: Hub id or folder.
        dtype: Of the weights.
        options: Of ``from_pretrained``.

    Raises:
        ZooError: Where weights are missing, damaged or do not fit.
    """
    try:
        with quiet():
            model, report = network.from_pretrained(
                name, dtype=dtype, output_loading_info=True, **options
            )
    except LOAD_ERRORS as error:
        raise ZooError(
            f"The weights of {name} cannot be loaded: {_first_sentence(error)}"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ZooError(f"{name} lacks weights of a {network.__name__}: {shorten_list(missing)}.")
    return model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Transformers' warnings about parts of a model that are left out."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def load_part(noun: str, load: Callable[[str], Part], name: str) -> Part:
    """Load a tokenizer, feature extractor or configuration. Raises ZooError where that fails.

    Args:
        noun: What is loaded, for the message.
        load: Such as ``WhisperTokenizer.from_pretrained``.
        name: Hub id or folder.
    """
    try:
        return load(name)
    except LOAD_ERRORS as error:
        raise ZooError(
            f"{name} has no {noun} that could be loaded: {_first_sentence(error)}"
        ) from error


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a hub id or folder. Raises ZooError where there is none."""
    hub.check("tokenizer", name)
    with quiet():
        return load_part("tokenizer", AutoTokenizer.from_pretrained, name)


def check_tokenizer(tokenizer: Any, name: str, *, scores: int, tokens: Mapping[str, int]) -> None:
    """Raise ZooError unless ids of the tokenizer are those of the network.

    Args:
        tokenizer: The tokenizer.
        name: Hub id or folder, for the message.
        scores: Number of ids that the network generates.
        tokens: Tokens whose ids the network's configuration states.
    """
    ids = tokenizer.get_vocab()
    wrong = [token for token, number in tokens.items() if ids.get(token) != number]
    if wrong or max(ids.values()) >= scores:
        what = (
            f"{shorten_list(wrong)} differ" if wrong else f"{len(ids)} tokens, but {scores} scores"
        )
        raise ZooError(
            f"The tokenizer in {name} is not its network's ({what}); are all its files there?"
        )


def check_extractor(extractor: Any, name: str, **expected: object) -> None:
    """Raise ZooError unless a feature extractor is for 16 kHz and has the ``expected`` settings."""
    for setting, value in {"sampling_rate": SAMPLE_RATE, **expected}.items():
        found = getattr(extractor, setting)
        if found != value:
            raise ZooError(
                f"The feature extractor of {name} has {setting}={found}; only {value} is supported."
            )


def run_layers(
    layers: nn.ModuleList, norm: nn.Module, config: Any, hidden: Sequence[Tensor]
) -> list[Tensor]:
    """Run the layers of a Transformer encoder on streams of different lengths, as one batch.

    Args:
        layers: The encoder's layers.
        norm: Layer norm after the last one.
        config: The model's, which states the attention implementation.
        hidden: (frames, width) of each stream.

    Returns:
        (frames, width) of each stream; streams do not interact.
    """
    padded, inside = pad_batch(hidden)
    mask = create_bidirectional_mask(config=config, inputs_embeds=padded, attention_mask=inside)
    for layer in layers:
        padded = layer(padded, mask)
    return unpad_batch(norm(padded), hidden)


def pad_batch(sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """(n, width) each to (batch, longest, width), padded with zeros, and a mask.

    Returns:
        The batch, and (batch, longest) int64: 1 inside, 0 in padding; None where nothing is padded.
    """
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=sequences[0].device)
    padded = nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
    inside = (torch.arange(padded.shape[1], device=padded.device) < lengths[:, None]).long()
    return padded, None if bool(inside.all()) else inside


def unpad_batch(padded: Tensor, sequences: Sequence[Tensor]) -> list[Tensor]:
    """The rows of a batch, each as long as its sequence."""
    return [row[: len(sequence)] for row, sequence in zip(padded, sequences, strict=True)]


def _first_sentence(error: BaseException) -> str:
    """The first sentence or line of a message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".:") + "."
