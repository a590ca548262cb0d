"""Hypotheses of transcripts, with alignments on request."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from zoo.backbones.architectures.chain_of_thought.state import SpanTranscript
from zoo.backbones.decoding.alignment import AlignmentConfig, Heads
from zoo.backbones.decoding.causal.aligned import AlignedBranches
from zoo.backbones.text.vocabulary import Vocabulary
from zoo.base.types import Hypothesis


class Aligning(Protocol):
    """The attributes of ``ChainOfThought`` that are used here; see there."""

    alignment: AlignmentConfig
    heads: Heads

    @property
    def decoder(self) -> Any:
        """The causal LM."""


def plain_transcript(
    current: SpanTranscript | None, vocabulary: Vocabulary, text: Callable[[list[int]], str]
) -> Hypothesis:
    """Return the hypothesis of a transcript, empty for None.

    Args:
        current: The transcript of the kept audio.
        vocabulary: Word boundaries in the source language.
        text: Detokenises ids.
    """
    ids = torch.tensor(current.ids if current else [], dtype=torch.long)
    return Hypothesis(
        token_ids=ids,
        word_starts=vocabulary.word_starts(ids),
        finished=True,
        truncated=current is not None and not current.finished,
        sentence_ends=vocabulary.sentence_ends(ids),
        transcript=text(ids.tolist()).strip(),
    )


def aligned_transcript(
    backbone: Aligning, transcript: Hypothesis, prompt: Tensor, speech: Tensor
) -> Hypothesis:
    """Return a transcript with its alignment, which one pass over the transcript computes.

    The search of transcripts records no attention, because it verifies drafts.

    Args:
        backbone: Decoder and aligning heads.
        transcript: The transcript.
        prompt: Embeddings (n, width) before the transcript.
        speech: (frames,) int64 position of the speech embedding of each source frame in ``prompt``.
    """
    if not speech.numel():
        return replace(transcript, alignment=torch.zeros(0, 1))
    size = transcript.num_new_tokens
    embedded = backbone.decoder.get_input_embeddings()(transcript.token_ids.to(prompt.device))
    branches = AlignedBranches(
        backbone.decoder,
        [torch.cat([prompt, embedded])],
        prefixes=[size],
        speech=[speech],
        heads=backbone.heads,
    )
    rows = branches.prompt_attention(0)  # (1 + size, heads, frames)
    weights = backbone.alignment.align(rows, opening=1, prefix=0, new=size)
    return replace(transcript, alignment=weights.cpu())
