"""Initial weights of the speech encoder: a Hugging Face wav2vec 2.0 or an InfiniSST checkpoint."""

from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, Wav2Vec2Config, Wav2Vec2Model

from zoo.backbones.base import check_finite, is_empty, mark_restored, reads_shapes
from zoo.backbones.common.pretrained import weights as checkpoint
from zoo.backbones.common.pretrained.loading import from_pretrained, quiet
from zoo.backbones.common.wav2vec2.encoder import KERNELS, STRIDES, EncoderConfig, StreamingEncoder
from zoo.disk.parsing import parse_yaml
from zoo.errors import ZooError, shorten_list

OWN = "encoder."  # prefix of the encoder's weight names in an InfiniSST checkpoint
LEFT_OUT = (
    "encoder.pos_conv_embed.",  # replaced by rotary positions
    "masked_spec_embed",  # used in the pretraining of wav2vec 2.0 only
)


def load_encoder(encoder: StreamingEncoder, source: str) -> None:
    """Fill an encoder with pretrained weights.

    Args:
        encoder: Encoder whose weights are replaced.
        source: Hub id or folder of a Wav2Vec2 model (layer-norm variant), or folder of an InfiniSST
            checkpoint written by this repository. Only the encoder's weights are read.

    Raises:
        ZooError: If no weights are found, or their names or shapes differ from the encoder's.
    """
    if is_empty():
        return
    ours = Path(source) / checkpoint.WEIGHTS
    weights = (
        _infinisst(ours, encoder.config)
        if _is_infinisst(ours)
        else _wav2vec2(source, encoder.config)
    )
    expected = encoder.state_dict()
    wrong = [*sorted(expected.keys() - weights.keys()), *sorted(weights.keys() - expected.keys())]
    if wrong:
        raise ZooError(
            f"encoder_weights {source!r} and the encoder do not have the same layers: "
            f"{shorten_list(wrong)}."
        )
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            stored, needed = list(tensor.shape), list(expected[name].shape)
            raise ZooError(
                f"encoder_weights {source!r} do not fit: {name} has shape {stored}, the encoder "
                f"needs {needed}."
            )
    encoder.load_state_dict(weights)
    check_finite(encoder, source)
    mark_restored(encoder)


def _is_infinisst(path: Path) -> bool:
    """Whether a file is an InfiniSST checkpoint: the encoder's weight names have a prefix."""
    if not path.is_file():
        return False
    if OWN.removesuffix(".") in checkpoint.shared_parts(path.parent):
        return True
    return any(
        name.startswith(f"{OWN}feature_extractor.") for name in checkpoint.tensor_files([path])
    )


def _infinisst(path: Path, config: EncoderConfig) -> dict[str, Tensor]:
    """Read the encoder weights of an InfiniSST checkpoint.

    Raises:
        ZooError: If the checkpoint's ``config.yaml`` is damaged, or differs from ``config`` in an
            option that the weight shapes do not show.
    """
    described = _described(path.with_name("config.yaml"))
    # No weight's shape depends on these, so they are compared.
    for name in ("heads", "left_pad", "rope_base", "rope_angles"):
        _agree(str(path.parent), name, described.get(name, getattr(EncoderConfig(), name)), config)
    return {
        name.removeprefix(OWN): checkpoint.read_tensor(file, name)
        for name, file in checkpoint.checkpoint_files(path.parent).items()
        if name.startswith(OWN)
    }


def _described(path: Path) -> dict[str, Any]:
    """Read the entries under ``backbone.encoder`` of a ``config.yaml``."""
    try:
        described: dict[str, Any] = parse_yaml(path.read_text())["backbone"]["encoder"]
        return described
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ZooError(
            f"{path} is missing or damaged; an exported InfiniSST has one beside its weights."
        ) from error


def _wav2vec2(source: str, config: EncoderConfig) -> dict[str, Tensor]:
    """Read the weights of a Hugging Face model under Hugging Face's names, without LEFT_OUT."""
    try:
        described = from_pretrained(AutoConfig.from_pretrained, source)
        if not isinstance(described, Wav2Vec2Config):
            raise ZooError(
                f"encoder_weights {source!r} is a {described.model_type!r}; it must be a wav2vec2."
            )
        _check(source, described, config)
        with quiet():  # no warning about the head, which is not loaded
            loaded: Any = from_pretrained(
                Wav2Vec2Model.from_pretrained,
                source,
                dtype=torch.float32,
                output_loading_info=True,
                **({"device_map": "meta"} if reads_shapes() else {}),
            )
        model, report = loaded
    except (OSError, ValueError, SafetensorError) as error:
        raise ZooError(
            f"No encoder could be loaded from {source!r}: it must be a folder with a Wav2Vec2 "
            "model or an InfiniSST checkpoint, or the name of a Wav2Vec2 model on the hub, which "
            "must be reachable or in the local cache."
        ) from error
    absent = sorted(name for name in report["missing_keys"] if not name.startswith(LEFT_OUT))
    if absent:  # Transformers fills them with random numbers
        raise ZooError(
            f"encoder_weights {source!r} lacks {len(absent)} weights of a wav2vec2, such as "
            f"{absent[0]}."
        )
    return {
        name: tensor for name, tensor in model.state_dict().items() if not name.startswith(LEFT_OUT)
    }


def _check(source: str, described: Wav2Vec2Config, config: EncoderConfig) -> None:
    """Raise ZooError if a Wav2Vec2 model has another norm, other heads or other convolutions."""
    if not (described.do_stable_layer_norm and described.feat_extract_norm == "layer"):
        raise ZooError(
            f"encoder_weights {source!r} is not the layer-norm variant of wav2vec 2.0 "
            "(do_stable_layer_norm, feat_extract_norm=layer), as the large lv60 models are."
        )
    _agree(source, "heads", described.num_attention_heads, config)
    if (tuple(described.conv_kernel), tuple(described.conv_stride)) != (KERNELS, STRIDES):
        raise ZooError(
            f"encoder_weights {source!r} has other convolutions than the encoder's 20 ms grid."
        )
    if (described.hidden_act, described.feat_extract_activation) != ("gelu", "gelu"):
        raise ZooError(f"encoder_weights {source!r} has other activations than GELU.")


def _agree(source: str, name: str, stored: object, config: EncoderConfig) -> None:
    """Raise ZooError if the value ``stored`` of option ``name`` differs from ``config``."""
    needed = getattr(config, name)
    if stored != needed:
        raise ZooError(
            f"encoder_weights {source!r} was trained with {name}={stored}, but "
            f"backbone.encoder.{name}={needed}."
        )
