"""Systems by name, for scripts and notebooks: ``zoo.load("infinisst_minitalks_en-de")``."""

import sys
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from zoo.base.errors import ZooError, unknown_choice
from zoo.config import build, choices_of, compose, plain
from zoo.config.records import DESCRIPTION, packaged_configurations, record_of
from zoo.config.shipped import how_to_get
from zoo.config.sources import ROOT
from zoo.config.writing import override_key, override_value
from zoo.runs.weights import weights_of
from zoo.systems.base import StreamingSystem
from zoo.systems.plan import TrainingPlan

CHECKPOINTS = ROOT / "checkpoints"  # shipped with the repository
# Overrides of these groups choose a system; another system replaces them.
SYSTEM_GROUPS = ("system", "policy", "history", "synthesizer")


def load(
    source: str | Path,
    system: str | None = None,
    *,
    trusted_packages: Collection[str] = (),
    config_dir: str | Path | None = None,
    **overrides: Any,
) -> StreamingSystem:
    """Create a system for streaming or for Lightning's Trainer; weights are read when it runs.

    Args:
        source: Folder of an exported or shipped checkpoint, the name of a shipped checkpoint such
            as ``infinisst_minitalks_en-de``, or the name of a system such as ``infinisst``.
        system: Name of another system than the checkpoint was trained for: one offline network
            serves ``streamatt``, ``alignatt``, ``wait_k`` and others.
        trusted_packages: Installed packages of your own whose classes the folder may name. Their
            YAML files are read from the folder ``conf`` in the package. A folder that names a
            class of another package is refused: a checkpoint is data, and a class is code.
        config_dir: Another folder of YAML files, as ``--config-dir`` of ``evaluate.py``.
        **overrides: Values of the configuration, such as ``policy="alignatt"``. Dotted keys are
            passed as ``**{"policy.frames": 4}``.

    Raises:
        ZooError: There is no such folder or system, the folder does not name its system or records
            what no folder may (see docs/security.md), or an override is wrong.
    """
    given = [f"{name}={override_value(value)}" for name, value in overrides.items()]
    if system is not None:
        given.insert(0, f"system={system}")
    replaced = set(map(override_key, given))
    if system is not None:
        replaced |= set(SYSTEM_GROUPS)
    for name in trusted_packages:
        if name in sys.stdlib_module_names or not name.isidentifier() or not find_spec(name):
            raise ZooError(f"trusted_packages has {name!r}, which is no package of yours.")
    folders = packaged_configurations(trusted_packages)
    folders += [Path(config_dir)] if config_dir is not None else []

    folder = next((path for path in (Path(source), CHECKPOINTS / source) if path.is_dir()), None)
    if folder is not None:
        recorded = record_of(folder, trusted_packages, folders, replaced=replaced)
    elif str(source) in (systems := choices_of("evaluate", "system", folders)):
        recorded = [] if "system" in replaced else [f"system={source}"]
    elif command := how_to_get(CHECKPOINTS / source):
        raise ZooError(f"{command}.")
    else:
        names = sorted(path.name for path in CHECKPOINTS.glob("*"))
        raise unknown_choice("system or folder of a checkpoint", str(source), [*systems, *names])

    trusted = f"trusted_packages=[{','.join(trusted_packages)}]"
    try:
        cfg = compose("evaluate", [*recorded, *given, trusted], folders)
        found = build(cfg.system)
    except ZooError:
        if folder is not None:
            check_record(folder, recorded, folders)
        raise
    if not isinstance(found, StreamingSystem):
        raise ZooError(f"{source!r} is no streaming system.")
    found.weights = weights_of(plain(cfg))
    return found


def check_record(folder: Path, recorded: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise ZooError, with the name of the folder, if its record alone makes no system."""
    try:
        build(compose("evaluate", recorded, folders).system)
    except ZooError as error:
        raise ZooError(f"{folder}/{DESCRIPTION} records no system of the zoo: {error}") from error


def training_plan(experiment: str, **overrides: Any) -> TrainingPlan[StreamingSystem]:
    """Create the training of an experiment, for ``trainer.fit`` in scripts.

    ``trainer.fit(system, TalksDataModule(...))`` trains a system whose ``training_plan`` it is.

    Args:
        experiment: Name of a file in ``conf/experiment`` that ``train.py`` takes.
        **overrides: Values of the configuration; see ``load``.

    Raises:
        ZooError: There is no such experiment, or an override is wrong.
    """
    from zoo.training.module import Training
    from zoo.training.recipe import build_training

    given = [f"{name}={override_value(value)}" for name, value in overrides.items()]
    cfg = compose("train", [f"experiment={experiment}", *given])
    settings, optimizer = build_training(cfg)
    return Training(settings, optimizer=optimizer, seed=cfg.seed)
