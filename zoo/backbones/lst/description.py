"""What an LST is made of: as in the paper, as a folder's ``config.yaml`` says, as configured. Knows no network."""

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
LAYER = 14  # of the paper's language model, whose attention aligns


@dataclass(frozen=True, slots=True)
class Network:
    """The arguments of ``LST`` that say what it is; their defaults are the paper's (sections 4.1 and 4.2)."""

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


def network(given: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> Network:
    """What ``given`` says; else what stands ``beside`` the weights; else the paper's. Alignments option by option."""
    said = {**(beside or {}), **given}
    options = {
        "layer": LAYER,
        **_options((beside or {}).get("alignment")),
        **_options(given.get("alignment")),
    }
    return Network(**{**said, "alignment": AlignmentConfig(**options)})


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


def described(folder: Path) -> dict[str, Any]:
    """What ``config.yaml`` in ``folder`` says of a network; where it names no decoder, ``config.json`` is its.

    Raises ZooError where the file is missing or damaged.
    """
    path = folder / DESCRIPTION
    try:
        backbone: dict[str, Any] = yaml.safe_load(path.read_text())["backbone"]
        said = {
            f.name: backbone[f.name] for f in fields(Network) if backbone.get(f.name) is not None
        }
        for name in said.keys() & PARTS.keys():
            if isinstance(said[name], Mapping):
                said[name] = PARTS[name](
                    **{key: value for key, value in said[name].items() if key != "_target_"}
                )
        _options(said.get("alignment"))
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ZooError(
            f"{path} is missing or damaged; an exported or converted LST has one beside its weights, which says what "
            "the network is."
        ) from error
    if (folder / "config.json").is_file():
        said.setdefault("decoder", str(folder))
    return said


def local(name: str) -> Path:
    """The folder that ``name`` is, or that a model of this name on the hub is brought to.

    Raises ZooError for a name that the hub does not give.
    """
    if Path(name).is_dir() or Path(name).is_absolute():
        return Path(name)
    hub.check("LST", name)
    return Path(snapshot_download(name, allow_patterns=list(FILES)))
