"""Training objective of the text encoder: a frozen text decoder copies the encoded text.

For speech synthesis, SeamlessM4T encodes and decodes a text in the same way; the text-to-unit model
then receives the text decoder's states.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from zoo.backbones.base import Backbone
from zoo.backbones.decoding.teacher_forcing import IGNORED, token_losses
from zoo.backbones.objective import Objective
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.errors import ZooError
from zoo.base.talks import Talk
from zoo.data.clips import Clip, ClipConfig
from zoo.data.excerpts import Excerpt
from zoo.data.sampling import Sampler


@dataclass(frozen=True, slots=True)
class TextIds:
    """A converter from translations to input ids of the text encoder and the text decoder.

    Attributes:
        tokenizer: Tokenizer of the backbone.
        opening: Decoder ids before a text (start and language), by the zoo's language code.
        end: Id of the token that ends a text.
        padding: Id that pads shorter rows.
    """

    tokenizer: PreTrainedTokenizerBase
    opening: Mapping[str, Sequence[int]]
    end: int
    padding: int

    @classmethod
    def of(cls, backbone: SeamlessM4TSpeech) -> "TextIds":
        """Return the converter of a loaded backbone."""
        collator = backbone.collator()
        return cls(collator.tokenizer, collator.opening, collator.end, collator.padding)

    def text(self, excerpt: Excerpt) -> list[int]:
        """Return the ids of the text, without control ids."""
        return list(self.tokenizer.encode(excerpt.text, add_special_tokens=False))

    def encoder(self, excerpt: Excerpt) -> Tensor:
        """Return the input of the text encoder, (n,): language, text, end."""
        language = self.opening[excerpt.language.code][-1]
        return torch.tensor([language, *self.text(excerpt), self.end])

    def decoder(self, excerpt: Excerpt, *, closed: bool) -> Tensor:
        """Return the ids of the text decoder, (n,): start, language, text, end.

        Args:
            excerpt: Excerpt whose translation is the text.
            closed: Whether the end is included.
        """
        ids = [*self.opening[excerpt.language.code], *self.text(excerpt)]
        if closed:
            ids.append(self.end)
        return torch.tensor(ids)


@dataclass
class CopyBatch:
    """A batch of padded texts.

    Attributes:
        encoder_ids: (batch, S) input ids of the text encoder.
        inputs: (batch, T) input ids of the text decoder.
        labels: (batch, T) id that the text decoder predicts at each input, or ``IGNORED``.
        padding: Id that pads shorter rows.
    """

    encoder_ids: Tensor
    inputs: Tensor
    labels: Tensor
    padding: int


class TextCopy(Objective):
    """The objective that trains the text encoder by copying texts.

    The text encoder encodes a text, and the frozen text decoder predicts the same text. The loss is
    the cross-entropy of the prediction.

    Args:
        sampling: Configuration of the clips to train on; only the texts of clips are used.
    """

    def __init__(self, *, sampling: ClipConfig = ClipConfig()) -> None:  # noqa: B008 (frozen)
        super().__init__(sampling)
        self._ids: TextIds | None = None

    def prepare(
        self, talks: Sequence[Talk], backbone: Backbone, samplers: Sequence[Sampler] = ()
    ) -> None:
        """Take tokenizer and control ids from the backbone.

        Args:
            talks: Ignored; the talks of the training set.
            backbone: Loaded SeamlessM4T with a text encoder.
            samplers: Ignored; the samplers of the training clips.

        Raises:
            ZooError: If the backbone is no SeamlessM4T with speech output and a text encoder.
        """
        self._ids = TextIds.of(with_text_encoder(backbone, objective="text_copy"))

    def batch(self, examples: Sequence[Clip]) -> CopyBatch:
        """Collate the texts of clips."""
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
        """Compute the losses of a batch.

        Args:
            backbone: SeamlessM4T that is trained.
            batch: Collated texts.

        Returns:
            ``loss`` in nats per token, and ``token_accuracy``. Both include the end token.
        """
        assert isinstance(backbone, SeamlessM4TSpeech), "prepare has checked it"
        memory, mask = encode_text(backbone, batch.encoder_ids, batch.padding)
        logits, labels = backbone.decoder.teacher_forced(batch.inputs, batch.labels, memory, mask)
        return token_losses(logits, labels)


def with_text_encoder(backbone: Backbone, *, objective: str) -> SeamlessM4TSpeech:
    """Return ``backbone`` if it is a SeamlessM4T with speech output and a text encoder.

    Args:
        backbone: Backbone to check.
        objective: Name of the objective in the error message.

    Raises:
        ZooError: If the backbone is of another family or has no text encoder.
    """
    if not isinstance(backbone, SeamlessM4TSpeech) or not backbone.with_reader:
        raise ZooError(
            f"The {objective} objective needs a SeamlessM4T that speaks, with its text encoder "
            f"(backbone.reader=true), not this {type(backbone).__name__}."
        )
    return backbone


def encode_text(backbone: SeamlessM4TSpeech, ids: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Encode padded texts.

    Args:
        backbone: SeamlessM4T with a text encoder.
        ids: (batch, S) input ids of the text encoder.
        padding: Id that pads shorter rows.

    Returns:
        Encoder output, (batch, S, width), and its mask, (batch, S): 1 for tokens, 0 for padding.
    """
    mask = ids.ne(padding).long()
    return backbone.reader(input_ids=ids, attention_mask=mask).last_hidden_state, mask


def decoder_states(
    backbone: SeamlessM4TSpeech, inputs: Tensor, memory: Tensor, mask: Tensor
) -> Tensor:
    """Run the text decoder.

    Args:
        backbone: SeamlessM4T whose text decoder runs.
        inputs: (batch, T) input ids, padded at the end.
        memory: (batch, S, width) encoder output that the decoder attends to.
        mask: (batch, S) 1 for encoder frames, 0 for padding.

    Returns:
        Hidden states of the last layer, (batch, T, width).
    """
    states: Tensor = backbone.decoder.module(
        input_ids=inputs,
        encoder_hidden_states=memory,
        encoder_attention_mask=mask,
        use_cache=False,
    ).last_hidden_state
    return states


def unlabelled_language(ids: Tensor) -> Tensor:
    """Return the labels of a row of decoder ids.

    Each id predicts the next id. The start does not predict the language, since the language is
    given.

    Args:
        ids: (n,) start, language, text.

    Returns:
        (n - 1,) label of every id but the last.
    """
    return torch.cat([ids.new_tensor([IGNORED]), ids[2:]])


def padded(rows: Sequence[Tensor], value: int) -> Tensor:
    """Pad rows at the end.

    Args:
        rows: Rows of different lengths, (n, ...) each.
        value: Value of the padding.

    Returns:
        (rows, longest, ...); (0, 0) if there are no rows.
    """
    if not rows:
        return torch.zeros(0, 0, dtype=torch.long)
    return pad_sequence(list(rows), batch_first=True, padding_value=value)
