"""Target text read and written again: teaches a text encoder to be the memory of a text decoder that is frozen.

It is how SeamlessM4T's own TTS speaks a given text: text encoder, text decoder, text-to-unit model. Hears nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.base import Backbone
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.clips import Clip
from zoo.data.excerpts import Excerpt
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.base import Objective

IGNORED = -100


@dataclass(frozen=True, slots=True)
class Texts:
    """Ids of translations, as the text encoder and the text decoder of a SeamlessM4T are fed them.

    opening: decoder ids before a text, by our code of its language: start and language.
    """

    tokenizer: PreTrainedTokenizerBase
    opening: Mapping[str, Sequence[int]]
    end: int
    padding: int

    @classmethod
    def of(cls, backbone: SeamlessM4TSpeech) -> "Texts":
        """Those of a backbone that is loaded."""
        known = backbone.collator()
        return cls(known.tokenizer, known.opening, known.end, known.padding)

    def ids(self, excerpt: Excerpt) -> list[int]:
        """Those of the text alone."""
        return list(self.tokenizer.encode(excerpt.text, add_special_tokens=False))

    def read(self, excerpt: Excerpt) -> Tensor:
        """(n,) what the encoder reads: language, text, end."""
        return torch.tensor([self.opening[excerpt.language.code][-1], *self.ids(excerpt), self.end])

    def written(self, excerpt: Excerpt, *, closed: bool) -> Tensor:
        """(n,) what the decoder is fed: start, language, text and, where the text is ``closed``, its end."""
        opening = self.opening[excerpt.language.code]
        return torch.tensor([*opening, *self.ids(excerpt), *([self.end] if closed else [])])


@dataclass(slots=True)
class CopyBatch:
    """read: (B, S) ids for the encoder. inputs, labels: (B, T) ids for the decoder and what each predicts. Padded.

    padding: the id that is no text.
    """

    read: Tensor
    inputs: Tensor
    labels: Tensor
    padding: int

    def to(self, device: torch.device) -> "CopyBatch":
        """The same batch on ``device``."""
        return CopyBatch(
            self.read.to(device), self.inputs.to(device), self.labels.to(device), self.padding
        )


class TextCopy(Objective):
    """Cross-entropy of the frozen text decoder on the text that the encoder (``reader``) has read."""

    takes = Clip

    def __init__(self) -> None:
        super().__init__()
        self._texts: Texts | None = None

    def prepare(self, talks: Sequence[Talk], backbone: Backbone) -> None:
        """Take ids from the backbone. Raises ZooError when it has no text encoder."""
        self._texts = Texts.of(reading(backbone, objective="text_copy"))

    def batch(
        self, stretches: Sequence[Clip], multiplier: int, frames: Sequence[Tensor] | None = None
    ) -> CopyBatch:
        """Texts of clips."""
        assert self._texts is not None, "prepare comes first"
        texts = self._texts
        written = [texts.written(clip.excerpt, closed=True) for clip in stretches]
        labels = [
            torch.cat([row.new_tensor([IGNORED]), row[2:]]) for row in written
        ]  # the language is given
        return CopyBatch(
            read=padded([texts.read(clip.excerpt) for clip in stretches], texts.padding),
            inputs=padded([row[:-1] for row in written], texts.padding),
            labels=padded(labels, IGNORED),
            padding=texts.padding,
        )

    def losses(self, backbone: Backbone, batch: CopyBatch) -> dict[str, Tensor]:
        """``loss`` and ``token_accuracy`` over the text and its end."""
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        memory, inside = remembered(backbone, batch.read, batch.padding)
        states = written_states(backbone, batch.inputs, memory, inside)
        learned = batch.labels != IGNORED
        logits, labels = backbone.decoder.head(states[learned]).float(), batch.labels[learned]
        accuracy = (logits.argmax(-1) == labels).float().mean()
        return {"loss": functional.cross_entropy(logits, labels), "token_accuracy": accuracy}


def reading(backbone: Backbone, *, objective: str) -> SeamlessM4TSpeech:
    """The backbone. Raises ZooError when it is another one, or has no text encoder."""
    if not isinstance(backbone, SeamlessM4TSpeech) or not backbone.with_reader:
        raise ZooError(
            f"The {objective} objective needs a SeamlessM4T that speaks, with its text encoder (backbone.reader=true), "
            f"not this {type(backbone).__name__}."
        )
    return backbone


def remembered(backbone: SeamlessM4TSpeech, read: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """(B, S) ids to the text encoder's memory (B, S, width), and (B, S) 1 inside, 0 outside."""
    inside = read.ne(padding).long()
    return backbone.reader(input_ids=read, attention_mask=inside).last_hidden_state, inside


def written_states(
    backbone: SeamlessM4TSpeech, inputs: Tensor, memory: Tensor, inside: Tensor
) -> Tensor:
    """(B, T, width) states of the text decoder over ids (B, T), of which the first padding follows all text."""
    states: Tensor = backbone.decoder.module(
        input_ids=inputs,
        encoder_hidden_states=memory,
        encoder_attention_mask=inside,
        use_cache=False,
    ).last_hidden_state
    return states


def padded(rows: Sequence[Tensor], value: int) -> Tensor:
    """(rows, longest, ...) of rows (n, ...) each; (0, 0) of none."""
    if not rows:
        return torch.zeros(0, 0, dtype=torch.long)
    return pad_sequence(list(rows), batch_first=True, padding_value=value)
