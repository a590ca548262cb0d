"""From a command line to objects, through Hydra; a mistake becomes one sentence and exit code 2."""

import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import setup_globals
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from zoo import loader
from zoo.arguments import check_part
from zoo.errors import ZooError, check_choice, unknown_choice
from zoo.files import full_disk, remove_if_empty
from zoo.languages import LANGUAGES
from zoo.loader import HYDRA, PARTS, SEARCH_PATH, Loader
from zoo.machine import check_machine
from zoo.signatures import INSTANTIATE_KEYS, TARGET, located
from zoo.tracking.launch import (
    LAUNCH_VARIABLE,
    default_environment,
    is_main_process,
    launch_name,
    register_resolvers,
)

if TYPE_CHECKING:
    import torch  # the import takes seconds; a mistyped key is reported before it

Config = DictConfig
PACKAGE = Path(__file__).resolve().parent
INSTALLED = PACKAGE / "conf"  # in a wheel; in a repository conf/ stands beside the package
CONF = INSTALLED if INSTALLED.is_dir() else PACKAGE.parent / "conf"
BAD_INPUT = 2  # exit code of wrong input
COMMAND_LINE = "command-line"  # Hydra's name of the provider of --config-dir
# Beginnings of the lines in messages of Hydra and OmegaConf that describe their own syntax and
# classes, which do not help a user of the zoo.
_HINTS = (
    "To append",
    "See https",
    "full_key",
    "object_type",
    "reference_type",
    "Config search path",
    "Set the",
)


def build(node: DictConfig) -> Any:
    """Create the object that a configuration node with ``_target_`` describes, and the parts in it.

    Raises:
        ZooError: a target does not accept a key or a value.
    """
    check_values(node)
    name = str(node._get_full_key(None))
    try:
        return instantiate(node, _convert_="all")
    except HydraException as error:
        for cause in _causes(error):
            if isinstance(cause, ZooError):
                raise cause from error
            if isinstance(cause, TypeError | ValueError):
                raise ZooError(
                    f"{_sentence(cause).rstrip('.')} (in the configuration of {name!r})."
                ) from error
        raise


def check_values(node: DictConfig) -> None:
    """Check a configuration node as ``build`` does, without creating its object.

    Raises:
        ZooError: a target does not accept a key or a value, or a value is missing.
    """
    name = str(node._get_full_key(None))
    whole = OmegaConf.to_container(node._get_root())
    values, unresolved = OmegaConf.to_container(node, resolve=True), OmegaConf.to_container(node)
    check_part(values, unresolved, whole, where=f"{name}.")


def arguments_of(node: DictConfig) -> dict[str, Any]:
    """Return the arguments with which ``build`` would call the node's ``_target_``."""
    arguments: dict[str, Any] = instantiate(node, _convert_="all", _partial_=True).keywords
    return arguments


def target_of(node: DictConfig) -> type:
    """Return the class that a configuration node names as its ``_target_``."""
    found = located(node[TARGET])
    assert isinstance(found, type)
    return found


def compose(config_name: str, given: Sequence[str] = (), folder: str | None = None) -> DictConfig:
    """Return the configuration that an entry point composes.

    Args:
        config_name: ``train`` or ``evaluate``.
        given: overrides. In a job, files are also found in the folders that its command line names
            (``--config-dir``, ``hydra.searchpath``).
        folder: outside of a job, another folder in which files are found, as by ``--config-dir``.

    Raises:
        ZooError: an override is wrong.
    """
    try:
        return _composed(config_name, given, folder)
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(_explained(error, config_name, given, folder)) from error
    except ValueError as error:  # Hydra raises it for wrong choices of groups
        raise ZooError(_null_choice(given, folder) or _sentence(error)) from error


def choices(given: Sequence[str]) -> dict[str, str | None]:
    """Return the choice of every group of ``evaluate.py`` under overrides of a job.

    Raises ZooError if an override is wrong.
    """
    found, search = _loader()
    try:
        return found.choices("evaluate", [*search, *given])
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(_explained(error, "evaluate", given, None)) from error
    except ValueError as error:  # see ``compose``
        raise ZooError(_sentence(error)) from error


def row_name(name: str, shared: Sequence[str], entry: Sequence[str]) -> str:
    """Return the name of one of several compared systems, with the parts chosen for all systems.

    Args:
        name: name of the entry.
        shared: overrides of the job. They apply to every system; ``policy=alignatt``, for example,
            replaces the policy of every system.
        entry: overrides of the entry.

    Returns:
        ``name``, or for example ``name+policy=alignatt``.
    """
    without_parts = [
        item for item in shared if item.partition("=")[0].partition("@")[0] not in PARTS
    ]
    chosen = choices([*shared, *entry])
    preset = choices([*without_parts, *entry])
    return loader.row_name(name, loader.departures(chosen, preset))


def _composed(
    config_name: str,
    given: Sequence[str],
    folder: str | None = None,
    *,
    filled: Collection[str] | None = None,
) -> DictConfig:
    """Return the configuration; wrong overrides raise the exceptions of Hydra and OmegaConf.

    Args:
        config_name: ``train`` or ``evaluate``.
        given: overrides.
        folder: additional folder of a new loader; see ``_loader``.
        filled: nodes that receive the arguments that the files leave out; see ``Loader``.
    """
    found, search = _loader(folder)
    found.filled = filled
    try:
        cfg = found.load_configuration(
            config_name, [*search, *given], run_mode=RunMode.RUN, from_shell=False
        )
    finally:
        found.filled = None

    with open_dict(cfg):
        del cfg[HYDRA]
    return cfg


def _loader(folder: str | None = None) -> tuple[Loader, list[str]]:
    """Return a loader, and the overrides with which it finds the files of the running job.

    A job has a loader. Without a job, a new loader is created.

    Args:
        folder: folder in which a new loader finds files, in addition to ``conf/``.

    Returns:
        The loader, and the job's overrides of ``hydra.searchpath``.
    """
    _register()
    running = GlobalHydra.instance()
    if running.is_initialized() and isinstance(found := running.config_loader(), Loader):
        given = HydraConfig.get().overrides.hydra if HydraConfig.initialized() else []
        return found, [item for item in given if item.startswith(SEARCH_PATH)]

    setup_globals()
    search_path = create_config_search_path(str(CONF))
    if folder is not None:
        place = f"file://{Path(folder).resolve()}"
        search_path.prepend(COMMAND_LINE, place, anchor=SearchPathQuery(provider="schema"))
    return Loader(search_path), []


def plain(cfg: DictConfig, *, resolve: bool = True) -> dict[str, Any]:
    """Return the configuration as plain containers.

    Args:
        cfg: configuration.
        resolve: whether to replace links by the values that they name.
    """
    values = OmegaConf.to_container(cfg, resolve=resolve)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


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


def choices_of(config_name: str, group: str) -> list[str]:
    """Return the choices of a group, also of the folders that the job's command line names.

    Args:
        config_name: ``train`` or ``evaluate``.
        group: group, such as ``system``.
    """
    found, search = _loader()
    return list(found.get_group_options(group, overrides=search))


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

    from zoo.devices import allow_tf32, device_named

    check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
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


def entry_point(config_name: str, job: Callable[[DictConfig], float | None]) -> None:
    """Compose ``conf/<config_name>.yaml`` with the command line and run ``job``.

    A mistake is printed to stderr as one sentence and ends the process with exit code 2.

    Args:
        config_name: ``train`` or ``evaluate``.
        job: the work; a sweeper optimises the value that it returns.
    """
    _register()
    typed = _typed(config_name)
    loader.install(show_help=typed.help)
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra raises; else it prints and exits with 1
    working = False

    def explained(error: HydraException | OmegaConfBaseException) -> str:
        return _explained(error, config_name, typed.overrides, typed.config_dir)

    def guarded(cfg: DictConfig) -> float | None:
        nonlocal working
        working = True
        try:
            _check_languages(cfg)
            _check_keys(cfg, config_name)
            value = job(cfg)
        except ZooError as error:
            _exit(str(error))
        except (HydraException, OmegaConfBaseException) as error:  # found when a value is used
            _exit(explained(error))
        except Exception as error:
            if not (sentence := full_disk(error, run_folder())):
                raise
            _exit(sentence)
        finally:
            remove_if_empty(run_folder())
        working = False
        return value

    # processes of a launcher such as submitit belong to this launch: one folder, one group
    name = {LAUNCH_VARIABLE: launch_name()} if is_main_process() else {}
    try:
        with default_environment(name):
            run = hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)
            run(guarded)()
    except ZooError as error:
        _exit(str(error))
    except (HydraException, OmegaConfBaseException) as error:
        _exit(explained(error))
    except ValueError as error:  # Hydra raises it for wrong choices of groups and wrong flags
        if working:
            raise
        _exit(_null_choice(typed.overrides, typed.config_dir) or _sentence(error))
    except OSError as error:
        if working:
            raise
        folder = error.filename
        _exit(f"Cannot write to the run folder {folder}: {error.strerror}; choose another one.")


def run_composed(given: Sequence[str], job: Callable[[DictConfig], None]) -> None:
    """Compose ``conf/evaluate.yaml`` and run a script's ``job``, which writes no run folder.

    A mistake is printed to stderr as one sentence and ends the process with exit code 2.

    Args:
        given: overrides.
        job: the work.
    """
    try:
        cfg = compose("evaluate", given)
        _check_languages(cfg)
        check_machine(seed=cfg.seed, threads=cfg.threads, device=cfg.device)
        job(cfg)
    except ZooError as error:
        _exit(str(error))
    except (HydraException, OmegaConfBaseException) as error:  # found when a value is used
        _exit(_explained(error, "evaluate", given))


def _typed(config_name: str) -> Namespace:
    """Return the parsed command line; a wrong one ends the process with one sentence."""
    parser = get_args_parser()
    parser.error = _exit  # type: ignore[assignment]  # argparse prints the usage as well
    typed = parser.parse_args(sys.argv[1:])
    if typed.config_name not in (None, config_name):
        _exit(
            f"{config_name}.py reads {config_name}.yaml and no other main file; choose its parts "
            f"with group=choice or experiment=name instead of --config-name {typed.config_name}."
        )
    return typed


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
        keys = [str(key) for key in _composed(config_name, declared)]
        for key in cfg:
            check_choice("key", key, keys)


def _register() -> None:
    """Register the resolvers of links, such as ``repository``."""
    register_resolvers()
    # Weights are not installed: an installed package expects them below the current folder.
    root = Path() if CONF == INSTALLED else CONF.parent
    OmegaConf.register_new_resolver("repository", lambda path: str(root / path), replace=True)
    OmegaConf.register_new_resolver("training_precision", _training_precision, replace=True)
    OmegaConf.register_new_resolver("inference_dtype", _inference_dtype, replace=True)


def _training_precision(device: str) -> str:
    """Return the precision of trainings on a device; only trainings import torch for it."""
    from zoo.devices import training_precision

    return training_precision(device)


def _inference_dtype(device: str, on_gpu: str) -> str:
    """Return the dtype of weights on a device; only a configuration with the link imports torch."""
    from zoo.devices import inference_dtype

    return inference_dtype(device, on_gpu)


def _explained(
    error: HydraException | OmegaConfBaseException,
    config_name: str,
    given: Sequence[str],
    folder: str | None = None,
) -> str:
    """Return one sentence about wrong overrides, with the possible choices if they are known.

    Args:
        error: error of Hydra or OmegaConf.
        config_name: ``train`` or ``evaluate``.
        given: overrides.
        folder: additional folder of a new loader; see ``_loader``.
    """
    for cause in _causes(error):
        if isinstance(cause, ZooError):
            return str(cause)

    if isinstance(error, OverrideParseException):
        reason = _sentence(error).removeprefix(f"Error parsing override '{error.override}'").strip()
        return (
            f"Cannot read {error.override!r} ({reason}); write key=value, in quotes if it has "
            "spaces or brackets."
        )
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return str(unknown_choice(group, name, error.options))

    # Hydra's exceptions have the experiment and the key only in their text.
    foreign = re.match(r"In 'experiment/([^']+)': Could not override '([^']+)'", str(error))
    if foreign:
        return (
            f"Experiment {foreign[1]!r} is not for {config_name}.py, which has no {foreign[2]!r}."
        )
    # Hydra's own settings are not part of the composed configuration.
    found = re.match(r"Could not override '((?!hydra\b)[^'@]+)'", str(error))
    if found and (sentence := _unknown_key(config_name, found[1], given, folder)):
        return sentence

    sentences = dict.fromkeys(_sentence(item) for item in (error, *_causes(error)))
    return " ".join(sentences)


def _null_choice(given: Sequence[str], folder: str | None) -> str:
    """Return a sentence with the choices of a group that is set to null, such as ``system=null``.

    Hydra's message does not name the choices. The sentence is empty if no group is null.
    """
    found, search = _loader(folder)
    for group in (item.partition("=")[0] for item in given if item.endswith("=null")):
        if choices := found.get_group_options(group, overrides=search):
            return str(unknown_choice(group, "null", choices))
    return ""


def _unknown_key(config_name: str, key: str, given: Sequence[str], folder: str | None) -> str:
    """Return a sentence about an unknown key, with the choices of its group that have the key.

    Args:
        config_name: ``train`` or ``evaluate``.
        key: full key, such as ``data.root``.
        given: overrides.
        folder: additional folder of a new loader; see ``_loader``.

    Returns:
        The sentence; empty if the key exists.
    """
    group, _, subkey = key.partition(".")
    found, search = _loader(folder)
    search = [*search, *(item for item in given if item.startswith(SEARCH_PATH))]
    choices_of_groups = []
    for item in given:
        name, _, value = item.partition("=")
        if value.startswith("{"):
            continue  # values below the group, not a choice of it
        if "." not in name and found.get_group_options(name, overrides=search):
            choices_of_groups.append(item)

    siblings = _siblings(config_name, key, [*search, *choices_of_groups], folder)
    if siblings is None:  # the parent of the key does not exist either
        return _unknown_key(config_name, key.rpartition(".")[0], given, folder) if subkey else ""

    owners = list(found.owners(group, key, search)) if subkey else []
    if owners:
        keys = f", and the keys here are: {', '.join(siblings)}" if siblings else ""
        return f"Unknown key {key!r}; it is a key of {group}={', '.join(owners)}{keys}."
    if not siblings:
        parent = key.rpartition(".")[0]
        return f"Unknown key {key!r}; {parent} has no keys (+{key}=... adds one to a mapping)."
    return str(unknown_choice("key", key, siblings))


def _siblings(
    config_name: str, key: str, given: Sequence[str], folder: str | None
) -> list[str] | None:
    """Return the full keys of the mapping that contains ``key``; None if there is no such mapping.

    Args:
        config_name: ``train`` or ``evaluate``.
        key: full key.
        given: overrides.
        folder: additional folder of a new loader; see ``_loader``.
    """
    parent = key.rpartition(".")[0]
    try:
        if not parent:
            return [str(name) for name in _composed(config_name, given, folder, filled=())]
        root = parent.partition(".")[0]
        cfg = _composed(config_name, given, folder, filled=())
        if (known := loader.keys_beside(cfg, key.split("."))) is not None:
            return [f"{parent}.{name}" for name in known if name not in INSTANTIATE_KEYS]
        create = f"{parent}={{}}"  # a part that is null becomes a part with default values
        cfg = _composed(config_name, [*given, create], folder, filled=(root,))
        siblings = OmegaConf.select(cfg, parent)
    except (ZooError, HydraException, OmegaConfBaseException):
        return None
    return [f"{parent}.{name!s}" for name in siblings if name not in INSTANTIATE_KEYS]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the cause of an error, the cause of the cause, and so on."""
    while (cause := error.__cause__) is not None:
        yield cause
        error = cause


def _sentence(error: BaseException) -> str:
    """Return the message of an error on one line, without Hydra's hints about its own syntax."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(_HINTS))


def _exit(message: str) -> None:
    """Print an error message and end the process."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(BAD_INPUT)
