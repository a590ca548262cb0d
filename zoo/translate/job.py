"""The job of ``python -m zoo.translate``: from a configuration to a folder of translations."""

import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from zoo import __version__
from zoo.config import (
    Config,
    build,
    is_multirun,
    machine,
    overrides,
    plain,
    run_folder,
)
from zoo.config.commands import job_command
from zoo.config.knob import typed_latency
from zoo.disk.files import relative_path
from zoo.errors import INTERRUPTED, TERMINATED, ZooError
from zoo.machine.cores import check_machine
from zoo.streaming.sources import DAY
from zoo.systems.base import StreamingSystem
from zoo.talks import Talk, without_references
from zoo.tracking.context import page_context
from zoo.tracking.run import ensure_writable, open_run
from zoo.tracking.tracker import Tracker
from zoo.tracking.wandb_run import WandbSettings
from zoo.tracking.weights import weights_of
from zoo.translate.display import Display
from zoo.translate.inputs import find_talks
from zoo.translate.live import check_speed
from zoo.translate.microphone import SoundDevice
from zoo.translate.output import TranslationFolder
from zoo.translate.streams import MICROPHONE, TerminalTranslation


def translate(cfg: Config) -> None:
    """Translate the files and folders, or the microphone, of a configuration.

    Raises:
        ZooError: bad input.
        SystemExit: Ctrl-C has ended the translation of files, with exit code 130, or SIGTERM has
            ended any translation, with exit code 143.
    """
    check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
    speed = check_speed(cfg.speed)
    system = streaming_system(cfg)
    with tempfile.TemporaryDirectory() as folder:
        talks, microphone = sources(cfg, Path(folder))
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
            facts = {"weights": ", ".join(weights_of(config).values()), "command": command(cfg)}
            finish(output, system, page_context(facts, overrides()))
    if translation.stop.terminated:
        sys.exit(TERMINATED)
    if microphone is None and translation.stop.requested:
        sys.exit(INTERRUPTED)


def streaming_system(cfg: Config) -> StreamingSystem:
    """Return the system of a configuration at its latency setting, without weights.

    Raises ZooError for parts, languages or values that do not fit, and for a recorded log.
    """
    system = build(cfg.system)
    if not isinstance(system, StreamingSystem):
        raise ZooError("A recorded log has nothing to translate; choose another system.")
    if (key := system.unnamed_weights()) is not None:
        raise ZooError(
            f"{key} is null, so that parts of the network are randomly initialised; name a folder "
            "or hub id of trained weights."
        )
    if cfg.latency is not None:
        if found := typed_latency(cfg, overrides()):
            raise ZooError(
                f"{found[0]} and latency={cfg.latency} both set the latency of system "
                f"{system.name!r}; leave one of them out."
            )
        system.turn_knob(cfg.latency)
    return system


def sources(cfg: Config, folder: Path) -> tuple[Sequence[Talk], SoundDevice | None]:
    """Return the talks of the files, or no talk and the microphone.

    Args:
        cfg: configuration.
        folder: folder for copies of files that ffmpeg decodes.

    Raises:
        ZooError: there is no source, or both kinds, or a source cannot be opened.
    """
    if bool(cfg.inputs) == (cfg.microphone is not None):
        problem = (
            "either files or a microphone, not both" if cfg.inputs else "something to translate"
        )
        raise ZooError(f"A translation needs {problem}: audio files and folders, or --microphone.")
    if cfg.microphone is not None:
        return (), SoundDevice(cfg.microphone)
    return find_talks(cfg.inputs, source_language=cfg.source_language, folder=folder), None


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
