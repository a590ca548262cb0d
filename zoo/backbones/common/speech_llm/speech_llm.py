"""The network that InfiniSST and LST share: speech encoder, adapter and causal LM (InfiniSST,
section 3.2).
"""

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
    """A causal LM that attends to speech embeddings among the embeddings of its tokens.

    Attributes:
        experiment: Name of the experiment that trains a small one.
        weights_key: Key of the configuration that names trained weights.
        never: Ids that are never generated.
    """

    experiment: ClassVar[str]
    weights_key = "checkpoint"

    encoder: StreamingEncoder
    adapter: Adapter
    decoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompt: Prompt
    never: list[int]

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
        """Configure the network; ``load`` reads weights.

        Args:
            encoder: Shape of the speech encoder.
            decoder: Hub id or folder, or fields of a config (randomly initialised). With a
                checkpoint, which has all weights, only the config is read.
            template: Strings of the dialogue, or the name of one of ``prompt.TEMPLATES``.
            tokenizer: Hub id or folder; None: that of the checkpoint.
            checkpoint: Folder with ``model.safetensors`` and tokenizer files; None: pretrained or
                randomly initialised parts.
            encoder_weights: Initial weights of the encoder without a checkpoint, see
                ``wav2vec2.weights.load_encoder``; None: randomly initialised.
            adapter_norm: See ``Adapter``.
            embedding_std: Standard deviation of randomly initialised embeddings of the decoder.
            dtype: Of weights and activations.
            suppress: Texts; no token that contains one of them is generated.

        Raises:
            ZooError: Without tokenizer and checkpoint.
        """
        super().__init__()
        if tokenizer is None and checkpoint is None:
            raise ZooError(
                f"{type(self).__name__} needs a tokenizer: name one (hub id or folder) or a "
                "checkpoint that has it."
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
        """Create encoder, adapter and decoder and read their weights.

        Raises ZooError on weights that do not fit.
        """
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
        """Noun and name of all that comes from a folder or the hub."""
        yield "tokenizer", str(self.tokenizer_source)
        if self.checkpoint is None and self.encoder_weights is not None:
            yield "encoder", self.encoder_weights
        if isinstance(self.decoder_source, str):
            yield "decoder", self.decoder_source

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write ``model.safetensors`` and the tokenizer to ``folder``."""
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

    def teacher_forced(self, batch: Batch, frames: Tensor) -> Output:
        """Teacher forcing over dialogues.

        Args:
            batch: Ids, labels and positions of the speech.
            frames: (batch, frames, hidden) of the encoder.
        """
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
        """Encode audio from the start of a stream; no gradients when the encoder is frozen.

        Args:
            samples: (batch, n).
            multiplier: m, the encoder's block in chunks.
            lengths: (batch,) frames that are no padding (None: all).

        Returns:
            (batch, n / 320, hidden).
        """
        with gradients_if_trained(self.encoder.parameters()):
            return self.encoder(samples.to(self.dtype), multiplier, lengths)

    def embed(self, ids: Sequence[int], speech: Tensor) -> Tensor:
        """Embeddings of ids, with ``speech`` (n, embedding) at the ids of speech: (len(ids),
        embedding).
        """
        tokens = torch.tensor(ids, device=speech.device)
        embeddings = self.decoder.get_input_embeddings()(tokens)
        embeddings[tokens == self.prompt.speech] = speech.to(embeddings.dtype)
        return embeddings
