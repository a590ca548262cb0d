"""Training batches and outputs of ``SpeechLLM``."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from zoo.backbones.architectures.speech_llm.prompt import Trajectory
from zoo.backbones.decoding.teacher_forcing import IGNORED, pad_ids


@dataclass(slots=True)
class Batch:
    """Batch of training dialogues with the same latency multiplier.

    Dialogues are padded at the end, where causal attention needs no mask.

    Attributes:
        audio: (batch, chunks x 15 360) samples of each segment, without left padding, or (batch,
            chunks x 48, hidden) precomputed encoder frames.
        multiplier: Latency multiplier m, the encoder's block size in chunks.
        input_ids: (batch, T) int64.
        labels: (batch, T) int64. The label at position t is input id t, or ``IGNORED``.
        speech_positions: (batch, 12 x chunks) positions of the speech embeddings in the sequence,
            padded with -1.
    """

    audio: Tensor
    multiplier: int
    input_ids: Tensor
    labels: Tensor
    speech_positions: Tensor


@dataclass(slots=True)
class TeacherForcingOutput:
    """Result of teacher forcing.

    Attributes:
        loss: Mean cross-entropy over the labelled positions, a scalar.
        logits: (n, vocabulary) logits of the n labelled positions.
        targets: (n,) labels of the n labelled positions.
    """

    loss: Tensor
    logits: Tensor
    targets: Tensor


def collate(
    audio: Sequence[Tensor], trajectories: Sequence[Trajectory], *, multiplier: int, padding: int
) -> Batch:
    """Pad segments and their trajectories into one batch.

    Args:
        audio: Samples (n,) or encoder frames (n, hidden) of each segment.
        trajectories: Dialogue of each segment as ids.
        multiplier: Latency multiplier m, the encoder's block size in chunks.
        padding: Id that pads shorter dialogues.
    """
    return Batch(
        audio=pad_sequence(list(audio), batch_first=True),
        multiplier=multiplier,
        input_ids=pad_ids([trajectory.input_ids for trajectory in trajectories], padding),
        labels=pad_ids([trajectory.labels for trajectory in trajectories], IGNORED),
        speech_positions=pad_ids([trajectory.speech_positions for trajectory in trajectories], -1),
    )
