"""Description of an LST network, combined from three sources.

A value of the user's configuration comes first, then a value of the ``config.yaml`` in the folder
of the weights, then the value of the paper.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from zoo.backbones.architectures.speech_llm.prompt import Template
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.settings import check_settings
from zoo.base.disk.parsing import MALFORMED, is_plain_template, read_yaml
from zoo.base.errors import ZooError, check_numbers, shorten, unknown_choice
from zoo.base.kinds import described, fits, kind_of

DESCRIPTION = "config.yaml"
FILES = ("*.safetensors", "*.json", "*.jinja", DESCRIPTION)
PARTS: Mapping[str, type] = {"encoder": EncoderConfig, "template": Template}
LAYER = 14  # decoder layer (of 32) whose self-attention computes the alignment by default


@dataclass(frozen=True, slots=True)
class Description:
    """Constructor arguments of ``LST`` that describe the network.

    The default values are the values of the paper (InfiniSST, sections 4.1 and 4.2).

    Attributes:
        encoder: Shape of the speech encoder.
        decoder: Hub id or folder of the language model, or fields of a configuration.
        template: Chat format of the dialogue, or the name of an entry of ``prompt.TEMPLATES``.
        adapter_norm: Whether a layer norm follows each convolution of the adapter.
        block_chunks: Size of an encoder block, in chunks of 960 ms; 0 makes one block of all audio.
        alignment: Self-attention that aligns target tokens with speech embeddings.
    """

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: str | Mapping[str, Any] = "meta-llama/Llama-3.1-8B-Instruct"
    template: Template | str = "llama"
    adapter_norm: bool = False
    block_chunks: int = 0
    alignment: AlignmentConfig = field(default_factory=lambda: AlignmentConfig(layer=LAYER))

    def __post_init__(self) -> None:
        """Raises ZooError if ``block_chunks`` is negative."""
        check_numbers("LST", least=0, block_chunks=self.block_chunks)


def describe(configured: Mapping[str, Any], saved: Mapping[str, Any] | None = None) -> Description:
    """Combine configured and saved values with the defaults of ``Description``.

    A value of ``configured`` replaces the value of ``saved``, which replaces the default. The
    options of ``alignment`` are combined one by one in the same order.

    Args:
        configured: Values of the user's configuration.
        saved: Values of the ``config.yaml`` in the folder of the weights. None means no such file.
    """
    saved = saved or {}
    values = {**saved, **configured}
    options = {
        "layer": LAYER,
        **_options(saved.get("alignment")),
        **_options(configured.get("alignment")),
    }
    return Description(**{**values, "alignment": AlignmentConfig(**options)})


def _options(alignment: AlignmentConfig | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options that an alignment sets.

    An ``AlignmentConfig`` sets all options. A mapping sets the options whose values are not None.
    Raises ZooError for an unknown option in a mapping.
    """
    if isinstance(alignment, AlignmentConfig):
        return asdict(alignment)
    options = {
        key: value
        for key, value in (alignment or {}).items()
        if value is not None and key != "_target_"
    }
    hints = get_type_hints(AlignmentConfig)
    for name, value in options.items():
        key = f"backbone.alignment.{name}"
        if name not in hints:
            raise unknown_choice("key", key, [f"backbone.alignment.{one}" for one in hints])
        if not fits(value, kind := kind_of(hints[name])):
            raise ZooError(f"{key} must be {described(kind)}, not {shorten(repr(value))}.")
    return options


def read_description(folder: Path, configured: Collection[str] = ()) -> dict[str, Any]:
    """Read the values of ``config.yaml`` in a folder of trained weights.

    If ``config.yaml`` names no decoder and the folder has a ``config.json``, the folder itself is
    the source of the decoder configuration.

    Args:
        folder: Folder of trained weights.
        configured: Names of the arguments that the user's configuration sets.

    Raises:
        ZooError: ``config.yaml`` is missing or damaged, has an unknown option of the alignment, or
            names a decoder outside of the folder by a path.
    """
    path = folder / DESCRIPTION
    try:
        backbone: dict[str, Any] = read_yaml(path)["backbone"]
        values = {
            argument.name: backbone[argument.name]
            for argument in fields(Description)
            if backbone.get(argument.name) is not None
        }
        template = values.get("template")
        texts = template.values() if isinstance(template, Mapping) else ()
        if not all(is_plain_template(str(text)) for text in texts):
            raise ValueError("the template formats more than {name}")
        for name in values.keys() & PARTS.keys():
            if isinstance(values[name], Mapping):
                values[name] = PARTS[name](
                    **{key: value for key, value in values[name].items() if key != "_target_"}
                )
        _options(values.get("alignment"))
    except (OSError, yaml.YAMLError, *MALFORMED) as error:
        raise ZooError(
            f"{path} is missing or damaged; an exported or converted LST has one beside its "
            "weights, which describes the network."
        ) from error
    used = {name: value for name, value in values.items() if name not in configured}
    check_settings(f"The {DESCRIPTION} of {folder}", {"decoder": used.get("decoder")})
    if (folder / "config.json").is_file():
        values.setdefault("decoder", str(folder))
    return values


def plain_values(part: EncoderConfig | Template | AlignmentConfig) -> dict[str, Any]:
    """Return a part of a description as ``config.yaml`` has it, with lists for tuples."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(part)))
    return values


def local_folder(name: str) -> Path:
    """Return the folder of a model. A model of the Hugging Face hub is downloaded first.

    Args:
        name: Existing folder, absolute path, or hub id.

    Raises:
        ZooError: The hub has no model of this name, or the hub cannot be reached.
    """
    if Path(name).is_absolute():
        return Path(name)
    return hub.local_folder("LST", name, files=FILES)
