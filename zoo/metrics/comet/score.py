"""Scores texts with COMET models; runs in the environment of unbabel-comet, without the zoo.

``score.py check MODEL ...`` prints one JSON line per model, ``{"model", "folder", "encoder",
"reference", "fingerprint", "version"}``, or ``{"model", "error"}``. It looks for all files of a
model and reads its hyperparameters, but no weights. A line ``{"status"}`` announces a download.

``score.py score`` reads JSON lines ``{"folder", "encoder", "src", "mt", "ref"}`` from standard
input (``ref`` only for models with a reference) and prints ``{"line", "score"}`` for each, as soon
as its batch is scored. ``line`` counts the lines of the input from 0.

A model is a folder with ``hparams.yaml`` and ``checkpoints/*.ckpt``, as comet-train writes it, or a
model of the hub, ``owner/model`` or ``owner/model@revision``. Only a model of the hub that is
neither in the local cache nor switched off by ``HF_HUB_OFFLINE`` is downloaded, with the
configuration and the tokenizer of its encoder.

A checkpoint of COMET is a pickle, and the library's ``load_from_checkpoint`` executes what it
contains. This script does not call it: it reads the checkpoint with ``weights_only=True``, takes
nothing but weights and hyperparameters, and builds the class that ``hparams.yaml`` names.
"""

import argparse
import hashlib
import inspect
import json
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

Record = dict[str, Any]

BATCH_SIZE = 16  # texts, as in the library
SHA256 = 64  # hexadecimal digits
ENCODER_FILES = ("*.json", "*.model", "*.txt")  # of an encoder, without its weights
# Objects of these packages in a checkpoint are training state and are read as ``State``.
STATE_PACKAGES = {
    *("argparse", "collections", "comet", "lightning", "lightning_fabric", "numpy", "omegaconf"),
    *("pathlib", "pytorch_lightning", "torch", "torchmetrics"),
}
# Classes whose models always, or never, read the reference.
WITH_REFERENCE = {
    "regression_metric": True,
    "ranking_metric": True,
    "xcomet_metric": True,
    "referenceless_regression_metric": False,
}
UNIFIED = "unified_metric"
UNIFIED_INPUTS = ("mt", "src", "ref")  # default of the library


class BadModel(Exception):
    """A model that cannot be used; the message is a sentence for the user."""


class State(dict[Any, Any]):
    """Takes the place of an object of training state in a checkpoint: keeps its values, no code."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def __setstate__(self, state: object) -> None:
        if isinstance(state, Mapping):
            self.update(state)


class Dictionary:
    """Takes the place of Lightning's AttributeDict; the reader only fills Python's own types."""

    def __new__(cls, *_: object) -> Any:
        """Return an empty dictionary."""
        return {}


def main(arguments: Sequence[str] | None = None) -> None:
    """Check models, or score the lines of standard input.

    Args:
        arguments: Command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)
    jobs.add_parser("check").add_argument("models", nargs="+", metavar="MODEL")
    jobs.add_parser("score")
    given = parser.parse_args(arguments)

    # Libraries that print must not write between the JSON lines.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    if given.job == "check":
        for name in given.models:
            _print({"model": name, **checked(name, output)}, output)
        return

    os.environ["HF_HUB_OFFLINE"] = "1"  # before any import of the hub's library
    for record in scored(read_lines(sys.stdin.buffer.read())):
        _print(record, output)


def read_lines(content: bytes) -> list[Record]:
    """Return the texts of standard input. Raises BadModel for a line without the needed texts."""
    lines = []
    try:
        for line in filter(None, content.decode().split("\n")):
            record = json.loads(line)
            needed = {name: record[name] for name in ("folder", "encoder", "src", "mt")}
            texts = [*needed.values(), record.get("ref", "")]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("a value is no text")
            lines.append(record)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadModel(
            f"Line {len(lines) + 1} of standard input must be a JSON object with the texts folder, "
            "encoder, src and mt."
        ) from error
    return lines


def _print(record: Record, output: IO[str]) -> None:
    """Print a JSON line at once."""
    output.write(json.dumps(record) + "\n")
    output.flush()


def checked(name: str, output: IO[str]) -> Record:
    """Return the description of a model, or ``{"error"}`` with a sentence.

    Args:
        name: Folder or name of the hub.
        output: Where a download is announced.
    """
    try:
        return description(name, output)
    except BadModel as error:
        return {"error": str(error)}


def description(name: str, output: IO[str]) -> Record:
    """Find all files of a model and return its description.

    Args:
        name: Folder or name of the hub.
        output: Where a download is announced.

    Raises:
        BadModel: A file is missing or damaged.
    """
    is_folder = Path(name).is_dir()
    folder = Path(name).resolve() if is_folder else hub_folder(name, output)
    hparams, settings = class_settings(folder), read_checkpoint(checkpoint_of(folder))[1]
    kind = hparams.get("class_identifier")
    if kind not in (*WITH_REFERENCE, UNIFIED):
        known = ", ".join([*WITH_REFERENCE, UNIFIED])
        raise BadModel(f"{folder}: hparams.yaml has the class {kind!r}; known are: {known}.")

    encoder = encoder_folder(str(settings["pretrained_model"]), folder)
    if encoder is None:
        encoder = hub_encoder(
            str(settings["pretrained_model"]), output=output, may_download=not is_folder
        )
    check_encoder(encoder, str(settings.get("encoder_model")))
    inputs = settings.get("input_segments", UNIFIED_INPUTS)
    return {
        "folder": str(folder),
        "encoder": str(encoder),
        "reference": WITH_REFERENCE.get(str(kind), "ref" in inputs),
        "fingerprint": fingerprint(folder, encoder),
        "version": version("unbabel-comet"),
    }


def class_settings(folder: Path) -> Record:
    """Return the content of ``hparams.yaml``. Raises BadModel if it is missing or damaged."""
    import yaml

    path = folder / "hparams.yaml"
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadModel(
            f"{folder} is no COMET model: hparams.yaml is missing or damaged."
        ) from error
    if not isinstance(content, dict):
        raise BadModel(f"{path} is damaged.")
    return content


def checkpoint_of(folder: Path) -> Path:
    """Return the checkpoint in a model's folder. Raises BadModel unless there is exactly one."""
    found = sorted((folder / "checkpoints").glob("*.ckpt"))
    if len(found) != 1:
        raise BadModel(
            f"{folder} is no COMET model: checkpoints/ must have one .ckpt file, not {len(found)}."
        )
    return found[0]


def read_checkpoint(path: Path) -> tuple[Mapping[str, Any], Record]:
    """Return the weights and the hyperparameters of a checkpoint; nothing in it is executed.

    Hyperparameters that the checkpoint does not have are those of ``hparams.yaml``.

    Raises:
        BadModel: The checkpoint is damaged, or has objects other than weights, plain values and
            training state.
    """
    import torch

    options: Record = {"map_location": "cpu", "weights_only": True}
    is_archive = zipfile.is_zipfile(path)
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path) if is_archive else []
        foreign = [name for name in names if name.partition(".")[0] not in STATE_PACKAGES]
        if foreign:
            raise BadModel(f"{path} is refused: it contains {', '.join(sorted(foreign))}.")
        inert = [(Dictionary if name.endswith(".AttributeDict") else State) for name in names]
        with torch.serialization.safe_globals(list(zip(inert, names, strict=True))):
            content = torch.load(path, mmap=is_archive, **options)
        weights = content["state_dict"]
    except BadModel:
        raise
    except Exception as error:  # of the reader of archives, the unpickler or the file system
        reason = f"{type(error).__name__}: {str(error).strip()}"
        raise BadModel(f"{path} is refused or damaged ({' '.join(reason.split())}).") from error

    settings = content.get("hyper_parameters") or class_settings(path.parents[1])
    if "pretrained_model" not in settings:
        raise BadModel(f"{path} does not name its encoder (pretrained_model).")
    return weights, dict(settings)


def hub_folder(name: str, output: IO[str]) -> Path:
    """Return the folder of a model of the hub in the local cache; download it if it is missing.

    Raises:
        BadModel: The name is neither a folder nor a name of the hub, or there is no way to the
            model.
    """
    place, _, revision = name.partition("@")
    if place.count("/") != 1 or place.startswith(("/", ".", "~")):
        raise BadModel(f"{name} is neither a folder nor a model of the hub (owner/model).")
    files = ("hparams.yaml", "checkpoints/*")
    found = _cached(place, revision, files)
    # a snapshot may lack files, for example after a download was stopped
    if found and (found / "hparams.yaml").is_file() and any(found.glob("checkpoints/*.ckpt")):
        return found
    return _downloaded(place, revision, files, output)


def encoder_folder(name: str, folder: Path) -> Path | None:
    """Return the folder of an encoder: below the model's folder, or its absolute path."""
    place = folder / name
    return place if place.is_dir() else None


def hub_encoder(name: str, *, output: IO[str], may_download: bool) -> Path:
    """Return the folder of an encoder of the hub, with its configuration and tokenizer.

    Args:
        name: Name of the hub.
        output: Where a download is announced.
        may_download: Whether the model itself was named by its name of the hub.

    Raises:
        BadModel: The encoder is missing.
    """
    found = _cached(name, "", ENCODER_FILES)
    if found and (found / "config.json").is_file():
        return found
    if not may_download:
        raise BadModel(
            f"Its encoder {name} is neither a folder nor in the local cache of the hub; "
            "only the configuration and the tokenizer are needed."
        )
    return _downloaded(name, "", ENCODER_FILES, output)


def _cached(place: str, revision: str, files: Sequence[str]) -> Path | None:
    """Return the snapshot of a repository in the local cache, or None."""
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(
            place, revision=revision or None, allow_patterns=list(files), local_files_only=True
        )
    except (OSError, ValueError):  # not cached; the hub's errors are among these
        return None
    return Path(found)


def _downloaded(place: str, revision: str, files: Sequence[str], output: IO[str]) -> Path:
    """Download files of a repository. Raises BadModel without network or permission."""
    from huggingface_hub import constants, snapshot_download

    if constants.HF_HUB_OFFLINE:
        raise BadModel(f"{place} is not in the local cache, and HF_HUB_OFFLINE forbids downloads.")
    _print({"status": f"Downloading {place}, if there is a network."}, output)
    try:
        found = snapshot_download(
            place, revision=revision or None, allow_patterns=list(files), etag_timeout=10
        )
    except Exception as error:  # of the network, the hub or the disk
        reason = str(error).strip().split("\n")[0]
        raise BadModel(
            f"{place} is not in the local cache and cannot be downloaded: {reason}"
        ) from error
    return Path(found)


def check_encoder(folder: Path, kind: str) -> None:
    """Build the encoder without weights. Raises BadModel if a file is missing or damaged."""
    import torch
    from comet.encoders import str2encoder

    if kind not in str2encoder:
        raise BadModel(f"{kind!r} is no encoder of COMET; choose one of: {', '.join(str2encoder)}.")
    try:
        with torch.device("meta"):
            str2encoder[kind].from_pretrained(str(folder), False, True)
    except Exception as error:  # of transformers or tokenizers
        reason = str(error).strip().split("\n")[0]
        raise BadModel(
            f"The configuration or the tokenizer of {folder} is missing: {reason}"
        ) from error


def fingerprint(folder: Path, encoder: Path) -> str:
    """Return a hash of all on which scores depend: files of the model, and the library."""
    files = [checkpoint_of(folder), folder / "hparams.yaml"]
    files += sorted(path for pattern in ENCODER_FILES for path in encoder.glob(pattern))
    parts = [version("unbabel-comet"), version("transformers"), *map(sha256, files)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. The cache of the hub names large files by it."""
    blob = path.resolve().name
    if path.is_symlink() and len(blob) == SHA256:
        return blob
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(folder: Path, encoder: Path) -> Any:
    """Return a model of the library with the weights of its checkpoint, on the GPU if there is one.

    Raises:
        BadModel: The checkpoint lacks weights of the model.
    """
    import torch
    from comet.models import str2model

    weights, settings = read_checkpoint(checkpoint_of(folder))
    kind = str2model[class_settings(folder)["class_identifier"]]
    if settings.get("layer_transformation") == "sparsemax_patch":
        settings["layer_transformation"] = "softmax"  # as the library does since version 2.2.4
    settings |= {
        "pretrained_model": str(encoder),
        "load_pretrained_weights": False,
        "local_files_only": True,
    }
    known = inspect.signature(kind.__init__).parameters
    model = kind(**{name: value for name, value in settings.items() if name in known})
    missing, _ = model.load_state_dict(weights, strict=False)
    random = sorted(set(missing) & {name for name, _ in model.named_parameters()})
    if random:
        raise BadModel(f"{folder}: the checkpoint has no weights {', '.join(random[:3])}, ...")
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def scored(lines: Sequence[Record]) -> Iterator[Record]:
    """Yield number and score of each line, model after model, in batches of similar length."""
    import torch

    models: dict[tuple[str, str], list[int]] = {}
    for number, line in enumerate(lines):
        models.setdefault((line["folder"], line["encoder"]), []).append(number)

    for (folder, encoder), numbers in models.items():
        model = load(Path(folder), Path(encoder))
        ordered = sorted(numbers, key=lambda number: len(lines[number]["src"]))
        for start in range(0, len(ordered), BATCH_SIZE):
            part = ordered[start : start + BATCH_SIZE]
            texts = [
                {key: lines[number][key] for key in ("src", "mt", "ref") if key in lines[number]}
                for number in part
            ]
            batch = model.prepare_for_inference(texts)
            with torch.inference_mode():
                batch = model.transfer_batch_to_device(batch, model.device, 0)
                scores = model.predict_step(batch)["scores"].tolist()
            for number, score in zip(part, scores, strict=True):
                yield {"line": number, "score": score}


if __name__ == "__main__":
    try:
        main()
    except BadModel as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
