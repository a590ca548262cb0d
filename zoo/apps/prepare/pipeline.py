"""Does the steps of a split, part by part, in one process or several."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from zoo.apps.prepare.items import Item, new_item
from zoo.apps.prepare.steps.base import Step
from zoo.apps.prepare.store import Store, hash_value, source_key
from zoo.base.errors import ZooError
from zoo.base.progress import show_progress
from zoo.base.talks import Talk

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """A step with the settings on which its results depend.

    Attributes:
        step: the step.
        settings: values that JSON can describe.
        refuses: whether the preparation ends after the step if a talk has a problem.
    """

    step: Step
    settings: Mapping[str, Any]
    refuses: bool = False


@dataclass(frozen=True, slots=True)
class StageTask:
    """The work of one step on one part.

    Attributes:
        store: where results are.
        part: number of the part.
        key: key of the result.
        source: name of the step before; None: the part is ``talks``.
        talks: talks of the corpus, for the first step.
    """

    store: Store
    part: int
    key: str
    source: str | None
    talks: Sequence[Talk]

    def items(self) -> list[Item]:
        """Return the items of the part before the step."""
        if self.source is None:
            return [new_item(talk) for talk in self.talks]
        return self.store.read(self.source, self.part)

    def done_by(self, step: Step) -> None:
        """Let a loaded step do the work, and write the result."""
        self.store.write(step.name, self.part, self.key, _after(step, self.items()))


class Pipeline:
    """The steps of one split.

    Args:
        store: where results are.
        stages: the steps in their order.
        parts: all talks of the split, in parts.
        workers: number of processes.
        device: device of the networks.
        title: name of the work, for the progress bar.
    """

    def __init__(
        self,
        store: Store,
        stages: Sequence[PipelineStage],
        parts: Sequence[Sequence[Talk]],
        *,
        workers: int = 1,
        device: "torch.device | None" = None,
        title: str = "Preparing",
    ) -> None:
        self.store = store
        self.stages = stages
        self.parts = parts
        self.workers = workers
        self.device = device
        self.title = title
        self._sources: dict[int, str] = {}  # key of the talks of each part

    def run(self, shard: int = 0, shards: int = 1) -> None:
        """Do the work of one shard.

        With several shards, this ends before the first step that needs all talks.

        Args:
            shard: number of the shard, from 0.
            shards: number of shards.

        Raises:
            ZooError: a step cannot do its work, a talk has a problem, or a process was killed.
        """
        with ExitStack() as stack:
            pool = stack.enter_context(self._processes()) if self.workers > 1 else None
            for stage_index in range(self._separable() if shards > 1 else len(self.stages)):
                if self.stages[stage_index].step.whole_corpus:
                    self._together(stage_index)
                else:
                    self._each(stage_index, range(shard, len(self.parts), shards), pool)
                if self.stages[stage_index].refuses:
                    self._refuse(stage_index)

    @contextmanager
    def _processes(self) -> Iterator[ProcessPoolExecutor]:
        """Yield worker processes, which start with the first task."""
        pool = ProcessPoolExecutor(
            min(self.workers, len(self.parts)),
            mp_context=get_context("spawn"),
            initializer=_start,
            initargs=([stage.step for stage in self.stages], self.device),
        )
        try:
            yield pool
        except BrokenProcessPool as error:
            raise ZooError(
                "A process was killed, perhaps for its memory; start the command again, with fewer "
                "prepare.workers. What is done is kept."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)

    def missing(self) -> set[int]:
        """Return the parts whose work of the shards is not complete."""
        everything = range(len(self.parts))
        stages = range(self._separable())
        return {part for stage_index in stages for part in self._pending(stage_index, everything)}

    def items(self) -> Iterator[Item]:
        """Yield all items after the last step."""
        for part in range(len(self.parts)):
            yield from self._task(len(self.stages), part).items()

    def _refuse(self, stage_index: int) -> None:
        """Log why talks cannot be used after a stage, and raise ZooError if there are any."""
        name = self.stages[stage_index].step.name
        heads = [self.store.head(name, part) for part in range(len(self.parts))]
        problems = [problem for head in heads if head for problem in head.problems]
        for problem in problems:
            logger.warning("%s", problem)
        if problems:
            others = f" {len(problems) - 1} more talks have problems." if problems[1:] else ""
            raise ZooError(f"{problems[0]}{others} {name}.damaged=drop leaves such talks out.")

    def _separable(self) -> int:
        """Return the number of stages before the first one that needs all talks."""
        whole = [stage.step.whole_corpus for stage in self.stages]
        return whole.index(True) if True in whole else len(whole)

    def _task(self, stage_index: int, part: int, key: str = "") -> StageTask:
        """Return the work of a stage on a part; after the last stage, only its items are there."""
        if stage_index == 0:
            return StageTask(self.store, part, key, None, self.parts[part])
        return StageTask(self.store, part, key, self.stages[stage_index - 1].step.name, ())

    def _pending(self, stage_index: int, parts: Sequence[int]) -> dict[int, str]:
        """Return the parts on which a stage has to work, with the keys of the work.

        A key is empty if the stage before has not worked on the part.
        """
        keys = self._keys(stage_index, parts)
        heads = {part: self.store.head(self.stages[stage_index].step.name, part) for part in parts}
        return {
            part: key
            for part, key in keys.items()
            if not key or (head := heads[part]) is None or head.key != key
        }

    def _keys(self, stage_index: int, parts: Sequence[int]) -> dict[int, str]:
        """Return the keys of a stage's work on parts; empty without the stage before."""
        stage = self.stages[stage_index]
        made = [stage.step.name, dict(stage.settings)]
        if not stage.step.whole_corpus:
            sources = {part: self._source(stage_index, part) for part in parts}
            return {part: source and hash_value([source, made]) for part, source in sources.items()}
        received = [self._source(stage_index, part) for part in range(len(self.parts))]
        whole = hash_value(received) if all(received) else ""
        return {part: whole and hash_value([whole, made, part]) for part in parts}

    def _source(self, stage_index: int, part: int) -> str:
        """Return a hash of what a stage receives; empty if it is not there."""
        if stage_index > 0:
            head = self.store.head(self.stages[stage_index - 1].step.name, part)
            return head.digest if head else ""
        if part not in self._sources:
            self._sources[part] = source_key(self.parts[part], self.store.folder)
        return self._sources[part]

    def _each(
        self, stage_index: int, parts: Sequence[int], pool: ProcessPoolExecutor | None
    ) -> None:
        """Do the work of a stage, part by part, in worker processes or here."""
        step = self.stages[stage_index].step
        pending = self._pending(stage_index, parts)
        tasks = [self._task(stage_index, part, key) for part, key in pending.items()]
        if not tasks:
            return
        if pool is None:
            work = self._alone(step, tasks)
        else:
            futures = [pool.submit(_do, stage_index, task) for task in tasks]
            work = (done.result() for done in as_completed(futures))
        for _ in show_progress(work, total=len(tasks), title=f"{self.title}: {step.name}"):
            pass

    def _alone(self, step: Step, tasks: Sequence[StageTask]) -> Iterator[None]:
        """Do tasks in this process."""
        step.load(self.device)
        for task in tasks:
            task.done_by(step)
            yield

    def _together(self, stage_index: int) -> None:
        """Do the work of a stage that needs all talks."""
        everything = range(len(self.parts))
        if not self._pending(stage_index, everything):
            return
        keys = self._keys(stage_index, everything)
        step = self.stages[stage_index].step
        step.load(self.device)
        parts = [self._task(stage_index, part).items() for part in everything]
        after = iter(_after(step, [item for part in parts for item in part]))
        for number, part in enumerate(
            show_progress(parts, total=len(parts), title=f"{self.title}: {step.name}")
        ):
            items = [next(after) for _ in part]
            self.store.write(step.name, number, keys[number], items)


def _after(step: Step, items: Sequence[Item]) -> list[Item]:
    """Return items after a step, which gets those without a problem."""
    results = iter(step([item for item in items if not item.problem]))
    return [item if item.problem else next(results) for item in items]


_steps: Sequence[Step] = ()  # steps of a worker process
_device: "torch.device | None" = None
_loaded: set[int] = set()  # indices of the steps whose weights are loaded


def _start(steps: Sequence[Step], device: "torch.device | None") -> None:
    """Prepare a worker process; one thread each, because the processes share the cores."""
    global _steps, _device
    import torch

    torch.set_num_threads(1)
    _steps, _device = steps, device


def _do(stage_index: int, task: StageTask) -> None:
    """Do a task in a worker process."""
    if stage_index not in _loaded:
        _steps[stage_index].load(_device)
        _loaded.add(stage_index)
    task.done_by(_steps[stage_index])
