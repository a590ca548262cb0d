"""Agreement of prepared trajectories with gold ones, on minitalks without its gold times and links.

    python benchmarks/prepared.py OUT --target de word_times=ctc word_times.name=FOLDER
        word_alignment=eflomal

minitalks is written to ``OUT/mustc`` in the form of MuST-C, which has audio, the times of sentences
and texts only. ``python -m zoo.prepare`` makes ``OUT/prepared-en-<targets>`` of it with the
overrides; a killed preparation is continued by the same command. Several targets (``--target de
--target es``) become one corpus, so that the words are timed once. The result is compared with the
gold word times and alignments: the shares of the target words that are written in the same chunk of
960 ms, in an earlier or a later one. The chunks begin at the start of the talk. Words that are
written later than with the gold alignment, but not later than all the source words that determine
them are known ("as determined": an article waits for the noun that gives its gender), and words of
sentences that trainings leave out are counted by themselves.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness import ROOT, parser_of, print_result, print_table, rounded
from zoo.data import manifest
from zoo.data.corpora import Aligned, MiniTalks
from zoo.data.talks import Segment, Talk
from zoo.data.trajectories import emission_times
from zoo.files import write_text
from zoo.types import SAMPLE_RATE

CHUNK = round(0.96 * SAMPLE_RATE)  # samples
SAME, EARLIER, DETERMINED, LATER, LOST = "same", "earlier", "as determined", "later", "left out"
SHARES = (SAME, EARLIER, DETERMINED, LATER, LOST)


def main() -> None:
    """Write the corpus, prepare it and print the agreement."""
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path, help="folder that is written")
    parser.add_argument("--target", action="append", help="a target language; None: de")
    parser.add_argument("--split", action="append", help="a split; None: train")
    parser.add_argument("--talks", type=int, help="only the first talks of each split")
    parser.add_argument(
        "--phonemes",
        action="store_true",
        help="also write OUT/labelled-en-<targets> with minitalks' phoneme times, on which the "
        "first stage of infinisst_minitalks trains the encoder instead of loading a trained one",
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides of zoo.prepare")
    given = parser.parse_intermixed_args()

    targets = given.target or ["de"]
    direction = f"en-{'-'.join(targets)}"
    splits = given.split or ["train"]
    gold = {split: MiniTalks().talks(split, limit=given.talks) for split in splits}
    root, folder = given.out / "mustc", given.out / f"prepared-{direction}"
    for target in targets:
        for split, talks in gold.items():
            write_mustc(root, split, talks, target)
    prepare(root, folder, targets, splits, given.overrides)

    results: dict[str, dict[str, float]] = {}
    for split, talks in gold.items():
        prepared = Aligned(folder=str(folder)).talks(split)
        for target in targets:
            results[f"{target} {split}"] = agreement(prepared, talks, target)
        if given.phonemes:
            write_labelled(given.out / f"labelled-{direction}", split, prepared, talks)
    print_table(
        ("% of target words", *SHARES),
        [(name, *(f"{found[one]:.2f}" for one in SHARES)) for name, found in results.items()],
    )
    print_result("prepared", {name: rounded(found) for name, found in results.items()})


def write_mustc(root: Path, split: str, talks: Sequence[Talk], target: str) -> None:
    """Write a split in the form of MuST-C, with links to the audio files."""
    folder = root / f"en-{target}" / "data" / split
    for name in ("txt", "wav"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    rows: list[str] = []
    texts: dict[str, list[str]] = {"en": [], target: []}
    for talk in talks:
        link = folder / "wav" / f"{talk.name}.wav"
        if not link.is_symlink():
            link.symlink_to(talk.file)
        for one in talk.segments:
            rows.append(
                f"- {{duration: {one.duration:.6f}, offset: {one.offset:.6f}, "
                f"speaker_id: spk.1, wav: {talk.name}.wav}}"
            )
            texts["en"].append(one.source)
            texts[target].append(one.targets[target].text)
    for suffix, lines in {"yaml": rows, **texts}.items():
        write_text(folder / "txt" / f"{split}.{suffix}", "".join(f"{line}\n" for line in lines))


def prepare(
    root: Path,
    folder: Path,
    targets: Sequence[str],
    splits: Sequence[str],
    overrides: Sequence[str],
) -> None:
    """Prepare the corpus in a process of its own.

    Args:
        root: folder of the corpus in the form of MuST-C.
        folder: folder of the result.
        targets: target languages.
        splits: names of the splits.
        overrides: Hydra overrides.
    """
    command = [
        *(sys.executable, "-m", "zoo.prepare", "data=mustc", f"data.root={root}"),
        *(f"target_language={targets[0]}", f"data.further_targets=[{','.join(targets[1:])}]"),
        *(f"prepare.folder={folder}", "logger=csv"),
        *(f"prepare.splits=[{','.join(splits)}]", *overrides),
    ]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SystemExit(2)


def write_labelled(
    folder: Path, split: str, prepared: Sequence[Talk], gold: Sequence[Talk]
) -> None:
    """Write prepared talks with the phoneme times of gold ones."""
    labels = {talk.name: talk.labels for talk in gold}
    folder.mkdir(exist_ok=True)
    manifest.write(
        folder / f"{split}.jsonl", (replace(one, labels=labels[one.name]) for one in prepared)
    )


def agreement(prepared: Sequence[Talk], gold: Sequence[Talk], target: str) -> dict[str, float]:
    """Return the shares of the target words in percent.

    Args:
        prepared: talks of the preparation, which may lack some.
        gold: talks with gold times and alignments.
        target: code of the target language.
    """
    talks = {talk.name: talk for talk in prepared}
    counts: Counter[str] = Counter()
    for expected in gold:
        found = talks.get(expected.name)
        for index, segment in enumerate(expected.segments):
            other = found.segments[index] if found else None
            chunks = chunks_of(segment, target)
            if other is None or not other.usable:
                counts[LOST] += len(chunks)
                continue
            known = chunks_of(with_determiners(segment, target), target)
            for mine, right, latest in zip(chunks_of(other, target), chunks, known, strict=True):
                counts[place_of(mine, right, latest)] += 1
    return {name: 100 * counts[name] / counts.total() for name in SHARES}


def place_of(chunk: int, gold: int, latest: int) -> str:
    """Return the name of the share that a target word belongs to.

    Args:
        chunk: chunk after which the prepared trajectory writes the word.
        gold: that of the gold alignment.
        latest: chunk in which the last source word that determines the word ends.
    """
    if chunk == gold:
        return SAME
    if chunk < gold:
        return EARLIER
    return DETERMINED if chunk <= latest else LATER


def with_determiners(segment: Segment, target: str) -> Segment:
    """Return a gold segment whose target words are aligned to all words that determine them."""
    translation = segment.targets[target]
    determiners = translation.needs or translation.alignment
    return replace(segment, targets={target: replace(translation, alignment=determiners)})


def chunks_of(segment: Segment, target: str) -> list[int]:
    """Return the chunk of the talk, from 0, after which each target word is written."""
    ends = (round(time * SAMPLE_RATE) for _, time in emission_times(segment, target))
    return [(end - 1) // CHUNK for end in ends]


if __name__ == "__main__":
    main()
