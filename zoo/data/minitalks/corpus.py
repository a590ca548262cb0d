"""The built-in corpus in the cache folder: synthesised once, in parallel, resumable.

``python -m zoo minitalks`` synthesises all splits; with ``--freeze`` it also writes
their fingerprints (see ``frozen.py``).
"""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from zoo.base.audio import files as audio
from zoo.base.disk.files import atomic_file
from zoo.base.errors import ZooError, check_choice
from zoo.base.espeak.speech import Speaker, in_parallel
from zoo.base.machine.commands import run_script
from zoo.base.machine.hints import program
from zoo.base.progress import show_progress
from zoo.base.talks import Talk
from zoo.data import manifest
from zoo.data.cache import cache_root, is_intact, lock_folder, seal, seal_if_complete
from zoo.data.minitalks import frozen
from zoo.data.minitalks.recording import SPLITS, TalkPlan, plans, record
from zoo.data.minitalks.version import version_name

MAX_WORKERS = 8
TEST_SPLITS = ("tst", "tst_hard", "tst_names")  # the splits with a fingerprint


def build(split: str, *, cache: Path | None = None, talks: int | None = None) -> list[Talk]:
    """Return the talks of a split; synthesise those that are not in the cache.

    An interrupted build resumes with the next talk. A talk whose files are missing or damaged is
    synthesised again. Several processes may build at the same time.

    Args:
        split: a key of ``SPLITS``.
        cache: cache folder of all corpora; None: ``$SIMULZOO_CACHE`` or ``~/.cache/simulzoo``.
        talks: number of talks from the start of the split; None: all.

    Raises:
        ZooError: the split is unknown, ``talks`` is less than 1, the cache is not writable, or the
            talks of a test set differ from the frozen ones.
    """
    check_choice("split", split, SPLITS)
    if talks is not None and talks < 1:
        raise ZooError(f"A corpus needs at least 1 talk, not {talks}.")
    result = _build(split, folder=corpus_folder(cache) / split, talks=talks)
    frozen.check(split, result)
    return result


def corpus_folder(cache: Path | None = None) -> Path:
    """Return the folder of this version of the corpus (see ``version.py``)."""
    return cache_root(cache) / f"minitalks-{version_name()}"


def _build(split: str, *, folder: Path, talks: int | None) -> list[Talk]:
    complete = folder / "manifest.jsonl"  # exists once the whole split has been synthesised
    if is_intact(complete):
        stored = manifest.read(complete, limit=talks)
        if all(is_intact(talk.file) for talk in stored):
            return stored

    with lock_folder(folder):
        talk_plans = plans(split, talks=talks)
        missing = [
            plan for plan in talk_plans if not all(map(seal_if_complete, _paths(plan, folder)))
        ]
        if missing:
            _synthesise(missing, folder)
        result = [manifest.read(_paths(plan, folder)[1])[0] for plan in talk_plans]
        if len(result) == SPLITS[split].talks:
            manifest.write(complete, result)
            seal(complete)
    return result


def _paths(plan: TalkPlan, folder: Path) -> tuple[Path, Path]:
    """Return the paths of audio and manifest; the manifest is written last and marks completion."""
    return folder / f"{plan.name}.wav", folder / f"{plan.name}.jsonl"


def _synthesise(talk_plans: Sequence[TalkPlan], folder: Path) -> None:
    """Synthesise talks in parallel, with one espeak-ng process per worker."""
    workers = min(MAX_WORKERS, os.cpu_count() or 1, len(talk_plans))
    results = in_parallel(partial(_synthesise_talk, folder), talk_plans, workers=workers)
    title = f"Synthesising minitalks {folder.name}"
    for _ in show_progress(results, total=len(talk_plans), title=title):
        pass


def _synthesise_talk(folder: Path, speaker: Speaker, plan: TalkPlan) -> None:
    audio_path, manifest_path = _paths(plan, folder)
    samples, talk = record(plan, speaker=speaker, audio=audio_path)
    with atomic_file(audio_path) as temporary:
        audio.write(temporary, torch.from_numpy(samples))
    manifest.write(manifest_path, [talk])
    for path in (audio_path, manifest_path):
        seal(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Synthesise the corpus and print its size.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(
        prog=program("minitalks"),
        description="Synthesise the built-in corpus minitalks.",
    )
    parser.add_argument(
        "--split", choices=SPLITS, action="append", help="only this split (may be repeated)"
    )
    parser.add_argument("--talks", type=int, help="only the first talks of each split")
    parser.add_argument(
        "--freeze",
        action="store_true",
        help="write the fingerprints of this version to frozen.json",
    )
    given = parser.parse_args(arguments)

    def synthesise() -> None:
        if given.freeze:
            frozen.freeze_samples()
            for split in TEST_SPLITS:
                frozen.freeze(split, _build(split, folder=corpus_folder() / split, talks=None))
        for split in given.split or SPLITS:
            talks = build(split, talks=given.talks)
            hours = sum(talk.duration for talk in talks) / 3600
            sentences = sum(len(talk.segments) for talk in talks)
            print(
                f"{split}: {len(talks)} talks, {hours:.2f} hours, {sentences} sentences in "
                f"{talks[0].file.parent}"
            )

    run_script(synthesise)


if __name__ == "__main__":
    main()
