"""Loading and running parts of Transformers models: configurations, tokenizers, weights, encoders.

A part that cannot be loaded, or does not fit the network, raises a ZooError of one sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.masking_utils import create_bidirectional_mask

from zoo.backbones.base import check_finite, is_empty, mark_restored, reads_shapes
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.messages import quiet
from zoo.backbones.pretrained.settings import check_settings
from zoo.backbones.pretrained.weights import open_tensors, tensor_files
from zoo.base.errors import ZooError, check_choice, shorten, shorten_list
from zoo.base.machine.secrets import mask_secrets
from zoo.base.types import SAMPLE_RATE

Part = TypeVar("Part")


def model_type(name: str, *, accepted: Sequence[str], noun: str) -> str:
    """Read the model type from the config.json of a model.

    Args:
        name: Hub id or folder.
        accepted: Accepted model types.
        noun: Role of the model, such as encoder, for error messages.

    Raises:
        ZooError: If there is no readable config.json, or its model type is not in ``accepted``.
    """
    hub.check(noun, name)
    with loader_errors(f"There is no {noun} in {name}"):
        settings = read_config(name)
    actual = settings.get("model_type")
    if actual not in accepted:
        what = (
            f"is a {actual!r} by its config.json"
            if actual
            else "has no config.json that states a model type"
        )
        choices = " or ".join(repr(kind) for kind in accepted)
        raise ZooError(f"{name} {what}; as {noun} it must be a {choices}.")
    return str(actual)


@contextmanager
def loader_errors(problem: str) -> Iterator[None]:
    """Turn any error in the block into a ZooError: loaders raise errors of many kinds.

    Args:
        problem: First part of the sentence; the error is its reason.
    """
    try:
        yield
    except ZooError:
        raise
    except BaseException as error:
        # a panic of the tokenizers library, which is written in Rust, is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        cause = error.__cause__ or error
        raise ZooError(f"{problem}: {_first_sentence(cause)}") from error


def read_config(name: str) -> dict[str, Any]:
    """Return the content of the config.json of a model. May raise any error."""
    source = hub.checked(name)
    settings, _ = PreTrainedConfig.get_config_dict(source.location, revision=source.revision)
    return dict(settings)


def find_config(name: str) -> dict[str, Any]:
    """Return the content of the config.json of a model; empty if it is missing or damaged.

    Raises:
        ZooError: If a setting of the model is refused.
    """
    try:
        return read_config(name)
    except ZooError:
        raise
    except Exception:  # a loader may raise any error for a damaged file
        return {}


def from_pretrained(load: Callable[..., Part], name: str, **options: Any) -> Part:
    """Call a ``from_pretrained`` of Transformers, which never runs code of the model.

    Args:
        load: Loading function, such as ``WhisperTokenizer.from_pretrained``.
        name: Hub id, with an optional ``@revision``, or folder.
        options: Further arguments of ``load``. May raise any error.

    Raises:
        ZooError: If a setting of the model is refused, see ``settings``.
    """
    source = hub.checked(name)
    return load(source.location, revision=source.revision, trust_remote_code=False, **options)


def from_config(network: Any, config: Any, dtype: torch.dtype, **options: Any) -> Any:
    """Create a network of a configuration. An Auto class never runs the code that it names.

    Args:
        network: Class of the network, or Auto class.
        config: Configuration.
        dtype: Dtype of the weights.
        options: Further arguments of ``from_config``.
    """
    if hasattr(network, "_from_config"):
        return network._from_config(config, dtype=dtype, **options)
    return network.from_config(config, dtype=dtype, trust_remote_code=False, **options)


def check_fields(where: str, names: Iterable[str], config: Any) -> None:
    """Check that a Transformers configuration has all given fields.

    Transformers itself ignores unknown fields silently.

    Args:
        where: Configuration key of the fields, for the error message.
        names: Names of the given fields.
        config: Configuration class of Transformers.

    Raises:
        ZooError: If ``config`` lacks a field.
    """
    field_names = sorted(field.name for field in fields(config))
    for name in names:
        check_choice(f"field of {where}", name, field_names)


def random_network(
    network: Any, config: Any, settings: Mapping[str, Any], *, noun: str, dtype: torch.dtype
) -> Any:
    """Create a randomly initialised network of Transformers.

    Args:
        network: Class of the network.
        config: Class of the network's configuration.
        settings: Fields of the configuration.
        noun: Name of the network, for error messages.
        dtype: Dtype of the weights.

    Raises:
        ZooError: If a field is refused, see ``settings``, or the fields do not form a valid
            configuration.
    """
    check_settings("backbone.config", settings)
    try:
        return from_config(network, config(**settings), dtype)
    except Exception as error:  # classes of Transformers may raise any error for unknown fields
        reason = " ".join(str(error.__cause__ or error).split())
        raise ZooError(f"backbone.config makes no {noun}: {reason}") from error


def load_network(network: Any, name: str, dtype: torch.dtype, **options: Any) -> Any:
    """Load a pretrained network in evaluation mode.

    Transformers prefers safetensors files and reads the older format without unpickling code.
    Weights of parts that the class lacks are not loaded.

    Args:
        network: Class of the network.
        name: Hub id or folder.
        dtype: Dtype of the weights.
        options: Further arguments of ``from_pretrained``.

    Raises:
        ZooError: If weights are missing or damaged, or have another shape than the network.
    """
    with loader_errors(f"The weights of {name} cannot be loaded"), quiet():
        if is_empty():
            return _empty_network(network, name, dtype, **options)
        if reads_shapes():
            options["device_map"] = "meta"
        files = tensor_files(sorted(Path(name).glob("*.safetensors")))
        options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}  # see below
        model, report = from_pretrained(network.from_pretrained, name, dtype=dtype, **options)
    # Transformers names the tensors that do not fit in its log alone, and converts other types.
    for tensor, stored, needed in sorted(report["mismatched_keys"]):
        raise ZooError(
            f"{name} does not fit a {network.__name__}: {tensor} has shape {list(stored)}, the "
            f"network needs {list(needed)}."
        )
    check_integers(model, files)
    missing = sorted(report["missing_keys"])
    if missing:
        raise ZooError(f"{name} lacks weights of a {network.__name__}: {shorten_list(missing)}.")
    check_finite(model, name)
    mark_restored(model)
    return model.eval()


def check_integers(model: Any, files: Mapping[str, Path]) -> None:
    """Raise ZooError for weights that are stored as integers, which are rounded.

    Args:
        model: Network.
        files: File of each stored tensor, by name.
    """
    weights = dict(model.named_parameters())
    for path in dict.fromkeys(files.values()):
        with open_tensors(path) as file:
            for name in weights.keys() & {one for one, place in files.items() if place == path}:
                kind = file.get_slice(name).get_dtype()
                if kind.startswith("I") and weights[name].is_floating_point():
                    raise ZooError(f"{path} has {name} as {kind}; save the model in float32.")


def _empty_network(
    network: Any,
    name: str,
    dtype: torch.dtype,
    config: Any = None,
    attn_implementation: str | None = None,
    **_: Any,
) -> Any:
    """Create a network of the shapes in a model's configuration, see ``without_weights``."""
    if config is None:
        kind = getattr(network, "config_class", None) or AutoConfig
        config = from_pretrained(kind.from_pretrained, name)
    attention = {"attn_implementation": attn_implementation} if attn_implementation else {}
    empty = from_config(network, config, dtype, **attention).eval()
    with suppress(OSError):  # not every model has the file
        empty.generation_config = from_pretrained(GenerationConfig.from_pretrained, name)
    mark_restored(empty)
    return empty


def check_sources(noun: str, name: str | None, config: object, tokenizer: str | None) -> None:
    """Check that a configuration names weights, or what a randomly initialised network needs.

    Args:
        noun: Name of the model, for the message.
        name: Hub id or folder of the weights.
        config: Fields of the model's Transformers configuration.
        tokenizer: Hub id or folder of the tokenizer.

    Raises:
        ZooError: If neither ``name`` nor both ``config`` and ``tokenizer`` are given.
    """
    if name is None and (config is None or tokenizer is None):
        raise ZooError(f"{noun} needs backbone.name, or backbone.config and backbone.tokenizer.")


def load_part(noun: str, load: Callable[..., Part], name: str) -> Part:
    """Load a tokenizer, feature extractor or configuration.

    Args:
        noun: Name of the part, for the error message.
        load: Loading function, such as ``WhisperTokenizer.from_pretrained``.
        name: Hub id or folder.

    Raises:
        ZooError: If ``load`` fails.
    """
    with loader_errors(f"{name} has no {noun} that could be loaded"):
        return from_pretrained(load, name)


def control_id(config: Any, field: str, name: str) -> int:
    """Return the id of a token in a published configuration.

    Args:
        config: Configuration of a model or of its generation.
        field: Name of the field.
        name: Hub id or folder of the model, for the error message.

    Raises:
        ZooError: The field is missing, or no id.
    """
    value = getattr(config, field, None)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ZooError(
            f"The configuration of {name} has {field}={value!r}, which is no token's id."
        )
    return value


def end_ids(network: PreTrainedModel, end: int) -> list[int]:
    """Return the ids that end an answer of a causal LM.

    Published chat models often end an answer with one of several tokens, such as ``<|end|>`` and
    ``<|endoftext|>`` of Phi-4.

    Args:
        network: Network with the generation configuration that was published with its weights.
        end: Id of the end token of the prompt, which is the first id of the result.
    """
    config = network.generation_config
    published = config.eos_token_id if config is not None else None
    ids = [published] if isinstance(published, int) else list(published or [])
    return list(dict.fromkeys([end, *ids]))


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a hub id or folder. Raises ZooError if no tokenizer can be loaded."""
    hub.check("tokenizer", name)
    with quiet():
        return load_part("tokenizer", AutoTokenizer.from_pretrained, name)


def check_tokenizer(tokenizer: Any, name: str, *, scores: int, tokens: Mapping[str, int]) -> None:
    """Check that the tokenizer belongs to the network.

    Args:
        tokenizer: Tokenizer of Transformers.
        name: Hub id or folder, for the error message.
        scores: Size of the network's output layer.
        tokens: Tokens and their ids according to the network's configuration.

    Raises:
        ZooError: If an id differs, or the tokenizer has ids beyond the output layer.
    """
    ids = tokenizer.get_vocab()
    wrong = [token for token, expected in tokens.items() if ids.get(token) != expected]
    if wrong or max(ids.values()) >= scores:
        what = (
            f"{shorten_list(wrong)} differ" if wrong else f"{len(ids)} tokens, but {scores} scores"
        )
        raise ZooError(
            f"The tokenizer in {name} is not its network's ({what}); are all its files there?"
        )


def check_extractor(extractor: Any, name: str, **expected: object) -> None:
    """Check that a feature extractor has 16 kHz input and the ``expected`` settings.

    Args:
        extractor: Feature extractor of Transformers.
        name: Hub id or folder of the extractor, for error messages.
        **expected: Required value of each setting.

    Raises:
        ZooError: If a setting has another value.
    """
    for setting, value in {"sampling_rate": SAMPLE_RATE, **expected}.items():
        actual = getattr(extractor, setting)
        if actual != value:
            raise ZooError(
                f"The feature extractor of {name} has {setting}={actual}; only {value} is "
                "supported."
            )


def alignment_heads(fields: Mapping[str, Any], depth: int, heads: int) -> list[list[int]]:
    """Return the layer and the head of each alignment head of a Whisper.

    Args:
        fields: Contents of a generation_config.json. If it lists no alignment heads, these are all
            heads of the upper half of the layers, as in OpenAI's code.
        depth: Number of decoder layers.
        heads: Number of heads per layer.

    Raises:
        ZooError: If the listed ones are no pairs of a layer and a head, or are repeated.
    """
    upper_half = [[layer, head] for layer in range(depth // 2, depth) for head in range(heads)]
    listed = fields.get("alignment_heads") or upper_half
    pairs: list[Any] = (
        listed if isinstance(listed, list) and len(listed) <= depth * heads else [None]
    )
    if not all(
        isinstance(pair, list) and len(pair) == 2 and all(type(one) is int for one in pair)
        for pair in pairs
    ):
        raise ZooError(
            f"A generation_config.json has alignment_heads={shorten(listed)}; it must list a layer "
            "and a head for each of them, once."
        )
    return pairs


def run_layers(
    layers: nn.ModuleList, norm: nn.Module, config: Any, hidden: Sequence[Tensor]
) -> list[Tensor]:
    """Run the layers of a Transformer encoder on streams of different lengths, as one batch.

    Args:
        layers: Layers of the encoder.
        norm: Layer norm after the last layer.
        config: Configuration of the model, which names the attention implementation.
        hidden: (frames, width) input of each stream.

    Returns:
        (frames, width) output of each stream. Streams do not attend to each other.
    """
    padded, padding_mask = pad_batch(hidden)
    mask = create_bidirectional_mask(
        config=config, inputs_embeds=padded, attention_mask=padding_mask
    )
    for layer in layers:
        padded = layer(padded, mask)
    return unpad_batch(norm(padded), hidden)


def pad_batch(sequences: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Combine sequences of different lengths into a batch, padded with zeros at the end.

    Args:
        sequences: (n, width) each.

    Returns:
        The batch (batch, longest, width), and the mask (batch, longest) int64 with 0 in padding and
        1 elsewhere. The mask is None if no sequence is padded.
    """
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=sequences[0].device)
    padded = nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)
    padding_mask = (torch.arange(padded.shape[1], device=padded.device) < lengths[:, None]).long()
    return padded, None if bool(padding_mask.all()) else padding_mask


def unpad_batch(padded: Tensor, sequences: Sequence[Tensor]) -> list[Tensor]:
    """Split a padded batch into rows, each cut to the length of its sequence."""
    return [row[: len(sequence)] for row, sequence in zip(padded, sequences, strict=True)]


def _first_sentence(error: BaseException) -> str:
    """Return the first sentence of the first line of an error message."""
    lines = mask_secrets(str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].rstrip(".:") + "."
