"""Training objective of speech translation with guided cross-attention.

A guide is a loss term that concentrates cross-attention on the audio of given words. The encoder
output of a SeamlessM4T has no position information. Without a guide, a small model needs far more
steps until its cross-attention aligns words of long excerpts with their audio. The guide uses the
word times of the corpus, in training only; the streaming policies need no training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from recipes.unit_speech.attention_guide import guide_loss
from zoo.backbones.base import Backbone
from zoo.backbones.decoding.teacher_forcing import IGNORED, token_accuracy, token_loss
from zoo.backbones.objective import Objective
from zoo.backbones.seamless_m4t.data import SeamlessCollator, SpeechBatch
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.backbones.text.vocabulary import Vocabulary, vocabularies
from zoo.base.errors import ZooError, check_numbers
from zoo.base.talks import Talk
from zoo.base.types import SAMPLE_RATE, Samples, UnitKind
from zoo.data.excerpts import Excerpt, ExcerptConfig
from zoo.data.sampling import Sampler


@dataclass(slots=True)
class GuidedBatch:
    """A batch of source speech, decoder ids, and audio positions of words.

    Attributes:
        speech: Source speech and decoder ids.
        first: (batch, T) first encoder frame of the source word that is aligned with the target
            word predicted at each position; -1 for positions without an aligned source word.
        last: (batch, T) last encoder frame of the same source word; -1 where ``first`` is -1.
    """

    speech: SpeechBatch
    first: Tensor
    last: Tensor


class GuidedTranslation(Objective):
    """The objective that trains translation with two guides of cross-attention.

    The loss is the cross-entropy of the translation plus two weighted guides. Each guide averages
    the cross-attention of a decoder layer over the heads and applies ``guide_loss``. In layer
    ``layer``, each position is guided to the last source word that is aligned with the target word
    predicted at the position. In the layer below, each position is guided to the last source word
    that is aligned with the target word that is the position's input.

    Args:
        layer: Index of the decoder layer that is guided by predicted words.
        guide: Weight of the guide of layer ``layer``.
        own: Weight of the guide of the layer below ``layer``; 0 switches the guide off.
        sampling: Configuration of the excerpts to train on.

    Raises:
        ZooError: If an index or weight is negative, or ``own`` is positive and ``layer`` is 0.
    """

    def __init__(
        self,
        *,
        layer: int = 1,
        guide: float = 0.3,
        own: float = 0.1,
        sampling: ExcerptConfig = ExcerptConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__(sampling)
        check_numbers("guided_translation", least=0, layer=layer, guide=guide, own=own)
        if own and layer == 0:
            raise ZooError(
                "guided_translation has no layer below layer 0 that own could guide; set own to 0."
            )
        self.layer = layer
        self.guide = guide
        self.own = own
        self._collate: SeamlessCollator | None = None
        self._vocabularies: dict[UnitKind, Vocabulary] = {}
        self._frame_samples: Samples = 0

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take collator and vocabularies from the backbone.

        Args:
            talks: Ignored; the talks of the training set.
            backbone: Loaded SeamlessM4T with speech output.
            samplers: Ignored; the samplers of the training excerpts.

        Raises:
            ZooError: If the backbone is of another family, or its decoder has no layer ``layer``.
        """
        if not isinstance(backbone, SeamlessM4TSpeech):
            raise ZooError(
                "The guided_translation objective trains a SeamlessM4T that speaks, "
                f"not {type(backbone).__name__}."
            )
        depth = backbone.decoder.depth
        if self.layer >= depth:
            raise ZooError(
                f"guided_translation names layer {self.layer}; the decoder's are 0 to {depth - 1}."
            )

        self._collate = backbone.collator()
        self._frame_samples = backbone.frame_samples
        self._vocabularies = vocabularies(backbone.tokenizer)
        # Other attention implementations return no attention weights
        backbone.decoder.module.set_attn_implementation("eager")

    def batch(self, examples: Sequence[Excerpt]) -> GuidedBatch:
        """Collate excerpts, and find the encoder frames of aligned words."""
        assert self._collate is not None, "prepare comes first"
        speech = self._collate(examples)
        first = torch.full_like(speech.inputs, -1)
        last = torch.full_like(speech.inputs, -1)

        for row, excerpt in enumerate(examples):
            opening = len(self._collate.opening[excerpt.language.code])
            spans = self._token_spans(excerpt, speech.inputs[row, opening:])
            # The position before a token predicts the token
            positions = slice(opening - 1, opening - 1 + len(spans))
            first[row, positions] = spans[:, 0]
            last[row, positions] = spans[:, 1]
        return GuidedBatch(speech, first, last)

    def tokens(self, batch: GuidedBatch) -> int:
        """Return the number of labelled tokens."""
        return super().tokens(batch.speech)

    def _token_spans(self, excerpt: Excerpt, ids: Tensor) -> Tensor:
        """Find the encoder frames of each token's aligned source word.

        Args:
            excerpt: Excerpt with alignment times of its target words.
            ids: (n,) token ids of the translation, padded at the end.

        Returns:
            (tokens, 2) first and last encoder frame, -1 for tokens of words without alignment.
        """
        assert self._collate is not None
        ids = ids[ids != self._collate.padding]
        word_starts = self._vocabularies[excerpt.language.unit].word_starts(ids)
        word_indices = word_starts.cumsum(dim=0) - 1  # (tokens,) target word of each token

        frame_rate = SAMPLE_RATE / self._frame_samples
        word_spans = []
        for span in excerpt.spans or [None] * len(excerpt.target):
            if span is None:
                word_spans.append((-1, -1))
            else:
                start, end = span
                first = int((start - excerpt.start) * frame_rate)
                last = int((end - excerpt.start) * frame_rate)
                word_spans.append((first, last))
        return torch.tensor(word_spans, dtype=torch.long).view(-1, 2)[word_indices]

    def losses(self, backbone: Backbone, batch: GuidedBatch) -> dict[str, Tensor]:
        """Compute the losses of a batch.

        Args:
            backbone: SeamlessM4T that is trained.
            batch: Collated excerpts.

        Returns:
            ``loss``, the weighted sum; its terms ``translation`` (nats per token), ``guide`` and,
            if its weight is positive, ``own``; and ``token_accuracy``.
        """
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        speech = batch.speech
        memory, mask = backbone.memories(speech.features, speech.lengths)
        output = backbone.decoder.module(
            input_ids=speech.inputs,
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            output_attentions=True,
            use_cache=False,
        )

        is_labelled = speech.labels != IGNORED  # (batch, T)
        logits = backbone.decoder.head(output.last_hidden_state[is_labelled])
        labels = speech.labels[is_labelled]  # (labelled tokens,)

        # Mean over heads of each layer: (batch, T, frames)
        attention = [layer.float().mean(dim=1) for layer in output.cross_attentions]
        losses = {
            "translation": token_loss(logits, labels),
            "guide": span_loss(attention[self.layer], batch.first, batch.last),
            "token_accuracy": token_accuracy(logits, labels),
        }
        losses["loss"] = losses["translation"] + self.guide * losses["guide"]

        if self.own:
            # The input word of a position is the word that the position before predicts
            first = functional.pad(batch.first[:, :-1], (1, 0), value=-1)
            last = functional.pad(batch.last[:, :-1], (1, 0), value=-1)
            losses["own"] = span_loss(attention[self.layer - 1], first, last)
            losses["loss"] = losses["loss"] + self.own * losses["own"]
        return losses


def span_loss(attention: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Compute ``guide_loss`` of attention to spans of frames.

    Args:
        attention: (batch, T, frames) attention weights.
        first: (batch, T) first frame of each position's span; -1 leaves the position out.
        last: (batch, T) last frame of each position's span.
    """
    frames = torch.arange(attention.shape[-1], device=attention.device)
    in_span = (frames >= first[..., None]) & (frames <= last[..., None])  # (batch, T, frames)
    has_span = (first >= 0)[..., None]  # (batch, T, 1)
    mask = in_span & has_span
    return guide_loss(attention, mask)
