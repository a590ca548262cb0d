"""The job of ``python -m zoo translate``: from a configuration to a folder of translations.

The files are read before the networks are imported, which takes seconds.
"""

import sys
from collections.abc import Sequence

from zoo.apps.translate.inputs import find_talks
from zoo.apps.translate.live import check_speed
from zoo.apps.translate.microphone import SoundDevice
from zoo.base.errors import INTERRUPTED, ZooError
from zoo.base.machine.cores import check_machine
from zoo.base.talks import Talk
from zoo.config import Config


def translate(cfg: Config) -> None:
    """Translate the files and folders, or the microphone, of a configuration.

    Raises:
        ZooError: bad input.
        SystemExit: Ctrl-C has ended the translation of files, with exit code 130, or SIGTERM (143)
            or SIGHUP (129) has ended any translation.
    """
    check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
    speed = check_speed(cfg.speed)
    talks, microphone = sources(cfg)
    from zoo.apps.translate.work import translate_sources

    stop = translate_sources(cfg, talks, microphone, speed)
    if stop.terminated:
        sys.exit(stop.code)
    if microphone is None and stop.requested:
        sys.exit(INTERRUPTED)


def sources(cfg: Config) -> tuple[Sequence[Talk], SoundDevice | None]:
    """Return the talks of the files, or no talk and the microphone.

    Args:
        cfg: configuration.

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
    return find_talks(cfg.inputs, source_language=cfg.source_language), None
