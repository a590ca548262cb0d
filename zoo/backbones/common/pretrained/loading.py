"""Speech translation models of Transformers by hub id or folder, and their encoders on audio of several lengths.

Knows no stream. What cannot be loaded, or is something else, is one sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.masking_utils import create_bidirectional_mask
from transformers.utils import logging

from zoo.backbones.common.pretrained import hub
from zoo.errors import ZooError, shorten_list, unknown_choice
from zoo.types import SAMPLE_RATE

UNREADABLE = (OSError, ValueError, TypeError, KeyError, ImportError, RuntimeError, SafetensorError)

Part = TypeVar("Part")


def model_type(name: str, *, wanted: Sequence[str], noun: str) -> str:
    """What kind of model ``name`` is by its config.json, one of ``wanted``. noun: what it is to be, for messages.

    Raises ZooError where there is none, or one of another kind.
    """
    hub.check(noun, name)
    try:
        settings, _ = PreTrainedConfig.get_config_dict(name)
    except UNREADABLE as error:
        raise ZooError(f"There is no {noun} in {name}: {_short(error)}") from error
    found = settings.get("model_type")
    if found not in wanted:
        what = (
            f"is a {found!r} by its config.json"
            if found
            else "has no config.json that tells what it is"
        )
        choices = " or ".join(repr(kind) for kind in wanted)
        raise ZooError(f"{name} {what}; as {noun} it must be a {choices}.")
    return str(found)


def check_fields(where: str, given: Iterable[str], config: Any) -> None:
    """Raise ZooError for a field that a config of Transformers lacks: it would be kept without a word.

    where: what ``given`` are the fields of, for the message.
    """
    known = sorted(field.name for field in fields(config))
    for name in given:
        if name not in known:
            raise unknown_choice(f"field of {where}", name, known)


def weights(network: Any, name: str, dtype: torch.dtype, **options: Any) -> Any:
    """The network with its weights, in ``dtype``. Raises ZooError where some are missing, damaged or do not fit.

    Transformers takes safetensors where there are some, and reads the older format without running what is in it.
    Weights of parts that this network lacks are left out. options: what else ``from_pretrained`` is told.
    """
    try:
        with quiet():
            model, told = network.from_pretrained(
                name, dtype=dtype, output_loading_info=True, **options
            )
    except UNREADABLE as error:
        raise ZooError(f"The weights of {name} cannot be loaded: {_short(error)}") from error
    missing = sorted(told["missing_keys"])
    if missing:
        raise ZooError(f"{name} lacks weights of a {network.__name__}: {shorten_list(missing)}.")
    return model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """Without Transformers' warnings about parts of a model that are left out."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def part(noun: str, load: Callable[[str], Part], name: str) -> Part:
    """Tokenizer or feature extractor. Raises ZooError where it cannot be loaded."""
    try:
        return load(name)
    except UNREADABLE as error:
        raise ZooError(f"{name} has no {noun} that could be loaded: {_short(error)}") from error


def check_tokenizer(tokenizer: Any, name: str, *, scores: int, tokens: Mapping[str, int]) -> None:
    """Raise ZooError unless ids of the tokenizer are those of the network.

    scores: how many ids the network can say. tokens: some whose ids the network knows.
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
    """Raise ZooError unless the feature extractor hears 16 kHz and has the ``expected`` settings."""
    for setting, value in {"sampling_rate": SAMPLE_RATE, **expected}.items():
        found = getattr(extractor, setting)
        if found != value:
            raise ZooError(
                f"The feature extractor of {name} has {setting}={found}; only {value} is supported."
            )


def through(
    layers: nn.ModuleList, norm: nn.Module, config: Any, hidden: Sequence[Tensor]
) -> list[Tensor]:
    """(frames, width) each through the layers of a Transformer encoder in one batch, each as if it were alone.

    config: the model's, which says how attention is computed.
    """
    padded, inside = in_one(hidden)
    mask = create_bidirectional_mask(config=config, inputs_embeds=padded, attention_mask=inside)
    for layer in layers:
        padded = layer(padded, mask)
    return apart(norm(padded), hidden)


def in_one(sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """(n, width) each to (batch, most, width), filled up with zeros, and (batch, most) 1 inside, 0 outside.

    None where nothing is filled up.
    """
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=sequences[0].device)
    padded = nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
    inside = (torch.arange(padded.shape[1], device=padded.device) < lengths[:, None]).long()
    return padded, None if bool(inside.all()) else inside


def apart(padded: Tensor, sequences: Sequence[Tensor]) -> list[Tensor]:
    """The rows of a batch, each as long as its sequence."""
    return [row[: len(sequence)] for row, sequence in zip(padded, sequences, strict=True)]


def _short(error: BaseException) -> str:
    """The first sentence or line of a message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".:") + "."
