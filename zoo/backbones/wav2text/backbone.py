"""The small offline model: InfiniSST's streaming encoder and adapter under a decoder with cross-attention."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Speech2TextConfig
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextDecoder

from zoo.backbones import hub, weights
from zoo.backbones.base import Backbone
from zoo.backbones.infinisst.adapter import Adapter
from zoo.backbones.infinisst.encoder import FRAME_SAMPLES, EncoderConfig, StreamingEncoder
from zoo.backbones.infinisst.pretrained import load_encoder
from zoo.backbones.wav2text.batch import IGNORED, Collator, OfflineBatch
from zoo.backbones.wav2text.transcript import SourceWords
from zoo.errors import ZooError, some
from zoo.types import Capability, Frames, Samples

MERGED: Frames = 4  # encoder frames per frame of the memory
POSITION_SCALE = 0.3  # of the sinusoids added to a memory of unit variance


class Wav2Text(Backbone):
    exposes: ClassVar[frozenset[Capability]] = frozenset(
        {Capability.ALIGNMENT, Capability.PREFIX, Capability.RECUT, Capability.TRANSCRIPT}
    )
    frame_samples: Samples = FRAME_SAMPLES * MERGED

    encoder: StreamingEncoder
    adapter: Adapter
    norm: nn.LayerNorm
    text_decoder: Speech2TextDecoder
    transcriber: nn.Linear
    tokenizer: PreTrainedTokenizerBase
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
    ) -> None:
        super().__init__()
        if tokenizer is None and checkpoint is None:
            raise ZooError("Wav2Text needs a tokenizer: name one (hub id or folder) or a checkpoint that has it.")
        self.encoder_config = encoder
        self.decoder_fields = dict(decoder)
        if unknown := sorted(self.decoder_fields.keys() - Speech2TextConfig().to_dict().keys()):
            raise ZooError(f"backbone.decoder has fields that a Speech2Text decoder lacks: {some(unknown)}.")
        self.block_chunks = block_chunks
        self.tokenizer_source = tokenizer if tokenizer is not None else checkpoint
        self.checkpoint = checkpoint
        self.encoder_weights = encoder_weights

    def load(self) -> None:
        self.build()

    def build(self) -> None:
        if self.checkpoint is not None and not (Path(self.checkpoint) / weights.WEIGHTS).is_file():
            raise ZooError(
                f"There is no trained offline model in {self.checkpoint} (no {weights.WEIGHTS}); train one for this "
                "language pair with python train.py experiment=offline_minitalks target_language=..., or name another "
                "folder with backbone.checkpoint=..."
            )
        assert self.tokenizer_source is not None, "the constructor has checked it"
        hub.check("tokenizer", self.tokenizer_source)
        self.tokenizer = AutoTokenizer.from_pretrained(self.tokenizer_source)
        self.source_words = SourceWords.read(Path(self.tokenizer_source))
        self.encoder = StreamingEncoder(self.encoder_config)
        if self.checkpoint is None and self.encoder_weights is not None:
            load_encoder(self.encoder, self.encoder_weights)
        config = Speech2TextConfig(
            vocab_size=len(self.tokenizer),
            pad_token_id=self.tokenizer.pad_token_id,
            bos_token_id=self.tokenizer.bos_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
            attn_implementation="eager",
            **self.decoder_fields,
        )
        self.text_decoder = Speech2TextDecoder(config)
        nn.init.normal_(self.text_decoder.embed_tokens.weight, std=config.d_model**-0.5)
        self.adapter = Adapter(hidden=self.encoder_config.hidden, embedding=config.d_model)
        self.norm = nn.LayerNorm(config.d_model)
        self.transcriber = nn.Linear(self.encoder_config.hidden, len(self.source_words) + 1)
        if self.checkpoint is not None:
            weights.read(self, Path(self.checkpoint))

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write weights (in ``dtype``; None: as they are), tokenizer and source words to ``folder``."""
        weights.write(self, folder, dtype)
        self.tokenizer.save_pretrained(folder)
        self.source_words.write(folder)

    def collator(self) -> Collator:
        """Makes what ``forward`` takes."""
        return Collator(
            tokenizer=self.tokenizer,
            source_words=self.source_words,
            opening=(self.tokenizer.bos_token_id,),
            end=self.tokenizer.eos_token_id,
            padding=self.tokenizer.pad_token_id,
            frame_samples=self.frame_samples,
        )

    def forward(self, batch: OfflineBatch) -> dict[str, Tensor]:
        """Teacher forcing: cross-entropy of the translation, and CTC of the source words for the transcript's head."""
        hidden, memory = self.hear(batch.samples, batch.lengths)
        real = torch.arange(memory.shape[1], device=memory.device) < batch.lengths[:, None]
        states = self.text_decoder(
            input_ids=batch.inputs, encoder_hidden_states=memory, encoder_attention_mask=real.long(), use_cache=False
        ).last_hidden_state
        labelled = batch.labels != IGNORED
        logits = F.linear(states[labelled], self.text_decoder.embed_tokens.weight)
        labels = batch.labels[labelled]
        translation = F.cross_entropy(logits.float(), labels)
        transcript = self._transcript_loss(hidden, batch)
        return {
            "loss": translation + transcript,
            "translation": translation,
            "transcript": transcript,
            "token_accuracy": (logits.argmax(-1) == labels).float().mean(),
        }

    def hear(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Frames of the encoder's last layer, (B, 4 n, hidden), and the decoder's memory, (B, n, width).

        samples: (B, 1280 n). lengths: (B,) frames of the memory that are no padding.
        """
        trained = any(parameter.requires_grad for parameter in self.encoder.parameters())
        with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
            hidden = self.encoder(samples, self.block_chunks, lengths * MERGED).hidden
        memory = self.norm(self.adapter(hidden))
        places = sinusoids(memory.shape[1], memory.shape[2], device=memory.device)
        return hidden, memory + POSITION_SCALE * places.to(memory.dtype)

    def _transcript_loss(self, hidden: Tensor, batch: OfflineBatch) -> Tensor:
        """CTC per frame. It trains the head alone."""
        logits = self.transcriber(hidden.detach()).float()
        frames = batch.lengths * MERGED
        total = F.ctc_loss(
            logits.log_softmax(dim=-1).transpose(0, 1),
            batch.words,
            frames,
            batch.word_counts,
            reduction="sum",
            zero_infinity=True,
        )
        return total / frames.sum()

    def decode(self, sessions, requests, needs):  # type: ignore
        raise NotImplementedError

    def text(self, token_ids: list[int]) -> str:
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def sinusoids(positions: int, width: int, *, device: torch.device | None = None) -> Tensor:
    """(positions, width): sines, then cosines of geometric wavelengths (Vaswani et al., 2017, section 3.5)."""
    half = width // 2
    wavelengths = torch.exp(torch.arange(half, device=device) * (-math.log(10_000.0) / half))
    angles = torch.arange(positions, device=device)[:, None] * wavelengths
    return torch.cat([angles.sin(), angles.cos()], dim=-1)
