"""Hydra's repository of configuration files, which reads each file once."""

import copy
from pathlib import Path

import yaml
from hydra._internal.config_repository import ConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from zoo.base.disk.parsing import parse_yaml
from zoo.base.errors import ZooError
from zoo.config.kept import States, file_states
from zoo.config.targets import OPTIMIZERS, OWN_PACKAGES, named_targets

OWN_PROVIDERS = ("hydra", "main", "schema")  # Hydra's names of its own files and of conf/
# Content of configuration files by provider, path and state, see ``_state``.
_parsed: dict[tuple[object, ...], ConfigResult | None] = {}
_packaged: dict[tuple[str, str, ObjectType | None], bool] = {}  # whether a package has a file


class Repository(ConfigRepository):
    """Hydra's repository of files, which it copies for each list of overrides.

    A copy shares all but the list of the sources, which Hydra replaces. Hydra's copies, of all
    registered configurations, take four fifths of the time of ``--help``.

    Attributes:
        packages: packages of the targets in files that the user's command line has found.
        states: states of the files of folders that were read.
    """

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.packages: set[str] = set()
        self.states: States = {}

    def __deepcopy__(self, memo: object) -> "Repository":
        return copy.copy(self)

    @property
    def is_own(self) -> bool:
        """Whether only the zoo's and Hydra's own files are found."""
        return all(source.provider in OWN_PROVIDERS for source in self.sources)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The folders and packages in which files are found."""
        return tuple(source.full_path() for source in self.sources)

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Return what a file contains; a file that has not changed is parsed only once.

        The name of the system and the systems of a comparison read the same files again. The
        results share their content: ``Loader`` copies it where Hydra changes it.
        """
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        found = self._load(source, config_path)
        if source is not None and found is not None and source.provider not in OWN_PROVIDERS:
            self.packages |= named_packages(OmegaConf.to_yaml(found.config))
        return found

    def _load(self, source: ConfigSource | None, config_path: str) -> ConfigResult | None:
        """Return what a file of a source contains, see ``load_config``."""
        if source is None:
            return super().load_config(config_path)
        key = (source.provider, source.full_path(), config_path, *self._state(source, config_path))
        if key not in _parsed:
            if source.scheme() == "file" and source.provider not in OWN_PROVIDERS:
                _check_file(_path(source, config_path))
            _parsed[key] = super().load_config(config_path)
        found = copy.copy(_parsed[key])
        if found is not None and "/" not in config_path:  # Hydra takes keys out of main files
            found.config = copy.deepcopy(found.config)
        return found

    def _state(self, source: ConfigSource, config_path: str) -> tuple[object, ...]:
        """Return what changes when the content of a file, or of a registered node, does."""
        if source.scheme() == "file":
            state = file_states([_path(source, config_path)])
            self.states |= state
            return tuple(state.values())
        if source.scheme() == "structured":
            return (_Same(ConfigStore.instance()._load(source._normalize_file_name(config_path))),)
        return ()  # a file of an installed package

    def _find_object_source(
        self, config_path: str, object_type: ObjectType | None
    ) -> ConfigSource | None:
        """Return the first source with a file or group; packages are searched once for each."""
        for source in self.sources:
            if source.scheme() != "pkg":
                if _contains(source, config_path, object_type):
                    return source
                continue
            key = (source.path, config_path, object_type)
            if key not in _packaged:
                _packaged[key] = _contains(source, config_path, object_type)
            if _packaged[key]:
                return source
        return None


class _Same:
    """An object as a part of a key: equal to itself only."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value


def _path(source: ConfigSource, config_path: str) -> Path:
    """Return the path of a file of a folder."""
    return Path(source.path, source._normalize_file_name(config_path))


def _contains(source: ConfigSource, config_path: str, object_type: ObjectType | None) -> bool:
    """Return whether a source has a file or a group."""
    if object_type == ObjectType.CONFIG:
        return source.is_config(config_path)
    return source.is_group(config_path)


def _check_file(path: Path) -> None:
    """Raise ZooError for a file of YAML with equal keys, or with aliases for too many values.

    OmegaConf would write each alias out.
    """
    try:
        parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ZooError(f"{path} is not read: {' '.join(str(error).split())}.") from error


def named_packages(text: str) -> set[str]:
    """Return the packages, besides the zoo, of the targets in an override or a YAML file."""
    targets = (target for target in named_targets(text) if not target.startswith(OPTIMIZERS))
    packages = {target.partition(".")[0] for target in targets}
    return packages.difference(OWN_PACKAGES)
