"""Statistics of trajectories (InfiniSST, Table 1, Figures 9 and 10).

``python -m zoo trajectories [--examples N] [key=value ...]`` prints, for one language
direction of any corpus with word alignments, the LAAL of the trajectories of single sentences, the
lengths of robust segments, and examples. The overrides are those of ``evaluate.py``.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median, quantiles

import numpy as np
from rich.console import Console
from rich.table import Table

from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language, language
from zoo.base.machine.hints import program
from zoo.base.talks import Talk
from zoo.base.types import Instance, Seconds
from zoo.config import Config, build, run_composed
from zoo.data.robust_segments import RobustSegments
from zoo.data.sampling import Stretches
from zoo.data.trajectories import chunked_words
from zoo.data.views import sentences, usable_parts
from zoo.metrics.sentences import score_sentences

CHUNK: Seconds = 0.96  # duration of a chunk of a trajectory (section 3.3)
SEGMENT_CHUNKS = 30  # number of chunks of a robust segment


@dataclass(frozen=True, slots=True)
class LengthStatistics:
    """Distribution of one quantity.

    Attributes:
        name: name of the quantity, with its unit.
        values: one value per example, at least one.
    """

    name: str
    values: Sequence[float]

    def cells(self) -> list[str]:
        """Return mean, median, 90th percentile and maximum as text."""
        several = len(self.values) > 1
        high = quantiles(self.values, n=10, method="inclusive")[-1] if several else self.values[0]
        numbers = (fmean(self.values), median(self.values), high, max(self.values))
        return [f"{number:.2f}" for number in numbers]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the statistics and examples that the command line asks for.

    Args:
        arguments: command line without the program's name; None: ``sys.argv``.
    """
    parser = argparse.ArgumentParser(prog=program("trajectories"), description=__doc__)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as of evaluate.py")
    parser.add_argument("--examples", type=int, default=0, help="number of sentences to print")
    options = parser.parse_args(arguments)
    run_composed(options.overrides, partial(report, examples=options.examples))


def report(cfg: Config, *, examples: int = 0) -> None:
    """Print the table of a corpus and the trajectories of its first sentences.

    Args:
        cfg: configuration of ``evaluate.py``, of which corpus, split, limit of talks, target
            language and seed are used.
        examples: number of sentences whose trajectories are printed.

    Raises:
        ZooError: the corpus cannot be read, or a segment has no word times or alignment.
    """
    check_numbers("The command", least=0, examples=examples)
    target = language(cfg.target_language)
    language(cfg.source_language)  # called for its ZooError for an unknown language
    settings = build(cfg.evaluation)
    whole = build(cfg.data).talks(settings.split, limit=settings.talks)
    left_out = sum(not segment.usable for talk in whole for segment in talk.segments)
    if left_out:
        print(f"{left_out} segments that trainings leave out have no trajectories")
    talks = usable_parts(whole)
    streams = sentence_trajectories(talks, target)
    scores = score_sentences(
        streams, [stream.reference for stream in streams], language=target, rules=settings.rules
    )
    latency = scores["LAAL"].value
    print(
        f"{len(streams)} sentences, {cfg.source_language}-{target.code}: LAAL of the trajectories "
        f"{'undefined' if latency is None else f'{1000 * latency:.0f} ms'}"
    )

    table = Table("robust segments of 30 chunks", "mean", "median", "90 %", "maximum", box=None)
    for statistics in segment_lengths(talks, target, seed=cfg.seed):
        table.add_row(statistics.name, *statistics.cells())
    Console().print(table)
    for stream in streams[:examples]:
        print(f"\n{stream.talk}")
        for time, text in time_turns(stream, target):
            print(f"{time:6.2f} s  {text}")


def sentence_trajectories(talks: Sequence[Talk], target: Language) -> list[Instance]:
    """Return the trajectory of every sentence as a stream that emits the reference.

    A word is emitted at the end of the chunk in which its last aligned source word ends, or of the
    sentence.

    Args:
        talks: talks with word times and alignments.
        target: target language.

    Raises:
        ZooError: a segment has no word times, alignment or translation, or there is no segment.
    """
    streams = [
        trajectory(index, sentence, target) for index, sentence in enumerate(sentences(talks))
    ]
    streams = [stream for stream in streams if stream.units]
    if not streams:
        raise ZooError("The talks have no translated segments, so there are no trajectories.")
    return streams


def trajectory(index: int, sentence: Talk, target: Language) -> Instance:
    """Return the trajectory of a talk of one segment, as a stream that emits the reference.

    Args:
        index: number of the stream.
        sentence: talk of one segment with word times and alignment.
        target: target language.

    Raises:
        ZooError: the segment has no word times, alignment or translation.
    """
    chunks = math.ceil(sentence.duration / CHUNK)
    turns = chunked_words(
        sentence.segments, target.code, start=0.0, chunks=chunks, chunk_seconds=CHUNK
    )
    units: list[str] = []
    delays: list[Seconds] = []
    for chunk, words in enumerate(turns, start=1):
        emitted = target.units(target.join(words))
        units += emitted
        delays += [min(chunk * CHUNK, sentence.duration)] * len(emitted)
    return Instance(
        index=index,
        talk=sentence.name,
        source_length=sentence.duration,
        text=target.join(units),
        units=tuple(units),
        delays=tuple(delays),
        elapsed=(),
        reference=sentence.segments[0].targets[target.code].text,
        unit=target.unit,
    )


def segment_lengths(
    talks: Sequence[Talk], target: Language, *, seed: int
) -> list[LengthStatistics]:
    """Return the lengths of the robust segments of one pass over the talks.

    Args:
        talks: talks with word times and alignments.
        target: target language.
        seed: seed of the starts of the segments.
    """
    robust = RobustSegments(
        talks, chunk_seconds=CHUNK, stretches=Stretches(chunks=(SEGMENT_CHUNKS,))
    )
    rows = robust.plan(np.random.default_rng(seed)).positions
    segments = [robust.segment(row) for row in rows]
    texts = [
        target.join(word for turn in segment.turns(target.code) for word in turn)
        for segment in segments
    ]
    return [
        LengthStatistics(
            "audio (s)", [min(segment.seconds, segment.remaining) for segment in segments]
        ),
        LengthStatistics("reference (characters)", [len(text) for text in texts]),
        LengthStatistics("reference (words)", [len(target.words(text)) for text in texts]),
    ]


def time_turns(stream: Instance, target: Language) -> Iterator[tuple[Seconds, str]]:
    """Yield the time of each turn of a trajectory and the text so far."""
    for time in sorted(set(stream.delays)):
        count = sum(delay <= time for delay in stream.delays)
        yield time, target.join(stream.units[:count])


if __name__ == "__main__":
    main()
