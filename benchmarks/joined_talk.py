"""python benchmarks/joined_talk.py FOLDER [override ...]: one long talk from the talks of a corpus.

Writes ``FOLDER/joined.wav`` and the manifest ``FOLDER/joined.jsonl``, which ``data=aligned`` reads.
Half an hour from test and development talks shows what a short talk cannot: whether target speech
falls behind (``python benchmarks/joined_talk.py joined``, then ``data=aligned data.folder=joined
evaluation.split=joined``).
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch

from harness import MINUTE, add_overrides, parser_of, print_result
from zoo.base.audio import files as audio
from zoo.base.machine.commands import run_script
from zoo.base.talks import Segment, Talk
from zoo.base.types import SAMPLE_RATE, Seconds
from zoo.config import build, compose
from zoo.data import manifest

NAME = "joined"
SPLITS = ("tst", "dev")


def arguments_of() -> argparse.Namespace:
    """The parsed command line."""
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path, help="where the talk is written")
    parser.add_argument("--minutes", type=float, default=30.0, help="shortest length of the talk")
    add_overrides(parser)
    return parser.parse_intermixed_args()


def first_talks(talks: Iterable[Talk], length: Seconds) -> Iterator[Talk]:
    """Yield talks until they have the length in seconds, or all of them."""
    total = 0.0
    for talk in talks:
        if total >= length:
            return
        total += talk.duration
        yield talk


def join(talks: Iterable[Talk], path: Path) -> Talk:
    """Write the audio of talks as one file, and return the talk of it.

    Args:
        talks: talks, at least one.
        path: the audio file.
    """
    waves: list[torch.Tensor] = []
    segments: list[Segment] = []
    samples = 0
    for talk in talks:
        start = samples / SAMPLE_RATE
        segments += [shifted(segment, start) for segment in talk.segments]
        waves.append(audio.load(talk.file, start=talk.offset, duration=talk.duration))
        samples += len(waves[-1])
        language = talk.source_language
    audio.write(path, torch.cat(waves))
    return Talk(NAME, path, samples / SAMPLE_RATE, language, tuple(segments))


def shifted(segment: Segment, seconds: Seconds) -> Segment:
    """Return a segment that is ``seconds`` later."""
    words = tuple(
        replace(word, start=word.start + seconds, end=word.end + seconds) for word in segment.words
    )
    return replace(segment, offset=segment.offset + seconds, words=words)


def main() -> None:
    """Write the talk."""
    arguments = arguments_of()
    corpus = build(compose("evaluate", arguments.overrides).data)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    talks = chain.from_iterable(corpus.talks(split) for split in SPLITS)
    chosen = first_talks(talks, arguments.minutes * MINUTE)
    talk = join(chosen, arguments.folder / f"{NAME}.wav")
    manifest.write(arguments.folder / f"{NAME}.jsonl", [talk])
    settings = {"minutes": round(talk.duration / MINUTE, 2), "segments": len(talk.segments)}
    print_result("joined_talk", settings)


if __name__ == "__main__":
    run_script(main)
