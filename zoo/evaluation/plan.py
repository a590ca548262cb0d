"""What an evaluation is going to do: systems, talks, rows, and every check before long work.

What streams (networks, Lightning) and what scores target speech is imported where it is used: the
imports take seconds, and a recorded log needs neither.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.base.disk.parsing import MALFORMED, read_json
from zoo.base.disk.run_folder import PROVENANCE
from zoo.base.errors import ZooError, check_name, shorten_list, unknown_choice
from zoo.base.machine.launch import is_main_process
from zoo.base.talks import Talk
from zoo.config import (
    Config,
    build,
    is_multirun,
    plain,
    run_folder,
)
from zoo.config.writing import override_key
from zoo.data.corpora import Corpus
from zoo.data.fingerprint import content_hash
from zoo.data.transcripts import with_transcripts
from zoo.data.views import has_empty_translation, talks_to_stream
from zoo.evaluation.loaded import Choices, LoadedSystems, check_streams, open_at
from zoo.evaluation.optimized import check_optimized
from zoo.evaluation.recorded import InstanceSource, match_streams
from zoo.evaluation.runner import has_speech
from zoo.evaluation.settings import Settings, knob_values, resampling
from zoo.evaluation.significance import check_baseline
from zoo.evaluation.talks import (
    TalkSets,
    check_talks,
    has_references,
    of_directions,
)
from zoo.runs.resume import check_same, folder_to_resume
from zoo.runs.run import check_unused, ensure_writable

if TYPE_CHECKING:
    import torch

    from zoo.evaluation.speech import SpeechModels
    from zoo.systems.system import System

AUTO = "auto"  # the value of `device` that lets the machine decide

# keys that describe the machine; a run may be resumed with other values
MACHINE = ("resume", "trainer", "device", "threads", "logger")


def wants_smoke_test(cfg: Config) -> bool:
    """Return the value of ``smoke``. Raises ZooError unless it is true or false."""
    if not isinstance(cfg.smoke, bool):
        raise unknown_choice("value of smoke", cfg.smoke, ("true", "false"))
    return cfg.smoke


def resumed_run(cfg: Config) -> Path | None:
    """Return the folder of the run to resume, or None.

    Raises ZooError if its configuration differs from this configuration, or if a new run cannot
    have its folder.
    """
    folder = folder_to_resume(cfg.resume, run_folder(), multirun=is_multirun())
    if folder is None:
        check_unused(run_folder(), kind="evaluate")
    else:
        config = plain(cfg)
        check_same(folder, config, keys=[key for key in config if key not in MACHINE])
    return folder


def corpus_hash(talks: Sequence[Talk], resume: Path | None) -> str:
    """Return the hash of the talks. Raises ZooError if a run to resume had other talks."""
    found = content_hash(talks)
    if resume is not None:
        path = resume / PROVENANCE
        try:
            before = read_json(path)["corpus_hash"]
        except (OSError, *MALFORMED) as error:
            raise ZooError(f"{path} is missing or damaged; the run cannot be resumed.") from error
        if before != found:
            raise ZooError(f"The talks have changed since the run in {resume} was started.")
    return found


def run_facts(talks: Sequence[Talk], settings: Settings, resume: Path | None) -> dict[str, Any]:
    """Return the provenance of a run beside its configuration.

    Raises ZooError if a run to resume had other talks.
    """
    return {
        "corpus_hash": corpus_hash(talks, resume),
        "convention": settings.convention,
        "batch_size": settings.batch_size,
    }


def streaming(choices: Choices) -> "list[System]":
    """Return the systems that stream, without the recorded logs."""
    return [system for system in choices if not isinstance(system, InstanceSource)]


def check_streamed(choices: Choices, settings: Settings, typed: Sequence[str]) -> None:
    """Raise ZooError for latency settings or options of the Trainer if nothing is streamed.

    Args:
        choices: configuration of each system and recorded log.
        settings: settings of the evaluation.
        typed: overrides of the command line.
    """
    if streaming(choices):
        return
    names = shorten_list([repr(system.name) for system in choices])
    if settings.knob_values is not None:
        raise ZooError(
            f"The recorded log {names} has no latency knob; leave evaluation.knob_values out."
        )
    for item in typed:
        if override_key(item).partition(".")[0] == "trainer":
            raise ZooError(f"{item} has no effect: {names} is recorded; leave it out.")


def trainer_options(choices: Choices) -> Mapping[str, Any] | None:
    """Return the user's arguments of Lightning's Trainer, which all systems that stream share.

    None if no system streams. Raises ZooError for an argument that the evaluation sets itself or
    that Lightning refuses.
    """
    for system in streaming(choices):
        from zoo.evaluation.independent_ranks import check_trainer

        check_trainer(build(choices[system].trainer).keywords)
        options: Mapping[str, Any] = build(choices[system].trainer).keywords
        return options
    return None


def speech_models(choices: Choices, settings: Settings) -> "SpeechModels | None":
    """Return the models that score the target speech of the systems; None without target speech.

    The configuration of a system names the recogniser of its target language. No recogniser weights
    are read. Raises ZooError for a missing model that is required.
    """
    recognisers = {}
    for system, choice in choices.items():
        if has_speech(system):
            recognisers[system.target_language.code] = build(choice.evaluation).recogniser
    if not recognisers:
        return None

    from zoo.evaluation.speech import SpeechModels

    return SpeechModels.available(recognisers, settings.utmos, utmos_trusted=settings.utmos_trusted)


def load_scorers(
    settings: Settings, models: "SpeechModels | None", device: "torch.device | None"
) -> None:
    """Load the networks that score streams, on the rank that scores.

    Args:
        settings: settings of the evaluation.
        models: models that score target speech, or None.
        device: device of the networks; None: the CPU.

    Raises:
        ZooError: weights are missing or damaged.
    """
    if not is_main_process():
        return
    settings.resegmenter.load(device)
    if models:
        models.load(device)


def prepare(
    choices: Choices,
    corpus: Corpus,
    settings: Settings,
    loaded: LoadedSystems,
    *,
    optimized_metric: object = None,
) -> TalkSets:
    """Load talks and weights, and check all input before long work and before files are written.

    Args:
        choices: configuration of each system and recorded log.
        corpus: source of the talks.
        settings: settings of the evaluation.
        loaded: loads one system after the other.
        optimized_metric: name of the score that a sweeper optimises, or None.

    Returns:
        The talks, of both splits.

    Raises:
        ZooError: a value, file or stream does not fit.
    """
    systems = streaming(choices)
    for system in systems:
        knob_values(system, settings)  # raises ZooError for a value that the system does not accept
    if not settings.random_weights:
        check_named_weights(systems)
    check_baseline(settings.baseline, row_labels(choices, settings))
    settings.resegmenter.check()
    ensure_writable(run_folder())

    check_name("data.name", corpus.name)
    sets = checked_talks(choices, TalkSets.of(corpus, settings), settings)
    talks = sets.test
    streamed_talks = talks_to_stream(talks, settings.view)
    left_out = settings.view == "segments" and any(map(has_empty_translation, talks))
    for recording in choices:
        if isinstance(recording, InstanceSource):
            # raises ZooError if the talks and the recorded streams do not match
            all_streams = settings.talks is None and not left_out
            match_streams(recording, streamed_talks, all_streams=all_streams)

    check_lengths(systems, talks_to_stream(sets.all, settings.view), settings)
    last = list(choices)[-1]
    check_optimized(
        optimized_metric,
        streamed_talks,
        settings,
        last.target_language,
        with_speech=has_speech(last),
    )

    # The first system stays loaded, because it streams first. The weights of the others are read
    # when their turn comes.
    for position, system in enumerate(systems):
        values = knob_values(system, settings)
        if position:
            check_streams(system, values)
        else:
            open_at(loaded.load(system, choices[system]), values)
    return sets


def checked_talks(choices: Choices, read: TalkSets, settings: Settings) -> TalkSets:
    """Check the talks of an evaluation, and return those of the directions of its systems.

    Args:
        choices: configuration of each system and recorded log.
        read: talks of the corpus.
        settings: settings of the evaluation.

    Raises:
        ZooError: talks do not fit.
    """
    # Systems often share languages; the talks are checked once for each combination.
    systems = streaming(choices)
    combinations = [
        (system.source_language, system.target_language, system in systems) for system in choices
    ]
    directions = [(source, target) for source, target, _ in combinations]
    targets = {target.code for _, target in directions}
    sets = TalkSets(
        *(
            with_transcripts(of_directions(talks, directions), targets)
            for talks in (read.test, read.development)
        )
    )
    for source, target, streamed in dict.fromkeys(combinations):
        for talks in sets.sets:
            check_talks(talks, source=source, target=target, streamed=streamed)
    if resampling(settings) is not None and not has_references(sets.test):
        raise ZooError(
            "evaluation.significance compares scores with references; the talks have none."
        )
    return sets


def check_named_weights(systems: "Sequence[System]") -> None:
    """Raise ZooError if a part of a system would be randomly initialised."""
    for system in systems:
        if (key := system.unnamed_weights()) is not None:
            raise ZooError(
                f"{key} of {system.name!r} is null, so that parts of the network are randomly "
                "initialised; name a folder or hub id of trained weights, or allow it with "
                "evaluation.random_weights=true."
            )


def row_labels(choices: Choices, settings: Settings) -> list[str]:
    """Return the labels of the rows of all systems, such as ``infinisst m=2``."""
    labels: list[str] = []
    for system in choices:
        if isinstance(system, InstanceSource) or system.knob is None:
            labels.append(system.name)
        else:
            values = [value for value in knob_values(system, settings) if value is not None]
            labels += [f"{system.name} {system.knob.name}={value:g}" for value in values]
    return labels


def check_lengths(systems: "Sequence[System]", talks: Sequence[Talk], settings: Settings) -> None:
    """Raise ZooError if a backbone would receive more audio at once than it accepts."""
    for system in systems:
        for value in knob_values(system, settings):
            if value is not None:
                system.turn_knob(value)  # of the system without weights, which never streams
            problem = system.talk_problem(talks)
            if problem:
                raise ZooError(problem)
