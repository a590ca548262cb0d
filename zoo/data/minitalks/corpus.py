"""The built-in corpus in its cache folder: made once, in parallel, resumable; knows no grammar rules and no models.

``python -m zoo.data.minitalks.corpus`` makes all of it; ``--freeze`` also writes its fingerprints (see frozen).
"""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import torch
from rich.console import Console
from rich.progress import track

from zoo import audio
from zoo.data import manifest
from zoo.data.cache import cache_root, locked
from zoo.data.minitalks import frozen
from zoo.data.minitalks.recording import SPLITS, Plan, plans, record
from zoo.data.minitalks.speech import Speaker
from zoo.data.minitalks.version import version_name
from zoo.data.talks import Talk
from zoo.errors import ZooError, run_script, unknown_choice
from zoo.files import atomic_file

MOST_WORKERS = 8


def build(split: str, *, cache: Path | None = None, talks: int | None = None) -> list[Talk]:
    """The talks of ``split`` (tst, dev or train; ``talks``: only the first few), made now where they are missing.

    cache: folder of all corpora (None: ``$SIMULZOO_CACHE`` or ``~/.cache/simulzoo``). Killed and started again it goes
    on with the next talk; two processes at once share the work. Raises ZooError for an unknown split, an unwritable
    cache and a test set that differs from the frozen one.
    """
    if split not in SPLITS:
        raise unknown_choice("split", split, SPLITS)
    if talks is not None and talks < 1:
        raise ZooError(f"A corpus needs at least 1 talk, not {talks}.")
    made = _built(split, folder=corpus_folder(cache) / split, talks=talks)
    frozen.check(split, made)
    return made


def corpus_folder(cache: Path | None = None) -> Path:
    """Folder of this version of the corpus (see version)."""
    return cache_root(cache) / f"minitalks-{version_name()}"


def _built(split: str, *, folder: Path, talks: int | None) -> list[Talk]:
    complete = folder / "manifest.jsonl"
    if complete.is_file():
        return manifest.read(complete)[:talks]
    with locked(folder):
        made = _make(plans(split, talks=talks), folder)
        if len(made) == SPLITS[split].talks:
            manifest.write(complete, made)
    return made


def _make(talks: Sequence[Plan], folder: Path) -> list[Talk]:
    if todo := [plan for plan in talks if not all(path.is_file() for path in _paths(plan, folder))]:
        _record(todo, folder)
    return [manifest.read(_paths(plan, folder)[1])[0] for plan in talks]


def _paths(plan: Plan, folder: Path) -> tuple[Path, Path]:
    """Audio and manifest of one talk; the manifest comes last and marks the talk done."""
    return folder / f"{plan.name}.wav", folder / f"{plan.name}.jsonl"


def _record(todo: Sequence[Plan], folder: Path) -> None:
    workers = min(MOST_WORKERS, os.cpu_count() or 1, len(todo))
    speakers: SimpleQueue[Speaker] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(workers):
            speakers.put(stack.enter_context(Speaker()))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        made = pool.map(lambda plan: _record_one(plan, folder, speakers), todo)
        _show(made, total=len(todo), what=f"Making minitalks {folder.name}")


def _record_one(plan: Plan, folder: Path, speakers: "SimpleQueue[Speaker]") -> None:
    sound, done = _paths(plan, folder)
    speaker = speakers.get()
    try:
        samples, talk = record(plan, speaker=speaker, audio=sound)
    finally:
        speakers.put(speaker)
    with atomic_file(sound) as temporary:
        audio.write(temporary, torch.from_numpy(samples))
    manifest.write(done, [talk])


def _show(made: Iterable[None], *, total: int, what: str) -> None:
    """Wait for everything with a progress bar, or, without a terminal, with at most ten lines."""
    console = Console(stderr=True)
    steps = track(
        made, description=what, total=total, console=console, disable=not console.is_terminal
    )
    for done, _ in enumerate(steps, start=1):
        if not console.is_terminal and done * 10 // total > (done - 1) * 10 // total:
            print(f"{what}: {done} of {total} talks", file=sys.stderr, flush=True)


def main() -> None:
    """Make the corpus and print what it holds."""
    parser = argparse.ArgumentParser(description="Make the built-in corpus minitalks.")
    parser.add_argument(
        "--split", choices=SPLITS, action="append", help="only this split (may be repeated)"
    )
    parser.add_argument("--talks", type=int, help="only the first talks of each split")
    parser.add_argument(
        "--freeze",
        action="store_true",
        help="write the fingerprints of this version into frozen.json",
    )
    arguments = parser.parse_args()
    if arguments.freeze:
        frozen.freeze_samples()
        frozen.freeze("tst", _built("tst", folder=corpus_folder() / "tst", talks=None))
    for split in arguments.split or SPLITS:
        talks = build(split, talks=arguments.talks)
        hours = sum(talk.duration for talk in talks) / 3600
        sentences = sum(len(talk.segments) for talk in talks)
        print(
            f"{split}: {len(talks)} talks, {hours:.2f} hours, {sentences} sentences in {talks[0].file.parent}"
        )


if __name__ == "__main__":
    run_script(main)
