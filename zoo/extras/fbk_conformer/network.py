"""Configuration and modules of a converted Conformer, and the files of its folder."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import nn
from transformers import Speech2TextConfig
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextDecoder

from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import MALFORMED, read_json
from zoo.base.errors import ZooError, check_numbers
from zoo.extras.fbk_conformer.encoder import ConformerConfig, ConformerEncoder

DESCRIPTION = "config.json"
BEGIN, PADDING, END, UNKNOWN = range(4)  # ids of fairseq's special tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Shape of the decoder, a Transformer with layer norm before each block and ReLU.

    Attributes:
        vocabulary: Number of target tokens.
        layers: Number of layers.
        heads: Number of attention heads.
        ff: Width of the feed-forward blocks.
        scaled: Whether token embeddings are multiplied by the square root of their width.
    """

    vocabulary: int
    layers: int = 6
    heads: int = 8
    ff: int = 2048
    scaled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureStatistics:
    """Mean and standard deviation of each mel bin over the training data, (bins,) each."""

    mean: Sequence[float]
    deviation: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """A converted model, as ``config.json`` describes it.

    Attributes:
        encoder: Shape of the encoder.
        decoder: Shape of the decoder, which has the width of the encoder.
        statistics: Normalisation of the features. None normalises over the kept audio.
    """

    encoder: ConformerConfig = field(default_factory=ConformerConfig)
    decoder: DecoderConfig
    statistics: FeatureStatistics | None = None

    def __post_init__(self) -> None:
        """Raises ZooError for sizes that do not fit each other."""
        decoder = self.decoder
        check_numbers("A Conformer's decoder", least=1, layers=decoder.layers, heads=decoder.heads)
        if self.encoder.width % decoder.heads:
            raise ZooError(
                f"A Conformer's decoder needs heads that divide its width: {self.encoder.width} "
                f"and {decoder.heads} do not fit."
            )
        for values in asdict(self.statistics).values() if self.statistics else ():
            if len(values) != self.encoder.bins:
                raise ZooError(
                    f"The statistics of a Conformer need {self.encoder.bins} numbers, one per mel "
                    f"bin, not {len(values)}."
                )


def random_network(config: NetworkConfig) -> tuple[ConformerEncoder, Decoder]:
    """Create the encoder and the decoder, randomly initialised."""
    width, decoder = config.encoder.width, config.decoder
    settings = Speech2TextConfig(
        d_model=width,
        vocab_size=decoder.vocabulary,
        decoder_layers=decoder.layers,
        decoder_attention_heads=decoder.heads,
        decoder_ffn_dim=decoder.ff,
        scale_embedding=decoder.scaled,
        activation_function="relu",
        pad_token_id=PADDING,
        eos_token_id=END,
    )
    head = nn.Linear(width, decoder.vocabulary, bias=False)
    return ConformerEncoder(config.encoder), Decoder(Speech2TextDecoder(settings), head)


def write_config(config: NetworkConfig, folder: Path) -> None:
    """Write ``config.json``."""
    write_text(folder / DESCRIPTION, json.dumps(asdict(config), indent=2) + "\n")


def read_config(folder: Path) -> NetworkConfig:
    """Read ``config.json``.

    Raises:
        ZooError: If the folder has none, or it does not describe a Conformer.
    """
    path = folder / DESCRIPTION
    if not path.is_file():
        raise ZooError(
            f"There is no converted Conformer in {folder} (no {DESCRIPTION}); convert one of FBK's "
            "with python -m zoo convert-fbk-conformer, and name its folder with "
            "backbone.name=..."
        )
    try:
        values = read_json(path)
        return NetworkConfig(
            encoder=ConformerConfig(**values["encoder"]),
            decoder=DecoderConfig(**values["decoder"]),
            statistics=values["statistics"] and FeatureStatistics(**values["statistics"]),
        )
    except (OSError, *MALFORMED) as error:
        raise ZooError(f"{path} is damaged or describes no converted Conformer.") from error
