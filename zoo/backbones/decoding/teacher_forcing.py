"""Teacher forcing: labels, padded batches, and losses over the labelled positions."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

IGNORED = -100  # label of a position without a loss, as in cross_entropy


def pad_ids(rows: Iterable[Sequence[int]], padding: int) -> Tensor:
    """Stack rows of ids into (batch, longest row) int64, padded at the end with ``padding``."""
    tensors = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=padding)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Convert the tensor to float32; float64 tensors stay float64."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def token_loss(logits: Tensor, labels: Tensor, *, reduction: str = "mean") -> Tensor:
    """Compute the cross-entropy at least in float32.

    Args:
        logits: (n, vocabulary).
        labels: (n,) token ids.
        reduction: Reduction over positions: ``mean``, ``sum`` or ``none``.

    Returns:
        A scalar, or (n,) without reduction.
    """
    return F.cross_entropy(at_least_float32(logits), labels, reduction=reduction)


def token_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Share of rows of logits (n, vocabulary) whose argmax equals the label."""
    return (logits.argmax(-1) == labels).float().mean()


def token_losses(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Scalars ``loss`` and ``token_accuracy`` of logits (n, vocabulary) and labels (n,)."""
    return {"loss": token_loss(logits, labels), "token_accuracy": token_accuracy(logits, labels)}


def causal_logits(decoder: Any, labels: Tensor, **inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Run a causal LM over a batch that has no padding on the left.

    Args:
        decoder: Causal LM whose ``model`` returns hidden states and which has output embeddings.
        labels: (batch, T) int64. The label at position t is input id t, or ``IGNORED``; the
            function shifts labels by one position.
        inputs: Either ``input_ids`` (batch, T) or ``inputs_embeds`` (batch, T, width).

    Returns:
        Logits (n, vocabulary) and labels (n,) of the labelled positions.
    """
    hidden = decoder.model(use_cache=False, **inputs).last_hidden_state
    targets = labels[:, 1:]
    labelled = targets != IGNORED
    return decoder.get_output_embeddings()(hidden[:, :-1][labelled]), targets[labelled]


@contextmanager
def gradients_if_trained(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Enable gradients inside the block only if at least one parameter requires a gradient."""
    any_trained = any(parameter.requires_grad for parameter in parameters)
    with torch.set_grad_enabled(any_trained and torch.is_grad_enabled()):
        yield


def enable_checkpointing(model: PreTrainedModel) -> None:
    """Recompute activations during training, with checkpoints that are not reentrant."""
    name = "activation_checkpointing_enable"
    if not hasattr(model, name):
        name = "gradient_checkpointing_enable"  # the name in other versions of Transformers
    enable = getattr(model, name)
    enable({"use_reentrant": False})
    model.disable_input_require_grads()  # only reentrant checkpointing needs input gradients
