"""The job of evaluate.py: from a configuration to a run folder with scores, logs and a report."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from zoo.arguments import fits
from zoo.config import (
    Config,
    build,
    compose,
    is_multirun,
    machine,
    overrides,
    plain,
    row_name,
    run_folder,
)
from zoo.data.corpora import Corpus
from zoo.data.fingerprint import content_hash
from zoo.data.talks import Talk
from zoo.errors import ZooError, unknown_choice
from zoo.evaluation import smoke
from zoo.evaluation.recorded import InstanceSource, match_streams
from zoo.evaluation.runner import Evaluator, Settings, has_speech, knob_values, talks_to_stream
from zoo.evaluation.sources import check_talks
from zoo.evaluation.speech import SpeechModels
from zoo.report.page import write_report
from zoo.report.plots import plot_curves
from zoo.report.results import Row
from zoo.report.table import by_system, print_table
from zoo.systems.base import StreamingSystem
from zoo.tracking.provenance import provenance
from zoo.tracking.run import CARD, ensure_writable, open_run, run_id_of
from zoo.tracking.tracker import Tracker
from zoo.types import SAMPLE_RATE

# columns of the logged table of hypotheses
HYPOTHESES = ("row", "talk", "offset", "source", "reference", "hypothesis")
# keys that an entry of `compare` may change
PARTS = (
    "system",
    "backbone",
    "policy",
    "history",
    "synthesizer",
    "source_language",
    "target_language",
)
FAILED = 1  # exit code of a smoke test with a failed check
TABLE_WIDTH = 100  # columns, where stdout is not a terminal

Choices = Mapping[StreamingSystem | InstanceSource, Config]  # configuration of each system


def evaluate(cfg: Config) -> None:
    """Evaluate the configured systems; print the table and the paths of the results.

    Raises ZooError on bad input.
    """
    # The configurations of all systems are composed before any part is built, because building a
    # part replaces the interpolations in its node by their values.
    entries = system_configurations(cfg)
    settings: Settings = build(cfg.evaluation)
    device, logger = machine(cfg), build(cfg.logger)
    choices: Choices = {build(choice.system): choice for choice in entries}
    corpus: Corpus = build(cfg.data)
    if not isinstance(cfg.smoke, bool):
        raise unknown_choice("value of smoke", cfg.smoke, ("true", "false"))
    if cfg.smoke:
        torch.manual_seed(cfg.seed)
        smoke_test(choices, corpus, settings, device)
        return

    models = speech_models(choices, settings)
    talks = prepare(list(choices), corpus, settings)
    models.load(device)
    run = open_run(run_folder(), kind="evaluate", multirun=is_multirun())
    facts = {
        "corpus_hash": content_hash(talks),
        "convention": settings.convention,
        "batch_size": settings.batch_size,
    }
    with Tracker(
        run, config=plain(cfg), overrides=overrides(), facts=facts, settings=logger
    ) as tracker:
        evaluator = Evaluator(
            corpus=corpus.name, talks=talks, settings=settings, folder=run.folder, models=models
        )
        evaluate_systems(evaluator, choices, tracker, device=device, seed=cfg.seed)
        if models.notes:
            facts |= {"not scored": " ".join(models.notes)}
        publish(evaluator, tracker, run.folder, facts)
        for note in models.notes:
            print(note)


def evaluate_systems(
    evaluator: Evaluator, choices: Choices, tracker: Tracker, *, device: torch.device, seed: int
) -> None:
    """Evaluate every system, then the oracles of every language pair, and log each row.

    Args:
        evaluator: evaluator of the corpus.
        choices: configuration of each system.
        tracker: receives the scores.
        device: device on which the networks run, one network at a time.
        seed: seed that is set before each system runs.
    """
    networks: list[object] = []
    for system, choice in choices.items():
        torch.manual_seed(seed)
        if isinstance(system, StreamingSystem):
            declare_model(tracker, plain(choice)["backbone"])
            system.to(device)
        network = network_of(plain(choice))
        for row in evaluator.run(system, upper_bound=network not in networks):
            log_row(tracker, row, compared=len(choices) > 1)
        networks.append(network)
        if isinstance(system, StreamingSystem):
            system.cpu()

    pairs = [(system.target_language, system.source_language) for system in choices]
    for target, source in dict.fromkeys(pairs):
        for row in evaluator.oracles(target, source):
            log_row(tracker, row, compared=True)


def speech_models(choices: Choices, settings: Settings) -> SpeechModels:
    """Return the models that score the target speech of the systems.

    The configuration of a system names the recogniser of its target language. No recogniser weights
    are read. Raises ZooError for a missing model that is required.
    """
    recognisers = {}
    for system, choice in choices.items():
        if has_speech(system):
            recognisers[system.target_language.code] = build(choice.evaluation).recogniser
    return SpeechModels.available(recognisers, settings.utmos)


def network_of(config: Mapping[str, Any]) -> object:
    """Return the settings on which the offline row of a system depends.

    These are the backbone without its alignment, the synthesizer and the languages. Systems with
    equal settings share one offline row.
    """
    backbone = {
        key: value for key, value in (config.get("backbone") or {}).items() if key != "alignment"
    }
    return backbone, config["synthesizer"], config["source_language"], config["target_language"]


def smoke_test(choices: Choices, corpus: Corpus, settings: Settings, device: torch.device) -> None:
    """Stream a few sentences through each system and print its checks; no file is written.

    Args:
        choices: configuration of each system.
        corpus: source of the sentences.
        settings: settings of the evaluation; the split and the first knob value are used.
        device: device on which the networks run.

    Raises:
        ZooError: a setting, a talk or a recorded system does not fit.
        SystemExit: a system fails a check; the exit code is 1.
    """
    systems = [system for system in choices if isinstance(system, StreamingSystem)]
    if len(systems) < len(choices):
        raise ZooError(
            "smoke=true streams a few sentences; a recorded system has nothing to stream."
        )
    for system in systems:
        value = knob_values(system, settings)[0]
        if value is not None:
            system.turn_knob(value)
    talks = smoke.pick_sentences(corpus, settings.split)
    for source, target in dict.fromkeys(
        (system.source_language, system.target_language) for system in systems
    ):
        check_talks(talks, source=source, target=target)

    passed = True
    for system in systems:
        system.configure_model()
        print(smoke.title(system.to(device), plain(choices[system])["backbone"].get("checkpoint")))
        outputs = smoke.translate(system, talks)
        step = system.chunk_samples / SAMPLE_RATE
        checks = [
            smoke.check_weights(system),
            *smoke.check_outputs(
                outputs, system.target_language, step, with_speech=has_speech(system)
            ),
        ]
        smoke.show(outputs, checks, wide_console())
        passed = passed and all(check.ok for check in checks)
        system.cpu()
    if not passed:
        sys.exit(FAILED)


def wide_console() -> Console:
    """Return a console as wide as the terminal, or ``TABLE_WIDTH`` columns elsewhere."""
    console = Console()
    return console if console.is_terminal else Console(width=TABLE_WIDTH)


def system_configurations(cfg: Config) -> list[Config]:
    """Return the configuration of each system: ``cfg``, or one per entry of ``compare``."""
    entries = plain(cfg)["compare"]
    if entries is None:
        return [cfg]
    if not entries or not fits(entries, Mapping[str, Sequence[str]]):
        raise ZooError(f'compare must look like {{name: ["key=value"], other: []}}, not {entries}.')
    return [_compared(cfg, name, entry) for name, entry in entries.items()]


def _compared(cfg: Config, name: str, entry: Sequence[str]) -> Config:
    """Return the configuration of one entry of ``compare``.

    Raises ZooError if the entry sets a key that all systems share.
    """
    choice = compose("evaluate", [*overrides(), *entry])
    choice.system.name = row_name(name, overrides(), entry)
    shared, own = plain(cfg, resolve=False), plain(choice, resolve=False)
    for key in own:
        if key not in PARTS and own[key] != shared.get(key):
            raise ZooError(
                f"compare.{name} sets {key}, which all systems share; set it outside of compare."
            )
    return choice


def prepare(
    choices: Sequence[StreamingSystem | InstanceSource], corpus: Corpus, settings: Settings
) -> Sequence[Talk]:
    """Load talks and weights, and check all input before long work and before files are written.

    Args:
        choices: systems and recorded logs.
        corpus: source of the talks.
        settings: settings of the evaluation.

    Returns:
        The talks.

    Raises:
        ZooError: a value, file or stream does not fit.
    """
    streaming = [system for system in choices if isinstance(system, StreamingSystem)]
    for system in streaming:
        knob_values(system, settings)  # raises ZooError for a value that the system does not accept
    ensure_writable(run_folder())
    talks = corpus.talks(settings.split, limit=settings.talks)

    # Systems often share languages; the talks are checked once for each combination.
    combinations = [
        (system.source_language, system.target_language, system in streaming) for system in choices
    ]
    for source, target, streamed in dict.fromkeys(combinations):
        check_talks(talks, source=source, target=target, streamed=streamed)
    for recording in choices:
        if not isinstance(recording, StreamingSystem):
            # raises ZooError if the talks and the recorded streams do not match
            match_streams(
                recording, talks_to_stream(talks, settings), all_streams=settings.talks is None
            )

    for system in streaming:
        system.configure_model()
        for value in knob_values(system, settings):
            if value is not None:
                system.turn_knob(value)
            system.open("")  # raises ZooError if no stream can start at this value
    return talks


def declare_model(tracker: Tracker, backbone: Mapping[str, Any]) -> None:
    """Log which training run the backbone's checkpoint comes from, if it has a run id."""
    checkpoint = backbone.get("checkpoint")
    if checkpoint is not None and (Path(checkpoint) / CARD).is_file():
        tracker.use_checkpoint(Path(checkpoint), run_id=run_id_of(Path(checkpoint)))


def log_row(tracker: Tracker, row: Row, *, compared: bool) -> None:
    """Log scores under stable keys such as ``tst/en-de/StreamLAAL``.

    Args:
        tracker: receives the scores.
        row: row of results. The key of a reference row contains the name of the row.
        compared: whether the run has several systems. The key of every row contains the name of
            its system then.
    """
    prefix = f"{row.split}/{row.source_language}-{row.target_language}"
    if compared or row.kind != "system":
        prefix += "/" + row.system.replace(" ", "_")
    knob = None if row.knob is None else (row.knob.name, row.knob.value)
    tracker.log_scores(prefix, row.scores, knob=knob)


def publish(evaluator: Evaluator, tracker: Tracker, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the plots and the HTML report, log both, and print the table.

    Args:
        evaluator: evaluator with all rows.
        tracker: receives plots, tables and files.
        folder: run folder.
        facts: further facts for the report, by name.
    """
    rows, streams = evaluator.rows, evaluator.streams
    png, _ = plot_curves(rows, folder / "curves")
    page = folder / "report.html"
    systems = [row for row in rows if row.kind == "system"]
    # A recorded log may have a convention of its own.
    conventions = sorted({row.settings["convention"] or "no elapsed times" for row in systems})
    run_facts = {**facts, "convention": ", ".join(conventions)}
    write_report(
        page,
        rows=rows,
        streams=streams,
        title=f"SimulZoo: {evaluator.corpus}",
        context=context(run_facts),
    )

    tracker.log_image("curves", png)
    for group in by_system(systems):
        log_curve(tracker, group)
    tracker.log_table("hypotheses", HYPOTHESES, hypothesis_table(evaluator))
    for path in (folder / "results.json", page):
        tracker.log_file(path)

    print_table(rows, console=wide_console())
    print(f"results: {relative_path(folder / 'results.json')}\nreport:  {relative_path(page)}")


def program() -> list[str]:
    """Return the words that start this program: ``python evaluate.py`` or ``simulzoo-evaluate``."""
    name = Path(sys.argv[0]).name
    return ["python", name] if name.endswith(".py") else [name]


def context(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the provenance of the run, as the report shows it.

    Args:
        facts: further facts by name.
    """
    record = provenance()
    git, hardware = record["git"], record["hardware"]
    commit = f"{git['commit']}{' (with changes)' if git['dirty'] else ''}" if git else "unknown"
    parts = [
        hardware["cpu"],
        f"{hardware['usable_cores']} cores",
        f"{hardware['torch_threads']} threads",
        *hardware["gpus"],
    ]
    return {
        "command": shlex.join([*program(), *overrides()]),
        "date": f"{datetime.now():%Y-%m-%d %H:%M}",
        **{name.replace("_", " "): str(value) for name, value in facts.items()},
        "git commit": commit,
        "machine": ", ".join(parts),
    }


def log_curve(tracker: Tracker, rows: Sequence[Row]) -> None:
    """Log quality over latency of one system, for its text and for its target speech."""
    for latency, quality, suffix in (
        ("StreamLAAL", "BLEU", ""),
        ("StartOffset", "ASR_BLEU", " speech"),
    ):
        points = [(row.scores.get(latency), row.scores.get(quality)) for row in rows]
        defined = [(x, y) for x, y in points if x is not None and y is not None]
        if defined:
            axis, values = zip(*defined, strict=True)
            tracker.log_curve(
                f"curves/{rows[0].system}{suffix}", x=(latency, axis), ys={quality: values}
            )


def hypothesis_table(evaluator: Evaluator) -> list[list[object]]:
    """Return one line per row of results and reference segment, with the columns ``HYPOTHESES``."""
    rows = evaluator.rows
    return [
        [
            Path(rows[stream.row].instances).parent.name,  # number and name of the row
            stream.talk.name,
            segment.offset,
            segment.source,
            segment.reference,
            segment.hypothesis,
        ]
        for stream in evaluator.streams
        for segment in stream.segments
    ]


def relative_path(path: Path) -> Path:
    """Return a path relative to the working directory if it lies below that directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
