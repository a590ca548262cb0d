"""The network that InfiniSST and its offline form share: encoder, adapter, causal LM. Knows no window and no search."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.base import Backbone, TokenizerCorpus, dtype_named
from zoo.backbones.common.causal.decoder import build_decoder
from zoo.backbones.common.pretrained import hub, weights
from zoo.backbones.common.pretrained.loading import load_tokenizer
from zoo.backbones.common.speech_llm.data import Batch, Output
from zoo.backbones.common.speech_llm.prompt import Prompt, Template, template_named
from zoo.backbones.common.teacher_forcing import causal_logits, gradients_if_trained, token_loss
from zoo.backbones.common.text.tokenizer import SPECIAL_TOKENS, train_tokenizer
from zoo.backbones.common.text.vocabulary import containing, detokenise
from zoo.backbones.common.wav2vec2.adapter import Adapter
from zoo.backbones.common.wav2vec2.encoder import Encoded, EncoderConfig, StreamingEncoder
from zoo.backbones.common.wav2vec2.weights import load_encoder
from zoo.errors import ZooError


class SpeechLLM(Backbone):
    """Speech embeddings among a language model's words (InfiniSST, section 3.2).

    encoder: its shape. decoder: hub id, local folder, or a config's fields (random weights); with a checkpoint, which
    has all weights, only the config is read. adapter_norm: see ``Adapter``. tokenizer: hub id or local folder; None:
    the checkpoint's. template: strings of the dialogue, or the name of some (``prompt.TEMPLATES``). checkpoint: folder
    with ``model.safetensors`` and tokenizer files; None: random (or pretrained) parts. encoder_weights: where the
    encoder starts from without a checkpoint, see ``pretrained.load_encoder``; None: random. embedding_std: of a random
    decoder. suppress: texts; no token that contains one is ever said.
    """

    experiment: ClassVar[str]  # that trains a small one
    weights_key = "checkpoint"

    encoder: StreamingEncoder
    adapter: Adapter
    decoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompt: Prompt
    never: list[int]  # ids that are never said

    def __init__(
        self,
        *,
        encoder: EncoderConfig,
        decoder: str | Mapping[str, Any],
        template: Template | str,
        tokenizer: str | None = None,
        checkpoint: str | None = None,
        encoder_weights: str | None = None,
        adapter_norm: bool = False,
        embedding_std: float | None = None,
        dtype: str = "float32",
        suppress: Sequence[str] = (),
    ) -> None:
        super().__init__()
        if tokenizer is None and checkpoint is None:
            raise ZooError(
                f"{type(self).__name__} needs a tokenizer: name one (hub id or folder) or a checkpoint that has it."
            )
        self.encoder_config = encoder
        self.decoder_source = decoder
        self.template = template_named(template)
        self.tokenizer_source = tokenizer if tokenizer is not None else checkpoint
        self.checkpoint = checkpoint
        self.encoder_weights = encoder_weights
        self.adapter_norm = adapter_norm
        self.embedding_std = embedding_std
        self.dtype = dtype_named(dtype)
        self.suppress = suppress

    def load(self) -> None:
        """Create the three children and read what the constructor named. Raises ZooError on weights that do not fit."""
        if self.checkpoint is not None:
            weights.check_trained(
                self.checkpoint,
                noun=type(self).__name__,
                experiment=self.experiment,
                key=self.weights_key,
            )
        for noun, name in self._named():
            hub.check(noun, name)
        self.tokenizer = load_tokenizer(str(self.tokenizer_source))
        self.prompt = Prompt(tokenizer=self.tokenizer, template=self.template)
        self.never = [self.prompt.speech, *containing(self.tokenizer, self.suppress)]
        self.encoder = StreamingEncoder(self.encoder_config).to(self.dtype)
        if self.checkpoint is None and self.encoder_weights is not None:
            load_encoder(self.encoder, self.encoder_weights)
        self.decoder = build_decoder(
            self.decoder_source,
            vocabulary=len(self.tokenizer),
            embedding_std=self.embedding_std,
            dtype=self.dtype,
            empty=self.checkpoint is not None,
        )
        adapter = Adapter(
            hidden=self.encoder_config.hidden,
            embedding=self.decoder.config.hidden_size,
            norm=self.adapter_norm,
        )
        self.adapter = adapter.to(self.dtype)
        if self.checkpoint is not None:
            weights.load_weights(self, Path(self.checkpoint))

    def _named(self) -> Iterator[tuple[str, str]]:
        """What comes from a folder or the hub: noun and name."""
        yield "tokenizer", str(self.tokenizer_source)
        if self.checkpoint is None and self.encoder_weights is not None:
            yield "encoder", self.encoder_weights
        if isinstance(self.decoder_source, str):
            yield "decoder", self.decoder_source

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write ``model.safetensors`` (in ``dtype``; None: as they are) and the tokenizer to ``folder``."""
        weights.save_weights(self, Path(folder), dtype)
        self.tokenizer.save_pretrained(folder)

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """A byte-level BPE of the translations, with the special tokens of the template."""
        template = arguments.get("template")
        special = list(SPECIAL_TOKENS)
        if template is not None:
            special += template_named(template).special_tokens(max(corpus.multipliers))
        train_tokenizer(
            corpus.translations,
            vocabulary_size=corpus.size,
            unit=corpus.target.unit,
            special_tokens=special,
        ).save_pretrained(folder)

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return detokenise(self.tokenizer, token_ids)

    def teach(self, batch: Batch, frames: Tensor) -> Output:
        """Teacher forcing over dialogues that hear ``frames`` (batch, frames, hidden); the loss covers all labels."""
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        speech = self.adapter(frames.to(self.dtype)).to(embeddings.dtype)
        rows, places = (batch.speech_positions >= 0).nonzero(as_tuple=True)
        positions = batch.speech_positions[rows, places]
        embeddings = embeddings.index_put((rows, positions), speech[rows, places])
        logits, targets = causal_logits(self.decoder, batch.labels, inputs_embeds=embeddings)
        return Output(token_loss(logits, targets), logits, targets)

    def encode_training(
        self, samples: Tensor, multiplier: int, lengths: Tensor | None = None
    ) -> Encoded:
        """(batch, n) samples from the start of a stream to (batch, n / 320, hidden), no gradients when frozen.

        lengths: (batch,) frames that are no padding (None: all).
        """
        with gradients_if_trained(self.encoder.parameters()):
            return self.encoder(samples.to(self.dtype), multiplier, lengths)

    def embed(self, ids: Sequence[int], speech: Tensor) -> Tensor:
        """(len(ids), embedding): embeddings of the tokens, and ``speech`` (n, embedding) where the ids say so."""
        tokens = torch.tensor(ids, device=speech.device)
        embeddings = self.decoder.get_input_embeddings()(tokens)
        embeddings[tokens == self.prompt.speech] = speech.to(embeddings.dtype)
        return embeddings
