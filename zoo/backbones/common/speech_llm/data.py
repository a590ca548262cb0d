"""Training batches and outputs of ``SpeechLLM``."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.common.speech_llm.prompt import Trajectory
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch, pad_ids


@dataclass(slots=True)
class Batch(TensorBatch):
    """Trajectories with one latency multiplier, padded at the end (causal attention needs no mask
    there).

    Attributes:
        audio: (batch, chunks x 15 360) samples from the start of each segment, without left
            padding, or (batch, chunks x 48, hidden) frames of an encoder that has been run.
        multiplier: m, the encoder's block in chunks.
        input_ids: (batch, T).
        labels: (batch, T), the id *at* each position, or ``IGNORED``.
        speech_positions: (batch, 12 x chunks) indices into T, -1 after the end of a shorter
            segment.
    """

    audio: Tensor
    multiplier: int
    input_ids: Tensor
    labels: Tensor
    speech_positions: Tensor


@dataclass(slots=True)
class Output:
    """Result of teacher forcing.

    Attributes:
        loss: Mean cross-entropy over the labelled positions.
        logits: (labelled, vocabulary).
        targets: (labelled,).
    """

    loss: Tensor
    logits: Tensor
    targets: Tensor


def collate(
    audio: Sequence[Tensor], trajectories: Sequence[Trajectory], *, multiplier: int, padding: int
) -> Batch:
    """Pad segments and their trajectories into one batch.

    Args:
        audio: Samples or encoder frames of each segment.
        trajectories: One per segment.
        multiplier: m, the encoder's block in chunks.
        padding: Id after the end of shorter trajectories.
    """
    return Batch(
        audio=pad_sequence(list(audio), batch_first=True),
        multiplier=multiplier,
        input_ids=pad_ids([one.input_ids for one in trajectories], padding),
        labels=pad_ids([one.labels for one in trajectories], IGNORED),
        speech_positions=pad_ids([one.speech_positions for one in trajectories], -1),
    )
