"""What a checkpoint of a training contains: everything but the frozen weights of other checkpoints.

A resumed training creates its network as the first start did, so the parameters of a checkpoint
that the configuration names (``backbone.name``, ``backbone.encoder_weights`` and others) are in
memory again. Those that no stage trains are not written a second time. A checksum of each of them
shows whether the named checkpoint is still the same.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zoo.backbones.base import is_restored
from zoo.base.errors import ZooError, shorten_list

RESTORED = "restored"  # entry of a checkpoint: checksums of the parameters that it leaves out
PARTS = "accumulate_grad_batches"  # entry of a checkpoint: batches per optimizer step of one rank


class Restored:
    """The parameters that the checkpoints of one training leave out.

    From now on ``module`` writes and reads state dicts without them, under every strategy.

    Args:
        module: Module whose loaded parameters have their values of the first step, with
            ``requires_grad`` set for the parameters that a stage trains.

    Attributes:
        checksums: Checksum of each left-out parameter by its name in ``module``.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.checksums = {
            # ``int(tensor)`` would fail above 2^63.
            name: int(torch.hash_tensor(parameter.detach()).item())
            for name, parameter in module.named_parameters(remove_duplicate=False)
            if is_restored(parameter) and not parameter.requires_grad
        }

        def leave_out(_: nn.Module, state: dict[str, Tensor], prefix: str, metadata: Any) -> None:
            for name in self.checksums:
                state.pop(prefix + name, None)

        def accept(_: nn.Module, wrong: Any) -> None:
            wrong.missing_keys[:] = set(wrong.missing_keys) - self.checksums.keys()

        module.register_state_dict_post_hook(leave_out)
        module.register_load_state_dict_post_hook(accept)

    def check(self, checkpoint: Mapping[str, Any]) -> None:
        """Check that a checkpoint has the weights that this training does not leave out.

        Raises:
            ZooError: A named checkpoint has changed since the first start, other parameters are
                frozen now, or the checkpoint is of another network.
        """
        if RESTORED not in checkpoint:
            raise ZooError(
                "The checkpoint was written by an older version of the zoo; start afresh."
            )
        before = checkpoint[RESTORED]
        changed = sorted(
            name
            for name in before.keys() | self.checksums.keys()
            if before.get(name) != self.checksums.get(name)
        )
        if changed:
            raise ZooError(
                "The training began with other frozen weights than the configuration names now: "
                f"{shorten_list(changed)}; name the same checkpoints and train the same parts."
            )
        # a sharded strategy has loaded and checked the weights already
        weights = checkpoint.get("state_dict")
        if weights is not None and (wrong := weights.keys() ^ self._module.state_dict().keys()):
            raise ZooError(
                f"The checkpoint is of another network: {shorten_list(sorted(wrong))}; resume with "
                "the configuration of the first start."
            )


def count_batches_again(checkpoint: dict[str, Any], batches: int) -> None:
    """Adapt the counted batches of a checkpoint to another number of batches per step, in place.

    Lightning steps when the number of batches is a multiple of ``accumulate_grad_batches``, which
    differs if the training is resumed on another number of devices with the same examples per step.

    Args:
        checkpoint: Lightning checkpoint with the entry ``PARTS``.
        batches: Number of batches per optimizer step of one rank from now on.
    """
    added = checkpoint["global_step"] * (batches - checkpoint[PARTS])
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    for counts in (progress["total"], progress["current"]):
        for name in counts:
            counts[name] += added
