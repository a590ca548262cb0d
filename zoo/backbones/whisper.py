"""Whisper (Radford et al., 2023) by hub id or folder: transcribes, and translates into English."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizer

from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.audio.spectrogram import HOP, WINDOW, CentredSpectrogram, limited
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.common.encoder_memory import StreamState
from zoo.backbones.common.pretrained.loading import (
    check_extractor,
    check_tokenizer,
    load_network,
    load_part,
    model_type,
    run_layers,
)
from zoo.backbones.common.search import SearchConfig
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import SAMPLE_RATE, Capability, Samples, Task

SPAN_SECONDS = 30  # the encoder's input: at most, and as it was trained exactly
SPAN: Samples = SPAN_SECONDS * SAMPLE_RATE
FEATURES_PER_FRAME = 2

ALIGNMENT = AlignmentConfig(normalisation="z_score_all", median_filter=7, average="last")


class Whisper(EncoderDecoder):
    """Whisper translates its languages into English; with equal source and target language it
    transcribes.

    The defaults of alignment and search are SimulStreaming's: greedy; per head a z-score over
    tokens and a median filter of 7 frames, then the mean.
    """

    exposes: ClassVar[frozenset[Capability]] = EncoderDecoder.exposes | {Capability.TRANSCRIPT}
    frame_samples = FEATURES_PER_FRAME * HOP  # 20 ms

    def __init__(
        self,
        *,
        name: str,
        pad_to_30_seconds: bool = True,
        alignment: AlignmentConfig = ALIGNMENT,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 200,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (openai/whisper-large-v3) or folder.
            pad_to_30_seconds: Whether the kept audio is padded with silence, as in training.
                Otherwise only the kept audio is encoded, which is faster but not what the model was
                trained on.
            alignment: See ``EncoderDecoder``. With heads=null: the model's own alignment heads, or
                all heads of the upper half of its layers where it lists none, as in OpenAI's code.
            search: See ``EncoderDecoder``.
            max_tokens: See ``EncoderDecoder``.
            dtype: Of weights and activations.
        """
        super().__init__(alignment=alignment, search=search, max_tokens=max_tokens, dtype=dtype)
        self.name = name
        self.pad_to_30_seconds = pad_to_30_seconds

    def build(self) -> None:
        """Read network, tokenizer and feature extractor.

        Raises ZooError on what is missing or differs.
        """
        model_type(self.name, wanted=("whisper",), noun="Whisper")
        extractor = load_part(
            "feature extractor", WhisperFeatureExtractor.from_pretrained, self.name
        )
        check_extractor(
            extractor, self.name, hop_length=HOP, n_fft=WINDOW, chunk_length=SPAN_SECONDS
        )
        self.tokenizer = load_part("tokenizer", WhisperTokenizer.from_pretrained, self.name)
        network = load_network(WhisperForConditionalGeneration, self.name, self.dtype)
        self.spectrogram = CentredSpectrogram(network.config.num_mel_bins, SPAN)
        self.encoder = network.model.encoder
        self.decoder = Decoder(network.model.decoder, network.proj_out)
        self._configure(network.generation_config)
        known = {str(self.tokenizer.eos_token): self.end} | self.languages
        check_tokenizer(
            self.tokenizer, self.name, scores=network.proj_out.out_features, tokens=known
        )

    def _configure(self, generation: Any) -> None:
        """Take ids, suppressed ids and alignment heads from generation_config.json.

        Raises:
            ZooError: Where it lists no languages and tasks of a multilingual model.
        """
        self.start, self.end = int(generation.decoder_start_token_id), int(generation.eos_token_id)
        facts = generation.to_dict()
        self.languages: dict[str, int] = facts.get("lang_to_id") or {}
        self.tasks: dict[str, int] = facts.get("task_to_id") or {}
        self.without_timestamps: int | None = facts.get("no_timestamps_token_id")
        self.multilingual = bool(facts.get("is_multilingual", self.languages))
        if self.multilingual and not (self.languages and self.tasks):
            raise ZooError(
                f"The generation_config.json of {self.name} lists no languages and tasks "
                "(lang_to_id, task_to_id); take it from the Whisper on the hub that this one "
                "comes from."
            )
        self.never = list(facts.get("suppress_tokens") or [])
        self.never_first = list(facts.get("begin_suppress_tokens") or [])
        if self.alignment.heads is None:
            depth, heads = self.decoder.depth, self.decoder.heads
            upper = [[layer, head] for layer in range(depth // 2, depth) for head in range(heads)]
            self.alignment = replace(self.alignment, heads=facts.get("alignment_heads") or upper)

    def open(self, session: Session) -> StreamState:
        """An empty state.

        Raises ZooError for a language direction that the model does not support.
        """
        self.opening(session, Task.TRANSLATION)
        return StreamState(features=self.spectrogram.open())

    def opening(self, session: Session, task: Task) -> list[int]:
        """Start, source language, task, no timestamps; an English-only model takes neither language
        nor task.
        """
        transcribed = (
            task is Task.TRANSCRIPTION or session.source_language == session.target_language
        )
        self._check(session, translated=not transcribed)
        control = (
            [self.languages[f"<|{session.source_language.code}|>"]] if self.multilingual else []
        )
        control += (
            [self.tasks["transcribe" if transcribed else "translate"]] if self.multilingual else []
        )
        return [
            self.start,
            *control,
            *([] if self.without_timestamps is None else [self.without_timestamps]),
        ]

    def _check(self, session: Session, *, translated: bool) -> None:
        source, target = session.source_language.code, session.target_language.code
        if not self.multilingual and (source, target) != ("en", "en"):
            raise ZooError(
                f"{self.name} supports English only, not {source}-{target}; choose "
                "source_language=en and target_language=en, or a multilingual Whisper."
            )
        if translated and target != "en":
            choice = (
                f" or target_language={source} for a transcript"
                if source != "en"
                else " for a transcript"
            )
            raise ZooError(
                f"Whisper translates into English only, not {source}-{target}; choose "
                f"target_language=en{choice}."
            )
        if self.multilingual and f"<|{source}|>" not in self.languages:
            codes = ", ".join(sorted(language.strip("<|>") for language in self.languages))
            raise ZooError(
                f"{self.name} does not support {session.source_language.name}; choose "
                f"source_language from: {codes}."
            )

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """See ``EncoderDecoder``: 1500 frames of each wave (n,), or its own ``ceil(n / 320)``
        without padding.

        Raises:
            ZooError: For waves of more than 30 s.
        """
        inputs = [
            self._features(session, wave) for session, wave in zip(sessions, waves, strict=True)
        ]
        if self.pad_to_30_seconds:
            return list(self.encoder(torch.stack(inputs).transpose(1, 2)).last_hidden_state)
        hidden = [self._convolve(features) for features in inputs]
        return run_layers(self.encoder.layers, self.encoder.layer_norm, self.encoder.config, hidden)

    def _features(self, session: Session, wave: Tensor) -> Tensor:
        """(features, bins), the encoder's input."""
        if len(wave) > SPAN:
            raise ZooError(
                f"Whisper encodes at most {SPAN_SECONDS} s at once, but "
                f"{len(wave) / SAMPLE_RATE:g} s are kept; choose a history that forgets; its "
                f"max_seconds must leave room for one chunk within {SPAN_SECONDS} s."
            )
        span = SPAN if self.pad_to_30_seconds else len(wave) + -len(wave) % self.frame_samples
        features = self.spectrogram.compute(
            session.backbone_state.features, wave, session.audio_start
        )
        return limited(features, span // HOP).to(self.encoder.conv1.weight.device, self.dtype)

    def _convolve(self, features: Tensor) -> Tensor:
        """(frames, width) with positions.

        Not batched: convolutions reach over the ends of each stream.
        """
        hidden = F.gelu(self.encoder.conv2(F.gelu(self.encoder.conv1(features.T[None]))))[0].T
        return hidden + self.encoder.embed_positions.weight[: len(hidden)]
