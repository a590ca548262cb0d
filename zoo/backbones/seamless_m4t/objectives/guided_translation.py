"""Translation of whole excerpts with guided cross-attention.

The encoder output of a SeamlessM4T carries no positions, and a small model needs far more steps to
learn them on long excerpts. The guide is supervision of *training* alone, by the word times of the
corpus; the policies that stream are training-free.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor
from torch.nn import functional

from zoo.backbones.base import Backbone
from zoo.backbones.common.teacher_forcing import IGNORED
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.backbones.seamless_m4t.data import Collator, SpeechBatch
from zoo.backbones.seamless_m4t.objectives.attention_guide import guide_loss
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.excerpts import Excerpt, ExcerptConfig
from zoo.data.sampling import Sampler
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.types import SAMPLE_RATE, Samples, UnitKind


@dataclass(slots=True)
class GuidedBatch:
    """Excerpts with the place of each predicted word in the audio.

    Attributes:
        speech: See ``SpeechBatch``.
        first: (batch, T) first encoder frame of the word that each position predicts; -1: no word.
        last: (batch, T) last encoder frame of that word.
    """

    speech: SpeechBatch
    first: Tensor
    last: Tensor

    def to(self, device: torch.device) -> "GuidedBatch":
        """The same batch on ``device``."""
        return GuidedBatch(self.speech.to(device), self.first.to(device), self.last.to(device))


class GuidedTranslation(Objective):
    """Cross-entropy of the translation, and two guides of cross-attention.

    Each guide is the mean over a layer's heads, see ``guide_loss``.

    Args:
        layer: Layer of the decoder whose attention is pulled to the last source word that the
            *predicted* word is aligned to.
        guide: Weight of that guide.
        own: Weight of the guide of the layer below, which is pulled to the last source word that
            the *input* word is aligned to.
        sampling: The excerpts to train on.
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
        if layer < 0 or min(guide, own) < 0:
            raise ZooError(
                "guided_translation needs a layer and weights of at least 0, "
                f"not {layer}, {guide} and {own}."
            )
        if own and layer == 0:
            raise ZooError(
                "guided_translation has no layer below layer 0 that own could guide; set own to 0."
            )
        self.layer = layer
        self.guide = guide
        self.own = own
        self._collate: Collator | None = None
        self._vocabularies: dict[UnitKind, Vocabulary] = {}
        self._frame_samples: Samples = 0

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take the backbone's collator; raises ZooError for another family or a missing layer."""
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
        self._vocabularies = {
            unit: Vocabulary(backbone.tokenizer, unit) for unit in get_args(UnitKind)
        }
        # other implementations return no attention weights
        backbone.decoder.module.set_attn_implementation("eager")

    def batch(self, examples: Sequence[Excerpt]) -> GuidedBatch:
        """The collated excerpts and the encoder frames of their words."""
        assert self._collate is not None, "prepare comes first"
        speech = self._collate(examples)
        first = torch.full_like(speech.inputs, -1)
        last = torch.full_like(speech.inputs, -1)

        for row, excerpt in enumerate(examples):
            opening = len(self._collate.opening[excerpt.language.code])
            spans = self._frames(excerpt, speech.inputs[row, opening:])
            predicting = slice(opening - 1, opening - 1 + len(spans))
            first[row, predicting] = spans[:, 0]
            last[row, predicting] = spans[:, 1]
        return GuidedBatch(speech, first, last)

    def _frames(self, excerpt: Excerpt, ids: Tensor) -> Tensor:
        """(tokens, 2): first and last encoder frame of each token's word, -1 where unaligned."""
        assert self._collate is not None
        ids = ids[ids != self._collate.padding]
        words = self._vocabularies[excerpt.language.unit].word_starts(ids).cumsum(dim=0) - 1

        rate = SAMPLE_RATE / self._frame_samples
        spans = [
            (-1, -1) if span is None else tuple(int((time - excerpt.start) * rate) for time in span)
            for span in excerpt.spans or [None] * len(excerpt.target)
        ]
        return torch.tensor(spans, dtype=torch.long).view(-1, 2)[words]

    def losses(self, backbone: Backbone, batch: GuidedBatch) -> dict[str, Tensor]:
        """``loss``, its terms ``translation``, ``guide`` and ``own``, and ``token_accuracy``."""
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

        labelled = speech.labels != IGNORED
        logits = backbone.decoder.head(output.last_hidden_state[labelled]).float()
        labels = speech.labels[labelled]
        attention = [layer.float().mean(dim=1) for layer in output.cross_attentions]
        losses = {
            "translation": functional.cross_entropy(logits, labels),
            "guide": span_loss(attention[self.layer], batch.first, batch.last),
            "token_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }
        losses["loss"] = losses["translation"] + self.guide * losses["guide"]

        if self.own:  # the input word is the word that the position before predicts
            first, last = (
                functional.pad(frames[:, :-1], (1, 0), value=-1)
                for frames in (batch.first, batch.last)
            )
            losses["own"] = span_loss(attention[self.layer - 1], first, last)
            losses["loss"] = losses["loss"] + self.own * losses["own"]
        return losses


def span_loss(attention: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """``guide_loss`` of attention (batch, T, frames) to frames ``first`` to ``last`` (batch, T).

    Positions whose ``first`` is -1 are left out.
    """
    frame = torch.arange(attention.shape[-1], device=attention.device)
    mask = (frame >= first[..., None]) & (frame <= last[..., None]) & (first >= 0)[..., None]
    return guide_loss(attention, mask)
