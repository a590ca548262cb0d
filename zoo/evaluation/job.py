"""The job of evaluate.py: from a configuration to a run folder with scores, logs and a report."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from zoo import __version__
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
from zoo.evaluation.loaded import LoadedSystems
from zoo.evaluation.publish import log_rows, publish, wide_console
from zoo.evaluation.recorded import InstanceSource, match_streams
from zoo.evaluation.runner import Evaluator, has_speech
from zoo.evaluation.settings import Settings, knob_values, talks_to_stream
from zoo.evaluation.speech import SpeechModels
from zoo.evaluation.talks import check_talks
from zoo.report.results import Row
from zoo.systems.base import StreamingSystem
from zoo.tracking.launch import is_main_process
from zoo.tracking.resume import check_same
from zoo.tracking.run import CARD, ensure_writable, open_run, run_id_of
from zoo.tracking.tracker import Tracker
from zoo.types import SAMPLE_RATE

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

# keys that describe the machine; a run may be resumed with other values
MACHINE = ("resume", "trainer", "device", "threads", "logger")

Choices = Mapping[StreamingSystem | InstanceSource, Config]  # configuration of each system


def evaluate(cfg: Config) -> float | None:
    """Evaluate the configured systems; print the table and the paths of the results.

    Returns:
        The score ``cfg.optimized_metric`` for a sweeper; None if no score is named.

    Raises:
        ZooError: bad input.
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
        return None

    resume = resumed_run(cfg)
    models = speech_models(choices, settings)
    loaded = LoadedSystems(seed=cfg.seed)
    talks = prepare(choices, corpus, settings, loaded)
    if is_main_process():
        models.load(device)
    facts = {
        "corpus_hash": corpus_hash(talks, resume),
        "convention": settings.convention,
        "batch_size": settings.batch_size,
    }
    run = open_run(run_folder(), kind="evaluate", resume=resume, multirun=is_multirun())
    config = {**plain(cfg), "version": __version__}
    with Tracker(
        run, config=config, overrides=overrides(), facts=facts, settings=logger
    ) as tracker:
        evaluator = Evaluator(
            corpus=corpus.name,
            talks=talks,
            settings=settings,
            folder=run.folder,
            models=models,
            trainer_options=build(cfg.trainer).keywords,
            resume=resume is not None,
        )
        rows = evaluate_systems(evaluator, choices, loaded, tracker, seed=cfg.seed)
        log_rows(rows, evaluator, tracker, run.folder, facts, compared=len(choices) > 1)
        if not run.main:
            return None
        if models.notes:
            facts |= {"not scored": " ".join(models.notes)}
        publish(evaluator, tracker, run.folder, facts)
        for note in models.notes:
            print(note)
    return optimized(evaluator.rows, cfg.optimized_metric)


def optimized(rows: Sequence[Row], metric: str | None) -> float | None:
    """Return the score that a sweeper optimises: that of the last row of a system.

    Args:
        rows: rows of an evaluation.
        metric: name of the score; None: no score.

    Raises:
        ZooError: the row has no such score.
    """
    if metric is None:
        return None
    scores = [row for row in rows if row.kind == "system"][-1].scores
    value = scores.get(metric)
    if value is None:
        known = [name for name, score in scores.items() if score is not None]
        raise unknown_choice("optimized_metric", metric, known)
    return value


def resumed_run(cfg: Config) -> Path | None:
    """Return the folder of the run to resume, or None.

    Raises ZooError if its configuration differs from this configuration.
    """
    if cfg.resume is None:
        return None
    if is_multirun():
        raise ZooError("resume=... continues one run; it cannot go with a multirun.")
    config = plain(cfg)
    check_same(Path(cfg.resume), config, keys=[key for key in config if key not in MACHINE])
    return Path(cfg.resume)


def corpus_hash(talks: Sequence[Talk], resume: Path | None) -> str:
    """Return the hash of the talks. Raises ZooError if a run to resume had other talks."""
    found = content_hash(talks)
    if resume is not None:
        path = resume / "provenance.json"
        try:
            before = json.loads(path.read_text())["corpus_hash"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ZooError(f"{path} is missing or damaged; the run cannot be resumed.") from error
        if before != found:
            raise ZooError(f"The talks have changed since the run in {resume} was started.")
    return found


def evaluate_systems(
    evaluator: Evaluator,
    choices: Choices,
    loaded: LoadedSystems,
    tracker: Tracker,
    *,
    seed: int,
) -> Iterator[Row]:
    """Evaluate every system, then the oracles of every language pair; yield each row on rank 0.

    Args:
        evaluator: evaluator of the corpus.
        choices: configuration of each system.
        loaded: loads one system after the other.
        tracker: logs which checkpoint a system uses.
        seed: seed that is set before each system runs.
    """
    networks: list[object] = []
    for system, choice in choices.items():
        torch.manual_seed(seed)
        network = network_of(plain(choice))
        if isinstance(system, StreamingSystem):
            declare_model(tracker, plain(choice)["backbone"])
            yield from evaluator.run(loaded.load(choice), upper_bound=network not in networks)
        else:
            yield from evaluator.run(system)
        networks.append(network)

    pairs = [(system.target_language, system.source_language) for system in choices]
    for target, source in dict.fromkeys(pairs):
        yield from evaluator.oracles(target, source)


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
    choices: Choices, corpus: Corpus, settings: Settings, loaded: LoadedSystems
) -> Sequence[Talk]:
    """Load talks and weights, and check all input before long work and before files are written.

    Args:
        choices: configuration of each system and recorded log.
        corpus: source of the talks.
        settings: settings of the evaluation.
        loaded: loads one system after the other.

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
        loaded_system = loaded.load(choices[system])
        for value in knob_values(system, settings):
            if value is not None:
                loaded_system.turn_knob(value)
            loaded_system.open("")  # raises ZooError if no stream can start at this value
    return talks


def declare_model(tracker: Tracker, backbone: Mapping[str, Any]) -> None:
    """Log which training run the backbone's checkpoint comes from, if it has a run id."""
    checkpoint = backbone.get("checkpoint")
    if checkpoint is not None and (Path(checkpoint) / CARD).is_file():
        tracker.use_checkpoint(Path(checkpoint), run_id=run_id_of(Path(checkpoint)))
