"""Configurations as an entry point composes them, and the choices of groups."""

from collections.abc import Sequence

from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from zoo.base.errors import ZooError
from zoo.config import loader
from zoo.config.checks import check_dtypes
from zoo.config.loader import PARTS
from zoo.config.mistakes import explained, one_line
from zoo.config.records import check_folders
from zoo.config.sources import Folders, composed, job_loader
from zoo.config.unknown import null_choice


def compose(config_name: str, given: Sequence[str] = (), folders: Folders = ()) -> DictConfig:
    """Return the configuration that an entry point composes.

    Args:
        config_name: ``train`` or ``evaluate``.
        given: overrides. In a job, files are also found in the folders that its command line names
            (``--config-dir``, ``hydra.searchpath``).
        folders: outside of a job, other folders in which files are found, as by ``--config-dir``.

    Raises:
        ZooError: an override is wrong, a folder of weights records what no folder may, or a dtype
            does not fit the device.
    """
    try:
        cfg = composed(config_name, given, folders)
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(explained(error, config_name, given, folders)) from error
    except ValueError as error:  # Hydra raises it for wrong choices of groups
        raise ZooError(null_choice(given, folders) or one_line(error)) from error
    check_folders(cfg, folders)
    check_dtypes(cfg)
    return cfg


def choices(given: Sequence[str]) -> dict[str, str | None]:
    """Return the choice of every group of ``evaluate.py`` under overrides of a job.

    Raises ZooError if an override is wrong.
    """
    found, search = job_loader()
    try:
        return found.choices("evaluate", [*search, *given])
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(explained(error, "evaluate", given)) from error
    except ValueError as error:  # see ``compose``
        raise ZooError(one_line(error)) from error


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
    if len(without_parts) == len(shared):
        return name
    chosen = choices([*shared, *entry])
    preset = choices([*without_parts, *entry])
    return loader.row_name(name, loader.departures(chosen, preset))


def choices_of(config_name: str, group: str, folders: Folders = ()) -> list[str]:
    """Return the choices of a group, also of the folders that the job's command line names.

    Args:
        config_name: ``train`` or ``evaluate``.
        group: group, such as ``system``.
        folders: additional folders of a new loader; see ``job_loader``.
    """
    found, search = job_loader(folders)
    return list(found.get_group_options(group, overrides=search))
