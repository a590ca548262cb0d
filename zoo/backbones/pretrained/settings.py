"""What the JSON files of a pretrained model may set, checked before Transformers reads them.

Anybody can publish such a folder. Transformers follows some of its settings to code, to other
models and to other files, also where ``trust_remote_code`` is False. ``RULES`` lists these
settings. A file that ``read_json`` cannot read is refused, because Transformers may be able to:
of two equal keys it takes the last one.

Published models contain further settings of this kind that have no effect: ``auto_map`` and
``custom_pipelines`` name code that runs with ``trust_remote_code`` alone, and ``IGNORED`` are
places on the author's machine, which Transformers replaces.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import torch

from zoo.base.disk.parsing import read_json
from zoo.base.errors import ZooError

CONFIG = "config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
ADAPTER = "adapter_config.json"
INDEX = "*.index.json"  # names the files of the weights
# All JSON files of a model but its vocabularies (tokenizer.json, vocab.json, tekken.json), in which
# no value is followed.
FILES = (
    CONFIG,
    SPECIAL_TOKENS,
    ADAPTER,
    INDEX,
    "added_tokens.json",
    "audio_tokenizer_config.json",
    "chat_template.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
)
MOST_LAYERS = 1000  # no published model has half as many
LARGEST_SIZE = 2**24  # largest accepted size of a vocabulary or a layer
# Sizes that are far smaller in every model: a feature extractor makes a matrix of the first two, a
# configuration a name for each label.
SMALL_SIZES = ("feature_size", "n_fft", "hop_length", "num_mel_bins", "num_labels")
MOST_SMALL = 10_000
# Ends of the names of fields that hold sizes.
SIZES = ("_size", "_dim", "_heads", "d_model", "_positions")
ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
EXPERTS = ("eager", "batched_mm", "grouped_mm")
IGNORED = ("_name_or_path", "name_or_path", "special_tokens_map_file", "tokenizer_file")
TEXTS = ("added_tokens_decoder", "additional_special_tokens", "chat_template", "content")
LABELS = ("extra_special_tokens", "id2label", "label2id", "task_specific_params")
OWN_FILES = "a model is read from files of its own folder alone"  # end of a sentence
LONGEST = 80  # maximum number of characters of a value in a message


@dataclass(frozen=True, slots=True)
class Rule:
    """What the values of some settings must be.

    Attributes:
        keys: Names of the settings, on any level of a file.
        accepts: Whether a value is accepted.
        reason: End of the error's sentence.
    """

    keys: tuple[str, ...]
    accepts: Callable[[Any], bool]
    reason: str


def _one_of(names: tuple[str, ...]) -> Callable[[Any], bool]:
    """Accept names, None, flags, and these by name of a part, as Transformers does."""
    return lambda value: all(
        isinstance(item, bool | Mapping) or item is None or item in names
        for _, item in _entries(value)
    )


def _is_dtype(value: Any) -> bool:
    return not isinstance(value, str) or isinstance(getattr(torch, value, None), torch.dtype)


def _is_id(value: Any) -> bool:
    return type(value) is int and -1 <= value < LARGEST_SIZE  # -1 stands for "none"


def _are_ids(value: Any) -> bool:
    """Whether a value is an id, None or a list; ``_entries`` has the items of lists, too."""
    return value is None or _is_id(value) or isinstance(value, list)


def _are_named_ids(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping) and all(map(_is_id, value.values())))


def _is_unset(value: Any) -> bool:
    return value in (None, False, "", [], {})


def _is_file_name(value: Any) -> bool:
    """Whether a value is the name of a file beside the one that has the value."""
    return isinstance(value, str) and value != ".." and PureWindowsPath(value).name == value


RULES = (
    Rule(  # other names are repositories of the hub whose code is loaded
        ("_attn_implementation", "attn_implementation", "_attn_implementation_internal"),
        _one_of(ATTENTION),
        f"it must be one of: {', '.join(ATTENTION)}",
    ),
    Rule(  # some names load code of the hub
        ("_experts_implementation", "experts_implementation", "_experts_implementation_internal"),
        _one_of(EXPERTS),
        f"it must be one of: {', '.join(EXPERTS)}",
    ),
    Rule(  # any attribute of torch is taken by name
        ("dtype", "torch_dtype"),
        _is_dtype,
        "it must be a dtype of PyTorch, such as bfloat16",
    ),
    Rule(
        ("use_kernels", "kernel_config", "compile_config"),
        _is_unset,
        "no code is loaded or compiled for a model",
    ),
    Rule(  # no quantizer was ever run with the zoo, and some import code
        ("quantization_config", "compression_config"),
        _is_unset,
        "quantized weights are not supported, so name the model in bfloat16, float16 or float32",
    ),
    Rule(  # a file, a model or arguments beyond those that this module checks
        (
            "configuration_files",
            "gguf_file",
            "init_inputs",
            "audio_tokenizer",
            "audio_tokenizer_name_or_path",
            "backbone",
            "use_pretrained_backbone",
            "repo_path",
        ),
        _is_unset,
        "a model is read from its own files alone",
    ),
    Rule(  # an index in another folder is not among FILES
        ("transformers_weights",),
        lambda value: value is None or _is_file_name(value),
        OWN_FILES,
    ),
    Rule(
        ("eos_token_id", "suppress_tokens", "begin_suppress_tokens"),
        _are_ids,
        "it must be an id of a token, or a list of ids",
    ),
    Rule(
        ("alignment_heads",),
        lambda value: not isinstance(value, list) or len(value) <= MOST_SMALL,
        "no network has so many",
    ),
    Rule(
        ("no_timestamps_token_id", "decoder_start_token_id"),
        lambda value: value is None or _is_id(value),
        "it must be an id of a token",
    ),
    Rule(
        ("lang_to_id", "task_to_id"),
        _are_named_ids,
        "it must have an id of a token for each name",
    ),
    Rule(  # an alias of a setting would evade the rules above
        ("attribute_map", "sub_configs", "sub_configs_defaults", "_auto_class"),
        _is_unset,
        "a file cannot change the classes of Transformers",
    ),
)
BY_KEY = {key: rule for rule in RULES for key in rule.keys}


def check_folder(name: str, folder: Path) -> None:
    """Check the JSON files of a folder.

    Args:
        name: Hub id or folder, for error messages.
        folder: Folder that contains the files.

    Raises:
        ZooError: If a file cannot be read, a setting or a size is refused, or if the folder is an
            adapter, for which Transformers would load the model that the adapter names.
    """
    for path in sorted(folder.iterdir()):
        kind = path.name.casefold()  # some file systems find config.json as Config.JSON
        if not any(fnmatchcase(kind, pattern) for pattern in FILES):
            continue
        if kind == ADAPTER:
            raise ZooError(
                f"{name} has an {ADAPTER}, which names another model; add the adapter to the "
                "weights of that model and name the result."
            )
        where = f"The {_shown(path.name)} of {name}"
        content = _content(path, where)
        check_settings(where, content, moves_files=kind == SPECIAL_TOKENS)
        check_sizes(where, content)
        if fnmatchcase(kind, INDEX):
            check_index(where, content)


def check_settings(where: str, content: Any, *, moves_files: bool = False) -> None:
    """Check settings, those of nested parts included.

    Args:
        where: What has the settings, as an error's sentence begins.
        content: Content of a file, or fields of a configuration.
        moves_files: Whether a setting of the name of a file replaces this file: Transformers takes
            any setting of ``special_tokens_map.json`` last.

    Raises:
        ZooError: If a setting is not accepted, or is a path out of the folder.
    """
    for key, value in _entries(content):
        rule = BY_KEY.get(key)
        if rule is not None and not rule.accepts(value):
            raise _refused(where, key, value, rule.reason)
        is_moved = moves_files and key.endswith("_file") and value is not None
        if is_moved or (key not in IGNORED and _leaves_folder(value)):
            raise _refused(where, key, value, OWN_FILES)


def check_sizes(where: str, content: Any) -> None:
    """Check the sizes in a file, before a network or a feature extractor is created of them.

    Args:
        where: What has the sizes, as an error's sentence begins.
        content: Content of the file.

    Raises:
        ZooError: If the number of layers or the size of a layer is impossible.
    """
    for key, value in _entries(content):
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        most = MOST_LAYERS if key.endswith("layers") else LARGEST_SIZE
        most = MOST_SMALL if key in SMALL_SIZES else most
        is_size = key.endswith(("layers", "_blocks", *SIZES, *SMALL_SIZES))
        # -1 stands for "all" or "none" in some published files
        if is_size and not -1 <= value <= most:
            raise _refused(where, key, value, "no network has such a size")


def check_index(where: str, content: Any) -> None:
    """Check that an index of weights has names of files beside it, before these are opened.

    Args:
        where: What has the index, as an error's sentence begins.
        content: Content of the file.

    Raises:
        ZooError: If it is no index, or names a file in another folder.
    """
    places = content.get("weight_map") if isinstance(content, Mapping) else None
    if not isinstance(places, Mapping):
        raise ZooError(f"{where} is no index of weights: it must have a weight_map of files.")
    for key, value in places.items():
        if not _is_file_name(value):
            raise _refused(where, key, value, OWN_FILES)


def _content(path: Path, where: str) -> Any:
    """Return the content of a file, which has one reading. Raises ZooError for any other file."""
    try:
        return read_json(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ZooError(f"{where} cannot be read as JSON: {reason}.") from error


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield keys and values on all levels, without texts. Items of a list have the list's key."""
    waiting = [("", content)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, Mapping):
            waiting += [(str(key), item) for key, item in value.items() if not _is_text(str(key))]
        elif isinstance(value, list | tuple):
            waiting += [(key, item) for item in value]


def _is_text(key: str) -> bool:
    """Whether values of a key are tokens, labels and other texts, which may look like paths."""
    return key in TEXTS or key in LABELS or key.endswith("_token")


def _leaves_folder(value: Any) -> bool:
    if not isinstance(value, str) or len(value) < 2:
        return False
    path = PureWindowsPath(value)  # splits at both kinds of slashes
    return PurePosixPath(value).is_absolute() or path.is_absolute() or ".." in path.parts


def _refused(where: str, key: str, value: Any, reason: str) -> ZooError:
    shown = repr(value) if len(repr(value)) <= LONGEST else f"{repr(value)[:LONGEST]}..."
    return ZooError(f"{where} has {_shown(key)[:LONGEST]}={shown}; {reason}.")


def _shown(name: str) -> str:
    return name if name.isprintable() else repr(name)
