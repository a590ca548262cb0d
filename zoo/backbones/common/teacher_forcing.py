"""Teacher forcing: labels, padded batches, and losses over the labelled positions."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

IGNORED = -100  # label of a position without a loss, as in cross_entropy


class TensorBatch:
    """Base of dataclasses whose tensors travel to a device together."""

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in names}
        moved = {
            name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)  # type: ignore[type-var]


def pad_ids(rows: Iterable[Sequence[int]], padding: int) -> Tensor:
    """(batch, longest) int64, padded at the end."""
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=padding)


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor in float32, unless it is more precise."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def token_loss(logits: Tensor, labels: Tensor, *, reduction: str = "mean") -> Tensor:
    """Cross-entropy of (n, vocabulary) logits, at least in float32."""
    return F.cross_entropy(at_least_float32(logits), labels, reduction=reduction)


def token_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Share of (n, vocabulary) logits whose largest is the label."""
    return (logits.argmax(-1) == labels).float().mean()


def causal_logits(decoder: Any, labels: Tensor, **inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Run a causal LM over a batch without padding on the left.

    Args:
        decoder: With ``model``, which returns hidden states, and output embeddings.
        labels: (batch, T), the id *at* each position, or ``IGNORED``.
        inputs: ``input_ids`` (batch, T) or ``inputs_embeds`` (batch, T, width).

    Returns:
        Logits (n, vocabulary) and labels (n,) of the labelled positions.
    """
    hidden = decoder.model(use_cache=False, **inputs).last_hidden_state
    targets = labels[:, 1:]
    labelled = targets != IGNORED
    return decoder.get_output_embeddings()(hidden[:, :-1][labelled]), targets[labelled]


@contextmanager
def gradients_if_trained(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Gradients inside the block only if a parameter requires one."""
    trained = any(parameter.requires_grad for parameter in parameters)
    with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
        yield
