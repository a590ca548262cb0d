"""What training feeds InfiniSST and what it gives back. Knows no network."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.infinisst.prompt import IGNORED, Trajectory


@dataclass(slots=True)
class Batch:
    """Trajectories with one latency multiplier, padded at the end.

    samples: (batch, chunks x 15 360) float32 from the start of each segment, without left padding. multiplier: m, the
    encoder's block in chunks. input_ids: (batch, T). labels: (batch, T), aligned with input_ids (the id to be written
    *at* a position), -100 without a loss. speech_positions: (batch, 12 x chunks) indices into T, -1 where a shorter
    segment has no more speech. attention_mask: (batch, T) bool, for information: padding stands at the end, so causal
    attention needs no mask.
    """

    samples: Tensor
    multiplier: int
    input_ids: Tensor
    labels: Tensor
    speech_positions: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        tensors = (self.samples, self.input_ids, self.labels, self.speech_positions, self.attention_mask)
        samples, ids, labels, positions, mask = (tensor.to(device) for tensor in tensors)
        return Batch(samples, self.multiplier, ids, labels, positions, mask)


@dataclass(slots=True)
class Output:
    """loss: mean cross-entropy over the labelled positions. logits, targets: (labelled, vocabulary) and (labelled,).

    hidden, middle: (batch, frames, hidden) of the encoder, for auxiliary losses.
    """

    loss: Tensor
    logits: Tensor
    targets: Tensor
    hidden: Tensor
    middle: Tensor


def collate(samples: Sequence[Tensor], trajectories: Sequence[Trajectory], *, multiplier: int, padding: int) -> Batch:
    """Pad segments of (n,) samples and their trajectories into one batch. padding: id that fills up input_ids."""
    ids = [torch.tensor(trajectory.input_ids) for trajectory in trajectories]
    labels = [torch.tensor(trajectory.labels) for trajectory in trajectories]
    positions = [torch.tensor(trajectory.speech_positions) for trajectory in trajectories]
    return Batch(
        samples=pad_sequence(list(samples), batch_first=True),
        multiplier=multiplier,
        input_ids=pad_sequence(ids, batch_first=True, padding_value=padding),
        labels=pad_sequence(labels, batch_first=True, padding_value=IGNORED),
        speech_positions=pad_sequence(positions, batch_first=True, padding_value=-1),
        attention_mask=pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in ids], batch_first=True),
    )
