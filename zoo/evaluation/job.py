"""evaluate.py's work: from a configuration to a run folder with results, logs, plots and a page."""

import sys
from pathlib import Path

import torch

from zoo.config import Config, build, is_multirun, machine, overrides, plain, run_folder
from zoo.data.corpora import Corpus
from zoo.data.minitalks.frozen import content_hash
from zoo.evaluation.runner import Evaluator, Settings
from zoo.report.page import write_report
from zoo.report.plots import plot_curves
from zoo.report.results import Row
from zoo.report.table import print_table
from zoo.systems.base import StreamingSystem
from zoo.tracking.provenance import provenance
from zoo.tracking.run import CARD, open_run, run_id_of
from zoo.tracking.tracker import Tracker, track

HYPOTHESES = ("row", "talk", "offset", "source", "reference", "hypothesis")


def evaluate(cfg: Config) -> None:
    """Evaluate the configured system and print the table and where everything lies. Raises ZooError on bad input."""
    settings: Settings = build(cfg.evaluation)
    system: StreamingSystem = build(cfg.system)
    corpus: Corpus = build(cfg.data)
    torch.manual_seed(cfg.seed)
    system.configure_model()
    system.to(machine(cfg))
    talks = corpus.talks(settings.split, limit=settings.talks)
    run = open_run(run_folder(), kind="evaluate", multirun=is_multirun())
    facts = {"corpus_hash": content_hash(talks), "convention": settings.convention, "batch_size": settings.batch_size}
    with track(run, config=plain(cfg), overrides=overrides(), facts=facts, settings=build(cfg.logger)) as tracker:
        declare_model(tracker, cfg.backbone.get("checkpoint"))
        evaluator = Evaluator(corpus=corpus.name, talks=talks, settings=settings, folder=run.folder)
        for row in evaluator.run(system):
            log_row(tracker, row)
        for row in evaluator.oracles(system.target_language, system.source_language):
            log_row(tracker, row)
        publish(evaluator, tracker, run.folder, facts)


def declare_model(tracker: Tracker, checkpoint: str | None) -> None:
    """Tell the tracker which training this evaluation rests on, where the checkpoint says so."""
    if checkpoint is not None and (Path(checkpoint) / CARD).is_file():
        tracker.use_checkpoint(Path(checkpoint), run_id=run_id_of(Path(checkpoint)))


def log_row(tracker: Tracker, row: Row) -> None:
    """Scores under stable keys such as ``tst/en-de/StreamLAAL``; reference rows keep their own name."""
    prefix = f"{row.split}/{row.source_language}-{row.target_language}"
    if row.kind != "system":
        prefix += "/" + row.system.replace(" ", "_")
    knob = None if row.knob is None else (row.knob.name, row.knob.value)
    tracker.log_scores(prefix, row.scores, knob=knob)


def publish(evaluator: Evaluator, tracker: Tracker, folder: Path, facts: dict[str, object]) -> None:
    """Plots, page and table; the same to the tracker."""
    rows, streams = evaluator.evaluation.rows, evaluator.evaluation.streams
    png, _ = plot_curves(rows, folder / "curves")
    page = folder / "report.html"
    known = provenance()
    context = {
        "command": " ".join(["python", Path(sys.argv[0]).name, *overrides()]),
        **{str(name): str(value) for name, value in facts.items()},
        "git commit": str(known.get("git_commit")),
        "machine": str(known.get("hardware")),
    }
    write_report(page, rows=rows, streams=streams, title=f"SimulZoo: {evaluator.corpus}", context=context)
    tracker.log_image("curves", png)
    tracker.log_table("hypotheses", HYPOTHESES, hypothesis_table(evaluator))
    for path in (folder / "results.json", page):
        tracker.log_file(path)
    print_table(rows)
    print(f"results: {folder / 'results.json'}\nreport:  {page}")


def hypothesis_table(evaluator: Evaluator) -> list[list[object]]:
    """A line per row and reference segment."""
    rows = evaluator.evaluation.rows
    return [
        [
            rows[stream.row].instances.split("/")[1],
            stream.talk.name,
            segment.offset,
            segment.source,
            segment.reference,
            segment.hypothesis,
        ]
        for stream in evaluator.evaluation.streams
        for segment in stream.segments
    ]
