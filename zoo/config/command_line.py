"""The command line of a job: Hydra's options, checked, and the overrides of a resumed run."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from math import inf
from pathlib import Path

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, RangeSweep
from hydra.errors import HydraException

from zoo.base.disk.files import explained_disk
from zoo.base.errors import ZooError
from zoo.base.machine.commands import check_current_folder, exit_with
from zoo.config.resumed import with_recorded

MOST_JOBS = 10_000  # of a multirun


def parse(config_name: str) -> Namespace:
    """Return the parsed command line, with the recorded overrides of the run that it resumes.

    A wrong one ends the process with one sentence. ``sys.argv`` becomes the whole command line.
    """
    try:
        check_current_folder()
        with explained_disk(Path()):
            return _with_recorded(config_name)
    except ZooError as error:
        exit_with(str(error))


def _with_recorded(config_name: str) -> Namespace:
    """Return the parsed command line, and change ``sys.argv``, as ``parse``."""
    typed = _typed(config_name)
    if typed.multirun:
        _check_jobs(typed.overrides)
        return typed
    given = sys.argv[1:]
    sys.argv[1:] = with_recorded(given, typed.overrides, kind=config_name)
    return typed if sys.argv[1:] == given else _typed(config_name)


def _check_jobs(given: Sequence[str]) -> None:
    """End the process if a multirun has too many jobs: Hydra lists all of them before the first."""
    jobs = 1.0
    for text in given:
        try:
            override = OverridesParser.create().parse_override(text)
            sweep = override.value() if override.is_sweep_override() else None
        except (HydraException, ValueError):
            return  # Hydra refuses it
        if isinstance(sweep, RangeSweep):
            start, stop, step = (
                float(bound or 0) for bound in (sweep.start, sweep.stop, sweep.step)
            )
            jobs *= max(0.0, (stop - start) / step) if step else inf
        elif isinstance(sweep, ChoiceSweep):
            jobs *= len(sweep.list)
    if not jobs <= MOST_JOBS:
        exit_with(f"-m has more than {MOST_JOBS} jobs; choose fewer values of a key.")


def check_config_folder(name: str) -> None:
    """Raise ZooError unless the value of ``--config-dir`` is a folder."""
    if not name.strip() or not Path(name).is_dir():
        raise ZooError(f"There is no folder {name or repr(name)} (--config-dir).")


def config_folders(typed: Namespace) -> list[str]:
    """Return the folder that ``--config-dir`` names, in a list; empty without the option."""
    return [typed.config_dir] if typed.config_dir else []


def _typed(config_name: str) -> Namespace:
    """Return the parsed command line, as typed."""
    parser = get_args_parser()
    parser.error = exit_with  # type: ignore[method-assign]  # argparse prints the usage as well
    typed = parser.parse_args(sys.argv[1:])
    if typed.experimental_rerun:
        exit_with(
            "--experimental-rerun unpickles its file, which may run any code; give the overrides "
            "of the run instead."
        )
    if typed.config_path or typed.config_name not in (None, config_name):
        option = "--config-path" if typed.config_path else "--config-name"
        exit_with(
            f"{config_name}.py reads {config_name}.yaml and no other main file; instead of "
            f"{option} choose its parts with group=choice or experiment=name, and add folders with "
            "--config-dir."
        )
    if typed.config_dir is not None:
        check_config_folder(typed.config_dir)
    if typed.package and not typed.cfg:
        exit_with(
            "--package prints a part of the configuration with --cfg; write --cfg job as well."
        )
    return typed
