"""Availability of pretrained models, checked before anything is loaded."""

from pathlib import Path

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

from zoo.errors import ZooError

DESCRIPTIONS = ("config.json", "tokenizer_config.json")  # every cached model has at least one file


def check(noun: str, name: str) -> None:
    """Raise ZooError unless a model is a folder, in the local cache, or available from the hub.

    The check sends one request to the hub. Transformers alone would retry for minutes.

    Args:
        noun: Role of the model, such as tokenizer, for the error message.
        name: Hub id or folder.

    Raises:
        ZooError: If the model does not exist, is gated, or the hub cannot be reached.
    """
    if Path(name).is_dir() or _cached(name):
        return
    try:
        validate_repo_id(name)
        HfApi().auth_check(name)
    except HFValidationError as error:
        raise ZooError(
            f"No {noun} could be loaded from {name}; it must be a folder or a name on the hub."
        ) from error
    except GatedRepoError as error:
        raise ZooError(
            f"The {noun} {name!r} is gated: accept its licence on https://huggingface.co/{name} "
            "and log in with `hf auth login`, or name a local folder."
        ) from error
    except RepositoryNotFoundError as error:
        raise ZooError(
            f"The {noun} {name!r} is neither a folder here nor a model on the hub."
        ) from error
    except HfHubHTTPError as error:
        raise _unreachable(noun, name, f"it answers {error.response.status_code}") from error
    except Exception as error:  # types depend on the HTTP library of the hub's client
        raise _unreachable(noun, name, str(error) or type(error).__name__) from error


def _cached(name: str) -> bool:
    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in DESCRIPTIONS)
    except HFValidationError:
        return False


def _unreachable(noun: str, name: str, reason: str) -> ZooError:
    return ZooError(
        f"The {noun} {name!r} is neither a folder here nor in the local cache of models, and the "
        f"hub cannot be reached ({' '.join(reason.split())}); connect, or name a local folder."
    )
