"""Initial weights of the speech encoder: a Hugging Face wav2vec 2.0 or an InfiniSST checkpoint."""

from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, Wav2Vec2Config, Wav2Vec2Model

from zoo.backbones.base import check_finite, is_empty, mark_restored, reads_shapes
from zoo.backbones.encoders.wav2vec2.encoder import (
    KERNELS,
    STRIDES,
    EncoderConfig,
    StreamingEncoder,
)
from zoo.backbones.pretrained import weights as checkpoint
from zoo.backbones.pretrained.loading import from_pretrained
from zoo.backbones.pretrained.messages import quiet
from zoo.base.disk.parsing import MALFORMED, read_yaml
from zoo.base.errors import ZooError, shorten_list

# The encoder's weights in an InfiniSST checkpoint are named ``encoder.``, then as in the encoder.
PART = "encoder"
# Weights of wav2vec 2.0 that the streaming encoder does not have.
UNUSED = (
    "encoder.pos_conv_embed.",  # replaced by rotary positions
    "masked_spec_embed",  # used in the pretraining of wav2vec 2.0 only
)
# Options of an InfiniSST encoder on which no shape of a weight depends.
SHAPELESS_OPTIONS = ("heads", "left_pad", "rope_base", "rope_angles")


def load_encoder(encoder: StreamingEncoder, source: str) -> None:
    """Fill an encoder with pretrained weights.

    Args:
        encoder: Encoder whose weights are replaced.
        source: Hub id or folder of a Wav2Vec2 model (layer-norm variant), or folder of an InfiniSST
            checkpoint written by this repository. Only the encoder's weights are read.

    Raises:
        ZooError: If no weights are found, their names or shapes differ from the encoder's, or they
            were trained with other options.
    """
    if is_empty():
        mark_restored(encoder)
        return
    if _is_infinisst(Path(source)):
        weights = _read_infinisst(Path(source), encoder.config)
    else:
        weights = _read_wav2vec2(source, encoder.config)
    _check_shapes(weights, encoder.state_dict(), source)
    encoder.load_state_dict(weights)
    check_finite(encoder, source)
    mark_restored(encoder)


def _check_shapes(weights: dict[str, Tensor], needed: dict[str, Tensor], source: str) -> None:
    """Raise ZooError if the names or shapes of weights differ from those that the encoder needs."""
    missing = sorted(needed.keys() - weights.keys())
    surplus = sorted(weights.keys() - needed.keys())
    if missing or surplus:
        raise ZooError(
            f"encoder_weights {source!r} and the encoder do not have the same layers: "
            f"{shorten_list([*missing, *surplus])}."
        )
    for name, weight in weights.items():
        if weight.shape != needed[name].shape:
            raise ZooError(
                f"encoder_weights {source!r} do not fit: {name} has shape {list(weight.shape)}, "
                f"the encoder needs {list(needed[name].shape)}."
            )


def _is_infinisst(folder: Path) -> bool:
    """Return whether a folder is an InfiniSST checkpoint, by the names of its weights."""
    weights_file = folder / checkpoint.WEIGHTS
    if not weights_file.is_file():
        return False
    if PART in checkpoint.shared_parts(folder):
        return True
    names = checkpoint.tensor_files([weights_file])
    return any(name.startswith(f"{PART}.feature_extractor.") for name in names)


def _read_infinisst(folder: Path, config: EncoderConfig) -> dict[str, Tensor]:
    """Read the encoder weights of an InfiniSST checkpoint.

    Args:
        folder: Folder of the checkpoint.
        config: Options of the encoder that receives the weights.

    Raises:
        ZooError: If the checkpoint's ``config.yaml`` is missing or damaged, or has another value of
            one of the ``SHAPELESS_OPTIONS``.
    """
    config_file = folder / "config.yaml"
    try:
        stored_config: dict[str, Any] = read_yaml(config_file)["backbone"]["encoder"]
    except (OSError, yaml.YAMLError, *MALFORMED) as error:
        raise ZooError(
            f"{config_file} is missing or damaged; an exported InfiniSST has one beside its "
            "weights."
        ) from error
    for option in SHAPELESS_OPTIONS:
        stored = stored_config.get(option, getattr(EncoderConfig(), option))
        _check_option(option, stored, config, str(folder))
    prefix = f"{PART}."
    return {
        name.removeprefix(prefix): checkpoint.read_tensor(file, name)
        for name, file in checkpoint.checkpoint_files(folder).items()
        if name.startswith(prefix)
    }


def _read_wav2vec2(source: str, config: EncoderConfig) -> dict[str, Tensor]:
    """Read the weights of a Hugging Face model, without the unused ones.

    Args:
        source: Hub id or folder of a Wav2Vec2 model.
        config: Options of the encoder that receives the weights.

    Raises:
        ZooError: If the model cannot be loaded, lacks weights, or is another network.
    """
    try:
        stored_config = from_pretrained(AutoConfig.from_pretrained, source)
        if not isinstance(stored_config, Wav2Vec2Config):
            raise ZooError(
                f"encoder_weights {source!r} is a {stored_config.model_type!r}; it must be a "
                "wav2vec2."
            )
        _check_network(stored_config, config, source)
        with quiet():  # no warning about the head, which is not loaded
            loaded: Any = from_pretrained(
                Wav2Vec2Model.from_pretrained,
                source,
                dtype=torch.float32,
                output_loading_info=True,
                **({"device_map": "meta"} if reads_shapes() else {}),
            )
        model, loading_info = loaded
    except (OSError, ValueError, SafetensorError) as error:
        raise ZooError(
            f"No encoder could be loaded from {source!r}: it must be a folder with a Wav2Vec2 "
            "model or an InfiniSST checkpoint, or the name of a Wav2Vec2 model on the hub, which "
            "must be reachable or in the local cache."
        ) from error
    # Transformers fills missing weights with random numbers.
    missing = sorted(name for name in loading_info["missing_keys"] if not name.startswith(UNUSED))
    if missing:
        raise ZooError(
            f"encoder_weights {source!r} lacks {len(missing)} weights of a wav2vec2, such as "
            f"{missing[0]}."
        )
    weights: dict[str, Tensor] = model.state_dict()
    return {name: weight for name, weight in weights.items() if not name.startswith(UNUSED)}


def _check_network(stored: Wav2Vec2Config, config: EncoderConfig, source: str) -> None:
    """Raise ZooError if a Wav2Vec2 model computes something else than the encoder.

    Args:
        stored: Configuration of the model.
        config: Options of the encoder.
        source: Hub id or folder of the model, for the message.
    """
    if not (stored.do_stable_layer_norm and stored.feat_extract_norm == "layer"):
        raise ZooError(
            f"encoder_weights {source!r} is not the layer-norm variant of wav2vec 2.0 "
            "(do_stable_layer_norm, feat_extract_norm=layer), as the large lv60 models are."
        )
    _check_option("heads", stored.num_attention_heads, config, source)
    if (tuple(stored.conv_kernel), tuple(stored.conv_stride)) != (KERNELS, STRIDES):
        raise ZooError(
            f"encoder_weights {source!r} has other convolutions than the encoder's 20 ms grid."
        )
    if (stored.hidden_act, stored.feat_extract_activation) != ("gelu", "gelu"):
        raise ZooError(f"encoder_weights {source!r} has other activations than GELU.")


def _check_option(option: str, stored: object, config: EncoderConfig, source: str) -> None:
    """Raise ZooError if the weights were trained with another value of an encoder's option."""
    needed = getattr(config, option)
    if stored != needed:
        raise ZooError(
            f"encoder_weights {source!r} was trained with {option}={stored}, but "
            f"backbone.encoder.{option}={needed}."
        )
