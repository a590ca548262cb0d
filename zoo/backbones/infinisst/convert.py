"""Converts a checkpoint of the InfiniSST authors to a folder that ``InfiniSST.load`` reads.

``python -m zoo convert-infinisst FILE FOLDER --llm meta-llama/Llama-3.1-8B-Instruct``
"""

from collections.abc import Sequence

from zoo.backbones.architectures.speech_llm.released import command, convert

USE = "backbone=infinisst convention=released backbone.checkpoint={0} backbone.decoder={0}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; see ``command``."""
    command(arguments, name="infinisst", title=__doc__.splitlines()[0], convert=convert, use=USE)


if __name__ == "__main__":
    main()
