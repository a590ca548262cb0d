"""Systems by name, for scripts and notebooks: ``zoo.load("infinisst_minitalks_en-de")``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from zoo.config import CONF, build, choices_of, compose
from zoo.errors import ZooError, unknown_choice
from zoo.parsing import parse_yaml
from zoo.systems.base import StreamingSystem
from zoo.systems.plan import TrainingPlan

CONFIG_DIR = "--config-dir"  # a recorded argument that names a folder of YAML files
FOLDER = "<this folder>"  # stands for the folder of the weights in its own configuration
CHECKPOINTS = CONF.parent / "checkpoints"  # shipped with the repository
# Overrides of these groups choose a system; another system replaces them.
SYSTEM_GROUPS = ("system", "policy", "history", "synthesizer")


def load(source: str | Path, system: str | None = None, **overrides: Any) -> StreamingSystem:
    """Create a system for streaming or for Lightning's Trainer; weights are read when it runs.

    Args:
        source: Folder of an exported or shipped checkpoint, the name of a shipped checkpoint such
            as ``infinisst_minitalks_en-de``, or the name of a system such as ``infinisst``.
        system: Name of another system than the checkpoint was trained for: one offline network
            serves ``streamatt``, ``alignatt``, ``wait_k`` and others.
        **overrides: Values of the configuration, such as ``policy="alignatt"``. Dotted keys are
            passed as ``**{"policy.frames": 4}``.

    Raises:
        ZooError: There is no such folder or system, the folder does not name its system, or an
            override is wrong.
    """
    given = [f"{name}={_written(value)}" for name, value in overrides.items()]
    if system is not None:
        given.insert(0, f"system={system}")
    folder = next((path for path in (Path(source), CHECKPOINTS / source) if path.is_dir()), None)
    if folder is not None:
        recorded = recorded_overrides(folder, other_system=system is not None)
    elif str(source) in choices_of("evaluate", "system"):
        recorded = [f"system={source}"]
    else:
        names = sorted(path.name for path in CHECKPOINTS.glob("*"))
        known = [*choices_of("evaluate", "system"), *names]
        raise unknown_choice("system or folder of a checkpoint", str(source), known)

    changed = {_key(item) for item in given}
    kept = [item for item in recorded if _key(item) not in changed and _key(item) != CONFIG_DIR]
    yaml_folder = next((_value(item) for item in recorded if _key(item) == CONFIG_DIR), None)
    cfg = compose("evaluate", [*kept, *given], yaml_folder)
    found = build(cfg.system)
    if not isinstance(found, StreamingSystem):
        raise ZooError(f"{source!r} is no streaming system.")
    return found


def training_plan(experiment: str, **overrides: Any) -> TrainingPlan:
    """Create the training of an experiment, for ``trainer.fit`` in scripts.

    ``trainer.fit(system, TalksDataModule(...))`` trains a system whose ``training_plan`` it is.

    Args:
        experiment: Name of a file in ``conf/experiment`` that ``train.py`` takes.
        **overrides: Values of the configuration; see ``load``.

    Raises:
        ZooError: There is no such experiment, or an override is wrong.
    """
    from zoo.training.module import Training

    given = [f"{name}={_written(value)}" for name, value in overrides.items()]
    cfg = compose("train", [f"experiment={experiment}", *given])
    return Training(build(cfg.training), seed=cfg.seed)


def recorded_overrides(folder: Path, *, other_system: bool = False) -> list[str]:
    """Return the overrides with which ``evaluate.py`` runs a checkpoint.

    Args:
        folder: Folder with ``config.yaml``.
        other_system: Whether to leave out the system and its parts.

    Raises:
        ZooError: The folder has no such record.
    """
    path = folder / "config.yaml"
    try:
        items: Sequence[str] = parse_yaml(path.read_text())["evaluate"]["overrides"]
        recorded = [str(item).replace(FOLDER, str(folder)) for item in items]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ZooError(
            f"{path} does not state how to evaluate the checkpoint; load a system by its name and "
            "set its backbone and weights."
        ) from error
    return [item for item in recorded if not (other_system and _key(item) in SYSTEM_GROUPS)]


def _key(override: str) -> str:
    return override.partition("=")[0]


def _value(override: str) -> str:
    return override.partition("=")[2]


def _written(value: Any) -> str:
    """Return a value as an override writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
