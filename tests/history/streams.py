"""Streams and hypotheses made by hand."""

from collections.abc import Sequence

import torch

from zoo.languages import language
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream
from zoo.types import Hypothesis, Samples, SpeechChunk

FRAME = 1600  # 100 ms


def session(
    frames: int = 0,
    *,
    prefix: int = 0,
    frame_samples: int = FRAME,
    segments: Sequence[tuple[Samples, Samples]] = (),
) -> Session:
    """A stream that has heard and written so much."""
    made = Session(
        talk="talk",
        source_language=language("en"),
        target_language=language("de"),
        frame_samples=frame_samples,
        text_stream=TextStream(decode=lambda ids: "", separator=" "),
        segments=tuple(segments),
    )
    made.receive(SpeechChunk(torch.zeros(frames * frame_samples)))
    made.prefix_ids = torch.arange(prefix)
    return made


def answered(
    tokens: str, attended: Sequence[int], *, prefix: int = 0, frames: int = 20
) -> Hypothesis:
    """``tokens``: "w" where a word begins, "." where it goes on, "!" and "?" for the same that end a sentence.

    prefix: tokens before the write. attended: the frame each token attends to.
    """
    return Hypothesis(
        token_ids=torch.arange(prefix, len(tokens)),
        word_starts=torch.tensor([token in "w!" for token in tokens], dtype=torch.bool),
        sentence_ends=torch.tensor([token in "!?" for token in tokens], dtype=torch.bool),
        prefix_length=prefix,
        alignment=torch.eye(frames)[list(attended)],
    )
