"""Wav2Text, a small offline encoder-decoder: wav2vec 2.0 encoder and Speech2Text decoder."""

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

from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.base import TokenizerCorpus
from zoo.backbones.decoding.teacher_forcing import (
    at_least_float32,
    gradients_if_trained,
    token_accuracy,
    token_loss,
)
from zoo.backbones.encoders.encoder_memory import EncodedStreamState
from zoo.backbones.encoders.wav2vec2.adapter import MERGED, Adapter, pad_to_multiple
from zoo.backbones.encoders.wav2vec2.encoder import (
    FRAME_SAMPLES,
    Encoded,
    EncoderConfig,
    StreamingEncoder,
)
from zoo.backbones.encoders.wav2vec2.features import KeptWave
from zoo.backbones.encoders.wav2vec2.kept_audio import KeptAudio, encode_kept
from zoo.backbones.encoders.wav2vec2.weights import load_encoder
from zoo.backbones.pretrained import hub, weights
from zoo.backbones.pretrained.loading import load_tokenizer
from zoo.backbones.text.tokenizer import train_tokenizer
from zoo.backbones.wav2text.data import OfflineBatch, Wav2TextCollator
from zoo.backbones.wav2text.transcript import SourceWords, best_path, label_frames
from zoo.base.errors import ZooError, check_numbers, shorten_list
from zoo.base.types import Capability, Hypothesis, Request, Samples, Task
from zoo.streaming.session import Session

POSITION_SCALE = 0.3  # factor of the position sinusoids; the memory itself has unit variance


@dataclass(slots=True)
class Wav2TextState(EncodedStreamState):
    """State of one stream: the common state and the encoder frames of the last request.

    Attributes:
        hidden: (4 n, hidden) encoder frames of 20 ms, the input of the CTC head. None before the
            first request.
    """

    hidden: Tensor | None = None


class Wav2Text(EncoderDecoder):
    """Offline speech translation model with an encoder, an adapter, a decoder and a CTC head.

    The encoder converts audio to frames of 20 ms. The adapter merges four encoder frames into one
    memory frame of 80 ms (1280 samples). The decoder's cross-attention attends to the memory
    frames, and the decoder generates byte-level BPE tokens of the translation. The CTC head
    predicts the source words from the encoder frames.

    Attributes:
        encoder: Speech encoder.
        adapter: Convolutions that merge encoder frames into memory frames.
        norm: Layer norm of the memory frames.
        transcriber: CTC head on the encoder frames.
        source_words: Vocabulary of the CTC head.
    """

    exposes: ClassVar[frozenset[Capability]] = EncoderDecoder.exposes | {Capability.TRANSCRIPT}
    frame_samples: Samples = FRAME_SAMPLES * MERGED
    weights_key = "checkpoint"
    trains_on = "ExcerptConfig"

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
        **options: Any,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            encoder: Shape of the encoder, which encodes all kept audio at every request.
            decoder: Configuration fields of the decoder, as in Transformers' ``Speech2TextConfig``.
            block_chunks: Size of an encoder block, in chunks of 960 ms.
            tokenizer: Folder with a tokenizer and the vocabulary of source words. None reads both
                from ``checkpoint``.
            checkpoint: Folder with trained weights. None initialises the network randomly.
            encoder_weights: Initial weights of the encoder, used only if ``checkpoint`` is None.
                ``load_encoder`` documents the accepted names.
            options: Other arguments of ``EncoderDecoder``.

        Raises:
            ZooError: Neither tokenizer nor checkpoint is given, ``block_chunks`` or ``max_tokens``
                is below 1, or the decoder fields or the data type are unknown.
        """
        super().__init__(**options)
        if tokenizer is None and checkpoint is None:
            raise ZooError(
                "Wav2Text needs a tokenizer: name a folder that has one, or a checkpoint."
            )
        check_numbers("Wav2Text", least=1, block_chunks=block_chunks)
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
        """Create tokenizer, encoder, decoder, adapter and CTC head, and read their weights.

        Raises:
            ZooError: The checkpoint or a file of it is missing, or its weights do not fit the
                configured network.
        """
        if self.checkpoint is not None:
            weights.check_trained(
                self.checkpoint, noun="Wav2Text", experiment="offline_minitalks", key="checkpoint"
            )
        self.tokenizer = load_tokenizer(str(self.folder))
        self.source_words = SourceWords.read(self.folder)
        self.end = self.tokenizer.eos_token_id
        with weights.without_initial_values(self.checkpoint is not None):
            self.encoder = StreamingEncoder(self.encoder_config)
            self.decoder = self._decoder()
            self.adapter = Adapter(hidden=self.encoder_config.hidden, embedding=self.decoder.width)
            self.norm = nn.LayerNorm(self.decoder.width)
            self.transcriber = nn.Linear(self.encoder_config.hidden, len(self.source_words) + 1)
        if self.checkpoint is None and self.encoder_weights is not None:
            hub.check("encoder", self.encoder_weights)
            load_encoder(self.encoder, self.encoder_weights)
        self.to(self.dtype)
        if self.checkpoint is not None:
            weights.load_weights(self, Path(self.checkpoint))

    def _decoder(self) -> Decoder:
        """Create a randomly initialised decoder with tied input and output embeddings."""
        fields = {
            **self.decoder_fields,
            "vocab_size": len(self.tokenizer),
            "pad_token_id": self.tokenizer.pad_token_id,
            "attn_implementation": "eager",  # attention implementation in training
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
        """Train a byte-level BPE tokenizer and collect the vocabulary of source words.

        Args:
            corpus: Translations and talks of the training data.
            folder: Folder to write the tokenizer and the vocabulary to.
            arguments: Constructor arguments of the backbone; not used.
        """
        tokenizer = train_tokenizer(
            corpus.translations, vocabulary_size=corpus.size, unit=corpus.unit
        )
        tokenizer.save_pretrained(folder)

        spoken = (
            word.text
            for talk in corpus.talks
            for segment in talk.segments
            for word in segment.words
        )
        SourceWords.of(spoken).write(folder)

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write weights, tokenizer and vocabulary of source words to ``folder``.

        Args:
            folder: Folder to write to.
            dtype: Data type of the written weights. None keeps the data type of the network.
        """
        weights.save_weights(self, folder, dtype)
        self.tokenizer.save_pretrained(folder)
        self.source_words.write(folder)

    def open(self, session: Session) -> Wav2TextState:
        """Return an empty stream state."""
        return Wav2TextState(features=KeptAudio.of(self.encoder))

    def opening(self, session: Session, task: Task) -> list[int]:
        """Return the decoder ids before the text: the begin-of-sentence id alone."""
        return [self.tokenizer.bos_token_id]

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode waves as a batch and store the encoder frames in the sessions' states.

        Each wave is padded with zeros to a multiple of 80 ms, as in training.

        Args:
            sessions: Streams, whose feature caches and encoder frames are updated.
            waves: (samples,) audio from the start of each session's kept audio.

        Returns:
            (n, width) memory frames of each wave.
        """
        states: list[Wav2TextState] = [session.backbone_state for session in sessions]
        waves_kept = [
            KeptWave(
                pad_to_multiple(wave.to(self.norm.weight), self.frame_samples),
                wave.numel(),
                session.audio_start,
            )
            for session, wave in zip(sessions, waves, strict=True)
        ]
        caches = [state.features for state in states]
        encoded = encode_kept(self.encoder, caches, waves_kept, block_chunks=self.block_chunks)
        for state, hidden in zip(states, encoded, strict=True):
            state.hidden = hidden
        memory = self.to_memory(pad_sequence(encoded, batch_first=True))  # (B, frames, width)
        lengths = [len(hidden) // MERGED for hidden in encoded]
        return [memory[row, :length] for row, length in enumerate(lengths)]

    def transcribe(
        self,
        sessions: Sequence[Session],
        requests: Sequence[Request],
        memories: Sequence[Tensor],
        needs: frozenset[Capability],
    ) -> list[Hypothesis]:
        """Transcribe the source audio by greedy decoding of the CTC head.

        Each token of a transcript is a word. The last word may be incomplete in the audio.

        Args:
            sessions: Streams that ``encode_audio`` has encoded.
            requests: One request per session; not used.
            memories: Memory frames of each session; not used.
            needs: Optional fields of the hypotheses. An alignment has the frames of the CTC labels.

        Returns:
            One hypothesis per session, whose token ids are CTC labels.
        """
        hypotheses = []
        for session in sessions:
            logits = self.transcriber(session.backbone_state.hidden)  # (frames, 1 + words)
            labels = best_path(logits)
            alignment = None
            if Capability.ALIGNMENT in needs:
                alignment = label_frames(logits, MERGED).cpu()
            hypothesis = Hypothesis(
                token_ids=torch.tensor(labels, dtype=torch.long),
                word_starts=torch.ones(len(labels), dtype=torch.bool),
                finished=True,
                alignment=alignment,
                transcript=self.source_words.text(labels),
            )
            hypotheses.append(hypothesis)
        return hypotheses

    def transcript_text(self, token_ids: list[int]) -> str:
        """Return the words of the CTC labels of a transcript."""
        return self.source_words.text(token_ids)

    def encode(self, samples: Tensor, lengths: Tensor) -> Tensor:
        """Encode a padded training batch; a frozen encoder gets no gradients.

        Args:
            samples: (B, 1280 n) audio samples.
            lengths: (B,) number of memory frames of each row, without padding.

        Returns:
            (B, 4 n, hidden) encoder frames.
        """
        with gradients_if_trained(self.encoder.parameters()):
            encoded: Encoded = self.encoder(
                samples.to(self.dtype), self.block_chunks, lengths * MERGED
            )
        return encoded.hidden

    def to_memory(self, hidden: Tensor) -> Tensor:
        """Convert encoder frames to memory frames with sinusoidal positions.

        Args:
            hidden: (B, 4 n, hidden) encoder frames.

        Returns:
            (B, n, width) memory frames that the decoder attends to.
        """
        memory: Tensor = self.norm(self.adapter(hidden))
        positions = sinusoids(memory.shape[1], memory.shape[2], device=memory.device)
        return memory + POSITION_SCALE * positions.to(memory.dtype)

    def block_sizes(self, multipliers: Collection[int]) -> Collection[int]:
        """Return the only size of the blocks of whole talks in chunks, ``block_chunks``."""
        return [self.block_chunks]

    def collator(self) -> Wav2TextCollator:
        """Return the function that collates excerpts of talks into training batches."""
        return Wav2TextCollator(
            tokenizer=self.tokenizer,
            source_words=self.source_words,
            opening=(self.tokenizer.bos_token_id,),
            end=self.end,
            padding=self.tokenizer.pad_token_id,
            frame_samples=self.frame_samples,
        )

    def forward(self, batch: OfflineBatch) -> dict[str, Tensor]:
        """Teacher forcing with cross-entropy of the translation and CTC loss of the source words.

        Args:
            batch: Batch of ``collator``.

        Returns:
            Scalars ``translation``, ``transcript``, ``loss`` (the sum of the two) and
            ``token_accuracy``.
        """
        has_samples = batch.audio.dim() == 2  # otherwise (B, n, hidden) frames of a frozen encoder
        hidden = (
            self.encode(batch.audio, batch.lengths) if has_samples else batch.audio.to(self.dtype)
        )
        memory = self.to_memory(hidden)

        frame_indices = torch.arange(memory.shape[1], device=memory.device)
        mask = frame_indices < batch.lengths[:, None]  # (B, n), False for padding
        logits, labels = self.decoder.teacher_forced(
            batch.inputs, batch.labels, memory, mask.long()
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
        """Return the CTC loss per encoder frame.

        The encoder frames are detached, so the loss trains only the CTC head and needs no weight
        against the translation loss.
        """
        logits = self.transcriber(hidden.detach())
        log_probabilities = at_least_float32(logits).log_softmax(dim=-1).transpose(0, 1)
        frame_counts = batch.lengths * MERGED
        total = F.ctc_loss(
            log_probabilities,  # (frames, B, 1 + words)
            batch.words,
            frame_counts,
            batch.word_counts,
            reduction="sum",
            zero_infinity=True,
        )
        return total / frame_counts.sum()


def sinusoids(positions: int, width: int, *, device: torch.device | None = None) -> Tensor:
    """Return sinusoidal position embeddings (Vaswani et al., 2017, section 3.5).

    Args:
        positions: Number of positions, from 0.
        width: Width of an embedding, an even number.
        device: Device of the embeddings.

    Returns:
        (positions, width) embeddings. The first half of the width has sines, the second half
        cosines.
    """
    half = width // 2
    wavelengths = torch.exp(torch.arange(half, device=device) * (-math.log(10_000.0) / half))
    angles = torch.arange(positions, device=device)[:, None] * wavelengths
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
