"""Converts an "Offline" checkpoint of the InfiniSST authors to a folder that ``LST.load`` reads.

``python -m zoo convert-lst FILE FOLDER --llm meta-llama/Llama-3.1-8B-Instruct``

The file has the layout of the authors' streaming checkpoints and is converted in the same way. The
file does not contain the training configuration of the network, which the authors' scripts define:
one encoder block for all speech and no padding before the speech. The converter writes this
configuration to ``config.yaml``.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
import yaml

from zoo.backbones.architectures.speech_llm import released
from zoo.backbones.encoders.wav2vec2.encoder import EncoderConfig
from zoo.backbones.lst.description import DESCRIPTION, LAYER
from zoo.base.disk.files import write_text

USE = "system=streamatt backbone=lst backbone.search.repetition=prompt backbone.name={0}"


def convert(
    file: str | Path,
    folder: str | Path,
    *,
    llm: str = released.LLM,
    dtype: torch.dtype | None = None,
) -> EncoderConfig:
    """Convert the weights with ``speech_llm.released.convert`` and write ``config.yaml``.

    Args:
        file: Checkpoint file of the authors.
        folder: Folder to create.
        llm: Hub id or folder of the language model that the checkpoint extends.
        dtype: Data type of the written weights. None keeps the data type of the file.

    Returns:
        Configuration of the speech encoder, as written to ``config.yaml``.

    Raises:
        ZooError: The folder is not empty, or the file is not a checkpoint of the authors.
    """
    encoder = replace(
        released.convert(file, folder, llm=llm, dtype=dtype),
        window_unit="chunks",
        left_pad=0,
        rope_angles="bfloat16",
    )
    backbone = {
        "encoder": {**asdict(encoder), "conv_channels": list(encoder.conv_channels)},
        "template": "offline",
        "adapter_norm": True,
        "block_chunks": 0,
        "alignment": {"layer": LAYER, "query": "predicting"},
    }
    write_text(Path(folder) / DESCRIPTION, yaml.safe_dump({"backbone": backbone}, sort_keys=False))
    return encoder


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see ``command``."""
    released.command(arguments, name="lst", title=__doc__.splitlines()[0], convert=convert, use=USE)


if __name__ == "__main__":
    main()
