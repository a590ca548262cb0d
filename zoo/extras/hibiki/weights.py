"""Reads the published weights of Hibiki, whose steps may be joined in one tensor."""

import re
from pathlib import Path

import torch

from zoo.backbones.base import check_finite, is_empty, mark_restored
from zoo.backbones.pretrained.weights import read_tensor, tensor_files
from zoo.base.errors import ZooError, shorten_list
from zoo.extras.hibiki.network import HibikiNetwork

END = 2  # text id of the end, as SentencePiece has it
_JOINED = re.compile(r"(.*\.)(in|out)_proj(?:_weight|\.weight)")


@torch.no_grad()
def load(network: HibikiNetwork, path: Path) -> None:
    """Read the weights of a file.

    Raises:
        ZooError: The file is missing or damaged, or names or shapes differ from the network.
    """
    if is_empty():
        mark_restored(network)
        return
    state = network.state_dict()
    missing = set(state)
    for name in tensor_files([path]):
        tensor = read_tensor(path, name)
        targets = _targets(name, set(state))
        parts = tensor.chunk(len(targets)) if targets else (tensor,)
        for target, part in zip(targets or [name], parts, strict=False):
            if target not in state or part.shape != state[target].shape:
                needed = list(state[target].shape) if target in state else "no such weights"
                raise ZooError(
                    f"{path} does not fit its config.json: {target} has shape {list(part.shape)}, "
                    f"the network needs {needed}."
                )
            state[target].copy_(part)
            missing.discard(target)
    if missing:
        raise ZooError(f"{path} lacks weights of its network: {shorten_list(sorted(missing))}.")
    check_finite(network, str(path))
    mark_restored(network)
    if network.config.ignores_early_end:
        network.text_emb.weight[END] = network.text_emb.weight[network.config.padding]


def _targets(name: str, names: set[str]) -> list[str]:
    """Return the names in the network of the parts of a tensor, in order."""
    if joined := _JOINED.fullmatch(name):
        prefix = f"{joined[1]}{joined[2]}_projs."
        found = [one for one in names if one.startswith(prefix)]
        return sorted(found, key=lambda one: int(one.split(".")[-2]))
    return [re.sub(r"\.gating\.linear", ".gating.0.linear", name)]
