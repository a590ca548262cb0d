"""The built-in corpus in its cache folder: made once, in parallel, resumable; knows no grammar rules and no models.

``python -m zoo.data.minitalks.corpus`` makes all of it; ``--freeze`` also writes the fingerprint of tst (see frozen).
"""

import argparse
import fcntl
import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

import torch
from rich.console import Console
from rich.progress import track

from zoo import audio
from zoo.data import manifest
from zoo.data.minitalks import frozen
from zoo.data.minitalks.recording import SPLITS, Plan, plans, record
from zoo.data.minitalks.speech import Speaker
from zoo.data.talks import Talk
from zoo.errors import ZooError, unknown

MOST_WORKERS = 8
_NOT_CONTENT = ("__init__.py", "corpus.py", "frozen.py", "statistics.py")


def build(split: str, *, cache: Path | None = None, talks: int | None = None) -> list[Talk]:
    """The talks of ``split`` (tst, dev or train; ``talks``: only the first few), made now where they are missing.

    cache: folder of all corpora (None: ``$SIMULZOO_CACHE`` or ``~/.cache/simulzoo``). Killed and started again it goes
    on with the next talk; two processes at once share the work. Raises ZooError for an unknown split, an unwritable
    cache and a test set that differs from the frozen one.
    """
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    if talks is not None and talks < 1:
        raise ZooError(f"A corpus needs at least 1 talk, not {talks}.")
    made = _built(split, folder=corpus_folder(cache) / split, talks=talks)
    frozen.check(split, made)
    return made


def corpus_folder(cache: Path | None = None) -> Path:
    """Folder of this version of the corpus: its name changes with the code and the libraries that make the sound."""
    root = cache or Path(os.environ.get("SIMULZOO_CACHE") or Path.home() / ".cache" / "simulzoo")
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        if source.name not in _NOT_CONTENT:
            digest.update(source.read_bytes())
    for library in ("espeakng-loader", "soxr"):
        digest.update(importlib.metadata.version(library).encode())
    return Path(root) / f"minitalks-{digest.hexdigest()[:12]}"


def _built(split: str, *, folder: Path, talks: int | None) -> list[Talk]:
    complete = folder / "manifest.jsonl"
    if complete.is_file():
        return manifest.read(complete)[:talks]
    with _locked(folder):
        made = _make(plans(split, talks=talks), folder)
        if len(made) == SPLITS[split].talks:
            manifest.write(complete, made)
    return made


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder; a second process waits here and then finds the work done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise ZooError(
            f"Cannot write to the corpus cache {folder} ({error.strerror}); set SIMULZOO_CACHE to a writable folder."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(todo: Sequence[Plan], folder: Path) -> list[Talk]:
    workers = min(MOST_WORKERS, os.cpu_count() or 1, len(todo))
    speakers: SimpleQueue[Speaker] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(workers):
            speakers.put(stack.enter_context(Speaker()))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        made = pool.map(lambda plan: _made(plan, folder, speakers), todo)
        return list(_shown(made, total=len(todo), what=f"Making minitalks {folder.name}"))


def _made(plan: Plan, folder: Path, speakers: "SimpleQueue[Speaker]") -> Talk:
    """The talk from the cache, or made and put there; the manifest of one talk comes last and marks it done."""
    sound, done = folder / f"{plan.name}.wav", folder / f"{plan.name}.jsonl"
    if done.is_file() and sound.is_file():
        return manifest.read(done)[0]
    speaker = speakers.get()
    try:
        samples, talk = record(plan, speaker=speaker, audio=sound)
    finally:
        speakers.put(speaker)
    partial = sound.with_suffix(".partial")
    audio.write(partial, torch.from_numpy(samples))
    partial.replace(sound)
    manifest.write(done, [talk])
    return talk


def _shown(talks: Iterable[Talk], *, total: int, what: str) -> Iterator[Talk]:
    """Pass talks on with a progress bar, or, without a terminal, about ten lines."""
    console = Console(stderr=True)
    if console.is_terminal:
        yield from track(talks, description=what, total=total, console=console)
        return
    for done, talk in enumerate(talks, start=1):
        if done * 10 // total > (done - 1) * 10 // total:
            print(f"{what}: {done} of {total} talks", file=sys.stderr, flush=True)
        yield talk


def main() -> None:
    """Make the corpus and print what it holds."""
    parser = argparse.ArgumentParser(description="Make the built-in corpus minitalks.")
    parser.add_argument("--split", choices=SPLITS, action="append", help="only this split (may be repeated)")
    parser.add_argument("--talks", type=int, help="only the first talks of each split")
    parser.add_argument("--freeze", action="store_true", help="write the fingerprint of tst into frozen.json")
    arguments = parser.parse_args()
    if arguments.freeze:
        frozen.freeze("tst", _built("tst", folder=corpus_folder() / "tst", talks=None))
    for split in arguments.split or SPLITS:
        talks = build(split, talks=arguments.talks)
        hours = sum(talk.duration for talk in talks) / 3600
        sentences = sum(len(talk.segments) for talk in talks)
        print(f"{split}: {len(talks)} talks, {hours:.2f} hours, {sentences} sentences in {talks[0].audio.parent}")


if __name__ == "__main__":
    try:
        main()
    except ZooError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
