"""Does the output of a talk depend on the other talks, on their order, the batch or the ranks?

    python benchmarks/independence.py                              every shipped system, float64
    python benchmarks/independence.py --dtype float32              as the models are shipped
    python benchmarks/independence.py --small --systems streamatt  seconds

Each talk is streamed alone, then in other orders, in batches of 2 to ``--batch`` streams, and
divided among ranks, each of which loads the system anew. Words and delays must be equal. A row
shows the first word that differs. In float32 the order of a sum depends on the batch, so two tokens
whose scores differ by less than the rounding may swap.
"""

import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from harness import parser_of, print_result, print_table
from zoo.base.errors import check_choice
from zoo.base.machine.commands import run_script
from zoo.base.talks import Talk
from zoo.base.types import Instance
from zoo.config import build, compose
from zoo.streaming.simulate import Source, simulate
from zoo.streaming.sources import source
from zoo.systems.base import StreamingSystem

SYSTEMS = {  # a new system is one line: its overrides of evaluate.py
    "infinisst": ["system=infinisst"],
    "infinisst_zh": ["system=infinisst", "target_language=zh"],
    "lst": ["system=streamatt", "backbone=lst_minitalks"],
    "streamatt": ["system=streamatt"],
    "streamatt_plus": ["system=streamatt_plus"],
    "alignatt": ["system=alignatt"],
    "edatt": ["system=edatt"],
    "local_agreement": ["system=local_agreement"],
    "wait_k": ["system=wait_k"],
    "streamuni_phi4": ["system=streamuni", "backbone=phi4_minitalks"],
    "streamuni_qwen": ["system=streamuni", "backbone=qwen_minitalks"],
    "learned_wait": ["system=learned_wait"],
    "cascade": ["system=streamuni", "backbone=cascade_minitalks"],
    "simulu": ["system=simulu", "synthesizer=none"],
}
DTYPES = ("float64", "float32")
SEED = 0

Words = tuple[tuple[str, float], ...]  # each word (or character) with its delay in seconds
Run = dict[str, Words]  # by talk


@dataclass(frozen=True, slots=True)
class Outcome:
    """Comparison of one way of streaming the talks with each talk alone.

    Attributes:
        way: name of the way.
        differing: number of talks with other words or delays.
        first: first difference; empty if there is none.
    """

    way: str
    differing: int
    first: str


def load(overrides: Sequence[str], dtype: str) -> StreamingSystem:
    """Return a system with its weights."""
    given = [*overrides, f"backbone.dtype={dtype}", "device=cpu"]
    system: StreamingSystem = build(compose("evaluate", given).system)
    system.configure_model()
    system.eval()
    return system


def sources(system: StreamingSystem, talks: Sequence[Talk], chunks: int | None) -> Iterator[Source]:
    """Yield the streams of talks, at most ``chunks`` chunks each."""
    for talk in talks:
        whole = source(talk, system.target_language, chunk_samples=system.chunk_samples)
        yield replace(whole, chunks=islice(whole.chunks, chunks))


def words_of(instances: Iterable[Instance]) -> Run:
    """Return the words of each talk; ``tests/test_matrix.py`` compares them by ``compare`` too."""
    return {
        instance.talk: tuple(zip(instance.units, instance.delays, strict=True))
        for instance in instances
    }


def stream(
    system: StreamingSystem, talks: Sequence[Talk], chunks: int | None, *, batch: int
) -> Run:
    """Stream talks in this order; return the words of each."""
    return words_of(simulate(system, sources(system, talks, chunks), batch_size=batch))


def compare(way: str, alone: Run, run: Run) -> Outcome:
    """Compare the words of all talks."""
    differing = [talk for talk in alone if alone[talk] != run.get(talk)]
    if not differing:
        return Outcome(way, 0, "")
    talk = differing[0]
    pairs = zip(alone[talk], run.get(talk, ()), strict=False)
    equal = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
    place = min(len(alone[talk]), len(run.get(talk, ()))) if equal is None else equal
    words = [
        repr(words[place][0]) if place < len(words) else "the end"
        for words in (alone[talk], run.get(talk, ()))
    ]
    return Outcome(way, len(differing), f"{talk}, word {place + 1}: {words[0]} became {words[1]}")


def outcomes(
    overrides: Sequence[str],
    talks: Sequence[Talk],
    *,
    dtype: str,
    chunks: int | None = None,
    batches: Sequence[int] = (2, 3, 8),
    ranks: Sequence[int] = (2, 3),
) -> Iterator[Outcome]:
    """Compare all ways of streaming talks through a system with each talk alone.

    Args:
        overrides: overrides of the system.
        talks: talks, at least two.
        dtype: data type of the weights.
        chunks: number of chunks of each talk; None: all.
        batches: numbers of streams that advance in lockstep.
        ranks: numbers of processes that the talks are divided among; each loads the system anew.
    """
    system = load(overrides, dtype)
    alone: Run = {}
    for talk in talks:
        alone |= stream(system, [talk], chunks, batch=1)
    if not any(alone.values()):
        yield Outcome("alone", len(alone), "no talk has a word")
        return
    shuffled = list(talks)
    random.Random(SEED).shuffle(shuffled)
    orders = {"reversed": list(reversed(talks)), "shuffled": shuffled}
    for name, order in orders.items():
        yield compare(name, alone, stream(system, order, chunks, batch=1))
    for batch in batches:
        yield compare(f"batch {batch}", alone, stream(system, talks, chunks, batch=batch))
        order = orders["reversed"]
        yield compare(f"batch {batch}, reversed", alone, stream(system, order, chunks, batch=batch))
    for count in ranks:
        divided: Run = {}
        for rank in range(count):
            own = load(overrides, dtype)
            divided |= stream(own, talks[rank::count], chunks, batch=1)
        yield compare(f"{count} ranks", alone, divided)


def main() -> None:
    """Compare all systems, print a row for each way, and exit with 1 if a float64 row differs."""
    sizes = {
        "talks": (6, 3, "talks of the test set"),
        "chunks": (60, 12, "chunks of each talk"),
        "batch": (8, 3, "largest batch"),
    }
    parser = parser_of(__doc__, sizes)
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS))
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0], help="of the weights")
    given = parser.parse_args()
    for name in given.systems:
        check_choice("system", name, SYSTEMS)

    talks = list(build(compose("evaluate").data).talks("tst", limit=given.talks))
    rows: list[tuple[str, Outcome]] = []
    for name in given.systems:
        batches = range(2, given.batch + 1)
        found = outcomes(
            SYSTEMS[name], talks, dtype=given.dtype, chunks=given.chunks, batches=batches
        )
        for outcome in found:
            rows.append((name, outcome))
            print(f"{name}, {outcome.way}: {outcome.first or 'equal'}", file=sys.stderr, flush=True)
    table = [(name, one.way, f"{one.differing} of {len(talks)}", one.first) for name, one in rows]
    print_table(("system", "way", "talks that differ", "first difference"), table)
    settings = {"talks": given.talks, "chunks": given.chunks, "dtype": given.dtype}
    differing = {
        name: sum(one.differing for other, one in rows if other == name) for name in given.systems
    }
    print_result("independence", settings, {"differing": differing})
    sys.exit(int(given.dtype == "float64" and any(differing.values())))


if __name__ == "__main__":
    run_script(main)
