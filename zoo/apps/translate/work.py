"""A translation: the system of a configuration, what it writes, and the run folder."""

import shlex
from collections.abc import Mapping, Sequence

import torch

from zoo.apps.translate.display import Display
from zoo.apps.translate.live import Speed, Stop
from zoo.apps.translate.microphone import SoundDevice
from zoo.apps.translate.output import TranslationFolder
from zoo.apps.translate.streams import MICROPHONE, TerminalTranslation
from zoo.base.disk.files import relative_path
from zoo.base.errors import ZooError
from zoo.base.machine.hints import job_command
from zoo.base.talks import Talk, without_references
from zoo.base.version import __version__
from zoo.config import (
    Config,
    build,
    is_multirun,
    machine,
    overrides,
    plain,
    run_folder,
)
from zoo.config.knob import typed_latency
from zoo.runs.context import page_context
from zoo.runs.run import ensure_writable, open_run
from zoo.runs.tracker import Tracker
from zoo.runs.wandb_run import WandbSettings
from zoo.runs.weights import weights_of
from zoo.streaming.sources import DAY
from zoo.systems.base import StreamingSystem


def translate_sources(
    cfg: Config, talks: Sequence[Talk], microphone: SoundDevice | None, speed: Speed
) -> Stop:
    """Translate talks or a microphone with the system of a configuration.

    Args:
        cfg: configuration.
        talks: talks with audio; none for a microphone.
        microphone: microphone of this machine, or None.
        speed: see ``arriving``.

    Returns:
        Whether a signal has ended the translation.

    Raises:
        ZooError: the system is wrong or does not fit the talks.
    """
    system = streaming_system(cfg, cfg.latency)
    problem = system.talk_problem(
        talks or [without_references(MICROPHONE, None, DAY, cfg.source_language)]
    )
    if problem:
        raise ZooError(problem)
    device = machine(cfg)
    ensure_writable(run_folder())
    torch.manual_seed(cfg.seed)
    system.configure_model()
    system.to(device).eval()

    run = open_run(run_folder(), kind="translate", multirun=is_multirun())
    config = {**plain(cfg), "version": __version__}
    logger = WandbSettings(mode="disabled")
    with Tracker(run, config=config, overrides=overrides(), settings=logger) as tracker:
        tracker.record_models(config)
        output = TranslationFolder(run.folder)
        translation = TerminalTranslation(system, output, Display(system.target_language))
        translation.warm_up(talks)
        if microphone is None:
            translation.of_files(talks, speed)
        else:
            translation.of_microphone(microphone)
        facts = {"weights": ", ".join(system.weights.values()), "command": command(cfg)}
        finish(output, system, page_context(facts, overrides()))
    return translation.stop


def streaming_system(cfg: Config, latency: float | None) -> StreamingSystem:
    """Return the system of a configuration, without weights.

    Args:
        cfg: configuration.
        latency: value of the latency knob; None: the one of the configuration.

    Raises:
        ZooError: parts, languages or values do not fit, or the system is a recorded log.
    """
    system = build(cfg.system)
    if not isinstance(system, StreamingSystem):
        raise ZooError("A recorded log has nothing to translate; choose another system.")
    if (key := system.unnamed_weights()) is not None:
        raise ZooError(
            f"{key} is null, so that parts of the network are randomly initialised; name a folder "
            "or hub id of trained weights."
        )
    if latency is not None:
        if found := typed_latency(cfg, overrides()):
            raise ZooError(
                f"{found[0]} and latency={latency} both set the latency of system "
                f"{system.name!r}; leave one of them out."
            )
        system.turn_knob(latency)
    system.weights = weights_of(plain(cfg))
    return system


def command(cfg: Config) -> str:
    """Return the command line of this job, with the inputs as files."""
    typed = [item for item in overrides() if not item.startswith("inputs=")]
    return f"{job_command('translate')} {shlex.join([*cfg.inputs, *typed])}"


def finish(output: TranslationFolder, system: StreamingSystem, facts: Mapping[str, str]) -> None:
    """Write the target speech and the page, and print the paths of all files.

    Args:
        output: folder with the streams that have ended.
        system: system that has translated.
        facts: provenance of the run by name.
    """
    if not output.instances:
        print("Nothing was translated.")
        return
    page = output.finish(system, facts)
    print(f"translations: {relative_path(output.folder)}\nreport:       {relative_path(page)}")
