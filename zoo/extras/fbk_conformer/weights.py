"""Network and weights of a checkpoint of FBK-fairseq, by the names of this repository."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.base.errors import ZooError, shorten_list
from zoo.extras.fbk_conformer.encoder import ConformerConfig
from zoo.extras.fbk_conformer.network import (
    DecoderConfig,
    FeatureStatistics,
    NetworkConfig,
    random_network,
)

ARCHITECTURES = ("conformer", "conformer_s")
# Arguments whose other values change the network. Frames that CTC compression has merged have no
# fixed duration, so that alignments and cuts could not be counted in them.
SUPPORTED: Mapping[str, object] = {
    "ctc_compress_strategy": "none",
    "activation_fn": "relu",
    "decoder_normalize_before": True,
    "decoder_learned_pos": False,
    "no_token_positional_embeddings": False,
    "layernorm_embedding": False,
    "adaptive_softmax_cutoff": None,
}
NAMES = (  # part of a name in the checkpoint, part of the name in this repository
    ("encoder.subsample.", "encoder.subsampling."),
    ("encoder.conformer_layers.", "encoder.layers."),
    ("decoder.output_projection.", "decoder.head."),
    ("decoder.", "decoder.module."),
)
LAYER_NAMES = (  # the same, below a layer of the encoder
    ("_feed_forward.layernorm.", "_feed_forward.norm."),
    ("_feed_forward.first_linear.", "_feed_forward.first."),
    ("_feed_forward.second_linear.", "_feed_forward.second."),
    ("attention.layer_norm.", "attention.norm."),
    ("attention.attention.query_proj.", "attention.query."),
    ("attention.attention.key_proj.", "attention.key."),
    ("attention.attention.value_proj.", "attention.value."),
    ("attention.attention.pos_proj.", "attention.position."),
    ("attention.attention.out_proj.", "attention.output."),
    ("attention.attention.u_bias", "attention.content_bias"),
    ("attention.attention.v_bias", "attention.position_bias"),
    ("conv_module.layernorm.", "convolution.norm."),
    ("conv_module.batchnorm.", "convolution.batch_norm."),
    ("conv_module.first_pointwise_conv1d.", "convolution.gated."),
    ("conv_module.depthwise_conv1d.", "convolution.depthwise."),
    ("conv_module.second_pointwise_conv1d.", "convolution.pointwise."),
    (".layernorm.", ".norm."),
)
UNUSED = re.compile(  # the auxiliary CTC loss, tables of positions, and a version number
    r"encoder\.ctc_fc\..*|.*\.positional_encoding\.pe"
    r"|decoder\.version|decoder\.embed_positions\._float_tensor"
)


def network_config(
    arguments: Mapping[str, Any],
    *,
    vocabulary: int,
    statistics: FeatureStatistics | None,
    file: Path,
) -> NetworkConfig:
    """Return the network that the training arguments describe.

    An argument that is missing has the default of FBK-fairseq's architecture ``conformer``.

    Args:
        arguments: Training arguments by name.
        vocabulary: Number of target tokens.
        statistics: Statistics of the features.
        file: Checkpoint, for error messages.

    Raises:
        ZooError: If the network is of another architecture or has an unsupported option.
    """
    architecture = arguments.get("arch", arguments.get("_name"))
    if architecture not in ARCHITECTURES:
        raise ZooError(
            f"{file} contains a network of architecture {architecture!r}; only "
            f"{' and '.join(ARCHITECTURES)} are supported."
        )
    for name, value in SUPPORTED.items():
        if arguments.get(name, value) != value:
            raise ZooError(
                f"{file} was trained with {name}={arguments[name]}; only {value} is supported."
            )
    width = int(arguments.get("encoder_embed_dim", 512))
    kernels = str(arguments.get("conv_kernel_sizes", "5,5")).split(",")
    scaled = not arguments.get("no_scale_embedding", False)
    bins = int(arguments.get("input_feat_per_channel", 80))
    return NetworkConfig(
        encoder=ConformerConfig(
            bins=bins * int(arguments.get("input_channels", 1)),
            conv_channels=int(arguments.get("conv_channels", 1024)),
            conv_kernels=[int(kernel) for kernel in kernels],
            width=width,
            layers=int(arguments.get("encoder_layers", 12)),
            heads=int(arguments.get("encoder_attention_heads", 8)),
            ff=width * int(arguments.get("feed_forward_expansion_factor", 4)),
            kernel=int(arguments.get("conformer_conv_kernel_size", 31)),
            half_step=bool(arguments.get("conformer_half_step_residual", True)),
            scaled=scaled,
        ),
        decoder=DecoderConfig(
            vocabulary=vocabulary,
            layers=int(arguments.get("decoder_layers", 6)),
            heads=int(arguments.get("decoder_attention_heads", 8)),
            ff=int(arguments.get("decoder_ffn_embed_dim", 2048)),
            scaled=scaled,
        ),
        statistics=statistics,
    )


def rename_weights(
    tensors: Mapping[str, Tensor], config: NetworkConfig, file: Path
) -> dict[str, Tensor]:
    """Return the weights by their names in this repository.

    Args:
        tensors: Weights by their names in the checkpoint.
        config: Network that the weights belong to.
        file: Checkpoint, for error messages.

    Raises:
        ZooError: If a weight is missing, superfluous or of another shape.
    """
    with torch.device("meta"):
        encoder, decoder = random_network(config)
    expected = nn.ModuleDict({"encoder": encoder, "decoder": decoder}).state_dict()
    released_names = {our_name(name): name for name in tensors if not UNUSED.fullmatch(name)}
    missing = sorted(expected.keys() - released_names.keys())
    if missing:
        raise ZooError(f"{file} lacks weights of the network: {shorten_list(missing)}.")
    unknown = sorted(released_names[name] for name in released_names.keys() - expected.keys())
    if unknown:
        raise ZooError(f"{file} has weights that the network lacks: {shorten_list(unknown)}.")
    for name, theirs in released_names.items():
        if tensors[theirs].shape != expected[name].shape:
            raise ZooError(
                f"{theirs} in {file} has shape {list(tensors[theirs].shape)}, not "
                f"{list(expected[name].shape)}; do the dictionary and the configuration belong to "
                "this checkpoint?"
            )
    return {name: tensors[theirs].clone() for name, theirs in released_names.items()}


def our_name(name: str) -> str:
    """Return the name in this repository for a name in a checkpoint."""
    for theirs, ours in NAMES:
        if name.startswith(theirs):
            name = ours + name.removeprefix(theirs)
            break
    if name.startswith("encoder.layers."):
        for theirs, ours in LAYER_NAMES:
            if theirs in name:
                return name.replace(theirs, ours)
    return name
