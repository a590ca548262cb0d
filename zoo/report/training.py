"""Writes the page and the plot of a training: ``training.html`` and ``training.png``.

Both are functions of the run folder, so they can be written at any time during the training and
again after it. The page is one file without scripts.
"""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.base.disk.files import write_text
from zoo.base.disk.parsing import parse_yaml
from zoo.base.disk.run_folder import METRICS, OVERRIDES, PROVENANCE, RUN_CARD
from zoo.base.languages import language
from zoo.base.types import Seconds
from zoo.metrics.alignment import REPEATED, RIGHT, WRONG, align, mark_repetitions
from zoo.report.palette import STYLES
from zoo.report.render import render
from zoo.report.sounds import Sound, excerpt
from zoo.report.table import number
from zoo.runs.rows.names import find_entry, main_score
from zoo.runs.rows.segments import ScoredSegment
from zoo.runs.rows.training import STEP, WANDB_ADDRESS, Sample, TrainingRun, read_training

PAGE, PLOT = "training.html", "training.png"
CLIP: Seconds = 30.0  # longest source audio of a sample
LOSS_DIGITS = 3
MARKS = {RIGHT: "", WRONG: "wrong", REPEATED: "repeated"}  # CSS classes; others are "added"


@dataclass(frozen=True, slots=True)
class Tile:
    """A number in the head of the page.

    Attributes:
        name: what the number is.
        value: the number as text.
        note: what belongs to it.
    """

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class ShownTranslation:
    """The translation of a sample at one evaluation.

    Attributes:
        step: optimizer step of the evaluation.
        is_best: whether its BLEU over all talks is the best.
        words: words, or characters, with the CSS class of their mark.
        score: chrF of the segment.
    """

    step: int
    is_best: bool
    words: list[tuple[str, str]]
    score: str


@dataclass(frozen=True, slots=True)
class ShownSample:
    """A sample as the page shows it.

    Attributes:
        sample: the sample.
        separator: text between two words.
        sound: its source audio, if there is one.
        translations: one per evaluation.
    """

    sample: Sample
    separator: str
    sound: Sound | None
    translations: list[ShownTranslation]


def write_training(folder: Path) -> tuple[Path, Path]:
    """Write the page and the plot of a training into its run folder.

    Args:
        folder: run folder of the training.

    Returns:
        Paths of the page and the plot.

    Raises:
        ZooError: the run has no logged values of a training, or a file in it is damaged.
    """
    # imports matplotlib, which takes a second
    from zoo.report.training_plots import panel_svg, plot_training, training_panels

    training = read_training(folder)
    title, sentences = _title(folder), headline(training)
    plot_training(training, folder / PLOT, title=title, headline=sentences[0])
    page = render(
        "training.html",
        title=title,
        styles=STYLES,
        headline=sentences,
        tiles=tiles(training),
        panels=[(panel.title, panel_svg(panel)) for panel in training_panels(training)],
        stages=stage_lines(training),
        evaluations=evaluation_table(training),
        best=training.best and training.best[STEP],
        samples=[_shown(sample, training) for sample in training.samples],
        facts=_facts(folder),
        links=_links(folder),
    )
    write_text(folder / PAGE, page)
    return folder / PAGE, folder / PLOT


def headline(training: TrainingRun) -> list[str]:
    """Return what a training has reached: its state and best evaluation, and what is wrong."""
    quality, latency = main_score("quality"), main_score("latency")
    name = f"dev/{training.ranking}/{quality}"
    state = "Finished" if training.is_finished else "Not finished"
    sentences = [f"{state}; the last logged step is {training.last_step:,}."]
    if training.best is not None:
        best = f"Best development {quality} {_score(training.best[name], quality)}"
        best += f" at step {training.best[STEP]:,}"
        seconds = training.best.get(f"dev/{training.ranking}/{latency}")
        if seconds is not None:
            best += f" with a {latency} of {_score(seconds, latency)} s"
        last = training.points(name)[-1]
        if last[0] != training.best[STEP]:
            best += f"; {_score(last[1], quality)} at the last evaluation, step {last[0]:,}"
        sentences.insert(0, f"{best}.")
    for stage in training.stages:
        wrong = [s for s, x in training.points(f"train/{stage}/loss") if not math.isfinite(x)]
        if wrong:
            sentences.append(f"The training loss of {stage} is not finite at step {wrong[0]:,}.")
    return sentences


def tiles(training: TrainingRun) -> list[Tile]:
    """Return the numbers in the head of the page."""
    quality, latency = main_score("quality"), main_score("latency")
    found = []
    if training.best is not None:
        scored = training.points(f"dev/{training.ranking}/{quality}")
        note = f"step {training.best[STEP]:,}; first evaluation {_score(scored[0][1], quality)}"
        value = _score(training.best[f"dev/{training.ranking}/{quality}"], quality)
        found.append(Tile(f"best development {quality}", value, note))
        seconds = training.best.get(f"dev/{training.ranking}/{latency}")
        if seconds is not None:
            found.append(
                Tile(
                    f"{latency} at this step",
                    f"{_score(seconds, latency)} s",
                    "without computation time",
                )
            )
    lines = stage_lines(training)
    if lines:
        note = f"{lines[-1]['stage']}, first {lines[-1]['first']}"
        found.append(Tile("last training loss", lines[-1]["last"], note))
    speeds = training.points("throughput/tokens_per_second")
    if speeds:
        mean = sum(value for _, value in speeds) / len(speeds)
        waits = [share for _, share in training.points("throughput/data_wait_share")]
        waited = f", {sum(waits) / len(waits):.0%} of the time waiting for data" if waits else ""
        found.append(Tile("tokens per second", f"{mean:,.0f}", f"mean of the training{waited}"))
    return found


def stage_lines(training: TrainingRun) -> list[dict[str, str]]:
    """Return the steps and losses of each stage as text: the means of its ends, and the lowest."""
    lines = []
    for stage, first in training.stages.items():
        losses = training.points(f"train/{stage}/loss")
        share = max(1, len(losses) // 20)
        development = training.points(f"dev/{stage}/loss")
        lowest = min(development, key=lambda point: point[1], default=None)
        lines.append(
            {
                "stage": stage,
                "steps": f"{first:,} to {losses[-1][0]:,}",
                "first": _mean(losses[:share]),
                "last": _mean(losses[-share:]),
                "lowest": "" if lowest is None else number(lowest[1], LOSS_DIGITS),
                "at": "" if lowest is None else f"{lowest[0]:,}",
            }
        )
    return lines


def evaluation_table(training: TrainingRun) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names and, for each step, the values of the development evaluations."""
    ends = main_score("quality"), main_score("latency")  # their columns are the first ones
    names = [name for name in training.names if name.startswith("dev/")]
    names.sort(key=lambda name: not name.endswith(ends))
    lines = [
        (one[STEP], [_score(one.get(name), name.rpartition("/")[2]) for name in names])
        for one in training.evaluated
    ]
    return [" ".join(name.split("/")[1:]) for name in names], lines


def _mean(points: Sequence[tuple[int, float]]) -> str:
    """Return the mean value of points as text."""
    return number(sum(value for _, value in points) / len(points), LOSS_DIGITS)


def _score(value: float | None, name: str) -> str:
    """Return a value with the decimals of its score; losses and accuracies have three."""
    is_score = name in (main_score("quality"), main_score("latency"))
    return number(value, find_entry(name).digits if is_score else LOSS_DIGITS)


def _shown(sample: Sample, training: TrainingRun) -> ShownSample:
    """Return a sample with marked translations and audio."""
    best = None if training.best is None else training.best[STEP]
    target = language(sample.target_language)
    sound, talk, segment = None, sample.talk, sample.segment
    if talk is not None and talk.audio is not None:
        start = talk.offset + segment.offset
        sound = excerpt(talk.audio, start, min(segment.duration, CLIP))
    translations = [
        ShownTranslation(
            step,
            step == best,
            _marked(one, sample.target_language),
            number(one.scores.get("chrF"), 0),
        )
        for step, one in sample.translations.items()
    ]
    return ShownSample(sample, target.separator, sound, translations)


def _marked(segment: ScoredSegment, target: str) -> list[tuple[str, str]]:
    """Return the units of a translation with the CSS classes of their marks."""
    to = language(target)
    units = to.units(segment.hypothesis)
    marks = RIGHT * len(units)
    if segment.reference.strip():
        marks = align(units, to.units(segment.reference), language=to).marks
        marks = mark_repetitions(units, marks, language=to)
    return [(unit, MARKS.get(mark, "added")) for unit, mark in zip(units, marks, strict=True)]


def _title(folder: Path) -> str:
    """Return the name of a run, or of its folder."""
    return str(_json(folder / RUN_CARD).get("name") or folder.name)


def _facts(folder: Path) -> dict[str, list[str]]:
    """Return the provenance of a run by name, as far as its folder has it."""
    record = _json(folder / PROVENANCE)
    git, hardware = record.get("git") or {}, record.get("hardware") or {}
    overrides = folder / OVERRIDES
    typed = parse_yaml(overrides.read_text(encoding="utf-8")) if overrides.is_file() else []
    facts = {
        "overrides": shlex.join(typed or []),
        "run": str(_json(folder / RUN_CARD).get("id") or ""),
        "training talks": str(record.get("train_talks") or ""),
        "git commit": f"{git.get('commit', '')}{' (with changes)' if git.get('dirty') else ''}",
        "machine": ", ".join(
            [str(hardware["cpu"]), *map(str, hardware.get("gpus") or [])] if hardware else []
        ),
    }
    return {name: [text] for name, text in facts.items() if text}


def _links(folder: Path) -> dict[str, str]:
    """Return the addresses of the files of a run and of its page on the W&B server, by name."""
    paths = [*sorted(folder.glob("config*.yaml")), folder / METRICS]
    links = {path.name: path.name for path in paths if path.is_file()}
    if (folder / WANDB_ADDRESS).is_file():
        address = (folder / WANDB_ADDRESS).read_text(encoding="utf-8").strip()
        if address.startswith(("https://", "http://")):
            links["Weights & Biases"] = address
    return {PLOT: PLOT, **links}


def _json(path: Path) -> Mapping[str, Any]:
    """Return the content of a JSON file; empty if there is none."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content if isinstance(content, dict) else {}
