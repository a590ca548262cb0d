"""The commands: ``python -m zoo COMMAND``, and ``simulzoo COMMAND`` where it is installed.

A command is a module that runs as ``python -m MODULE`` does. Lightning starts the other processes
of a run by the name of this module.
"""

import runpy
import sys
from collections.abc import Mapping

from zoo.base.errors import check_choice
from zoo.base.machine.commands import run_script
from zoo.base.machine.hints import program

COMMANDS: Mapping[str, tuple[str, str]] = {  # module and purpose
    "evaluate": ("zoo.apps.evaluate", "stream talks through systems, score and report them"),
    "train": ("zoo.apps.train", "train a system in stages and export its weights"),
    "translate": ("zoo.apps.translate", "translate audio files or a microphone"),
    "live": ("zoo.apps.live", "serve a page and sockets that translate while people speak"),
    "report": ("zoo.apps.report", "join finished runs into one table, plot and page"),
    "keys": ("zoo.apps.keys", "list what can be overridden, with its meaning"),
    "prepare": ("zoo.apps.prepare", "make training data of a corpus"),
    "submit": ("zoo.apps.submit", "make a submission to IWSLT"),
    "alignment-heads": ("zoo.evaluation.alignment_heads", "find the heads that align"),
    "synthesis": ("zoo.evaluation.synthesis", "score a synthesizer on reference translations"),
    "card": ("zoo.report.card", "write the model card of a checkpoint"),
    "leaderboard": ("zoo.report.leaderboard", "write the page of all shipped systems"),
    "minitalks": ("zoo.data.minitalks.corpus", "synthesise the built-in corpus"),
    "trajectories": ("zoo.apps.prepare.trajectories", "print trajectories of a corpus"),
    "entities": ("zoo.apps.prepare.entities", "find named entities of a corpus"),
    "share-weights": ("zoo.backbones.pretrained.share", "share equal parts of two checkpoints"),
    "convert-infinisst": ("zoo.backbones.infinisst.convert", "convert the authors' InfiniSST"),
    "convert-lst": ("zoo.backbones.lst.convert", "convert the authors' LST"),
    "convert-fbk-conformer": ("zoo.extras.fbk_conformer.convert", "convert FBK's Conformers"),
    "wandb-report": ("zoo.runs.wandb_report", "create a report on a W&B server"),
}
HELP = ("-h", "--help")


def main() -> None:
    """Run the command that the command line names; without one, list the commands."""
    words = sys.argv[1:]
    if not words or words[0] in HELP:
        run_script(lambda: print(commands_page()))
        return
    run_script(lambda: check_choice("command", words[0], COMMANDS))
    module, _ = COMMANDS[words[0]]
    sys.argv[1:] = words[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def commands_page() -> str:
    """Return the usage, and a line for each command."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {purpose}" for name, (_, purpose) in COMMANDS.items()]
    return "\n".join([f"usage: {program('COMMAND')} ...", "", *lines])


if __name__ == "__main__":
    main()
