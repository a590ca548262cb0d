"""Names of pretrained models: folders, and models of the hub with an optional revision.

``owner/model`` is the newest version of a model on the Hugging Face hub, and
``owner/model@revision`` is one version: a branch, a tag or a commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

from zoo.backbones.pretrained import settings
from zoo.base.errors import ZooError
from zoo.base.machine.secrets import mask_secrets

NEWEST = "main"  # revision of a model whose name has no @revision
# Every cached model has at least one of these files.
DESCRIPTIONS = ("config.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A pretrained model.

    Attributes:
        location: Folder, or name of a repository on the hub.
        revision: Branch, tag or commit of the repository. A folder has none.
    """

    location: str
    revision: str = NEWEST

    @classmethod
    def from_name(cls, name: str) -> "ModelSource":
        """Return the model of a name, such as ``owner/model@revision`` or a folder."""
        if Path(name).is_dir():  # the path of a folder may contain an @
            return cls(name)
        location, _, revision = name.partition("@")
        return cls(location, revision or NEWEST)

    def cached(self, files: Sequence[str] = DESCRIPTIONS) -> Path | None:
        """Return the folder of the revision in the local cache, if it has one of ``files``."""
        for file in files:
            try:
                file_path = try_to_load_from_cache(self.location, file, revision=self.revision)
            except HFValidationError:
                return None
            if isinstance(file_path, str):
                return Path(file_path).parent
        return None


def check(noun: str, name: str) -> None:
    """Raise ZooError unless a model is a folder, in the local cache, or available from the hub.

    The check sends one request to the hub, and a second one for a revision. Transformers alone
    would retry for minutes.

    Args:
        noun: Role of the model, such as tokenizer, for the error message.
        name: Hub id, with ``@revision`` if another version than the newest is meant, or folder.

    Raises:
        ZooError: If the model or the revision does not exist, the model is gated, or the hub cannot
            be reached.
    """
    source = ModelSource.from_name(name)
    location = source.location
    if Path(location).is_dir() or source.cached():
        return
    try:
        validate_repo_id(location)
        HfApi().auth_check(location)
        if source.revision != NEWEST:
            HfApi().model_info(location, revision=source.revision)
    except HFValidationError as error:
        raise ZooError(
            f"No {noun} could be loaded from {name}; it must be a folder or a name on the hub."
        ) from error
    except GatedRepoError as error:
        raise ZooError(
            f"The {noun} {location!r} is gated: accept its licence on "
            f"https://huggingface.co/{location} and log in with `hf auth login`, or name a local "
            "folder."
        ) from error
    except RevisionNotFoundError as error:
        raise ZooError(
            f"The {noun} {location!r} has no revision {source.revision!r}; name a branch, a tag or "
            f"a commit of https://huggingface.co/{location}."
        ) from error
    except RepositoryNotFoundError as error:
        raise ZooError(
            f"The {noun} {location!r} is neither a folder here nor a model on the hub."
        ) from error
    except HfHubHTTPError as error:
        raise _unreachable(noun, name, f"it answers {error.response.status_code}") from error
    # The type of the error depends on the HTTP library of the hub's client.
    except Exception as error:
        raise _unreachable(noun, name, mask_secrets(str(error)) or type(error).__name__) from error


def checked(name: str) -> ModelSource:
    """Return a model whose settings are accepted, see ``settings``.

    The JSON files with the settings of a model of the hub are downloaded and checked before
    Transformers downloads the others. The result is the commit that was checked, because a branch
    may get new files in the meantime.

    Args:
        name: Hub id, with an optional ``@revision``, or folder. May raise any error of the hub.

    Raises:
        ZooError: If a setting is refused.
    """
    source = ModelSource.from_name(name)
    folder = Path(source.location)
    if folder.is_dir():
        settings.check_folder(name, folder)
        return source
    snapshot = _settings_folder(source, constants.HF_HUB_CACHE)
    settings.check_folder(name, snapshot)
    return ModelSource(source.location, snapshot.name)


@lru_cache  # the cache avoids a request per call
def _settings_folder(source: ModelSource, cache: str) -> Path:
    """Return the snapshot of a model of the hub with all files that ``settings`` checks."""
    return Path(
        snapshot_download(
            source.location,
            revision=source.revision,
            cache_dir=cache,
            allow_patterns=list(settings.FILES),
        )
    )


def required(noun: str, name: str | None, *, user: str) -> str:
    """Return the name of a model that ``check`` has found.

    Args:
        noun: Role of the model.
        name: Hub id or folder; None: missing.
        user: What needs the model, for the error message.

    Raises:
        ZooError: There is no name, or see ``check``.
    """
    if name is None:
        raise ZooError(f"{user} needs name, the hub id or folder of a {noun}.")
    check(noun, name)
    return name


def local_folder(
    noun: str, name: str, *, files: Sequence[str], left_out: Sequence[str] = ()
) -> Path:
    """Return the folder of a model whose settings are accepted, see ``settings``.

    The files of a model of the hub are downloaded before they are checked.

    Args:
        noun: Role of the model, for the error message.
        name: Hub id, with an optional ``@revision``, or folder.
        files: Patterns of the files to download.
        left_out: Patterns of files that are not downloaded although ``files`` has them.

    Raises:
        ZooError: If a setting is refused; or see ``check``.
    """
    check(noun, name)
    source = ModelSource.from_name(name)
    folder = Path(source.location)
    if not folder.is_dir():
        folder = Path(
            snapshot_download(
                source.location,
                revision=source.revision,
                allow_patterns=list(files),
                ignore_patterns=list(left_out),
            )
        )
    settings.check_folder(name, folder)
    return folder


def _unreachable(noun: str, name: str, reason: str) -> ZooError:
    return ZooError(
        f"The {noun} {name!r} is neither a folder here nor in the local cache of models, and the "
        f"hub cannot be reached ({' '.join(reason.split())}); connect, or name a local folder."
    )
