"""Removes a part from a checkpoint that another checkpoint has too.

``python -m zoo share-weights checkpoints/A encoder checkpoints/B`` removes the
encoder of A if it equals that of B.
"""

import argparse
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from zoo.backbones.pretrained.weights import (
    SHARED,
    WEIGHTS,
    read_file,
    save_tensors,
    shared_parts,
)
from zoo.base.disk.files import write_text
from zoo.base.errors import ZooError
from zoo.base.machine.commands import named_path, run_script
from zoo.base.machine.hints import program


def share(folder: Path, part: str, other: Path) -> None:
    """Remove a part from a checkpoint and refer to the equal part of another checkpoint.

    Args:
        folder: Checkpoint from which the part is removed.
        part: Name of the part, such as encoder.
        other: Checkpoint that keeps the part.

    Raises:
        ZooError: If the weights of the part differ between the checkpoints.
    """
    weights, others = read_file(folder / WEIGHTS), read_file(other / WEIGHTS)
    names = [name for name in weights if name.startswith(f"{part}.")]
    if not names or any(
        name not in others or not _equal(weights[name], others[name]) for name in names
    ):
        raise ZooError(
            f"{folder} and {other} do not have the same {part!r}; there is nothing to share."
        )
    locations = shared_parts(folder) | {part: os.path.relpath(other, folder)}
    write_text(folder / SHARED, json.dumps(locations, indent=2) + "\n")
    remaining = {name: tensor for name, tensor in weights.items() if name not in names}
    save_tensors(remaining, folder / WEIGHTS)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)


def main(arguments: Sequence[str] | None = None) -> None:
    """Share the part that the command line names.

    Args:
        arguments: Command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(
        prog=program("share-weights"),
        description=(share.__doc__ or "").splitlines()[0],
    )
    parser.add_argument("folder", type=named_path, help="checkpoint from which the part is removed")
    parser.add_argument("part", help="name of the part, such as encoder")
    parser.add_argument("other", type=named_path, help="checkpoint that keeps the part")
    options = parser.parse_args(arguments)
    run_script(partial(share, options.folder, options.part, options.other))


if __name__ == "__main__":
    main()
