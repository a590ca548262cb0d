"""What training feeds InfiniSST and what it gives back. Knows no network."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.common.speech_llm.prompt import IGNORED, Trajectory


@dataclass(slots=True)
class Batch:
    """Trajectories with one latency multiplier, padded at the end (causal attention needs no mask for that).

    heard: (batch, chunks x 15 360) samples from the start of each segment, without left padding, or (batch,
    chunks x 48, hidden) frames of an encoder that has been run. multiplier: m, the encoder's block in chunks.
    input_ids: (batch, T). labels: (batch, T), aligned with input_ids (the id to be written *at* a position), -100
    without a loss. speech_positions: (batch, 12 x chunks) indices into T, -1 where a shorter segment has ended.
    """

    heard: Tensor
    multiplier: int
    input_ids: Tensor
    labels: Tensor
    speech_positions: Tensor

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        tensors = (self.heard, self.input_ids, self.labels, self.speech_positions)
        heard, ids, labels, positions = (tensor.to(device) for tensor in tensors)
        return Batch(heard, self.multiplier, ids, labels, positions)


@dataclass(slots=True)
class Output:
    """loss: mean cross-entropy over the labelled positions. logits, targets: (labelled, vocabulary) and (labelled,)."""

    loss: Tensor
    logits: Tensor
    targets: Tensor


def collate(
    heard: Sequence[Tensor], trajectories: Sequence[Trajectory], *, multiplier: int, padding: int
) -> Batch:
    """Pad segments of samples or frames and their trajectories into one batch. padding: id that fills up input_ids."""
    ids = [torch.tensor(trajectory.input_ids) for trajectory in trajectories]
    labels = [torch.tensor(trajectory.labels) for trajectory in trajectories]
    positions = [torch.tensor(trajectory.speech_positions) for trajectory in trajectories]
    return Batch(
        heard=pad_sequence(list(heard), batch_first=True),
        multiplier=multiplier,
        input_ids=pad_sequence(ids, batch_first=True, padding_value=padding),
        labels=pad_sequence(labels, batch_first=True, padding_value=IGNORED),
        speech_positions=pad_sequence(positions, batch_first=True, padding_value=-1),
    )
