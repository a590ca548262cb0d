"""Translation of whole excerpts whose cross-attention is guided, so that a small model soon finds its way in them.

The memory of a SeamlessM4T tells no positions; of long excerpts, a small one would need far more steps to learn them.
The guide is supervision of *training* alone, by the word times of the corpus. Knows no policy.
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
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.excerpts import Excerpt
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.base import Objective
from zoo.objectives.guide import unlike
from zoo.types import SAMPLE_RATE, Samples, UnitKind


@dataclass(slots=True)
class GuidedBatch:
    """speech: see ``SpeechBatch``. first, last: (B, T) memory frames of the word that each position predicts; first is
    -1 where there is none."""

    speech: SpeechBatch
    first: Tensor
    last: Tensor

    def to(self, device: torch.device) -> "GuidedBatch":
        """The same batch on ``device``."""
        return GuidedBatch(self.speech.to(device), self.first.to(device), self.last.to(device))


class GuidedOffline(Objective):
    """Cross-entropy on the translation, and two guides of attention (mean of a layer's heads).

    guide: weight of -log of what the decoder's ``layer`` gives the last source word that the predicted word is aligned
    to. own: weight of the same in the layer below, for the word that is fed: where the text is now.
    """

    takes = Excerpt

    def __init__(self, *, layer: int = 1, guide: float = 0.3, own: float = 0.1) -> None:
        super().__init__()
        if layer < 0 or min(guide, own) < 0:
            raise ZooError(
                f"guided_offline needs a layer and weights of at least 0, not {layer}, {guide} and {own}."
            )
        if own and layer == 0:
            raise ZooError(
                "guided_offline has no layer below layer 0 that own could guide; set own to 0."
            )
        self.layer = layer
        self.guide = guide
        self.own = own
        self._collate: Collator | None = None
        self._vocabularies: dict[UnitKind, Vocabulary] = {}
        self._frame_samples: Samples = 0

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take from the backbone how it hears and writes. Raises ZooError for another one and a layer it lacks."""
        if not isinstance(backbone, SeamlessM4TSpeech):
            raise ZooError(
                f"The guided_offline objective trains a SeamlessM4T that speaks, not {type(backbone).__name__}."
            )
        if self.layer >= backbone.decoder.depth:
            raise ZooError(
                f"guided_offline names layer {self.layer}; the decoder's are 0 to {backbone.decoder.depth - 1}."
            )
        self._collate, self._frame_samples = backbone.collator(), backbone.frame_samples
        self._vocabularies = {
            unit: Vocabulary(backbone.tokenizer, unit) for unit in get_args(UnitKind)
        }
        backbone.decoder.module.set_attn_implementation("eager")  # the other ones tell no weights

    def batch(
        self, stretches: Sequence[Excerpt], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> GuidedBatch:
        """What the backbone's collator makes of the excerpts, and where their words were said."""
        assert self._collate is not None, "prepare comes first"
        speech = self._collate(stretches, frames)
        first = torch.full_like(speech.inputs, -1)
        last = torch.full_like(speech.inputs, -1)
        for row, excerpt in enumerate(stretches):
            opening = len(self._collate.opening[excerpt.language.code])
            spans = self._frames(excerpt, speech.inputs[row, opening:])
            first[row, opening - 1 : opening - 1 + len(spans)] = spans[:, 0]
            last[row, opening - 1 : opening - 1 + len(spans)] = spans[:, 1]
        return GuidedBatch(speech, first, last)

    def _frames(self, excerpt: Excerpt, ids: Tensor) -> Tensor:
        """(tokens, 2): first and last memory frame of each token's word, -1 where there is none."""
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
        """``loss``, of ``translation``, ``guide`` and ``own``, and ``token_accuracy``."""
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        speech = batch.speech
        memory, inside = backbone.memories(speech.features, speech.lengths)
        written = backbone.decoder.module(
            input_ids=speech.inputs,
            encoder_hidden_states=memory,
            encoder_attention_mask=inside,
            output_attentions=True,
            use_cache=False,
        )
        learned = speech.labels != IGNORED
        logits = backbone.decoder.head(written.last_hidden_state[learned]).float()
        labels = speech.labels[learned]
        attention = [layer.float().mean(dim=1) for layer in written.cross_attentions]
        losses = {
            "translation": functional.cross_entropy(logits, labels),
            "guide": guided(attention[self.layer], batch.first, batch.last),
            "token_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }
        losses["loss"] = losses["translation"] + self.guide * losses["guide"]
        if self.own:
            fed = [
                functional.pad(frames[:, :-1], (1, 0), value=-1)
                for frames in (batch.first, batch.last)
            ]
            losses["own"] = guided(attention[self.layer - 1], *fed)
            losses["loss"] = losses["loss"] + self.own * losses["own"]
        return losses


def guided(attention: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Mean of -log of the attention (B, T, frames) within frames ``first`` to ``last`` (B, T), where there are any."""
    frame = torch.arange(attention.shape[-1], device=attention.device)
    said = (frame >= first[..., None]) & (frame <= last[..., None]) & (first >= 0)[..., None]
    return unlike(attention, said)
