"""Teacher-forcing losses of the parts of an answer: transcript and translation."""

from torch import Tensor

from zoo.backbones.architectures.chain_of_thought.data import ThoughtBatch
from zoo.backbones.decoding.teacher_forcing import IGNORED, token_accuracy, token_loss


def answer_losses(logits: Tensor, targets: Tensor, batch: ThoughtBatch) -> dict[str, Tensor]:
    """Compute the mean losses of all answers of a batch.

    Args:
        logits: Scores (labelled tokens, vocabulary) of the labelled tokens.
        targets: Ids (labelled tokens,) at these positions.
        batch: The batch.

    Returns:
        Scalars: ``loss`` and ``token_accuracy`` over all tokens, ``translation`` (with the end
        token) and ``transcript`` (with the separator; absent if no answer has one).
    """
    losses = token_loss(logits, targets, reduction="none")  # (labelled tokens,)
    # (batch, L - 1): no position predicts the first token.
    is_labelled = batch.labels[:, 1:] != IGNORED
    is_transcript = batch.transcript[:, 1:][is_labelled]  # (labelled tokens,)
    means = {
        "loss": losses.mean(),
        "translation": losses[~is_transcript].mean(),
        "token_accuracy": token_accuracy(logits, targets),
    }
    if bool(is_transcript.any()):
        means["transcript"] = losses[is_transcript].mean()
    return means
