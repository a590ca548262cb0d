"""The job of an entry point: its command line, device and run folder.

A mistake becomes one sentence and exit code 2.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from zoo.config import loader
from zoo.config.arguments import check_recorded
from zoo.config.command_line import config_folders, exit_with, parse
from zoo.config.commands import ending_with_reader, escape_unprintable, run_script
from zoo.config.compose import compose
from zoo.config.help import help_of
from zoo.config.loader import SEARCH_PATH
from zoo.config.mistakes import explained, one_line
from zoo.config.records import check_folders
from zoo.config.sources import COMMAND_LINE, CONF, composed, plain, register
from zoo.config.unknown import null_choice
from zoo.config.writing import override_key
from zoo.disk.files import full_disk, remove_if_empty
from zoo.errors import INTERRUPTED, ZooError, check_choice, unknown_choice
from zoo.languages import LANGUAGES
from zoo.machine.cores import check_machine
from zoo.machine.launch import (
    LAUNCH_VARIABLE,
    default_environment,
    is_main_process,
    launch_name,
)

if TYPE_CHECKING:
    import torch  # the import takes seconds; a mistyped key is reported before it


def overrides() -> list[str]:
    """Return the overrides of this job, as typed."""
    return list(HydraConfig.get().overrides.task)


def search_arguments() -> list[str]:
    """Return the arguments of this job's command line that name folders of YAML files.

    They are ``--config-dir`` with an absolute path and overrides of ``hydra.searchpath``, both
    quoted for a shell.
    """
    job = HydraConfig.get()
    folders = [
        f"--config-dir={source.path}"
        for source in job.runtime.config_sources
        if source.provider == COMMAND_LINE
    ]
    search = [item for item in job.overrides.hydra if item.startswith(SEARCH_PATH)]
    return [shlex.quote(argument) for argument in (*folders, *search)]


def chosen(*groups: str) -> list[str]:
    """Return the choices of this job as overrides ``group=choice``."""
    choices = HydraConfig.get().runtime.choices
    return [f"{group}={choices[group]}" for group in groups]


def is_multirun() -> bool:
    """Return whether this job is one of a multirun."""
    return bool(HydraConfig.get().mode == RunMode.MULTIRUN)


def machine(cfg: DictConfig) -> "torch.device":
    """Return the device that a configuration names; set the number of CPU threads and TF32.

    ``auto`` is a GPU if there is one, else the CPU.

    Raises:
        ZooError: this machine lacks the device, or the seed or the number of threads is wrong.
    """
    import torch

    from zoo.machine.devices import allow_tf32, device_named

    check_machine(seed=cfg.get("seed", 0), threads=cfg.threads, device=cfg.device)
    if cfg.threads is not None:
        torch.set_num_threads(cfg.threads)

    name = device_named(cfg.device)
    try:
        device = torch.device(name)
        # PyTorch accepts the name of an absent device; an operation on that device raises
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        found = ["auto", "cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise unknown_choice("device", name, found) from error
    if device.type == "cuda":
        allow_tf32()
    return device


def run_folder() -> Path:
    """Return the folder that this job writes to."""
    return Path(HydraConfig.get().runtime.output_dir)


@ending_with_reader()
def entry_point(config_name: str, job: str) -> None:
    """Compose ``conf/<config_name>.yaml`` with the command line and run ``job``.

    A mistake is printed to stderr as one sentence and ends the process with exit code 2. Ctrl-C
    ends it with exit code 130.

    Args:
        config_name: ``train`` or ``evaluate``.
        job: module and function of the work, such as ``zoo.training.job:train``; a sweeper
            optimises the value that it returns. The module is imported after the command line is
            checked: the import takes seconds, for which a mistyped key need not wait.
    """
    escape_unprintable()
    register()
    typed = parse(config_name)
    folders = config_folders(typed)
    if typed.help:
        run_script(lambda: print(help_of(config_name, typed.overrides, folders)))
        return
    loader.install()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises; else it prints and exits with 1
    mistakes = partial(_ending_on_mistakes, config_name, typed.overrides, folders)
    working = False

    def guarded(cfg: DictConfig) -> float | None:
        nonlocal working
        working = True
        try:
            with mistakes():
                _print_job(typed.overrides)
                _check(cfg, config_name)
                with ending_with_reader():
                    value: float | None = resolve_name(job)(cfg)
        except Exception as error:
            if not (sentence := full_disk(error, run_folder())):
                raise
            exit_with(sentence)
        finally:
            remove_if_empty(run_folder())
        working = False
        return value

    # processes of a launcher such as submitit belong to this launch: one folder, one group
    name = {LAUNCH_VARIABLE: launch_name()} if is_main_process() else {}
    try:
        with default_environment(name), mistakes():
            run = hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)
            run(guarded)()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ValueError as error:  # Hydra raises it for wrong choices of groups and wrong flags
        if working:
            raise
        exit_with(null_choice(typed.overrides, folders) or one_line(error))
    except OSError as error:
        if working:
            raise
        folder = error.filename
        exit_with(f"Cannot write to the run folder {folder}: {error.strerror}; choose another one.")


@contextmanager
def _ending_on_mistakes(
    config_name: str, typed: Sequence[str], folders: Sequence[str] = ()
) -> Iterator[None]:
    """End the process with one sentence on bad input and on a mistake in the configuration.

    OmegaConf finds some mistakes when a value is used, in the middle of the work.

    Args:
        config_name: ``train`` or ``evaluate``.
        typed: overrides that the user typed.
        folders: folders of more YAML files.
    """
    try:
        yield
    except ZooError as error:
        exit_with(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        exit_with(explained(error, config_name, typed, folders))


@ending_with_reader()
def run_composed(given: Sequence[str], job: Callable[[DictConfig], None]) -> None:
    """Compose ``conf/evaluate.yaml`` and run a script's ``job``, which writes no run folder.

    A mistake is printed to stderr as one sentence and ends the process with exit code 2.

    Args:
        given: overrides.
        job: the work.
    """
    escape_unprintable()
    with _ending_on_mistakes("evaluate", given):
        cfg = compose("evaluate", given)
        _check_languages(cfg)
        check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
        job(cfg)


def _print_job(typed: Sequence[str]) -> None:
    """Print the number of this job and the overrides in which the jobs differ, in a multirun.

    Args:
        typed: overrides of the whole multirun.
    """
    if not (is_multirun() and is_main_process()):
        return
    parsed = OverridesParser.create().parse_overrides(list(typed))
    shared = {
        override_key(item.get_key_element()) for item in parsed if not item.is_sweep_override()
    }
    own = [item for item in overrides() if override_key(item) not in shared]
    print(f"job {HydraConfig.get().job.num}: {' '.join(own)}", flush=True)


def _check(cfg: DictConfig, config_name: str) -> None:
    """Raise ZooError for what no job can use: languages, keys, records of folders."""
    _check_languages(cfg)
    _check_keys(cfg, config_name)
    check_recorded(plain(cfg, resolve=False))
    check_folders(cfg)


def _check_languages(cfg: DictConfig) -> None:
    """Raise ZooError for a language that is no text."""
    for key in ("source_language", "target_language"):
        if not isinstance(cfg[key], str):
            raise unknown_choice(key, cfg[key], LANGUAGES)


def _check_keys(cfg: DictConfig, config_name: str) -> None:
    """Raise ZooError for a top-level key that an override with ``+`` adds; no code reads it."""
    given = overrides()
    declared = [item for item in given if not item.startswith("+")]
    if declared != given:
        keys = [str(key) for key in composed(config_name, declared)]
        for key in cfg:
            check_choice("key", key, keys)
