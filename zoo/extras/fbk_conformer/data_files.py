"""Files that belong to a checkpoint of FBK-fairseq: configuration, target tokens, statistics."""

import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from sentencepiece import SentencePieceProcessor
from transformers import Speech2TextTokenizer

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import MALFORMED, read_bounded, read_yaml
from zoo.base.errors import ZooError, shorten, shorten_list
from zoo.extras.fbk_conformer.network import FeatureStatistics

LARGEST = 1_000_000  # bytes of an array of statistics; 80 features have 448
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's first ids
FILLER = re.compile(r"madeupword\d+")  # fairseq's padding of a dictionary to a multiple of 8


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files that belong to a checkpoint.

    Attributes:
        spm: SentencePiece model of the target language.
        dictionary: Dictionary of the target language: a token and a count per line.
        statistics: Mean and standard deviation of the features (``.npz``). None normalises over the
            kept audio.
    """

    spm: Path
    dictionary: Path
    statistics: Path | None


def data_files(config: Path, overrides: Mapping[str, Path]) -> DataFiles:
    """Return the files that a configuration of FBK-fairseq names.

    Args:
        config: YAML file.
        overrides: Paths that replace those of the configuration, by attribute of ``DataFiles``.

    Raises:
        ZooError: If the configuration or a file is missing, or the configuration asks for features
            or target tokens that are not supported.
    """
    try:
        values = read_yaml(config)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ZooError(f"{config} is missing or no YAML file.") from error
    if not isinstance(values, dict):
        raise ZooError(f"{config} is no configuration of FBK-fairseq.")
    if values.get("prepend_tgt_lang_tag"):
        raise ZooError(
            f"{config} belongs to a model of several target languages (prepend_tgt_lang_tag); only "
            "models of one language pair are supported."
        )
    configured = {
        "spm": _part(config, values, "bpe_tokenizer").get("sentencepiece_model"),
        "dictionary": values.get("vocab_filename"),
        "statistics": _part(config, values, "global_cmvn").get("stats_npz_path"),
    }
    paths = {key: config.parent / str(path) for key, path in configured.items() if path} | dict(
        overrides
    )
    for key in ("spm", "dictionary"):
        if key not in paths:
            raise ZooError(f"{config} names no {key}; name one with --{key}.")
    for key, path in paths.items():
        if not path.is_file():
            raise ZooError(f"There is no file {path}; name the file with --{key}.")
    if "statistics" not in paths:
        _check_transforms(config, values)
    return DataFiles(paths["spm"], paths["dictionary"], paths.get("statistics"))


def _part(config: Path, values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a part of a configuration; empty if it is missing. Raises ZooError for a value."""
    part = values.get(key) or {}
    if not isinstance(part, dict):
        raise ZooError(f"{config} has {key}={shorten(part)}; it must be a mapping.")
    return part


def _check_transforms(config: Path, values: Mapping[str, Any]) -> None:
    """Raise ZooError unless features are normalised over the utterance."""
    transforms = _part(config, values, "transforms")
    steps = transforms.get("_eval") or transforms.get("*") or []
    if steps != ["utterance_cmvn"]:
        raise ZooError(
            f"{config} has the feature transforms {shorten(steps)} and no global_cmvn; only "
            "utterance_cmvn and global_cmvn are supported."
        )


def vocabulary(dictionary: Path) -> dict[str, int]:
    """Read a dictionary of fairseq.

    Args:
        dictionary: Text file with a token and its count per line.

    Returns:
        Ids by token, fairseq's special tokens included.

    Raises:
        ZooError: If a line is malformed or repeats a token.
    """
    tokens = list(SPECIAL_TOKENS)
    try:
        lines = read_bounded(dictionary).decode(errors="replace").split("\n")
    except (OSError, ValueError) as error:
        raise ZooError(f"{dictionary} cannot be read as a dictionary: {error}.") from error
    for number, line in enumerate(lines[:-1] if not lines[-1] else lines, start=1):
        token, _, count = line.rstrip().rpartition(" ")
        if not token or not count.isdecimal():
            raise ZooError(
                f"Line {number} of {dictionary} is not a token and its count, as in a dictionary "
                "of fairseq."
            )
        tokens.append(token)
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        raise ZooError(f"{dictionary} repeats a token.")
    return ids


def read_statistics(file: Path) -> FeatureStatistics:
    """Read mean and standard deviation of the features from a ``.npz`` file."""
    try:
        with zipfile.ZipFile(file) as archive:
            if max((entry.file_size for entry in archive.infolist()), default=0) > LARGEST:
                raise ValueError("too many features")
        with np.load(file, allow_pickle=False) as arrays:
            mean, deviation = arrays["mean"], arrays["std"]
            return FeatureStatistics(mean=mean.tolist(), deviation=deviation.tolist())
    except (OSError, MemoryError, zipfile.BadZipFile, zlib.error, *MALFORMED) as error:
        raise ZooError(f"{file} does not contain the arrays mean and std of features.") from error


def write_tokenizer(spm: Path, ids: Mapping[str, int], folder: Path) -> None:
    """Write the tokenizer of the target language in the layout of Speech2Text.

    Args:
        spm: SentencePiece model.
        ids: Ids by token.
        folder: Destination folder.

    Raises:
        ZooError: If the SentencePiece model is damaged or lacks a token of the dictionary.
    """
    try:
        pieces = SentencePieceProcessor(model_file=str(spm))
    except (OSError, RuntimeError) as error:
        raise ZooError(f"{spm} is damaged or no SentencePiece model.") from error
    known = {pieces.id_to_piece(index) for index in range(pieces.get_piece_size())}
    others = [token for token in ids if token not in known and not FILLER.fullmatch(token)]
    others = [token for token in others if token not in SPECIAL_TOKENS]
    if others:
        raise ZooError(
            f"{spm} lacks tokens of the dictionary: {shorten_list(others)}; are both of the same "
            "model?"
        )
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "vocab.json"
        write_text(file, json.dumps(ids))
        tokenizer = Speech2TextTokenizer(vocab_file=str(file), spm_file=str(spm))
        tokenizer.save_pretrained(folder)
