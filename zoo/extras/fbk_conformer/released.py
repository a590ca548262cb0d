"""Reading of checkpoints of FBK-fairseq, without running code that a file names.

A checkpoint of fairseq is a pickle of more than tensors: the training arguments are an
``argparse.Namespace``, often inside of an omegaconf ``DictConfig``, and numbers of the training may
be numpy scalars. ``torch.load(weights_only=True)`` reads such a file if the names of these classes
are allowed. Only ``Namespace`` and ``defaultdict`` are created as such. All other allowed names
give a ``Record``, which only stores the attributes in the file, so that no code of omegaconf or
numpy runs and their versions do not matter.
"""

from argparse import Namespace
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from zoo.base.errors import ZooError, shorten_list


class Record:
    """Attributes of an object in a file, whose class is not created.

    Attributes:
        state: Attributes of the object by name.
    """

    def __init__(self, *arguments: object) -> None:
        """Ignore the constructor arguments in the file."""
        self.state: Any = {}

    def __setstate__(self, state: object) -> None:
        """Store the attributes in the file."""
        self.state = state


RECORDED = (
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    "omegaconf.nodes.AnyNode",
    "typing.Any",
    "builtins.dict",
    "builtins.list",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
)


def read_checkpoint(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a checkpoint of fairseq.

    Args:
        file: A ``.pt`` file.

    Returns:
        The training arguments by name, and the weights by name.

    Raises:
        ZooError: If the file is missing or damaged, contains an object that a checkpoint of fairseq
            does not need, or has no training arguments or weights.
    """
    if not file.is_file():
        raise ZooError(f"There is no file {file}.")
    allowed: list[Any] = [Namespace, defaultdict, *((Record, name) for name in RECORDED)]
    try:
        with safe_globals(allowed):
            others = sorted(get_unsafe_globals_in_checkpoint(str(file)))
            if others:
                raise ZooError(
                    f"{file} is not loaded, because it contains objects that no checkpoint of "
                    f"fairseq needs: {shorten_list(others)}."
                )
            state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except ZooError:
        raise
    except Exception as error:  # of the unpickler, for a file of any content
        raise ZooError(f"{file} is damaged or no checkpoint of fairseq.") from error
    if not isinstance(state, Mapping):
        raise ZooError(f"{file} is no checkpoint of fairseq: it contains no training arguments.")
    return _arguments(state, file), _tensors(state, file)


def _arguments(state: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return the training arguments of the model: ``args``, or ``model`` of ``cfg``."""
    arguments = state.get("args")
    if arguments is None:
        config = _plain(state.get("cfg"))
        arguments = config.get("model") if isinstance(config, Mapping) else None
    if not isinstance(arguments, Namespace):
        raise ZooError(f"{file} is no checkpoint of fairseq: it contains no training arguments.")
    return vars(arguments)


def _plain(value: object) -> Any:
    """Return the value that a node of omegaconf stands for."""
    if isinstance(value, Record):
        state = value.state if isinstance(value.state, Mapping) else {}
        return _plain(state["_content"]) if "_content" in state else state.get("_val")
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _tensors(state: Mapping[str, Any], file: Path) -> dict[str, Tensor]:
    """Return the weights of the model."""
    tensors = state.get("model")
    holds_tensors = isinstance(tensors, Mapping) and all(
        isinstance(tensor, Tensor) for tensor in tensors.values()
    )
    if not isinstance(tensors, Mapping) or not holds_tensors or not tensors:
        raise ZooError(f"{file} is no checkpoint of fairseq: it contains no weights.")
    return dict(tensors)
