"""The small offline encoder-decoder that is trained here: a streaming encoder and a Speech2Text
decoder.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import Speech2TextConfig
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextDecoder

from zoo.backbones.base import TokenizerCorpus
from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.audio.feature_cache import FeatureCache
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.common.encoder_memory import StreamState
from zoo.backbones.common.pretrained import hub, weights
from zoo.backbones.common.pretrained.loading import load_tokenizer
from zoo.backbones.common.search import SearchConfig
from zoo.backbones.common.teacher_forcing import (
    at_least_float32,
    gradients_if_trained,
    token_accuracy,
    token_loss,
)
from zoo.backbones.common.text.tokenizer import train_tokenizer
from zoo.backbones.common.wav2vec2.adapter import MERGED, Adapter, pad_to_multiple
from zoo.backbones.common.wav2vec2.encoded import EncodedTalks, encode_talks
from zoo.backbones.common.wav2vec2.encoder import FRAME_SAMPLES, EncoderConfig, StreamingEncoder
from zoo.backbones.common.wav2vec2.features import KeptWave, kept_features
from zoo.backbones.common.wav2vec2.weights import load_encoder
from zoo.backbones.wav2text.data import Collator, OfflineBatch
from zoo.backbones.wav2text.transcript import SourceWords, best_path
from zoo.data.excerpts import ExcerptConfig
from zoo.data.talks import Talk
from zoo.errors import ZooError, shorten_list
from zoo.streaming.session import Session
from zoo.types import Capability, Hypothesis, Request, Samples, Task

POSITION_SCALE = 0.3  # of the sinusoids added to a memory of unit variance


@dataclass(slots=True)
class Wav2TextState(StreamState):
    """``StreamState`` with the encoder's frames under the memory.

    Attributes:
        hidden: (4 n, hidden).
    """

    hidden: Tensor | None = None


class Wav2Text(EncoderDecoder):
    """Waveform to memory frames of 80 ms, cross-attention, byte-level target tokens, CTC of source
    words.
    """

    exposes: ClassVar[frozenset[Capability]] = EncoderDecoder.exposes | {Capability.TRANSCRIPT}
    frame_samples: Samples = FRAME_SAMPLES * MERGED
    weights_key = "checkpoint"
    trains_on = ExcerptConfig

    encoder: StreamingEncoder
    adapter: Adapter
    norm: nn.LayerNorm
    transcriber: nn.Linear
    source_words: SourceWords

    def __init__(
        self,
        *,
        encoder: EncoderConfig,
        decoder: Mapping[str, Any],
        block_chunks: int = 4,
        tokenizer: str | None = None,
        checkpoint: str | None = None,
        encoder_weights: str | None = None,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 200,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            encoder: Shape of the streaming encoder, which encodes all kept audio at every request.
            decoder: Fields of Transformers' ``Speech2TextConfig``.
            block_chunks: The encoder's blocks, in chunks of 960 ms.
            tokenizer: Folder with a tokenizer and the source words of transcripts; None: the
                checkpoint's.
            checkpoint: Folder with trained weights; None: randomly initialised.
            encoder_weights: Initial weights of the encoder without a checkpoint, see
                ``load_encoder``.
            search: See ``EncoderDecoder``.
            alignment: See ``EncoderDecoder``.
            max_tokens: See ``EncoderDecoder``.
            dtype: Of weights and activations.

        Raises:
            ZooError: On values that are out of range, unknown or missing.
        """
        super().__init__(search=search, alignment=alignment, max_tokens=max_tokens, dtype=dtype)
        if tokenizer is None and checkpoint is None:
            raise ZooError(
                "Wav2Text needs a tokenizer: name a folder that has one, or a checkpoint."
            )
        if block_chunks < 1:
            raise ZooError(f"Wav2Text needs block_chunks of at least 1, not {block_chunks}.")
        self.encoder_config = encoder
        self.decoder_fields = dict(decoder)
        if unknown := sorted(self.decoder_fields.keys() - Speech2TextConfig().to_dict().keys()):
            raise ZooError(
                "backbone.decoder has fields that a Speech2Text decoder lacks: "
                f"{shorten_list(unknown)}."
            )
        self.block_chunks = block_chunks
        self.folder = Path(str(tokenizer if tokenizer is not None else checkpoint))
        self.checkpoint = checkpoint
        self.encoder_weights = encoder_weights

    def build(self) -> None:
        """Create all children and read their weights.

        Raises ZooError on weights that do not fit.
        """
        if self.checkpoint is not None:
            weights.check_trained(
                self.checkpoint, noun="Wav2Text", experiment="offline_minitalks", key="checkpoint"
            )
        self.tokenizer = load_tokenizer(str(self.folder))
        self.source_words = SourceWords.read(self.folder)
        self.end = self.tokenizer.eos_token_id
        self.encoder = StreamingEncoder(self.encoder_config)
        if self.checkpoint is None and self.encoder_weights is not None:
            hub.check("encoder", self.encoder_weights)
            load_encoder(self.encoder, self.encoder_weights)
        self.decoder = self._decoder()
        self.adapter = Adapter(hidden=self.encoder_config.hidden, embedding=self.decoder.width)
        self.norm = nn.LayerNorm(self.decoder.width)
        self.transcriber = nn.Linear(self.encoder_config.hidden, len(self.source_words) + 1)
        self.to(self.dtype)
        if self.checkpoint is not None:
            weights.load_weights(self, Path(self.checkpoint))

    def _decoder(self) -> Decoder:
        """A randomly initialised decoder; its output layer is tied to its embeddings."""
        fields = {
            **self.decoder_fields,
            "vocab_size": len(self.tokenizer),
            "pad_token_id": self.tokenizer.pad_token_id,
            "attn_implementation": "eager",  # of training
        }
        config = Speech2TextConfig(**fields)
        module = Speech2TextDecoder(config)
        nn.init.normal_(module.embed_tokens.weight, std=config.d_model**-0.5)
        head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        head.weight = module.embed_tokens.weight
        return Decoder(module, head)

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """A byte-level BPE of the translations, and the words that a transcript can have."""
        train_tokenizer(
            corpus.translations, vocabulary_size=corpus.size, unit=corpus.target.unit
        ).save_pretrained(folder)
        spoken = (word.text for talk in corpus.talks for s in talk.segments for word in s.words)
        SourceWords.of(spoken).write(folder)

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write weights, tokenizer and source words to ``folder``."""
        weights.save_weights(self, folder, dtype)
        self.tokenizer.save_pretrained(folder)
        self.source_words.write(folder)

    def open(self, session: Session) -> Wav2TextState:
        """An empty state."""
        return Wav2TextState(
            features=FeatureCache(self.norm.weight.new_zeros(0, self.encoder_config.hidden))
        )

    def opening(self, session: Session, task: Task) -> list[int]:
        """The id that begins a text."""
        return [self.tokenizer.bos_token_id]

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode waves; a last piece short of 80 ms is padded with zeros, as in training."""
        states: list[Wav2TextState] = [session.backbone_state for session in sessions]
        waves_kept = [
            KeptWave(
                pad_to_multiple(wave.to(self.norm.weight), self.frame_samples),
                wave.numel(),
                session.audio_start,
            )
            for session, wave in zip(sessions, waves, strict=True)
        ]
        features = kept_features(self.encoder, [state.features for state in states], waves_kept)
        lengths = torch.tensor(
            [len(frames) // MERGED for frames in features], device=features[0].device
        )
        padded = pad_sequence(features, batch_first=True)
        hidden = self.encoder.contextualise(padded, self.block_chunks, lengths * MERGED).hidden
        memory = self.to_memory(hidden)
        for row, (state, length) in enumerate(zip(states, lengths.tolist(), strict=True)):
            state.hidden = hidden[row, : MERGED * length]
        return [memory[row, :length] for row, length in enumerate(lengths.tolist())]

    def transcribe(
        self, sessions: Sequence[Session], requests: Sequence[Request], memories: Sequence[Tensor]
    ) -> list[Hypothesis]:
        """The best path of the CTC head. Tokens are words; the last one may be incomplete."""
        answers = []
        for session in sessions:
            labels = torch.tensor(
                best_path(self.transcriber(session.backbone_state.hidden)), dtype=torch.long
            )
            starts = torch.ones(labels.numel(), dtype=torch.bool)
            text = self.source_words.text(labels.tolist())
            answers.append(
                Hypothesis(token_ids=labels, word_starts=starts, finished=True, transcript=text)
            )
        return answers

    def encode(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Encode a padded batch; no gradients when the encoder is frozen.

        Args:
            samples: (B, 1280 n).
            lengths: (B,) frames of the memory that are no padding.

        Returns:
            (B, 4 n, hidden).
        """
        with gradients_if_trained(self.encoder.parameters()):
            return self.encoder(samples.to(self.dtype), self.block_chunks, lengths * MERGED).hidden

    def to_memory(self, hidden: Tensor) -> Tensor:
        """(B, 4 n, hidden) to the memory that the decoder attends to, (B, n, width)."""
        memory = self.norm(self.adapter(hidden))
        places = sinusoids(memory.shape[1], memory.shape[2], device=memory.device)
        return memory + POSITION_SCALE * places.to(memory.dtype)

    def encode_talks(
        self, talks: Sequence[Talk], *, multipliers: Collection[int], device: torch.device
    ) -> EncodedTalks:
        """Frames of whole talks in blocks of ``block_chunks``."""
        return encode_talks(self.encoder, talks, [self.block_chunks], device=device)

    def collator(self) -> Collator:
        """Makes training batches of excerpts."""
        return Collator(
            tokenizer=self.tokenizer,
            source_words=self.source_words,
            opening=(self.tokenizer.bos_token_id,),
            end=self.end,
            padding=self.tokenizer.pad_token_id,
            frame_samples=self.frame_samples,
        )

    def forward(self, batch: OfflineBatch) -> dict[str, Tensor]:
        """Teacher forcing: cross-entropy of the translation, CTC of the source words."""
        hidden = (
            self.encode(batch.audio, batch.lengths)
            if batch.audio.dim() == 2
            else batch.audio.to(self.dtype)
        )
        memory = self.to_memory(hidden)
        real = torch.arange(memory.shape[1], device=memory.device) < batch.lengths[:, None]
        logits, labels = self.decoder.teacher_forced(
            batch.inputs, batch.labels, memory, real.long()
        )
        translation = token_loss(logits, labels)
        transcript = self._transcript_loss(hidden, batch)
        return {
            "loss": translation + transcript,
            "translation": translation,
            "transcript": transcript,
            "token_accuracy": token_accuracy(logits, labels),
        }

    def _transcript_loss(self, hidden: Tensor, batch: OfflineBatch) -> Tensor:
        """CTC per frame. Only the head is trained by it, so the loss needs no weight."""
        logits = self.transcriber(hidden.detach())
        scores = at_least_float32(logits).log_softmax(dim=-1).transpose(0, 1)
        frames = batch.lengths * MERGED
        total = F.ctc_loss(
            scores, batch.words, frames, batch.word_counts, reduction="sum", zero_infinity=True
        )
        return total / frames.sum()


def sinusoids(positions: int, width: int, *, device: torch.device | None = None) -> Tensor:
    """(positions, width): sines, then cosines of geometric wavelengths (Vaswani et al., 2017,
    section 3.5).
    """
    half = width // 2
    wavelengths = torch.exp(torch.arange(half, device=device) * (-math.log(10_000.0) / half))
    angles = torch.arange(positions, device=device)[:, None] * wavelengths
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
