"""Muon for the matrices of a network and AdamW for all other weights, as one optimizer."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

TABLE = "is_table"  # attribute of a weight with one row per word, which AdamW updates
BY_MUON = "by_muon"  # key of a group: whether Muon updates its weights


class MuonAdamW(Optimizer):
    """Muon (Jordan et al., 2024) for matrices, AdamW for embeddings, output layers and vectors.

    Muon replaces the momentum of a matrix by the nearest orthogonal matrix, so that a step changes
    all directions alike. A row of an embedding or of an output layer belongs to one word, so these
    are no such matrices (``mark_tables`` marks them). Both have the same learning rate and weight
    decay: Muon's steps are scaled to the size of AdamW's (Liu et al., 2025, arXiv:2502.16982).

    Each group becomes two: its matrices, and its other weights. A group without one of them is not
    divided.

    Args:
        params: Groups of weights.
        lr: Learning rate.
        weight_decay: Weight decay.
        momentum: Momentum of Muon.
        nesterov: Whether Muon uses Nesterov momentum.
        ns_steps: Number of Newton-Schulz iterations of Muon.
        adjust_lr_fn: Scale of Muon's steps: ``match_rms_adamw``, or ``original`` (Jordan's), which
            needs a learning rate of about 0.02.
        betas: The two beta coefficients of AdamW.
        eps: Term of AdamW that is added to the denominator.
    """

    def __init__(
        self,
        params: Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
        adjust_lr_fn: Literal["match_rms_adamw", "original"] = "match_rms_adamw",
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-8,
    ) -> None:
        groups = [divided for group in params for divided in _divided(group)]
        matrices, others = ([g for g in groups if g[BY_MUON] is kind] for kind in (True, False))
        # An optimizer needs weights; those of an empty list are never updated.
        unused = [{"params": [nn.Parameter(torch.zeros(0, 0))]}]
        self._muon = Muon(
            matrices or unused,
            lr=lr,
            weight_decay=weight_decay,
            momentum=momentum,
            nesterov=nesterov,
            ns_steps=ns_steps,
            adjust_lr_fn=adjust_lr_fn,
        )
        self._adamw = AdamW(
            others or unused, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay
        )
        super().__init__(groups, {})  # the groups now have the settings of Muon or AdamW

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the weights.

        Args:
            closure: Function that computes the loss and the gradients.

        Returns:
            The result of ``closure``, or None without it.
        """
        loss = loss_of(closure)
        for optimizer, kind in ((self._muon, True), (self._adamw, False)):
            # A restored checkpoint has replaced the groups and the states of this optimizer.
            optimizer.param_groups = [g for g in self.param_groups if g[BY_MUON] is kind]
            optimizer.state = self.state
            optimizer.step()  # type: ignore[no-untyped-call]
        return loss


def loss_of(closure: Callable[[], Any] | None) -> Any:
    """Return the result of a closure, which computes gradients; None without a closure."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def mark_tables(network: nn.Module) -> None:
    """Mark embeddings, and matrices of their shape such as output layers, for ``MuonAdamW``."""
    tables = {m.weight.shape for m in network.modules() if isinstance(m, nn.Embedding)}
    for parameter in network.parameters():
        setattr(parameter, TABLE, parameter.shape in tables)


def _divided(group: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Divide a group into its matrices and its other weights; empty ones are left out."""
    by_kind: dict[bool, list[Tensor]] = {True: [], False: []}
    for parameter in group["params"]:
        by_kind[parameter.ndim == 2 and not getattr(parameter, TABLE, False)].append(parameter)
    return [
        {**group, "params": parameters, BY_MUON: kind}
        for kind, parameters in by_kind.items()
        if parameters
    ]
