"""The work of train.py: from a configuration to a trained, exported model."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from zoo.backbones.base import Backbone
from zoo.base.disk.files import atomic_folder
from zoo.base.errors import ZooError, check_choice, unknown_choice
from zoo.base.languages import language
from zoo.base.machine.hints import job_command
from zoo.base.talks import LazyTalks, Talk
from zoo.base.version import __version__
from zoo.config import (
    Config,
    build,
    check_values,
    choice_overrides,
    is_multirun,
    machine,
    overrides,
    plain,
    run_folder,
    search_arguments,
)
from zoo.config.writing import override_key
from zoo.data.corpora import Corpus, training_talks
from zoo.data.fingerprint import content_hash
from zoo.data.mixture import Direction, Mixture, by_direction
from zoo.data.transcripts import with_transcripts
from zoo.evaluation.talks import check_talks
from zoo.runs.naming import run_name
from zoo.runs.resume import check_same, folder_to_resume
from zoo.runs.rows.training import LAST_EXPORT
from zoo.runs.run import Run, check_unused, open_run, write_card
from zoo.runs.tracker import Tracker
from zoo.runs.weights import REPLACED, check_replaced
from zoo.systems.base import StreamingSystem
from zoo.training.callbacks.run_identity import RunIdentity
from zoo.training.estimate_job import print_estimate
from zoo.training.export import DTYPES, Selected, export
from zoo.training.page import training_page
from zoo.training.recipe import build_training
from zoo.training.run import fit, last_checkpoint
from zoo.training.settings import TrainingSettings
from zoo.training.tokenizer import needs_tokenizer, trained_tokenizer
from zoo.training.trainer import check_trainer
from zoo.training.writing import read_file

# An evaluation needs the overrides of its training whose keys are these, or below these.
REPEATED = ("backbone", "convention", "source_language", "target_language", "data")
EVERY, FROM = "training.evaluate_every_steps", "training.evaluate_from_step"
BEST_EXPORT = "export_best"  # folder of the weights with the best development BLEU
OPTIMIZED_METRICS = ("BLEU",)  # scores of the development talks that a sweeper can optimise
# Keys of the configuration whose values a resumed run must not change, and exceptions below them.
FIXED_KEYS = ("backbone", "data", "optimizer", "source_language", "target_language", "seed")
MAY_DIFFER = ("backbone.tokenizer", "optimizer.lr")


def train(cfg: Config) -> float | None:
    """Train, or continue a run with ``resume=<run folder>``, and export the backbone.

    Returns:
        The best development BLEU for a sweeper if ``cfg.optimized_metric`` names it, else None.

    Raises:
        ZooError: bad input, before long work.
    """
    device = machine(cfg)
    evaluate_from_start(cfg, overrides())
    check(cfg)
    resume = folder_to_resume(cfg.resume, run_folder(), multirun=is_multirun())
    options: Mapping[str, Any] = build(cfg.trainer).keywords
    callbacks = configured_callbacks(cfg)
    checkpoint = None if resume is None else last_checkpoint(resume, options["strategy"])
    if resume is not None:
        # The tokenizer may be in the run folder, which may have moved since.
        check_same(resume, plain(cfg), keys=FIXED_KEYS, may_differ=MAY_DIFFER)
    elif not cfg.estimate:
        check_unused(run_folder(), kind="train")

    settings, optimizer = build_training(cfg)
    if cfg.optimized_metric is not None:
        settings.check_ranked()
    corpus: Corpus = build(cfg.data)
    direction = language(cfg.source_language), language(cfg.target_language)
    talks, dev = _read(corpus, settings, cfg.target_language)
    _check(talks, dev, direction)
    if cfg.estimate:
        print_estimate(cfg, talks, settings, optimizer)
        return None
    lacks_tokenizer = needs_tokenizer(cfg, settings)
    run = claim_folder(resume)
    if lacks_tokenizer:
        cfg.backbone.tokenizer = str(trained_tokenizer(run, cfg, talks, settings))
    system: StreamingSystem = build(cfg.system)
    with (
        training_tracker(run, cfg, talks, name=system.name) as tracker,
        training_page(run, tracker) as write_page,
    ):
        best_scores = fit(
            system=system,
            talks=talks,
            dev=dev,
            settings=settings,
            trainer_options=options,
            folder=run.folder,
            seed=cfg.seed,
            device=device,
            optimizer=optimizer,
            loggers=tracker.loggers(),
            callbacks=[RunIdentity(run), *callbacks],
            resume=checkpoint,
            after_evaluation=write_page,
        )
        tracker.record_models(plain(cfg))
        if run.main:
            finish(system, best_scores, cfg, corpus, run, tracker)
    return None if cfg.optimized_metric is None else max(best_scores.values())


def evaluate_from_start(cfg: Config, typed: Sequence[str]) -> None:
    """Let a typed ``training.evaluate_every_steps`` hold from the first step of a training.

    The files of trainings have a first step with an evaluation, ``training.evaluate_from_step``,
    which would delay or prevent the evaluations that the user asks for. A typed first step remains.

    Args:
        cfg: configuration of the training.
        typed: overrides of the job.
    """
    keys = set(map(override_key, typed))
    if EVERY in keys and FROM not in keys:
        cfg.training.evaluate_from_step = 0


def check(cfg: Config) -> None:
    """Check the values of a configuration of which no part is needed before the talks are read.

    Raises:
        ZooError: a value is wrong.
    """
    check_values(cfg.system)
    check_values(cfg.logger)
    check_replaced(plain(cfg), overrides())
    if cfg.optimized_metric is not None:
        check_choice("optimized_metric", cfg.optimized_metric, OPTIMIZED_METRICS)
    check_choice("export_dtype", cfg.export_dtype, DTYPES)
    if not isinstance(cfg.estimate, bool):
        raise unknown_choice("value of estimate", cfg.estimate, ("true", "false"))
    check_trainer(build(cfg.trainer).keywords)


def configured_callbacks(cfg: Config) -> list[Callback]:
    """Return the user's callbacks. Raises ZooError for a value that is none."""
    callbacks = {name: callback for name, callback in build(cfg.callbacks).items() if callback}
    for name, callback in callbacks.items():
        if not isinstance(callback, Callback):
            raise ZooError(
                f"callbacks.{name} must be null or the _target_ and the arguments of a callback, "
                f"not {callback!r}."
            )
    return list(callbacks.values())


def _read(
    corpus: Corpus, settings: TrainingSettings, target: str
) -> tuple[Sequence[Talk], Sequence[Talk]]:
    """Return the training and the development talks.

    Args:
        corpus: Corpus of the training.
        settings: Settings of the training.
        target: Code of the target language; transcripts are references in that of the speech.
    """
    talks = training_talks(corpus, settings.train_split, limit=settings.train_talks)
    dev = corpus.talks(settings.dev_split, limit=settings.dev_talks)
    return with_transcripts(talks, [target]), with_transcripts(dev, [target])


def _check(talks: Sequence[Talk], dev: Sequence[Talk], direction: Direction) -> None:
    """Check the talks of a training before long work. Raises ZooError as ``check_talks`` does."""
    if isinstance(talks, LazyTalks):
        source, target = direction
        talks.check(source=source.code, target=target.code)
        talks = talks.decoded
    for split in (talks, dev):  # separately, because two splits may have talks of one name
        for (source, target), group in by_direction(split, direction).items():
            check_talks(group, source=source, target=target, streamed=False)


def claim_folder(resume: Path | None) -> Run:
    """Claim the run folder of this job.

    Args:
        resume: Run folder to resume, or None.
    """
    name = run_name([item.partition("=")[2] for item in choice_overrides("system")], overrides())
    return open_run(run_folder(), kind="train", name=name, resume=resume, multirun=is_multirun())


def training_tracker(run: Run, cfg: Config, talks: Sequence[Talk], *, name: str) -> Tracker:
    """Return the tracker of a training.

    Args:
        run: Run of the training.
        cfg: Configuration of the training, with the tokenizer.
        talks: Training talks.
        name: Name of the system.
    """
    config = {**plain(cfg), "version": __version__}
    hashed = talks.content_hash if isinstance(talks, LazyTalks) else content_hash(talks)
    return Tracker(
        run,
        config=config,
        overrides=overrides(),
        facts={"corpus_hash": hashed, "train_talks": len(talks)},
        settings=build(cfg.logger),
        systems={name: {key: config[key] for key in ("system", "backbone")}},
    )


def finish(
    system: StreamingSystem,
    best_scores: Mapping[Path, float],
    cfg: Config,
    corpus: Corpus,
    run: Run,
    tracker: Tracker,
) -> None:
    """Export the last and the best weights and print the commands that evaluate them.

    Args:
        system: System with the last weights; it has the best weights afterwards.
        best_scores: Development BLEU of the checkpoint files that the training kept, the best file
            first.
        cfg: Configuration of the training.
        corpus: Corpus of the training.
        run: Run whose folder receives the exports.
        tracker: Tracker of the run.
    """
    needed = evaluation_overrides(system.backbone)

    def write(folder: Path, selected: Selected) -> str:
        with atomic_folder(folder) as unfinished:
            export(
                system,
                unfinished,
                selected=selected,
                config=plain(cfg),
                corpus=corpus.name,
                training_overrides=[*search_arguments(), *overrides()],
                evaluation_overrides=needed,
                dtype=cfg.export_dtype,
                directions=corpus.directions if isinstance(corpus, Mixture) else (),
            )
            write_card(run, unfinished)
        start = job_command("evaluate")
        overrides_of_folder = shlex.join(system.backbone.evaluation_overrides(needed, str(folder)))
        return f"exported: {folder} ({selected})\nevaluate: {start} {overrides_of_folder}"

    last, best = run.folder / LAST_EXPORT, run.folder / BEST_EXPORT
    messages = [write(last, Selected(system.global_step))]
    for path, bleu in list(best_scores.items())[:1]:
        messages.insert(0, write(best, Selected(load_best(system, path), bleu)))
    exports = [best, last] if best_scores else [last]
    tracker.log_checkpoints(exports, best=best if best_scores else None)
    print("\n".join(messages))


def load_best(system: StreamingSystem, checkpoint: Path) -> int:
    """Load the backbone's weights of a best checkpoint after a training.

    Args:
        system: System that was trained, not sharded.
        checkpoint: File that the training has written, without left-out weights.

    Returns:
        The optimizer step of the weights.
    """
    content = read_file(checkpoint, mmap=True)
    prefix = "backbone."
    weights = {
        name.removeprefix(prefix): tensor
        for name, tensor in content["state_dict"].items()
        if name.startswith(prefix)
    }
    system.backbone.load_state_dict(weights, strict=False)
    return int(content["global_step"])


def evaluation_overrides(backbone: Backbone) -> list[str]:
    """Return the arguments of this job that an evaluation of the exported backbone needs.

    These are overrides, after the arguments that name folders of YAML files.
    """
    # An evaluation reads the weights of the export and has no arguments of the training.
    names = (backbone.weights_key, *REPLACED, *backbone.training_arguments)
    left_out = tuple(f"backbone.{name}" for name in names)
    needed = choice_overrides("system", "backbone")
    for override in overrides():
        key = override_key(override)
        if re.split(r"[.@]", key)[0] in REPEATED and not key.startswith(left_out):
            needed.append(override)
    return [*search_arguments(), *dict.fromkeys(needed)]
