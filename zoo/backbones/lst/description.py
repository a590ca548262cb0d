"""What describes an LST: the configuration, else the ``config.yaml`` beside its weights, else the
paper.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import snapshot_download

from zoo.arguments import check_arguments
from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.pretrained import hub
from zoo.backbones.common.speech_llm.prompt import Template
from zoo.backbones.common.wav2vec2.encoder import EncoderConfig
from zoo.errors import ZooError

DESCRIPTION = "config.yaml"
FILES = ("*.safetensors", "*.json", "*.jinja", DESCRIPTION)
PARTS: Mapping[str, type] = {"encoder": EncoderConfig, "template": Template}
LAYER = 14  # of the paper's language model, for the alignment


@dataclass(frozen=True, slots=True)
class Description:
    """Arguments of ``LST`` that describe its network; the defaults are the paper's (sections 4.1
    and 4.2).
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: str | Mapping[str, Any] = "meta-llama/Llama-3.1-8B-Instruct"
    template: Template | str = "llama"
    adapter_norm: bool = False
    block_chunks: int = 0
    alignment: AlignmentConfig = field(default_factory=lambda: AlignmentConfig(layer=LAYER))

    def __post_init__(self) -> None:
        """Raises ZooError for a negative block."""
        if self.block_chunks < 0:
            raise ZooError(f"LST needs block_chunks of at least 0, not {self.block_chunks}.")


def describe(given: Mapping[str, Any], saved: Mapping[str, Any] | None = None) -> Description:
    """Combine descriptions; options of the alignment are combined one by one.

    Args:
        given: Configured values; they come first.
        saved: Values beside the weights; they come before the paper's.
    """
    values = {**(saved or {}), **given}
    options = {
        "layer": LAYER,
        **_options((saved or {}).get("alignment")),
        **_options(given.get("alignment")),
    }
    return Description(**{**values, "alignment": AlignmentConfig(**options)})


def _options(alignment: AlignmentConfig | Mapping[str, Any] | None) -> dict[str, Any]:
    """The options that an alignment sets: all of them, or those of a mapping that are not null."""
    if isinstance(alignment, AlignmentConfig):
        return asdict(alignment)
    options = {
        key: value
        for key, value in (alignment or {}).items()
        if value is not None and key != "_target_"
    }
    check_arguments(AlignmentConfig, options, where="backbone.alignment.")
    return options


def read_description(folder: Path) -> dict[str, Any]:
    """The values in a folder's ``config.yaml``; without a decoder there, ``config.json`` describes
    it.

    Raises:
        ZooError: Where the file is missing or damaged.
    """
    path = folder / DESCRIPTION
    try:
        backbone: dict[str, Any] = yaml.safe_load(path.read_text())["backbone"]
        values = {
            f.name: backbone[f.name]
            for f in fields(Description)
            if backbone.get(f.name) is not None
        }
        for name in values.keys() & PARTS.keys():
            if isinstance(values[name], Mapping):
                values[name] = PARTS[name](
                    **{key: value for key, value in values[name].items() if key != "_target_"}
                )
        _options(values.get("alignment"))
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ZooError(
            f"{path} is missing or damaged; an exported or converted LST has one beside its "
            "weights, which describes the network."
        ) from error
    if (folder / "config.json").is_file():
        values.setdefault("decoder", str(folder))
    return values


def local_folder(name: str) -> Path:
    """The folder of a model; one of the hub is downloaded.

    Raises ZooError for a name that the hub lacks.
    """
    if Path(name).is_dir() or Path(name).is_absolute():
        return Path(name)
    hub.check("LST", name)
    return Path(snapshot_download(name, allow_patterns=list(FILES)))
