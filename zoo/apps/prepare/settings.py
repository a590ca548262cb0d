"""Settings of a preparation."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.types import Seconds

STEPS = (
    *("audio", "words", "retranslation", "prefixes", "alignment", "trajectories"),
    *("recognition", "estimation", "filters", "card"),
)
MEASURED = ("recognition", "estimation")  # what a re-translation reads, so that they precede it


@dataclass(frozen=True, kw_only=True, slots=True)
class PrepareSettings:
    """What is prepared, where and by how many processes.

    Attributes:
        folder: folder of the result: ``<split>.jsonl`` for data=aligned, the card, and the results
            of the steps.
        splits: splits of the corpus.
        talks: number of talks from the start of each split; None: all.
        targets: codes of the languages of the translations that are kept; None: all that the
            corpus has.
        workers: number of processes of this machine.
        shard: ``i/n`` for the i-th of n jobs, counted from 1, such as those of a SLURM array; the
            last one to end writes the result. None: one job.
        merge: whether to write the result of shards that have ended, without doing their work.
        part_seconds: talks are prepared together in parts of this much audio. A killed preparation
            repeats the parts at which it was working.
        tar_megabytes: size of the tar archives into which the audio is written, for trainings from
            object storage; None: audio files.

    Raises:
        ZooError: a value is impossible.
    """

    folder: str | None = None
    splits: Sequence[str] = ("train", "dev")
    talks: int | None = None
    targets: Sequence[str] | None = None
    workers: int = 1
    shard: str | None = None
    merge: bool = False
    part_seconds: Seconds = 600.0
    tar_megabytes: int | None = None

    def __post_init__(self) -> None:
        check_numbers(
            "prepare",
            least=1,
            workers=self.workers,
            talks=self.talks,
            tar_megabytes=self.tar_megabytes,
        )
        check_numbers("prepare", least=0, part_seconds=self.part_seconds)
        if not self.splits or len(set(self.splits)) != len(self.splits):
            raise ZooError("prepare.splits must name each split once, and at least one.")
        if self.merge and self.shard is not None:
            raise ZooError(
                "prepare.merge writes the result of all shards; leave out prepare.shard."
            )
        self.shard_numbers()

    def shard_numbers(self) -> tuple[int, int]:
        """Return the number of the shard, from 0, and of all shards. Raises ZooError if wrong."""
        if self.shard is None:
            return 0, 1
        try:
            number, of = map(int, self.shard.split("/"))
        except ValueError:
            number, of = 0, 0
        if not 1 <= number <= of:
            raise ZooError(
                f"prepare.shard is {self.shard!r}; it must be i/n with i from 1 to n, such as 1/8."
            )
        return number - 1, of


def check_steps(steps: Sequence[str]) -> None:
    """Check the names of steps; they are always done in one order.

    Raises:
        ZooError: a step is unknown, named twice, or there is none.
    """
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        raise ZooError(f"steps must be a list such as [words,alignment], not {steps!r}.")
    for step in steps:
        check_choice("step", step, STEPS)
    if not steps or len(set(steps)) != len(steps):
        raise ZooError(f"steps must name each step once, and at least one of: {', '.join(STEPS)}.")


def in_order(steps: Collection[str]) -> list[str]:
    """Return the names of steps in the order in which they are done.

    Recognition and estimation come late because all work after an estimation is that of one job;
    with a re-translation they precede it.
    """
    order = list(STEPS)
    if "retranslation" in steps:
        order = [step for step in order if step not in MEASURED]
        place = order.index("retranslation")
        order[place:place] = MEASURED
    return [step for step in order if step in steps]
