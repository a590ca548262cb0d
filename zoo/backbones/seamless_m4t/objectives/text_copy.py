"""Copying of target text: trains a text encoder under a frozen text decoder.

SeamlessM4T speaks a given text the same way: text encoder, text decoder, text-to-unit model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.base import Backbone
from zoo.backbones.common.teacher_forcing import IGNORED, TensorBatch
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.data.clips import Clip, ClipConfig
from zoo.data.excerpts import Excerpt
from zoo.data.sampling import Sampler
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.objectives.base import Objective


@dataclass(frozen=True, slots=True)
class TextIds:
    """Token ids of translations, as a SeamlessM4T's text encoder and text decoder read them.

    Attributes:
        tokenizer: The backbone's.
        opening: Decoder ids before a text, start and language, by our code of the language.
        end: Id of the end of a text.
        padding: Id of padding.
    """

    tokenizer: PreTrainedTokenizerBase
    opening: Mapping[str, Sequence[int]]
    end: int
    padding: int

    @classmethod
    def of(cls, backbone: SeamlessM4TSpeech) -> "TextIds":
        """The ids of a backbone that is loaded."""
        known = backbone.collator()
        return cls(known.tokenizer, known.opening, known.end, known.padding)

    def text(self, excerpt: Excerpt) -> list[int]:
        """Ids of the text alone."""
        return list(self.tokenizer.encode(excerpt.text, add_special_tokens=False))

    def encoder(self, excerpt: Excerpt) -> Tensor:
        """(n,) input of the text encoder: language, text, end."""
        language = self.opening[excerpt.language.code][-1]
        return torch.tensor([language, *self.text(excerpt), self.end])

    def decoder(self, excerpt: Excerpt, *, closed: bool) -> Tensor:
        """(n,) ids of the text decoder: start, language, text and, where ``closed``, the end."""
        opening = self.opening[excerpt.language.code]
        return torch.tensor([*opening, *self.text(excerpt), *([self.end] if closed else [])])


@dataclass
class CopyBatch(TensorBatch):
    """Texts, padded.

    Attributes:
        encoder_ids: (batch, S) input of the text encoder.
        inputs: (batch, T) input of the text decoder.
        labels: (batch, T) id that each input predicts.
        padding: Id of padding.
    """

    encoder_ids: Tensor
    inputs: Tensor
    labels: Tensor
    padding: int


class TextCopy(Objective):
    """Cross-entropy of the frozen text decoder on the text that the text encoder reads.

    Args:
        sampling: The clips to train on; only their texts are used.
    """

    def __init__(self, *, sampling: ClipConfig = ClipConfig()) -> None:  # noqa: B008 (frozen)
        super().__init__(sampling)
        self._ids: TextIds | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take ids from the backbone; raises ZooError for a backbone without a text encoder."""
        self._ids = TextIds.of(with_text_encoder(backbone, objective="text_copy"))

    def batch(self, examples: Sequence[Clip]) -> CopyBatch:
        """Texts of clips."""
        assert self._ids is not None, "prepare comes first"
        ids = self._ids
        rows = [ids.decoder(clip.excerpt, closed=True) for clip in examples]
        labels = [unlabelled_language(row) for row in rows]

        return CopyBatch(
            encoder_ids=padded([ids.encoder(clip.excerpt) for clip in examples], ids.padding),
            inputs=padded([row[:-1] for row in rows], ids.padding),
            labels=padded(labels, IGNORED),
            padding=ids.padding,
        )

    def losses(self, backbone: Backbone, batch: CopyBatch) -> dict[str, Tensor]:
        """``loss`` and ``token_accuracy`` over the text and its end."""
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        memory, mask = encode_text(backbone, batch.encoder_ids, batch.padding)
        states = decoder_states(backbone, batch.inputs, memory, mask)

        labelled = batch.labels != IGNORED
        labels = batch.labels[labelled]
        logits = backbone.decoder.head(states[labelled]).float()
        return {
            "loss": functional.cross_entropy(logits, labels),
            "token_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }


def with_text_encoder(backbone: Backbone, *, objective: str) -> SeamlessM4TSpeech:
    """The backbone; raises ZooError for another family and where there is no text encoder."""
    if not isinstance(backbone, SeamlessM4TSpeech) or not backbone.with_reader:
        raise ZooError(
            f"The {objective} objective needs a SeamlessM4T that speaks, with its text encoder "
            f"(backbone.reader=true), not this {type(backbone).__name__}."
        )
    return backbone


def encode_text(backbone: SeamlessM4TSpeech, ids: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """(batch, S) ids to states (batch, S, width) and a mask (batch, S), 1 inside, 0 in padding."""
    mask = ids.ne(padding).long()
    return backbone.reader(input_ids=ids, attention_mask=mask).last_hidden_state, mask


def decoder_states(
    backbone: SeamlessM4TSpeech, inputs: Tensor, memory: Tensor, mask: Tensor
) -> Tensor:
    """(batch, T, width) states of the text decoder over ids (batch, T), padded at the end."""
    states: Tensor = backbone.decoder.module(
        input_ids=inputs,
        encoder_hidden_states=memory,
        encoder_attention_mask=mask,
        use_cache=False,
    ).last_hidden_state
    return states


def unlabelled_language(ids: Tensor) -> Tensor:
    """(n - 1,) labels of ids (n,): each predicts the next one, but the language is given."""
    return torch.cat([ids.new_tensor([IGNORED]), ids[2:]])


def padded(rows: Sequence[Tensor], value: int) -> Tensor:
    """(rows, longest, ...) of rows (n, ...) each; (0, 0) without rows."""
    if not rows:
        return torch.zeros(0, 0, dtype=torch.long)
    return pad_sequence(list(rows), batch_first=True, padding_value=value)
