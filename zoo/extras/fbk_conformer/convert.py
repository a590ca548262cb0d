"""Converts a Conformer of FBK-fairseq to a folder that ``FBKConformer.load`` reads.

``python -m zoo convert-fbk-conformer checkpoint.pt FOLDER --config config_simul.yaml``

The configuration names the other files: the SentencePiece model and the dictionary of the target
language, and the statistics of the features. Paths are relative to the configuration. Options name
files that have another name.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from zoo.backbones.pretrained.weights import WEIGHTS, save_tensors
from zoo.base.disk.files import atomic_folder
from zoo.base.errors import ZooError
from zoo.base.machine.commands import run_script
from zoo.base.machine.hints import job_command, program
from zoo.extras.fbk_conformer.data_files import (
    data_files,
    read_statistics,
    vocabulary,
    write_tokenizer,
)
from zoo.extras.fbk_conformer.network import NetworkConfig, write_config
from zoo.extras.fbk_conformer.released import read_checkpoint
from zoo.extras.fbk_conformer.weights import network_config, rename_weights


def convert(
    file: str | Path,
    folder: str | Path,
    *,
    config: str | Path,
    spm: str | Path | None = None,
    dictionary: str | Path | None = None,
    statistics: str | Path | None = None,
) -> NetworkConfig:
    """Write ``model.safetensors``, ``config.json`` and the tokenizer.

    Args:
        file: Checkpoint of FBK-fairseq, a ``.pt`` file.
        folder: Destination, a new folder.
        config: Configuration of the data that belongs to the checkpoint, a YAML file.
        spm: SentencePiece model of the target language. None reads its path from ``config``.
        dictionary: Dictionary of the target language. None reads its path from ``config``.
        statistics: Statistics of the features. None reads their path, if any, from ``config``.

    Returns:
        Configuration of the network.

    Raises:
        ZooError: If the folder exists, a file is missing or damaged, the files do not fit each
            other, or the checkpoint is of a network that is not supported.
    """
    file, folder = Path(file), Path(folder)
    if folder.exists():
        raise ZooError(f"{folder} is there already; name a new folder.")
    overrides = {"spm": spm, "dictionary": dictionary, "statistics": statistics}
    files = data_files(Path(config), {key: Path(path) for key, path in overrides.items() if path})
    arguments, tensors = read_checkpoint(file)
    ids = vocabulary(files.dictionary)
    network = network_config(
        arguments,
        vocabulary=len(ids),
        statistics=read_statistics(files.statistics) if files.statistics else None,
        file=file,
    )
    weights = rename_weights(tensors, network, file)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder) as new:
        save_tensors(weights, new / WEIGHTS)
        write_config(network, new)
        write_tokenizer(files.spm, ids, new)
    return network


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; it exits with code 2 for an error that the user can correct.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(
        prog=program("convert-fbk-conformer"), description=__doc__.splitlines()[0]
    )
    parser.add_argument("file", help="FBK's checkpoint, a .pt file")
    parser.add_argument("folder", help="new folder, which the backbone then names")
    parser.add_argument("--config", required=True, help="its config.yaml or config_simul.yaml")
    parser.add_argument("--spm", help="SentencePiece model of the target; default: of the config")
    parser.add_argument("--dictionary", help="dictionary of the target; default: of the config")
    parser.add_argument("--statistics", help="gcmvn.npz; default: of the config, if any")
    options = parser.parse_args(arguments)

    def write() -> None:
        network = convert(**vars(options))
        print(
            f"Written to {options.folder}: {network.encoder.layers} encoder layers and "
            f"{network.decoder.layers} decoder layers of {network.encoder.width}, "
            f"{network.decoder.vocabulary} tokens."
        )
        print(
            f"Use it: {job_command('evaluate')} system=streamatt backbone=fbk_conformer "
            f"backbone.name={options.folder}"
        )

    run_script(write, Path(options.folder))


if __name__ == "__main__":
    main()
