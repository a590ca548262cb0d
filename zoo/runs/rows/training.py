"""A training as its run folder records it: logged values and evaluated development talks."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

from zoo.base.disk.parsing import (
    MALFORMED,
    bounded_whole,
    has_control_characters,
    read_bounded,
    read_json,
)
from zoo.base.disk.run_folder import METRICS, RESULTS, RUN_CARD
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data import manifest
from zoo.formats.text import LARGEST
from zoo.runs.rows.join import DEVELOPMENT
from zoo.runs.rows.names import main_score
from zoo.runs.rows.row import read_rows
from zoo.runs.rows.segments import NAME as SEGMENTS
from zoo.runs.rows.segments import ScoredSegment, read_segments
from zoo.runs.rows.streams import TALKS, playable

STEP = "step"
LAST_EXPORT = "export"  # folder of the last weights, which a training writes at its end
WANDB_ADDRESS = "wandb_address.txt"  # of the run on the W&B server; offline there is none
MEAN = "mean"  # in the place of a direction: the mean over all directions
SAMPLES = 3

Point = tuple[int, float]  # optimizer step and value
Segment = tuple[str, int]  # name of the talk and number of the segment


@dataclass(frozen=True, slots=True)
class Sample:
    """A segment of the development talks and its translations during the training.

    Attributes:
        direction: such as ``en-de``.
        target_language: language code of the translations.
        segment: the segment as the last evaluation has scored it.
        talk: its talk; None without its file.
        translations: the segment of each evaluation that has it, by optimizer step.
    """

    direction: str
    target_language: str
    segment: ScoredSegment
    talk: Talk | None
    translations: Mapping[int, ScoredSegment]


@dataclass(frozen=True)
class TrainingRun:
    """A training, which may not be finished.

    Attributes:
        folder: run folder.
        records: logged values by name, a record per optimizer step.
        samples: some segments of the development talks.
        is_finished: whether the last weights are exported.
    """

    folder: Path
    records: Sequence[Mapping[str, Any]]
    samples: Sequence[Sample] = ()
    is_finished: bool = field(kw_only=True)

    @property
    def last_step(self) -> int:
        """The last optimizer step with a logged value."""
        return int(self.records[-1][STEP])

    def points(self, name: str) -> list[Point]:
        """Return the logged values of a name by step."""
        return [(record[STEP], record[name]) for record in self.records if name in record]

    @cached_property
    def names(self) -> list[str]:
        """Names of all logged values, in the order of their columns."""
        return list(dict.fromkeys(name for record in self.records for name in record))

    @cached_property
    def stages(self) -> dict[str, int]:
        """The first step with a logged loss of each stage, in the order of the steps."""
        parts = [name.split("/") for name in self.names]
        stages = ["/".join(one[1:-1]) for one in parts if one[0] == "train" and one[-1] == "loss"]
        first = {stage: self.points(f"train/{stage}/loss")[0][0] for stage in stages}
        return dict(sorted(first.items(), key=lambda item: item[1]))

    @cached_property
    def directions(self) -> list[str]:
        """Directions with a development BLEU, and ``mean`` if there are several."""
        end = f"/{main_score('quality')}"
        return [
            name.removeprefix("dev/").removesuffix(end)
            for name in self.names
            if name.startswith("dev/") and name.endswith(end)
        ]

    @property
    def ranking(self) -> str | None:
        """The direction whose BLEU ranks the checkpoints; None without a development BLEU."""
        return MEAN if MEAN in self.directions else next(iter(self.directions), None)

    @cached_property
    def evaluated(self) -> list[Mapping[str, Any]]:
        """The records of the steps with a development evaluation."""
        return [one for one in self.records if any(name.startswith("dev/") for name in one)]

    @cached_property
    def best(self) -> Mapping[str, Any] | None:
        """The first record with the best development BLEU; None without one."""
        name = f"dev/{self.ranking}/{main_score('quality')}"
        scored = [record for record in self.records if name in record]
        return max(scored, key=lambda record: record[name], default=None)


def read_training(folder: Path) -> TrainingRun:
    """Read the run folder of a training.

    Raises:
        ZooError: it has no logged values of optimizer steps, or a file in it is damaged.
    """
    records = read_curve(folder / METRICS)
    if not records:
        raise ZooError(f"{folder / METRICS} has no value of an optimizer step yet.")
    is_finished = (folder / LAST_EXPORT).is_dir()
    return TrainingRun(folder, records, read_samples(folder), is_finished=is_finished)


def is_training(folder: Path) -> bool:
    """Return whether a folder is the run folder of a training, which has no rows of results."""
    if not (folder / METRICS).is_file() or (folder / RESULTS).is_file():
        return False
    try:  # an evaluation that ended before its first row has logged values, too
        return bool(read_json(folder / RUN_CARD)["kind"] != "evaluate")
    except (OSError, *MALFORMED):
        return True


def find_trainings(place: Path) -> Iterator[Path]:
    """Yield the run folder of a training, or of all trainings in any other folder."""
    if is_training(place):
        yield place
    elif place.is_dir() and not (place / RESULTS).is_file():
        for inner in sorted(place.iterdir()):
            if not inner.is_symlink():
                yield from find_trainings(inner)


def read_curve(path: Path) -> list[dict[str, Any]]:
    """Return the logged values by step; of a step that was repeated, the later ones.

    Args:
        path: ``metrics.csv`` of a training.

    Raises:
        ZooError: the file is damaged.
    """
    steps: dict[int, dict[str, Any]] = {}
    try:
        text = read_bounded(path, LARGEST).decode()
        if has_control_characters(text.replace("\r\n", "\n")):
            raise ValueError("it contains control characters, which a terminal would obey")
        for line in csv.DictReader(StringIO(text, newline="")):
            if line.get(STEP):
                step = bounded_whole(line[STEP])
                record = steps.setdefault(step, {STEP: step})
                record |= {
                    name: float(value) for name, value in line.items() if value and name != STEP
                }
    except (OSError, csv.Error, *MALFORMED) as error:
        raise ZooError(f"{path} is damaged: {error}.") from error
    return [steps[step] for step in sorted(steps)]


def read_samples(folder: Path, count: int = SAMPLES) -> list[Sample]:
    """Return segments of the development talks, evenly spaced, with all their translations.

    Segments without a reference are left out unless no segment has one.

    Args:
        folder: run folder of a training.
        count: number of segments, which the directions share.

    Raises:
        ZooError: a file is damaged.
    """
    directions: dict[tuple[str, str], dict[int, Path]] = {}
    for step, path in _evaluations(folder / DEVELOPMENT):
        row = read_rows(path / RESULTS)[0]
        direction = f"{row.source_language}-{row.target_language}"
        directions.setdefault((direction, row.target_language), {})[step] = path

    samples: list[Sample] = []
    for place, ((direction, target), paths) in enumerate(sorted(directions.items())):
        found = {step: _segments(path) for step, path in paths.items()}
        last = found[max(found)]
        share = len(range(place, count, len(directions)))
        talks = _talks(paths[max(found)]) if share else {}
        for key in _spread([key for key in last if last[key].reference.strip()] or [*last], share):
            translations = {step: found[step][key] for step in sorted(found) if key in found[step]}
            samples.append(Sample(direction, target, last[key], talks.get(key[0]), translations))
    return samples


def _evaluations(folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield the step and the folder of each direction of each complete evaluation."""
    for outer in sorted(folder.glob("step*")):
        number = outer.name.removeprefix("step")
        if number.isdecimal() and not outer.is_symlink():
            for path in (outer, *sorted(inner for inner in outer.iterdir() if inner.is_dir())):
                if (path / RESULTS).is_file() and (path / SEGMENTS).is_file():
                    yield int(number), path


def _segments(folder: Path) -> dict[Segment, ScoredSegment]:
    """Return the segments of an evaluation."""
    segments = read_segments(folder / SEGMENTS, needed_by="the page of a training")
    return {(one.talk, one.segment): one for one in segments}


def _talks(folder: Path) -> dict[str, Talk]:
    """Return the talks of an evaluation by name; without audio that is not on this machine."""
    if not (folder / TALKS).is_file():
        return {}
    return {talk.name: playable(talk) for talk in manifest.read(folder / TALKS)}


def _spread(items: Sequence[Segment], count: int) -> list[Segment]:
    """Return at most ``count`` items, evenly spaced."""
    count = min(count, len(items))
    return [items[(2 * place + 1) * len(items) // (2 * count)] for place in range(count)]
