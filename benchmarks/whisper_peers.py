"""StreamAtt on Whisper against the tools that a user would pick: CPU time, words and latency.

    python benchmarks/whisper_peers.py --whisper FOLDER --recordings FOLDER \
        --simulstreaming CLONE --whisper-streaming CLONE [--python PYTHON]

Same weights, recordings and chunks on all sides: SimulStreaming, whisper_streaming with
faster-whisper in int8, and the zoo. Each side is a process of its own with the defaults of its
command line, and gets each chunk in turn, so that other load meets all of them alike. The CPU time
is that of the steps, after loading and a warm-up. All outputs are scored by the zoo. Words
differ: read a ratio with the word error rates beside it.

``CLONE`` is a clone of ufal/SimulStreaming or ufal/whisper_streaming; a tool without one is left
out. ``PYTHON`` has the packages of the tools (faster-whisper, librosa, tiktoken, numba,
safetensors, Transformers).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from harness import ROOT, parser_of, print_result, print_table
from zoo.base.audio import files as audio
from zoo.base.errors import ZooError
from zoo.base.languages import language
from zoo.base.machine.commands import run_script
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, ChunkTime, Instance, Seconds
from zoo.data.readers.folder import Folder
from zoo.data.transcripts import with_transcripts
from zoo.evaluation.scorer import Scorer
from zoo.evaluation.settings import Settings
from zoo.streaming.simulate import locate_units

SIZES = {
    "chunk_ms": (1000, 1000, "audio per chunk, a multiple of 20"),
    "frames": (25, 25, "f of AlignAtt, frames of 20 ms (SimulStreaming and the zoo)"),
    "seconds": (600, 12, "longest audio of a recording, which ends with a whole segment"),
    "talks": (100, 1, "largest number of recordings"),
    "threads": (1, 1, "CPU threads of each side"),
}
SCORES = {"WER": 1, "StreamLAAL": 2, "LostWords": 0, "InventedWords": 0}  # digits
PEERS = {"simulstreaming": "SimulStreaming", "whisper_streaming": "whisper_streaming"}


@dataclass(frozen=True, slots=True)
class Form:
    """A tool with its settings.

    Attributes:
        label: For people.
        side: Name of the class in ``whisper_sides.py``.
        options: Settings of the side.
    """

    label: str
    side: str
    options: Mapping[str, Any]


# The first form of each side is the one that its command line starts by default.
FORMS = {
    "simulstreaming": Form("SimulStreaming, greedy", "simulstreaming", {}),
    "faster_whisper": Form(
        "whisper_streaming, faster-whisper int8, 5 beams", "whisper_streaming", {"beams": None}
    ),
    "faster_whisper_greedy": Form(
        "whisper_streaming, faster-whisper int8, greedy", "whisper_streaming", {"beams": 1}
    ),
    "exact": Form("the zoo, padded to 30 s", "zoo", {"overrides": {}}),
    "cached": Form(
        "the zoo, cached silence", "zoo", {"overrides": {"backbone.cached_silence": True}}
    ),
    "unpadded": Form("the zoo, not padded", "zoo", {"overrides": {"backbone.padding_seconds": 0}}),
}


@dataclass(slots=True)
class Stream:
    """The output of one side for one recording.

    Attributes:
        seconds: CPU seconds of each chunk.
        texts: New text after each chunk.
    """

    seconds: list[Seconds] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


class Process:
    """A side in a process of its own.

    Args:
        form: Name of the form.
        process: The process, with pipes.
        errors: File of its stderr.
    """

    def __init__(self, form: str, process: "subprocess.Popen[str]", errors: Path) -> None:
        self.form = form
        self.process = process
        self.errors = errors

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer. Raises ZooError if the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the empty line below shows that it has ended
        line = self.process.stdout.readline()
        if not line:
            messages = self.errors.read_text(encoding="utf-8", errors="replace").strip()
            last = (messages.splitlines() or ["no message"])[-1]
            raise ZooError(f"{FORMS[self.form].label} has stopped: {last}")
        reply: dict[str, Any] = json.loads(line)
        return reply


@contextmanager
def started(form: str, settings: Mapping[str, Any], python: str, folder: Path) -> Iterator[Process]:
    """Start a side, wait until it is loaded, and end it after the ``with`` block.

    Args:
        form: Name of the form.
        settings: Settings of the side.
        python: Interpreter.
        folder: Folder for its stderr.
    """
    threads = str(settings["threads"])
    environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    errors = folder / f"{form}.stderr"
    command = [python, str(ROOT / "benchmarks" / "whisper_sides.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            command, stderr=stderr, text=True, env=environment, cwd=folder, **pipes
        ) as process,
    ):
        try:
            side = Process(form, process, errors)
            side.ask(settings)
            yield side
        finally:
            process.kill()


def streams_of(
    sides: Sequence[Process], waves: Sequence[Tensor], *, chunk: int, folder: Path
) -> dict[str, list[Stream]]:
    """Stream each recording, a chunk to every side in turn.

    Args:
        sides: Loaded sides.
        waves: Samples (n,) of each recording.
        chunk: Samples of a chunk.
        folder: Folder for the files of samples.

    Returns:
        A stream per recording, by form.
    """
    streams: dict[str, list[Stream]] = {side.form: [] for side in sides}
    for number, wave in enumerate(waves):
        path = folder / f"{number}.npy"
        np.save(path, wave.numpy().astype(np.float32))
        for side in sides:
            streams[side.form].append(Stream())
            side.ask({"open": str(path)})
        for begin in range(0, len(wave), chunk):
            for side in sides:
                end = min(begin + chunk, len(wave))
                reply = side.ask({"begin": begin, "end": end})
                streams[side.form][-1].seconds.append(reply["seconds"])
                streams[side.form][-1].texts.append(reply["text"])
            show_progress(number, min(begin + chunk, len(wave)) / SAMPLE_RATE)
        print(file=sys.stderr)
    return streams


def show_progress(recording: int, end: Seconds) -> None:
    """Write how much of a recording has been streamed, over the last such line."""
    print(f"\rrecording {recording + 1}: {end:.0f} s", end="", file=sys.stderr, flush=True)


def instance_of(
    stream: Stream, talk: Talk, *, index: int, chunk: Seconds, length: Seconds
) -> Instance:
    """Return a stream with the delay of each word: the end of the chunk that completes it.

    Args:
        stream: Output of a side.
        talk: The recording.
        index: Place of the recording.
        chunk: Duration of a chunk.
        length: Duration of the recording.
    """
    times = tuple(
        ChunkTime(min((place + 1) * chunk, length), seconds)
        for place, seconds in enumerate(stream.seconds)
    )
    text = "".join(stream.texts)
    chunk_of_character = [place for place, new in enumerate(stream.texts) for _ in new]
    units, ends = locate_units(text, language(talk.source_language))
    chunks = tuple(chunk_of_character[end - 1] for end in ends)
    return Instance(
        index=index,
        talk=talk.name,
        source_length=length,
        text=text,
        units=tuple(units),
        delays=tuple(times[place].arrival for place in chunks),
        elapsed=(),
        chunk_indices=chunks,
        chunks=times,
    )


def facts_of(
    streams: Sequence[Stream], talks: Sequence[Talk], lengths: Sequence[Seconds], chunk: Seconds
) -> dict[str, float | None]:
    """Return CPU time, error rate and latency of one form.

    Args:
        streams: One per recording.
        talks: The recordings, with references.
        lengths: Streamed duration of each.
        chunk: Duration of a chunk.
    """
    instances = [
        instance_of(stream, talk, index=index, chunk=chunk, length=length)
        for index, (stream, talk, length) in enumerate(zip(streams, talks, lengths, strict=True))
    ]
    target = language(talks[0].source_language)
    found = Scorer(Settings()).streamed(instances, talks, target, check_health=False).scores
    seconds = [one for stream in streams for one in stream.seconds]
    facts: dict[str, float | None] = {
        "cpu_per_second": round(sum(seconds) / sum(lengths), 3),
        "ms_per_chunk": round(1000 * statistics.median(seconds), 1),
    }
    for name, digits in SCORES.items():
        value = found[name].value
        facts[name] = None if value is None else round(value, digits)
    return facts | {"words": sum(len(one.units) for one in instances)}


def ratios_of(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return how many times as fast the zoo is: total CPU time of a peer over that of the zoo.

    The ratio of a peer alone is that of the exact form, which computes what the peer computes.
    """
    ratios = {}
    for peer in (form for form in facts if FORMS[form].side != "zoo"):
        for ours in (form for form in facts if FORMS[form].side == "zoo"):
            name = peer if ours == "exact" else f"{peer}_{ours}"
            ratio = facts[peer]["cpu_per_second"] / facts[ours]["cpu_per_second"]
            ratios[f"{name}_speedup"] = round(ratio, 2)
    return ratios


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The parsed command line. Raises ZooError without weights or recordings."""
    parser = parser_of(__doc__, SIZES, given=given)
    add = parser.add_argument
    add("--whisper", type=Path, metavar="FOLDER", help="weights, in the format of Transformers")
    add("--recordings", type=Path, metavar="FOLDER", help="audio files with transcripts beside")
    add("--language", default="en", help="of the recordings")
    add("--simulstreaming", type=Path, metavar="CLONE", help="clone of ufal/SimulStreaming")
    add("--whisper-streaming", type=Path, metavar="CLONE", help="clone of ufal/whisper_streaming")
    add("--python", default=sys.executable, help="interpreter with the packages of the tools")
    add("--forms", nargs="+", choices=FORMS, default=list(FORMS), help="forms to run")
    options = parser.parse_args(given)
    if options.chunk_ms % 20:
        parser.error(f"argument --chunk-ms: must be a multiple of 20, not {options.chunk_ms}")
    for name in ("whisper", "recordings"):
        if getattr(options, name) is None:
            raise ZooError(f"whisper_peers needs --{name} FOLDER.")
    if shutil.which(options.python) is None:
        raise ZooError(f"There is no interpreter {options.python}.")
    for name in ("whisper", *PEERS):
        folder = getattr(options, name)
        if folder is not None and not folder.is_dir():
            raise ZooError(f"There is no folder {folder}.")
    return options


def recordings_of(options: argparse.Namespace) -> tuple[list[Talk], list[Tensor]]:
    """Return the recordings with their transcripts as references, and their samples (n,).

    Raises:
        ZooError: There is none, or one has no transcript.
    """
    code = options.language
    corpus = Folder(root=str(options.recordings), source_language=code, target_language=code)
    talks = list(with_transcripts(corpus.talks("tst", limit=options.talks), [code]))
    for talk in talks:
        if not all(code in segment.targets for segment in talk.segments) or not talk.segments:
            raise ZooError(f"The recording {talk.name} has no transcript beside it.")
    if not talks:
        raise ZooError(f"There are no recordings in {options.recordings}.")
    talks = [beginning(talk, options.seconds) for talk in talks]
    waves = [audio.load(one.file, start=one.offset, duration=one.duration) for one in talks]
    return talks, waves


def beginning(talk: Talk, limit: Seconds) -> Talk:
    """Return the whole segments of a recording up to a time, or at least the first."""
    if talk.duration <= limit:
        return talk
    ends = [segment.offset + segment.duration for segment in talk.segments]
    count = max(1, sum(end <= limit for end in ends))
    return replace(talk, duration=ends[count - 1], segments=talk.segments[:count])


def print_forms(facts: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a row per form."""
    columns = ("tool", *next(iter(facts.values())))
    rows = [(FORMS[form].label, *map(str, row.values())) for form, row in facts.items()]
    print_table(columns, rows)


def main() -> None:
    """Start all sides, stream the recordings, print a table and the ratios."""
    options = arguments()
    talks, waves = recordings_of(options)
    absent = [label for name, label in PEERS.items() if getattr(options, name) is None]
    forms = {
        name: form
        for name, form in FORMS.items()
        if name in options.forms and (form.side == "zoo" or getattr(options, form.side) is not None)
    }
    chunk = options.chunk_ms * SAMPLE_RATE // 1000
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        common = {
            "whisper": str(options.whisper.resolve()),
            "language": options.language,
            "frames": options.frames,
            "chunk_seconds": options.chunk_ms / 1000,
            "threads": options.threads,
            "converted": str(folder / "converted"),
        }
        sides = []
        for name, form in forms.items():
            is_ours = form.side == "zoo"
            clone = None if is_ours else str(getattr(options, form.side).resolve())
            settings = {**common, "side": form.side, "folder": clone, **form.options}
            python = sys.executable if is_ours else options.python
            sides.append(stack.enter_context(started(name, settings, python, folder)))
        streams = streams_of(sides, waves, chunk=chunk, folder=folder)

    lengths = [len(wave) / SAMPLE_RATE for wave in waves]
    facts = {
        name: facts_of(one, talks, lengths, options.chunk_ms / 1000)
        for name, one in streams.items()
    }
    print_forms(facts)
    settings = {name: getattr(options, name) for name in SIZES}
    counts = {"recordings": len(talks), "audio_seconds": round(sum(lengths), 1), "absent": absent}
    print_result("whisper_peers", settings, counts, {"forms": facts}, ratios_of(facts))


if __name__ == "__main__":
    run_script(main)
