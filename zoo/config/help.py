"""The answer to ``--help``: usage, examples, options, groups, and every key with its meaning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from zoo.base.machine.hints import job_command
from zoo.config.keys import COLUMN, Key, keys_of
from zoo.config.sources import Folders, job_loader
from zoo.config.unknown import groups_of


@dataclass(frozen=True, slots=True)
class Page:
    """What ``--help`` prints about a command.

    Attributes:
        purpose: sentences on what the command does.
        arguments: what it takes, as a usage line names it.
        examples: arguments, as typed in a shell, and what results from them.
        options: options of its own, and what they do.
    """

    purpose: str
    arguments: str
    examples: Mapping[str, str]
    options: Mapping[str, str]


WIDTH = 98  # characters of a line of choices
GROUP = 15  # characters of the longest name of a group
OVERRIDES = "[group=choice ...] [key=value ...]"
OPTIONS = {  # of Hydra, for all commands
    "-m, --multirun": "run a job for each combination of key=value1,value2",
    "-c, --cfg job": "print the configuration and end; with --package KEY, a part of it",
    "-cd, --config-dir FOLDER": "also find YAML files of groups in this folder",
    "-sc, --shell-completion": "install=bash (zsh, fish) prints the script for completion by Tab",
    "-h, --help": "this text; with overrides, of the configuration that they choose",
}
PAGES = {
    "evaluate": Page(
        "Stream talks through systems, score their output, and write a table, a page and logs.",
        OVERRIDES,
        {
            "experiment=demo": "every family on two talks",
            "system=streamatt evaluation.talks=5": "StreamAtt on five talks",
            "experiment=benchmark": "all families, each over its latency setting",
            "system=infinisst 'evaluation.knob_values=[2]'": "one latency setting",
            "target_language=zh": "English to Chinese",
            "data=folder data.root=talks evaluation.split=all": "your own audio",
            "system=streamatt history=punctuation policy.frames=6": "other parts and values",
            "-m backbone.window.size=100,200,400": "a sweep, one run each",
            "'evaluation.significance=[bootstrap]'": "with intervals and tests",
            "resume=outputs/evaluate/RUN": "what a killed run lacks",
        },
        {},
    ),
    "train": Page(
        "Train a system in stages, evaluate it on development talks, and export the best weights.",
        OVERRIDES,
        {
            "experiment=infinisst_minitalks": "the shipped InfiniSST, from scratch",
            "experiment=offline_minitalks target_language=es": "an offline model for Spanish",
            "experiment=streamuni_phi4_minitalks": "StreamUni on a small Phi-4-Multimodal",
            "training.curriculum.stages.recognition.steps=100": "another number of steps",
            "training.evaluate_every_steps=500": "more frequent development evaluations",
            "optimizer=muon optimizer.lr=1e-3": "another optimizer and learning rate",
            "strategy=fsdp2 trainer.devices=8": "weights sharded over eight GPUs",
            "estimate=true": "memory, tokens and time, without a training",
            "-m seed=0,1,2": "three trainings",
            "resume=outputs/train/RUN": "go on from the last checkpoint",
        },
        {},
    ),
    "translate": Page(
        "Translate audio files, folders or a microphone; print and write words, subtitles, speech.",
        f"FILE [FILE or folder ...] {OVERRIDES}",
        {
            "talk.wav": "in real time, by InfiniSST",
            "talk.wav speed=max": "as fast as the machine allows",
            "talks target_language=zh": "all audio files of a folder, into Chinese",
            "talk.wav system=streamatt latency=8": "another system and latency setting",
            "talk.wav system=simulu": "speech to speech",
            "talk.wav system=streamatt synthesizer=espeak": "text to speech for any system",
            "talk.wav backbone.checkpoint=outputs/train/RUN/export": "a model that you trained",
            "--microphone": "what is spoken, until Ctrl-C",
            "microphone=2": "another microphone, by number or name",
            "talk.wav device=cuda": "on a GPU",
        },
        {"--microphone": "translate the standard microphone"},
    ),
    "live": Page(
        "Serve a page and sockets on which systems translate while people speak.",
        OVERRIDES,
        {
            "browser=true": "InfiniSST, and opens the page",
            "system=streamatt latency=8": "another system and latency setting",
            "target_language=zh": "English to Chinese",
            "system=simulu": "speech to speech",
            "'compare={a: [\"system=streamatt\"], b: []}'": "two systems beside each other",
            "backbone.checkpoint=outputs/train/RUN/export": "a model that you trained",
            "port=9000 limits.streams=4": "another port, at most four users",
            "host=0.0.0.0": "for other machines, with a token",
            "certificate=FILE certificate_key=FILE": "over TLS",
            "device=cuda limits.batch_size=32": "on a GPU, in larger batches",
        },
        {},
    ),
    "prepare": Page(
        "Make training data of a corpus: word times, word alignments, trajectories, filters.",
        OVERRIDES,
        {
            "prepare.folder=OUT": "of the built-in corpus",
            "data=mustc data.root=ROOT prepare.folder=OUT": "of MuST-C",
            "data=folder data.root=talks prepare.folder=OUT": "of your own audio",
            "word_times=ctc word_times.name=FOLDER prepare.folder=OUT": "words timed by CTC",
            "word_alignment=eflomal prepare.folder=OUT": "words aligned by eflomal",
            "prepare.folder=OUT prepare.workers=8": "eight processes",
            "prepare.folder=OUT prepare.shard=0/4": "the first of four jobs",
            "prepare.folder=OUT prepare.talks=2": "the first two talks of each split",
            "prepare.folder=OUT filters.min_seconds=1": "without segments below a second",
            "'steps=[audio,words,card]' prepare.folder=OUT": "some of the steps",
        },
        {},
    ),
}


def help_of(command: str, given: Sequence[str], folders: Folders = ()) -> str:
    """Return the help of a command with the keys of its configuration under overrides.

    Args:
        command: ``train``, ``evaluate``, ``translate``, ``live`` or ``prepare``, which is also the
            name of the configuration.
        given: overrides.
        folders: additional folders of a new loader; see ``job_loader``.

    Raises:
        ZooError: an override is wrong.
    """
    page, name = PAGES[command], job_command(command)
    keys = key_lines(keys_of(command, given, folders))
    examples = {f"{name} {one}": f"# {result}" for one, result in page.examples.items()}
    sections: dict[str, list[str]] = {
        f"usage: {name} {page.arguments}": [],
        page.purpose: [],
        "examples:": columns(examples),
        "options:": columns({**page.options, **OPTIONS}),
        "groups (group=choice, the choice in effect first):": _groups(command, given, folders),
        "keys (key=value, the values in effect):": keys,
    }
    indented = (
        [title, *(f"  {line}".rstrip() for line in lines)] for title, lines in sections.items()
    )
    return "\n\n".join("\n".join(lines) for lines in indented)


def columns(rows: Mapping[str, str]) -> list[str]:
    """Return lines with two columns."""
    width = max(map(len, rows))
    return [f"{name:<{width}}  {text}" for name, text in rows.items()]


def key_lines(keys: Sequence[Key]) -> list[str]:
    """Return a line for each key, with an empty line between the parts of the configuration."""
    lines: list[str] = []
    part = ""
    for key in keys:
        own, dot, _ = key.name.partition(".")
        if (own if dot else "") != part:
            part = own if dot else ""
            lines.append("")
        lines.append(str(key))
    return lines


def group_lines(command: str, given: Sequence[str], folders: Folders) -> list[str]:
    """Return each group as an override with its choice, and the others in a comment.

    A group without a choice in effect is a comment as a whole.
    """
    found, search = job_loader(folders)
    chosen = found.choices(command, [*search, *given])
    lines = []
    for group, choices in _choices(command, given, folders).items():
        if group in chosen:
            own, others = f"{group}={choices[0]}", f"# or {', '.join(choices[1:])}"
            lines.append(f"{own:<{COLUMN}} {others}" if choices[1:] else own)
        else:
            lines.append(f"# {group}=... one of {', '.join(choices)}")
    return lines


def _groups(command: str, given: Sequence[str], folders: Folders) -> list[str]:
    """Return a line for each group with its choices, the one in effect first."""
    lines: list[str] = []
    for group, choices in _choices(command, given, folders).items():
        lines += fill(
            f"{group:<{GROUP}} {', '.join(choices)}", WIDTH, subsequent_indent=" " * (GROUP + 1)
        ).splitlines()
    return lines


def _choices(command: str, given: Sequence[str], folders: Folders) -> dict[str, list[str]]:
    """Return the choices of each group, the one in effect first."""
    found, search = job_loader(folders)
    chosen = found.choices(command, [*search, *given])
    choices = {
        group: found.get_group_options(group, overrides=search)
        for group in groups_of(command, folders)
    }
    return {
        group: sorted(names, key=lambda name: name != chosen.get(group))
        for group, names in choices.items()
    }
