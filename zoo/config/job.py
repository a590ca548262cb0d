"""The job of an entry point: from its command line to its work.

A mistake becomes one sentence and exit code 2.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from zoo.base.disk.files import disk_problem, explained_disk
from zoo.base.errors import INTERRUPTED, ZooError
from zoo.base.machine.commands import ending_with_reader, exit_with, prepare_output, run_script
from zoo.base.machine.cores import check_machine
from zoo.base.machine.launch import (
    LAUNCH_VARIABLE,
    default_environment,
    is_main_process,
    launch_name,
)
from zoo.base.machine.signals import interruptible
from zoo.config import loader
from zoo.config.checks import check_config, check_languages
from zoo.config.command_line import config_folders, parse
from zoo.config.compose import compose
from zoo.config.current import is_multirun, overrides, run_folder
from zoo.config.folders import remove_unused
from zoo.config.help import help_of
from zoo.config.mistakes import explained, one_line
from zoo.config.printing import printed_part
from zoo.config.sources import CONF, register
from zoo.config.unknown import null_choice
from zoo.config.writing import override_key


@interruptible()
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
    prepare_output()
    register()
    options = parse(config_name)
    launch = _Launch(config_name, job, options.overrides, config_folders(options))
    if options.help:
        run_script(lambda: print(help_of(config_name, launch.overrides, launch.folders)))
        return
    if options.package and not (options.run or options.multirun or options.info):
        run_script(
            lambda: print(
                printed_part(
                    config_name,
                    launch.overrides,
                    launch.folders,
                    kind=options.cfg,
                    package=options.package,
                    resolve=options.resolve,
                )
            )
        )
        return
    loader.install()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises; else it prints and exits with 1
    run_hydra = hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)
    try:
        with launch.exit_on_mistakes():
            # Processes of a launcher such as submitit belong to this launch: one folder, one group.
            name = {LAUNCH_VARIABLE: launch_name()} if is_main_process() else {}
            with default_environment(name):
                run_hydra(launch.run_job)()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (ValueError, OSError) as error:
        if launch.is_working:
            raise
        exit_with(launch.explain(error))
    finally:
        remove_unused()


@dataclass
class _Launch:
    """One start of an entry point, with one job, or several jobs of a multirun.

    Attributes:
        config_name: ``train`` or ``evaluate``.
        job: module and function of the work.
        overrides: overrides that the user typed.
        folders: folders of more YAML files.
        is_working: whether a job has begun and not ended; an error is then one of its work.
    """

    config_name: str
    job: str
    overrides: Sequence[str]
    folders: Sequence[str]
    is_working: bool = False

    def run_job(self, cfg: DictConfig) -> float | None:
        """Check a configuration and do the work.

        Args:
            cfg: composed configuration.

        Returns:
            What the work returns, for a sweeper.
        """
        self.is_working = True
        try:
            with self.exit_on_mistakes():
                _print_job(self.overrides)
                check_config(cfg, self.config_name)
                with ending_with_reader():
                    value: float | None = resolve_name(self.job)(cfg)
        except Exception as error:
            if sentence := disk_problem(error, run_folder()):
                exit_with(sentence)
            raise
        finally:
            remove_unused(run_folder())
        self.is_working = False
        return value

    def exit_on_mistakes(self) -> AbstractContextManager[None]:
        """Return the context that ends the process on a mistake in these overrides."""
        return _exit_on_mistakes(self.config_name, self.overrides, self.folders)

    def explain(self, error: ValueError | OSError) -> str:
        """Return one sentence about an error of Hydra before the first job begins.

        Hydra raises ValueError for wrong choices of groups and wrong flags, and OSError if it
        cannot make the run folder.
        """
        if isinstance(error, OSError):
            folder = f" {error.filename}" if error.filename else ""  # of a folder that is gone
            return f"Cannot write to the run folder{folder}: {error.strerror}; choose another one."
        if "integer string conversion" in str(error):  # of Python
            return "A number on the command line has thousands of digits; give a smaller one."
        return null_choice(self.overrides, self.folders) or one_line(error)


@interruptible()
@ending_with_reader()
def run_composed(given: Sequence[str], job: Callable[[DictConfig], None]) -> None:
    """Compose ``conf/evaluate.yaml`` and run a script's ``job``, which writes no run folder.

    A mistake is printed to stderr as one sentence and ends the process with exit code 2.

    Args:
        given: overrides.
        job: the work.
    """
    prepare_output()
    with _exit_on_mistakes("evaluate", given), explained_disk(Path()):
        cfg = compose("evaluate", given)
        check_languages(cfg)
        check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
        job(cfg)


@contextmanager
def _exit_on_mistakes(
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
