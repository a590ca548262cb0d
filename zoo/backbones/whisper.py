"""Whisper (Radford et al., 2023): transcription, and translation into English.

The weights are read from the Hugging Face hub or from a folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizer,
)

from zoo.backbones.architectures.encoder_decoder.branches import EncoderDecoderBranches
from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.architectures.encoder_decoder.encoder_decoder import EncoderDecoder
from zoo.backbones.architectures.encoder_decoder.layers import CrossMemory
from zoo.backbones.decoding.alignment import AlignmentConfig
from zoo.backbones.decoding.batches import pick, put
from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.decoding.search import SearchConfig
from zoo.backbones.encoders.audio.spectrogram import (
    HOP,
    WINDOW,
    CentredSpectrogram,
    whisper_features,
)
from zoo.backbones.encoders.encoder_memory import EncodedStreamState
from zoo.backbones.pretrained.loading import (
    alignment_heads,
    check_extractor,
    check_tokenizer,
    control_id,
    load_network,
    load_part,
    model_type,
    run_layers,
)
from zoo.backbones.pretrained.silence import SilenceCache
from zoo.backbones.text.vocabulary import control_tokens
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import DETECTED, Language, language
from zoo.base.types import (
    SAMPLE_RATE,
    Capability,
    Context,
    Cut,
    Hypothesis,
    Request,
    Samples,
    Seconds,
    StreamEvent,
    Task,
)
from zoo.streaming.session import Session

SPAN_SECONDS = 30  # longest input of the encoder; in training, every input had this length
SPAN: Samples = SPAN_SECONDS * SAMPLE_RATE
FEATURES_PER_FRAME = 2  # spectrogram frames per encoder frame: the second convolution has stride 2

LONGEST_PROMPT = 223  # tokens: half of the decoder's positions less one

SEARCH = SearchConfig(loop_copies=3)

# The defaults of SimulStreaming
ALIGNMENT = AlignmentConfig(normalisation="z_score_past", median_filter=7, average="last")


@dataclass(slots=True)
class WhisperState(EncodedStreamState):
    """State of one stream between requests.

    Attributes:
        dropped_ids: Newest ids of the emitted text that a history has dropped, for the prompt.
        known_ids: Ids of the context of the talk in prompts, by the task of the request.
    """

    dropped_ids: list[int] = field(default_factory=list)
    known_ids: Mapping[Task, list[int]] = field(default_factory=dict)


class Whisper(EncoderDecoder):
    """An encoder-decoder that transcribes speech or translates it into English.

    The backbone transcribes if source and target language are equal. Otherwise, the target language
    must be English.

    The default search is greedy, as in SimulStreaming. The default alignment is SimulStreaming's,
    too: each head's cross-attention is z-scored over the tokens so far and median-filtered over 7
    encoder frames; then the heads are averaged. SimulStreaming's own history is not reproduced: it
    drops the oldest chunk after 30 s, with its words.

    Attributes:
        start: Id of the token that begins every decoder input.
        end: Id of the token that ends a text.
        languages: Ids of the language tokens, by token (``<|en|>``).
        tasks: Ids of the task tokens, by task (``transcribe``, ``translate``).
        without_timestamps: Id of the token that switches timestamps off; None if the model has no
            such token.
        no_speech_id: Id of the token that stands for audio without speech; None without one.
        prompt_start: Id of the token before a prompt of earlier text; None without one.
        prompt_ids: Ids of the constant text before every translation.
        multilingual: Whether the model supports languages other than English.
    """

    exposes: ClassVar[frozenset[Capability]] = EncoderDecoder.exposes | {
        Capability.TRANSCRIPT,
        Capability.CONTEXT,
    }
    frame_samples = FEATURES_PER_FRAME * HOP  # 20 ms
    longest_input = SPAN
    guarded = True
    detects_language = True
    knob_values: ClassVar[Mapping[str, Sequence[int]]] = {"policy.frames": (12, 25, 50, 75)}

    def __init__(
        self,
        *,
        name: str,
        padding_seconds: Seconds | None = None,
        cached_silence: bool = False,
        search: SearchConfig = SEARCH,
        alignment: AlignmentConfig = ALIGNMENT,
        prompt: str = "",
        prompt_tokens: int = 0,
        no_speech: float = 0.6,
        detection_seconds: Seconds = 5.0,
        **options: Any,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id (openai/whisper-large-v3) or folder of the model.
            padding_seconds: Silence that is encoded after the kept audio. null: up to 30 s, as in
                training, or 1 s with cached_silence. With less, encoding takes a fraction of the
                time, but without cached_silence the inputs are shorter than in training.
            cached_silence: Whether the rest of the 30 s has the keys and values of an input of
                silence alone (ours); see ``SilenceCache``.
            search: Beam search and repetition settings. By default a loop ends an answer.
            alignment: Settings of the alignment of target tokens with encoder frames. heads=null
                selects the alignment heads that the model's generation_config.json lists. If the
                file lists no alignment heads, heads=null selects all heads of the upper half of the
                decoder's layers, as in OpenAI's code.
            prompt: Text such as names and terms that precedes every translation after
                ``<|startofprev|>``, as if it had been written before (SimulStreaming's static
                prompt). It is written in the target language.
            prompt_tokens: Largest number of the newest dropped target tokens that precede the
                opening as a prompt, after ``prompt`` (the condition on previous text of
                the paper's section 4.5; SimulStreaming's context). 0: no prompt. Half of the
                decoder's 448 positions less one, 223, is OpenAI's limit, for both prompts together.
            no_speech: Nothing is generated if the probability of ``<|nospeech|>`` after the start
                token is above this threshold (0.6 in the paper's section 4.5, which also requires a
                low probability of the text; SimulStreaming has the probability alone, off by
                default). 1: never.
            detection_seconds: Kept audio from which the language of the speech is detected, with
                source_language=auto. No word is written before, unless the audio ends.
            options: Other arguments of ``EncoderDecoder``.

        Raises:
            ZooError: If a number is out of range or ``dtype`` is unknown.
        """
        super().__init__(search=search, alignment=alignment, **options)
        check_numbers("Whisper", least=0, most=LONGEST_PROMPT, prompt_tokens=prompt_tokens)
        check_numbers("Whisper", least=0, most=1, no_speech=no_speech)
        check_numbers("Whisper", least=0, most=SPAN_SECONDS, detection_seconds=detection_seconds)
        self.name = name
        check_numbers("Whisper", least=0, padding_seconds=padding_seconds)
        self.cached_silence = cached_silence
        if padding_seconds is None:
            padding_seconds = 1.0 if cached_silence else SPAN_SECONDS
        self.padding: Samples = round(padding_seconds * SAMPLE_RATE)
        self.prompt = prompt
        self.prompt_tokens = prompt_tokens
        self.no_speech = no_speech
        self.detection_samples: Samples = round(detection_seconds * SAMPLE_RATE)

    def build(self) -> None:
        """Read network, tokenizer and feature extractor.

        Raises:
            ZooError: If a file is missing or unreadable, the model is not a Whisper, or the feature
                extractor or the tokenizer does not fit the network.
        """
        model_type(self.name, accepted=("whisper",), noun="Whisper")
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
        self.silence = SilenceCache(self.encoder, self._convolve, self._project)
        self._configure(network.generation_config)
        self._check_ids(network.proj_out.out_features)
        special_tokens = {str(self.tokenizer.eos_token): self.end} | self.languages
        check_tokenizer(
            self.tokenizer, self.name, scores=network.proj_out.out_features, tokens=special_tokens
        )

    def _configure(self, generation: Any) -> None:
        """Take control ids, suppressed ids and alignment heads from the generation config.

        Args:
            generation: Contents of the model's generation_config.json.

        Raises:
            ZooError: If the model is multilingual and the file lists no languages or no tasks.
        """
        self.start = control_id(generation, "decoder_start_token_id", self.name)
        self.end = control_id(generation, "eos_token_id", self.name)
        fields = generation.to_dict()
        self.languages: dict[str, int] = fields.get("lang_to_id") or {}
        self.tasks: dict[str, int] = fields.get("task_to_id") or {}
        self.without_timestamps: int | None = fields.get("no_timestamps_token_id")
        self.multilingual = bool(fields.get("is_multilingual", self.languages))
        if self.multilingual and not (self.languages and self.tasks):
            raise ZooError(
                f"The generation_config.json of {self.name} lists no languages and tasks "
                "(lang_to_id, task_to_id); take it from the Whisper on the hub that this one "
                "comes from."
            )
        controls = control_tokens(self.tokenizer)
        # Older generation configs suppress some control tokens only, or none.
        suppressed = {*(fields.get("suppress_tokens") or []), *controls.values()}
        self.never = sorted(suppressed - {self.end})
        self.never_first = list(fields.get("begin_suppress_tokens") or [])

        self.no_speech_id = controls.get("<|nospeech|>", controls.get("<|nocaptions|>"))
        self.prompt_start = controls.get("<|startofprev|>")
        self._set_prompt()

        if self.alignment.heads is None:
            heads = alignment_heads(fields, *self.attention_shape)
            self.alignment = replace(self.alignment, heads=heads)

    def _check_ids(self, scores: int) -> None:
        """Raise ZooError for an id in the generation config that the network has no score for."""
        ids = [*self.tasks.values(), *self.never, *self.never_first, self.without_timestamps or 0]
        if wrong := [one for one in ids if one >= scores]:
            raise ZooError(
                f"The generation_config.json of {self.name} names the token {wrong[0]}; the "
                f"network has {scores}."
            )

    def _set_prompt(self) -> None:
        """Tokenize the constant prompt.

        Raises:
            ZooError: If the model has no prompts, or the prompt is too long.
        """
        if (self.prompt or self.prompt_tokens) and self.prompt_start is None:
            raise ZooError(
                f"The tokenizer of {self.name} has no <|startofprev|>, which a prompt of earlier "
                "text needs; set backbone.prompt_tokens=0 and no backbone.prompt."
            )
        self.prompt_ids = self._written(self.prompt)
        if len(self.prompt_ids) + self.prompt_tokens > LONGEST_PROMPT:
            raise ZooError(
                f"backbone.prompt has {len(self.prompt_ids)} tokens; with "
                f"backbone.prompt_tokens={self.prompt_tokens} at most "
                f"{LONGEST_PROMPT - self.prompt_tokens} are possible."
            )

    def open(self, session: Session) -> WhisperState:
        """Create the empty state of a new stream; see ``EncoderDecoder.open``.

        Raises:
            ZooError: The terms of the context do not fit into the prompt.
        """
        known_ids = {task: self._known_ids(session.context, task) for task in Task}
        return WhisperState(features=super().open(session).features, known_ids=known_ids)

    def change_context(self, session: Session) -> None:
        """Replace the ids of the context; see ``open``."""
        state: WhisperState = session.backbone_state
        state.known_ids = {task: self._known_ids(session.context, task) for task in Task}

    def _known_ids(self, context: Context, task: Task) -> list[int]:
        """Return the ids of a context as if it had been written before, in the language of a task.

        Raises ZooError if the model has no prompts, or if the terms do not fit. A text is in the
        language of the translation, and its end is left out if it does not fit.
        """
        if not context:
            return []
        if self.prompt_start is None:
            raise ZooError(
                f"The tokenizer of {self.name} has no <|startofprev|>, which a context needs; set "
                "context=none."
            )
        is_transcript = task is Task.TRANSCRIPTION
        terms = [term.source if is_transcript else term.target for term in context.terms]
        term_ids = self._written(", ".join(dict.fromkeys(terms)))
        taken = 0 if is_transcript else len(self.prompt_ids) + self.prompt_tokens
        room = LONGEST_PROMPT - taken - len(term_ids)
        if room < 0:
            raise ZooError(
                f"The {len(terms)} terms of context.path have {len(term_ids)} tokens; the prompt "
                f"of Whisper has room for {LONGEST_PROMPT - taken}. Leave out terms."
            )
        text_ids = [] if is_transcript else self._written(context.text)
        return [*text_ids[:room], *term_ids]

    def _written(self, text: str) -> list[int]:
        """Return the ids of a text after a space, with special tokens as plain text."""
        if not text.strip():
            return []
        options = {"add_special_tokens": False, "split_special_tokens": True}
        return list(self.tokenizer(f" {text.strip()}", **options)["input_ids"])

    def forget(self, session: Session, cut: Cut) -> None:
        """Keep dropped text for the prompt, and drop the encoder output of dropped audio."""
        super().forget(session, cut)
        if self.prompt_tokens and cut.tokens:
            state: WhisperState = session.backbone_state
            dropped = session.prefix_ids[: cut.tokens].tolist()
            state.dropped_ids = [*state.dropped_ids, *dropped][-self.prompt_tokens :]

    def context(self, session: Session, task: Task) -> list[int]:
        """Return the prompt: the context of the talk, and for translations what they follow."""
        state: WhisperState = session.backbone_state
        earlier = [*state.known_ids[task]]
        if task is Task.TRANSLATION:
            earlier = [*self.prompt_ids, *earlier, *state.dropped_ids]
        if not earlier or self.prompt_start is None:
            return []
        return [self.prompt_start, *earlier]

    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Decode, and once more the streams whose language has been detected thereby.

        See ``EncoderDecoder.decode``.
        """
        unknown = [stream for stream, one in enumerate(sessions) if one.source_language is DETECTED]
        hypotheses = super().decode(sessions, requests, needs)
        detected = [s for s in unknown if sessions[s].source_language is not DETECTED]
        if detected:
            inputs = pick(sessions, detected), pick(requests, detected)
            put(hypotheses, detected, super().decode(*inputs, needs))
        return hypotheses

    def silent(
        self,
        branches: EncoderDecoderBranches,
        sessions: Sequence[Session],
        texts: Sequence[PartialText],
    ) -> frozenset[int]:
        """Return the streams whose probability of no speech is above ``no_speech``.

        The other streams whose language is unknown get it, and have no text yet either: their
        opening ends before the token of the language. The probability is that after the start
        token (SimulStreaming: after the first token, even of a prompt).
        """
        has_threshold = self.no_speech_id is not None and self.no_speech < 1
        silent = set()
        for stream, (session, text) in enumerate(zip(sessions, texts, strict=True)):
            is_unknown = session.source_language is DETECTED
            if not has_threshold and not is_unknown:
                continue
            first = branches.probabilities(stream, text.opening.index(self.start))
            has_speech = not has_threshold or bool(first[self.no_speech_id] <= self.no_speech)
            if is_unknown and has_speech:
                self._detect_language(session, first)
            if is_unknown or not has_speech:
                silent.add(stream)
        return frozenset(silent)

    def _detect_language(self, session: Session, first: Tensor) -> None:
        """Set the source language of a stream with enough audio to the most probable language.

        Args:
            session: The stream.
            first: (vocabulary,) probabilities of the token after the start token.
        """
        if len(session.visible_audio()) < self.detection_samples and not session.must_flush:
            return
        token = max(self.languages, key=lambda name: float(first[self.languages[name]]))
        session.source_language = language(token.strip("<|>"))
        at = session.received_samples / SAMPLE_RATE
        session.events.append(StreamEvent("language", at, text=session.source_language.code))

    def opening(self, session: Session, task: Task) -> list[int]:
        """Return the control ids before the text: start, source language, task, no timestamps.

        An English-only model has no tokens of languages and tasks. An unknown language ends the
        opening.

        Args:
            session: Stream whose languages are used.
            task: Whether the text is a translation or a transcript.

        Raises:
            ZooError: If the model does not support the session's languages.
        """
        is_transcript = (
            task is Task.TRANSCRIPTION or session.source_language == session.target_language
        )
        self._check_supported(session)
        if session.source_language is DETECTED:
            return [self.start]
        if not is_transcript:
            self.check_languages(session.source_language, session.target_language)

        ids = [self.start]
        if self.multilingual:
            ids.append(self.languages[f"<|{session.source_language.code}|>"])
            ids.append(self.tasks["transcribe" if is_transcript else "translate"])
        if self.without_timestamps is not None:
            ids.append(self.without_timestamps)
        return ids

    def check_languages(self, source: Language, target: Language) -> None:
        """Raise ZooError unless the text is English or a transcript."""
        if target.code in ("en", source.code):
            return
        if source is DETECTED:
            choice = ""
        elif source.code == "en":
            choice = " for a transcript"
        else:
            choice = f" or target_language={source.code} for a transcript"
        raise ZooError(
            f"Whisper translates into English only, not {source.code}-{target.code}; choose "
            f"target_language=en{choice}."
        )

    def _check_supported(self, session: Session) -> None:
        """Raise ZooError unless the model supports the session's languages."""
        source = session.source_language.code
        target = session.target_language.code
        if not self.multilingual and (source, target) != ("en", "en"):
            raise ZooError(
                f"{self.name} supports English only, not {source}-{target}; choose "
                "source_language=en and target_language=en, or a multilingual Whisper."
            )
        is_known = session.source_language is DETECTED or f"<|{source}|>" in self.languages
        if self.multilingual and not is_known:
            codes = ", ".join(sorted(language.strip("<|>") for language in self.languages))
            raise ZooError(
                f"{self.name} does not support {session.source_language.name}; choose "
                f"source_language from: {codes}."
            )

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Encode the kept audio of streams.

        Inputs of 30 s are encoded as one batch. Of shorter ones, only the layers after the
        convolutions are batched.

        Args:
            sessions: The streams.
            waves: Audio of each stream, (n,) samples at 16 kHz.

        Returns:
            Encoder output of each stream, (frames, width), in frames of 20 ms: 1500 frames, or
            ``ceil(n / 320)`` for n samples of wave and padding without cached silence.

        Raises:
            ZooError: If a wave is longer than 30 s.
        """
        inputs = [
            self._features(session, wave) for session, wave in zip(sessions, waves, strict=True)
        ]
        if self.cached_silence:
            frames = [self._frames(len(wave) + self.padding) for wave in waves]
            encoded = [self.silence.encode(*one) for one in zip(inputs, frames, strict=True)]
            for session, (_, known) in zip(sessions, encoded, strict=True):
                session.backbone_state.known = known
            return [output for output, _ in encoded]
        if all(len(features) == SPAN // HOP for features in inputs):
            return list(self.encoder(torch.stack(inputs).transpose(1, 2)).last_hidden_state)
        hidden = [self._convolve(features) for features in inputs]
        return run_layers(self.encoder.layers, self.encoder.layer_norm, self.encoder.config, hidden)

    def _features(self, session: Session, wave: Tensor) -> Tensor:
        """Log-mel frames of one wave (n,), padded or cut to the encoder's input: (frames, bins)."""
        if len(wave) > SPAN:
            raise ZooError(
                f"Whisper encodes at most {SPAN_SECONDS} s at once, but "
                f"{len(wave) / SAMPLE_RATE:g} s are kept; choose a history that forgets; its "
                f"max_seconds must leave room for one chunk within {SPAN_SECONDS} s."
            )
        frames = self._frames(len(wave) + self.padding)
        span = SPAN if self.cached_silence else min(frames * self.frame_samples, SPAN)
        features = self.spectrogram.compute(
            session.backbone_state.features, wave, session.audio_start
        )
        return whisper_features(features, span // HOP).to(self.encoder.conv1.weight)

    def _project(self, output: Tensor) -> CrossMemory:
        """Return the cross-attention keys and values of one encoder output (frames, width)."""
        return self.decoder.project_memories([output])

    def _convolve(self, features: Tensor) -> Tensor:
        """Apply the convolutions and add position embeddings: (features, bins) to (frames, width).

        Streams are convolved one by one, since the convolutions of a padded batch would mix the end
        of a stream with its padding.
        """
        channels = features.T[None]  # (1, bins, features)
        channels = F.gelu(self.encoder.conv1(channels))  # (1, width, features)
        channels = F.gelu(self.encoder.conv2(channels))  # (1, width, frames)
        hidden = channels[0].T  # (frames, width)
        positions: Tensor = self.encoder.embed_positions.weight[: len(hidden)]
        return hidden + positions
