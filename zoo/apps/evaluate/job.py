"""The job of evaluate.py: from a configuration to a run folder with scores, logs and a report.

What streams (networks, Lightning) and what scores target speech is imported where it is used: the
imports take seconds, and a recorded log needs neither.
"""

from collections.abc import Mapping
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from zoo.apps.evaluate.show import ShownRun
from zoo.base.machine.cores import check_machine
from zoo.base.machine.launch import is_main_process
from zoo.base.version import __version__
from zoo.config import Config, build, is_multirun, machine, overrides, plain, run_folder
from zoo.evaluation.comet import check_texts, find_comet
from zoo.evaluation.comparison import PARTS, system_configurations
from zoo.evaluation.left_out import left_out
from zoo.evaluation.loaded import Choices, LoadedSystems, take_systems
from zoo.evaluation.optimized import optimized_score
from zoo.evaluation.plan import (
    AUTO,
    check_streamed,
    load_scorers,
    prepare,
    resumed_run,
    run_facts,
    speech_models,
    streaming,
    trainer_options,
    wants_smoke_test,
)
from zoo.evaluation.recorded import InstanceSource
from zoo.evaluation.runner import Evaluator
from zoo.evaluation.settings import Settings
from zoo.runs.naming import run_name
from zoo.runs.run import open_run
from zoo.runs.tracker import Tracker
from zoo.runs.wandb_run import WandbSettings
from zoo.runs.weights import weights_of


def evaluate(cfg: Config) -> float | None:
    """Evaluate the configured systems; print the table and the paths of the results.

    Returns:
        The score ``cfg.optimized_metric`` for a sweeper; None if no score is named.

    Raises:
        ZooError: bad input.
    """
    check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
    # The configurations of all systems are composed before any part is built, because building a
    # part replaces the interpolations in its node by their values.
    entries, notes = system_configurations(cfg), left_out(cfg).notes
    settings: Settings = build(cfg.evaluation)
    logger, corpus = build(cfg.logger), build(cfg.data)
    choices: Choices = {build(choice.system): choice for choice in entries}
    check_streamed(choices, settings, overrides())
    if wants_smoke_test(cfg):
        from zoo.evaluation.smoke_run import smoke_test

        smoke_test(choices, corpus, settings, device=machine(cfg), seed=cfg.seed)
        return None

    models = speech_models(choices, settings)
    device = machine(cfg) if models or streaming(choices) or cfg.device != AUTO else None
    options = trainer_options(choices)
    resume = resumed_run(cfg)
    comet = find_comet(settings.comet, settings.comet_python) if is_main_process() else None
    loaded = LoadedSystems(seed=cfg.seed)
    sets = prepare(choices, corpus, settings, loaded, optimized_metric=cfg.optimized_metric)
    check_texts(sets.all, comet)
    load_scorers(settings, models, device)
    facts = run_facts(sets.all, settings, resume)
    with open_tracker(cfg, choices, facts, logger, resume=resume) as tracker:
        evaluator = Evaluator(
            corpus=corpus.name,
            talks=sets.test,
            development=sets.development,
            settings=settings,
            folder=tracker.run.folder,
            models=models,
            trainer_options=options,
            resume=resume is not None,
        )
        shown = ShownRun(evaluator.scored, tracker, facts, corpus=corpus.name)
        directions = dict.fromkeys((one.target_language, one.source_language) for one in choices)
        for system, choice, is_first in take_systems(choices):
            config = plain(choice)
            system = system if isinstance(system, InstanceSource) else loaded.load(system, choice)
            tracker.record_models(config)
            for row in evaluator.run(system, upper_bound=is_first, weights=weights_of(config)):
                shown.log(row)
        for row in chain.from_iterable(starmap(evaluator.oracles, directions)):
            shown.log(row)
        if not tracker.run.main:
            return None

        if comet:
            evaluator.scored.add_comet(comet)
        evaluator.scored.add_significance()
        shown.publish([*notes, *(models.notes if models else []), *evaluator.notes])
    return optimized_score(evaluator.rows, cfg.optimized_metric)


def open_tracker(
    cfg: Config,
    choices: Choices,
    facts: Mapping[str, Any],
    logger: WandbSettings,
    *,
    resume: Path | None,
) -> Tracker:
    """Claim the run folder and return the tracker of the run.

    Args:
        cfg: configuration of the job.
        choices: configuration of each system.
        facts: additional provenance.
        logger: settings of W&B.
        resume: folder of the run to resume, or None.
    """
    systems = {
        system.name: {key: value for key, value in plain(choice).items() if key in PARTS}
        for system, choice in choices.items()
    }
    name = run_name(list(systems), overrides())
    return Tracker(
        open_run(run_folder(), kind="evaluate", name=name, resume=resume, multirun=is_multirun()),
        config={**plain(cfg), "version": __version__},
        overrides=overrides(),
        facts=facts,
        settings=logger,
        systems=systems,
    )
