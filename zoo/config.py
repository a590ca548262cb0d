"""From a command line to objects: the only module that knows Hydra. Turns every mistake into one sentence, exit 2."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zoo.arguments import check_arguments
from zoo.errors import ZooError, unknown_choice
from zoo.tracking.launch import register_resolvers

if TYPE_CHECKING:
    import torch  # seconds of import that a mistyped key need not wait for

Config = DictConfig
CONF = Path(__file__).resolve().parent.parent / "conf"
BAD_INPUT = 2  # exit code of a mistake a person can correct
LARGEST_SEED = 2**32 - 1  # what NumPy takes
_LINK = re.compile(r"\$\{(\w+)\}")
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
    """Instantiate a config node that names a ``_target_``. Raises ZooError on keys and values the target refuses."""
    name = str(node._get_full_key(None))
    _check_values(
        OmegaConf.to_container(node, resolve=True), OmegaConf.to_container(node), where=f"{name}."
    )
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


def target_of(node: DictConfig) -> type:
    """The class that a config node names as its ``_target_``."""
    found = get_object(node["_target_"])
    assert isinstance(found, type)
    return found


def _check_values(node: Any, written: Any, *, where: str) -> None:
    """Check a resolved node and all parts in it against the annotations of their targets.

    written: the same before resolving; a part that stands elsewhere (``${backbone}``) goes by the name it has there.
    """
    if not isinstance(node, Mapping):
        return
    values = {str(name): value for name, value in node.items() if name != "_target_"}
    if "_target_" in node:
        check_arguments(get_object(node["_target_"]), values, where=where)
    for name, value in values.items():
        below = written[name] if isinstance(written, Mapping) else None
        link = _LINK.fullmatch(below) if isinstance(below, str) else None
        _check_values(value, below, where=f"{link[1]}." if link else f"{where}{name}.")


def compose(config_name: str, given: Sequence[str] = ()) -> DictConfig:
    """The configuration an entry point would get from these overrides. Raises ZooError on overrides that are wrong."""
    try:
        return _composed(config_name, given)
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(_explained(error, config_name, given)) from error


def _composed(config_name: str, given: Sequence[str]) -> DictConfig:
    _register()
    running = GlobalHydra.instance()
    outer = running.hydra
    running.clear()  # inside an entry point Hydra is at work already
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            return hydra.compose(config_name, overrides=list(given))
    finally:
        GlobalHydra.instance().hydra = outer


def plain(cfg: DictConfig, *, resolve: bool = True) -> dict[str, Any]:
    """The configuration as plain containers, for loggers and cards; resolve: links (``${backbone}``) are followed."""
    values = OmegaConf.to_container(cfg, resolve=resolve)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def overrides() -> list[str]:
    """The overrides of this job, as typed."""
    return list(HydraConfig.get().overrides.task)


def choices_unlike(config_name: str, groups: Sequence[str]) -> list[str]:
    """``group=choice`` for this job's choices that an entry point would not make by itself."""
    defaults: Any = OmegaConf.load(CONF / f"{config_name}.yaml").defaults
    usual = {
        group: choice
        for item in defaults
        if isinstance(item, DictConfig)
        for group, choice in item.items()
    }
    made = HydraConfig.get().runtime.choices
    return [f"{group}={made[group]}" for group in groups if made[group] != usual[group]]


def is_multirun() -> bool:
    """Whether this job is one of a multirun."""
    return bool(HydraConfig.get().mode == RunMode.MULTIRUN)


def machine(cfg: DictConfig) -> "torch.device":
    """The device a configuration names (``auto``: a GPU if there is one); sets the number of CPU threads too.

    Raises ZooError for a device that this machine lacks, and for a seed or number of threads that is none.
    """
    import torch

    _check_number(cfg, "seed", least=0)
    if cfg.seed > LARGEST_SEED:
        raise ZooError(f"seed must be at most {LARGEST_SEED}, not {cfg.seed}.")
    if cfg.threads is not None:
        _check_number(cfg, "threads", least=1)
        torch.set_num_threads(cfg.threads)
    name = ("cuda" if torch.cuda.is_available() else "cpu") if cfg.device == "auto" else cfg.device
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # a device may have a name and not be there
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        found = ["auto", "cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise unknown_choice("device", name, found) from error
    return device


def _check_number(cfg: DictConfig, key: str, *, least: int) -> None:
    value = cfg[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ZooError(f"{key} must be a whole number of at least {least}, not {value!r}.")


def run_folder() -> Path:
    """Where this job writes."""
    return Path(HydraConfig.get().runtime.output_dir)


def entry_point(config_name: str, job: Callable[[DictConfig], None]) -> None:
    """Compose ``conf/<config_name>.yaml`` with the command line and run ``job``; exit code 2 on a mistake."""
    _register()
    os.environ.setdefault(
        "HYDRA_FULL_ERROR", "1"
    )  # raise instead of printing and leaving with code 1
    working = False

    def guarded(cfg: DictConfig) -> None:
        nonlocal working
        working = True
        try:
            _check_keys(cfg, config_name)
            job(cfg)
        except ZooError as error:
            _leave(str(error))
        except (
            HydraException,
            OmegaConfBaseException,
        ) as error:  # some of it is found only when it is used
            _leave(_explained(error, config_name))
        finally:
            _withdraw(run_folder())
        working = False

    try:
        hydra.main(version_base="1.3", config_path=str(CONF), config_name=config_name)(guarded)()
    except (HydraException, OmegaConfBaseException) as error:
        _leave(_explained(error, config_name))
    except ValueError as error:
        if working:
            raise
        _leave(
            _emptied_group() or _sentence(error)
        )  # Hydra says so of choices and flags that make no sense
    except OSError as error:
        if working:
            raise
        _leave(
            f"Cannot write to the run folder {error.filename}: {error.strerror}; choose another one."
        )


def _check_keys(cfg: DictConfig, config_name: str) -> None:
    """Raise ZooError for a top-level key that only ``+`` brought in: nothing would read it."""
    if any(item.startswith("+") for item in overrides()):
        known = [str(key) for key in _composed(config_name, ())]
        for key in cfg:
            if key not in known:
                raise unknown_choice("key", key, known)


def _register() -> None:
    register_resolvers()
    OmegaConf.register_new_resolver(
        "repository", lambda path: str(CONF.parent / path), replace=True
    )


def _withdraw(folder: Path) -> None:
    """Remove the folder that Hydra made if nothing came into it, and its parents below here if that empties them."""
    here = Path.cwd()
    for place in (folder, *(parent for parent in folder.parents if here in parent.parents)):
        try:
            place.rmdir()
        except OSError:
            return


def _explained(
    error: HydraException | OmegaConfBaseException,
    config_name: str,
    given: Sequence[str] | None = None,
) -> str:
    """One sentence about what is wrong with the overrides (None: those typed), naming the choices where it can."""
    for cause in _causes(error):
        if isinstance(cause, ZooError):
            return str(cause)
    if isinstance(error, OverrideParseException):
        reason = _sentence(error).removeprefix(f"Error parsing override '{error.override}'").strip()
        return f"Cannot read {error.override!r} ({reason}); write key=value, in quotes if it has spaces or brackets."
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return str(unknown_choice(group, name, error.options))
    foreign = re.match(r"In 'experiment/([^']+)': Could not override '([^']+)'", str(error))
    if foreign:
        return (
            f"Experiment {foreign[1]!r} is not for {config_name}.py, which has no {foreign[2]!r}."
        )
    found = re.match(r"Could not override '([^'@]+)'", str(error))
    if found and (
        keys := _siblings(config_name, found[1], sys.argv[1:] if given is None else given)
    ):
        return str(unknown_choice("key", found[1], keys))
    sentences = dict.fromkeys(_sentence(item) for item in (error, *_causes(error)))
    return " ".join(sentences)


def _emptied_group() -> str:
    """What to say of ``system=null`` and its like, of which Hydra only says that null is no choice."""
    for group in (item.partition("=")[0] for item in sys.argv[1:] if item.endswith("=null")):
        if choices := sorted(path.stem for path in (CONF / group).glob("*.yaml")):
            return str(unknown_choice(group, "null", choices))
    return ""


def _siblings(config_name: str, key: str, typed: Sequence[str]) -> list[str]:
    """The keys beside ``key`` in the configuration without it, written in full."""
    parent = key.rpartition(".")[0]
    given = [item for item in typed if "=" in item and not item.startswith(("-", key, "+" + key))]
    try:
        cfg = _composed(config_name, given)
        beside = OmegaConf.select(cfg, parent) if parent else cfg
    except (HydraException, OmegaConfBaseException):
        return []
    prefix = f"{parent}." if parent else ""
    return (
        [f"{prefix}{name!s}" for name in beside if name != "_target_"]
        if isinstance(beside, DictConfig)
        else []
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    while (cause := error.__cause__) is not None:
        yield cause
        error = cause


def _sentence(error: BaseException) -> str:
    """A message on one line, without Hydra's hints about its own syntax."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(line for line in lines if not line.startswith(_HINTS))


def _leave(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(BAD_INPUT)
