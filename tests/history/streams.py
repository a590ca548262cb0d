"""Hand-made streams and hypotheses."""

from collections.abc import Sequence

import torch

from tests.fixtures.streams import new_session
from zoo.base.types import Hypothesis, Samples
from zoo.streaming.session import Session

FRAME = 1600  # 100 ms


def session(
    frames: int = 0,
    *,
    prefix: int = 0,
    frame_samples: int = FRAME,
    segments: Sequence[tuple[Samples, Samples]] = (),
) -> Session:
    """A stream that has received ``frames`` frames and written ``prefix`` tokens."""
    audio = torch.zeros(frames * frame_samples)
    stream = new_session(audio=audio, prefix=range(prefix), frame_samples=frame_samples)
    stream.segments = tuple(segments)
    return stream


def answered(
    tokens: str, attended: Sequence[int], *, prefix: int = 0, frames: int = 20
) -> Hypothesis:
    """A hypothesis of the given tokens.

    ``tokens``: "w" begins a word, "." continues it, "!" and "?" do the same and end a sentence.

    prefix: tokens before the write. attended: the frame each token attends to.
    """
    return Hypothesis(
        token_ids=torch.arange(prefix, len(tokens)),
        word_starts=torch.tensor([token in "w!" for token in tokens], dtype=torch.bool),
        sentence_ends=torch.tensor([token in "!?" for token in tokens], dtype=torch.bool),
        prefix_length=prefix,
        alignment=torch.eye(frames)[list(attended)],
    )
