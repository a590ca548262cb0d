"""Speech chain of thought on one speech LLM: transcribe, then translate (StreamUni, section 3).

Every request encodes the audio that was received since the last truncation. If the encoder has
independent blocks, blocks that have not changed are encoded once, and the decoder keeps the keys
and values of the beginning of the prompt. The previous transcript of the stream is a draft of the
next transcript: the longest prefix of the draft that greedy search would also generate is verified
in one pass of the decoder. So are the tokens of the previous translation that were not written. A
translation reuses the keys and values of its transcript. No shortcut changes the generated tokens.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.architectures.chain_of_thought.data import ThoughtBatch, ThoughtCollator
from zoo.backbones.architectures.chain_of_thought.losses import answer_losses
from zoo.backbones.architectures.chain_of_thought.prompt import Template, ThoughtPrompt
from zoo.backbones.architectures.chain_of_thought.reuse import encode_changed
from zoo.backbones.architectures.chain_of_thought.state import (
    SpanTranscript,
    ThoughtState,
    encode_new,
)
from zoo.backbones.architectures.chain_of_thought.transcripts import (
    aligned_transcript,
    plain_transcript,
)
from zoo.backbones.architectures.chat_llm import ChatLLM
from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.decoding.alignment import AlignmentConfig, HeadAlignment
from zoo.backbones.decoding.batches import pick, put
from zoo.backbones.decoding.causal.aligned import AlignedBranches
from zoo.backbones.decoding.causal.branches import CausalBranches, empty_cache
from zoo.backbones.decoding.continuation import SearchContext
from zoo.backbones.decoding.early_stop import early_stop
from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.decoding.search import SearchConfig, cut_before_stop, search
from zoo.backbones.decoding.static_steps import Capture, StaticSteps
from zoo.backbones.decoding.teacher_forcing import (
    causal_logits,
    enable_checkpointing,
    gradients_if_trained,
)
from zoo.backbones.encoders.audio.spectrogram import Spectrogram, encoder_inputs
from zoo.backbones.encoders.encoder_memory import PROMPTED, encoder_memories, forget_memory
from zoo.backbones.pretrained.loading import check_sources, end_ids
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.text.spoken import Vocabularies
from zoo.backbones.text.vocabulary import containing
from zoo.base.errors import ZooError, check_numbers
from zoo.base.machine.int8 import DecoderWeights, decoder_weights_named
from zoo.base.types import Capability, Cut, Frames, Hypothesis, Request, Samples, Task
from zoo.streaming.session import Session

GREEDY = SearchConfig()


class ChainOfThought(HeadAlignment, ChatLLM, Backbone):
    """A speech LLM that generates a transcript, a separator and a translation in one answer.

    The network is one Transformers model with an audio encoder, a projector and a causal LM. A
    subclass implements ``build``, which sets ``model``, ``tokenizer`` and ``spectrogram``, and the
    abstract methods that describe its network.

    Attributes:
        noun: Name of the model in error messages.
        chat: Default strings of the prompt, in the model's published chat format.
        adapted: Regular expression of the layers that an adapter changes, see ``lora.inject``.
        model: The Transformers model; it holds all weights.
        tokenizer: The tokenizer of the causal LM.
        spectrogram: Computes the feature frames of the audio encoder.
        prompt: Builds and parses token ids.
        never: Token ids that are never generated.
        ends: Token ids that end an answer: the end of the template, and the end tokens of the
            model's generation configuration.
    """

    exposes: ClassVar[frozenset[Capability]] = PROMPTED | {Capability.TRANSCRIPT}
    trains_on: ClassVar[str] = "SpeechChainOfThoughtConfig"
    training_arguments = frozenset({"lora", "gradient_checkpointing"})
    noun: ClassVar[str]
    chat: ClassVar[Template] = Template()

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram
    prompt: ThoughtPrompt
    never: list[int]
    ends: list[int]

    def __init__(
        self,
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        embedding_std: float | None = None,
        lora: LoraConfig | None = None,
        gradient_checkpointing: bool = False,
        template: Template | None = None,
        direct: bool = False,
        draft: bool = True,
        reuse: bool = True,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        capture: Capture = "off",
        max_tokens: int = 256,
        tokens_per_second: float | None = None,
        dtype: str = "float32",
        decoder_weights: DecoderWeights = "dtype",
        words: Literal["jieba", "characters"] = "jieba",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id or folder of the weights. None initialises a network randomly from
                ``config``.
            config: Fields of the model's Transformers configuration.
            tokenizer: Hub id or folder of the tokenizer. None loads the tokenizer of ``name``.
            embedding_std: Standard deviation of randomly initialised token embeddings. None uses
                the standard deviation in the configuration.
            lora: Trainable adapter of the decoder. An adapter in ``name`` is loaded; otherwise a
                new adapter is added. None merges an adapter in ``name`` into the weights.
            gradient_checkpointing: Whether training recomputes activations instead of keeping them.
            template: Strings of the prompt. None uses the model's published chat format.
            direct: Whether the model translates without a chain of thought: its answer has no
                transcript, which no policy can then request (StreamUni, Table 5).
            draft: Whether the previous transcript is verified in one pass and continued after its
                accepted prefix, and so are the unwritten tokens of the previous translation. The
                generated tokens do not depend on this setting.
            reuse: Whether a translation reuses the keys and values of its transcript, and a
                transcript those of the beginning of the last prompt that has not changed. The
                generated tokens do not depend on this setting.
            search: Search settings of translations. Transcripts use greedy search (equation 4).
            alignment: Self-attention layers and heads that align target tokens with speech.
            capture: ``auto`` replays decoding steps as CUDA graphs on a GPU; ``static`` computes
                steps of the same fixed shapes without graphs, on any device; ``off`` does neither.
            max_tokens: Maximum number of generated tokens per transcript and per translation,
                including the separator and the end token.
            tokens_per_second: Maximum number of generated tokens per transcript and second of its
                audio (5 in the released code). None: only ``max_tokens`` limits transcripts.
            dtype: Name of the floating-point type of weights and activations.
            decoder_weights: Type of the weights that each decoding step reads: ``dtype``, or
                ``int8`` for less time per token on a CPU; trainings have no use for it.
            words: Definition of a word in a language without spaces: ``jieba`` segments the text
                with jieba, ``characters`` counts every character as a word.

        Raises:
            ZooError: If neither ``name`` nor both ``config`` and ``tokenizer`` are given, if
                ``max_tokens`` is below 1, if ``tokens_per_second`` is not above 0, or if ``dtype``
                or ``decoder_weights`` is unknown.
        """
        super().__init__()
        check_sources(self.noun, name, config, tokenizer)
        check_numbers("A chain of thought", least=1, max_tokens=max_tokens)
        check_numbers("A chain of thought", above=0, tokens_per_second=tokens_per_second)
        self.words = words
        self.name = name
        self.config = config or {}
        self.tokenizer_source = str(tokenizer or name)
        self.embedding_std = embedding_std
        self.lora = lora
        self.gradient_checkpointing = gradient_checkpointing
        self.template = self.chat if template is None else template
        self.direct = direct
        if direct:
            self.exposes = PROMPTED  # type: ignore[misc]  # the binding reads those of the instance
        self.draft = draft
        self.reuse = reuse
        self.search = search
        self.alignment = alignment
        self.steps = StaticSteps(capture)
        self.max_tokens = max_tokens
        self.tokens_per_second = tokens_per_second or math.inf
        self.dtype = dtype_named(dtype)
        self.decoder_weights = decoder_weights_named(decoder_weights)

    @abstractmethod
    def build(self) -> None:
        """Create ``model`` in ``dtype``, read weights, set ``tokenizer`` and ``spectrogram``.

        Raises:
            ZooError: If weights, configuration or tokenizer cannot be loaded.
        """

    @staticmethod
    @abstractmethod
    def prepared(frames: Tensor) -> Tensor:
        """Convert spectrogram frames (F, bins) to encoder input, without learned parameters."""

    @staticmethod
    @abstractmethod
    def embeddings(features: int) -> int:
        """Number of speech embeddings that the encoder computes from ``features`` feature frames.

        The number is 0 if the audio is too short for one embedding.
        """

    def frame_embeddings(self, samples: Samples, embeddings: int) -> Tensor:
        """Speech embedding that each source frame is aligned by.

        By default, each embedding is one frame.

        Args:
            samples: Number of samples of the encoded audio.
            embeddings: Number of its speech embeddings; 0 only of no samples.

        Returns:
            (frames,) int64 indices of embeddings.
        """
        return torch.arange(embeddings)

    @property
    def independent_frames(self) -> Frames | None:
        """Number of feature frames per block that the encoder encodes independently of all others.

        A complete block is encoded once. None: the encoder attends to all audio.
        """
        return None

    @abstractmethod
    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode features of several streams independently of each other.

        Args:
            features: Encoder input (F, bins) of each stream, with ``embeddings(F)`` of at least 1.

        Returns:
            Hidden states (T, hidden) of the last layer and of a middle layer, each as a list with
            one tensor per stream. T is ``embeddings(F)``.
        """

    @abstractmethod
    def project(self, hidden: Tensor) -> Tensor:
        """Project hidden states (..., hidden) of the last encoder layer to (..., LLM width).

        The hidden states may have another data type than the projector.
        """

    @abstractmethod
    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """Parameters of ``encoder``, ``projector`` and ``decoder``, and ``lora`` if present."""

    def load(self) -> None:
        """Build the network and its prompt.

        Raises:
            ZooError: If the network cannot be loaded, if the tokenizer lacks a special token of the
                template, if ``search.suppress`` forbids a token of the separator, or if
                ``alignment`` names a layer or head that the decoder does not have.
        """
        self.build()
        if self.gradient_checkpointing:
            enable_checkpointing(self.model)
        self.eval()
        self.vocabularies = Vocabularies(self.tokenizer, self.words)
        self.prompt = ThoughtPrompt(
            tokenizer=self.tokenizer, template=self.template, direct=self.direct
        )
        self.ends = end_ids(self.model, self.prompt.end)
        self.never = [self.prompt.audio, *containing(self.tokenizer, self.search.suppress)]
        if set(self.never) & set(self.prompt.separator):
            raise ZooError(
                f"The search suppresses tokens of the separator {self.template.separator!r}, so no "
                f"transcript could end; change search.suppress, now {list(self.search.suppress)}."
            )
        self.align_with(self.alignment)

    @property
    def attention_shape(self) -> tuple[int, int]:
        """Number of decoder layers, and of attention heads per layer."""
        config = self.decoder.model.config
        return config.num_hidden_layers, config.num_attention_heads

    def collator(self) -> ThoughtCollator:
        """The function that builds training batches from pieces of talks."""
        return ThoughtCollator(self.prompt, self.spectrogram, self.prepared, self.embeddings)

    def forward(self, batch: ThoughtBatch) -> dict[str, Tensor]:
        """Compute the teacher-forcing loss of a batch from ``collator``.

        Returns:
            Scalars: ``loss`` and ``token_accuracy`` over all tokens of the answers, ``transcript``
            (loss of transcript and separator; absent if ``direct``) and ``translation`` (loss of
            translation and end).
        """
        hidden, _ = self._encode_batch(batch.features)
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        is_speech = (batch.input_ids == self.prompt.audio)[..., None]
        speech = self.project(torch.cat(hidden)).to(embeddings.dtype)
        embeddings = embeddings.masked_scatter(is_speech, speech)

        logits, targets = causal_logits(self.decoder, batch.labels, inputs_embeds=embeddings)
        return answer_losses(logits, targets, batch)

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """Encode audio of equal length for training, without gradients if the encoder is frozen.

        Args:
            samples: Audio (batch, n).
            multiplier: Ignored, because the encoder does not process audio in chunks.

        Returns:
            Hidden states (batch, T, hidden) of the last layer and of a middle layer.
        """
        features = encoder_inputs(self.spectrogram, self.prepared, samples)
        last, middle = self._encode_batch([frames.to(samples.device) for frames in features])
        return torch.stack(last), torch.stack(middle)

    def _encode_batch(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Encode rows (F, bins) to (T, hidden) of the last and of a middle layer."""
        dtype = self.part_dtype("encoder")
        with gradients_if_trained(self.parts()["encoder"]):
            return self.encode([frames.to(dtype) for frames in features])

    def open(self, session: Session) -> ThoughtState:
        """Create the empty state of a stream, and the vocabularies of both session languages."""
        for language in (session.source_language, session.target_language):
            self.vocabularies.of(language)
        return ThoughtState(features=self.spectrogram.open())

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop encoder output and transcript of forgotten audio.

        The untranslated words of the transcript remain as the draft of the next transcript.
        """
        forget_memory(session, cut)
        if cut.frames:
            state: ThoughtState = session.backbone_state
            # A transcript starts without a space.
            state.draft = self.prompt.ids(self.text(state.untranslated()).strip())
            state.transcript, state.translated, state.unwritten = None, [], []
            state.recent.clear()

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Keep the tokens that were not written as a draft of the next translation."""
        session.backbone_state.unwritten = hypothesis.token_ids[tokens:].tolist()

    def change_context(self, session: Session) -> None:
        """Drop the transcript, which remains as the draft of the next one."""
        session.backbone_state.transcript = None

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Encode all kept audio, transcribe it once, and continue the written prefix.

        A translation request without ``transcript_ids`` uses the transcript that the model
        generated. A stream whose audio is too short for one speech embedding receives no new token.

        Args:
            sessions: The streams of the batch.
            requests: One request per stream.
            needs: Optional fields of the hypotheses; only ``ALIGNMENT`` changes the computation.

        Returns:
            One hypothesis per request: a transcript or a translation.
        """
        pairs = list(zip(sessions, requests, strict=True))
        waves = [session.visible_audio(request.audio_end) for session, request in pairs]
        speech = encoder_memories(self.encode_audio, sessions, waves)
        untranscribed = [
            index
            for index, (session, request) in enumerate(pairs)
            if (request.task is Task.TRANSCRIPTION or request.transcript_ids is None)
            and len(speech[index])
            and not self.direct
            and not session.backbone_state.current
        ]
        if untranscribed:
            self._transcribe(pick(sessions, untranscribed), pick(speech, untranscribed))

        aligned = Capability.ALIGNMENT in needs
        hypotheses = [
            self._transcript(session, embeddings, aligned=aligned)
            if request.task is Task.TRANSCRIPTION
            else self._text(session, 0).unchanged(aligned=aligned)
            for (session, request), embeddings in zip(pairs, speech, strict=True)
        ]
        translated = [
            index
            for index, request in enumerate(requests)
            if request.task is Task.TRANSLATION and len(speech[index])
        ]
        if translated:
            inputs = pick(sessions, translated), pick(requests, translated)
            decoded = self._translate(*inputs, pick(speech, translated), aligned=aligned)
            put(hypotheses, translated, decoded)
        return hypotheses

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Compute speech embeddings of the kept audio of several streams.

        Audio of the last requests is not encoded again, nor are blocks of an encoder with
        independent blocks that have not changed.

        Args:
            sessions: The streams; their cached feature frames are reused and extended.
            waves: Kept audio (n,) of each stream.

        Returns:
            Speech embeddings (T, LLM width) of each stream. T is 0 if the audio is too short for
            one embedding.
        """
        return encode_new(self._encode, sessions, waves)

    def _encode(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Compute speech embeddings of audio that no recent request had."""
        device, dtype = self.model.device, self.part_dtype("encoder")
        states: list[ThoughtState] = [session.backbone_state for session in sessions]
        spectrograms = [
            self.spectrogram.compute(state.features, wave, session.audio_start)
            for session, state, wave in zip(sessions, states, waves, strict=True)
        ]
        inputs = [self.prepared(frames).to(device, dtype) for frames in spectrograms]
        nothing = torch.zeros(0, self.decoder.model.config.hidden_size, dtype=dtype, device=device)
        return encode_changed(self, states, inputs, nothing=nothing)

    def _transcribe(self, sessions: Sequence[Session], speech: Sequence[Tensor]) -> None:
        """Store a greedy transcript of the encoded audio in the state of each stream.

        Args:
            sessions: The streams.
            speech: Speech embeddings (T, width) of each stream.
        """
        states: list[ThoughtState] = [session.backbone_state for session in sessions]
        prompts = [self._embed_opening(*pair) for pair in zip(sessions, speech, strict=True)]
        rate = self.tokens_per_second
        limits = [math.ceil(min(self.max_tokens, rate * state.seconds)) for state in states]
        drafts = [
            state.verifiable(self.prompt.separator, limit) if self.draft else []
            for state, limit in zip(states, limits, strict=True)
        ]
        empty = empty_cache(self.decoder)
        begun = [state.begun(prompt, empty) for state, prompt in zip(states, prompts, strict=True)]
        branches = CausalBranches(
            self.decoder,
            begun,
            [prompt[text.num_cached :] for prompt, text in zip(prompts, begun, strict=True)],
            drafts=drafts,
            steps=self.steps,
        )
        answers = search(
            branches,
            GREEDY,
            contexts=[SearchContext([], []) for _ in states],
            limits=limits,
            ends=self.ends,
            never=self.never,
            stops=[lambda tokens: self.prompt.transcribed(tokens) is not None] * len(states),
            drafts=branches,
        )

        for index, (state, answer) in enumerate(zip(states, answers, strict=True)):
            opening = branches.prefilled(index) if self.reuse else None
            # Without independent frames, new audio changes the embeddings of all speech.
            prompt = prompts[index] if self.independent_frames else None
            state.store(answer, self.prompt.transcribed(answer.tokens), opening, prompt)

    def _transcript(self, session: Session, speech: Tensor, *, aligned: bool) -> Hypothesis:
        """The transcript of the kept audio; empty if the audio is too short for one embedding."""
        current: SpanTranscript | None = session.backbone_state.current
        vocabulary = self.vocabularies.of(session.source_language)
        transcript = plain_transcript(current, vocabulary, self.text)
        if not aligned:
            return transcript
        prompt = self._embed_opening(session, speech)
        samples = session.backbone_state.span[1] if len(speech) else 0
        positions = self.prompt.speech + self.frame_embeddings(samples, len(speech))
        return aligned_transcript(self, transcript, prompt, positions)

    def _translate(
        self,
        sessions: Sequence[Session],
        requests: Sequence[Request],
        speech: Sequence[Tensor],
        *,
        aligned: bool,
    ) -> list[Hypothesis]:
        """Generate translations after transcript, separator and written prefix.

        Args:
            sessions: The streams.
            requests: One translation request per stream.
            speech: Speech embeddings (T, width) of each stream.
            aligned: Whether the hypotheses contain an alignment with the source frames.
        """
        embeddings_of_frames = [
            self.frame_embeddings(session.backbone_state.span[1], len(embeddings))
            for session, embeddings in zip(sessions, speech, strict=True)
        ]
        counts = map(len, embeddings_of_frames)
        texts = [self._text(*pair) for pair in zip(sessions, counts, strict=True)]
        streams = zip(sessions, requests, speech, texts, strict=True)
        pairs = [self._prompt_and_cache(*stream) for stream in streams]
        prompts, caches = zip(*pairs, strict=True)
        stops = [
            text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
        ]
        has_drafts = self.draft and self.search.beams == 1 and not aligned
        branches = AlignedBranches(
            self.decoder,
            prompts,
            prefixes=[len(text.prefix) for text in texts],
            speech=[self.prompt.speech + embeddings for embeddings in embeddings_of_frames],
            heads=self.heads if aligned else None,
            caches=caches,
            drafts=[
                cut_before_stop(session.backbone_state.unwritten, stop) if has_drafts else []
                for session, stop in zip(sessions, stops, strict=True)
            ],
            steps=self.steps,
        )
        alignment = self.alignment if aligned else None
        answers = search(
            branches,
            self.search,
            contexts=[SearchContext(text.prefix, text.prefix) for text in texts],
            limits=[self.max_tokens] * len(texts),
            ends=self.ends,
            never=self.never,
            stops=stops,
            stop_marks=early_stop(branches, alignment, requests, texts, beams=self.search.beams),
            drafts=branches,
        )
        return branches.hypotheses(texts, answers, limit=self.max_tokens, alignment=alignment)

    def _prompt_and_cache(
        self, session: Session, request: Request, speech: Tensor, text: PartialText
    ) -> tuple[Tensor, Tensor | None]:
        """Choose the part of a translation prompt that the decoder has not processed yet.

        Args:
            session: The stream.
            request: The translation request; its transcript is stored in the state.
            speech: Speech embeddings (T, width).
            text: The written prefix.

        Returns:
            Embeddings (n, width) to feed, and the cached keys and values before them. The cache is
            None if the whole prompt has to be fed.
        """
        opening = self._embed_opening(session, speech)
        if self.direct:
            return torch.cat([opening, self._embed(text.prefix)]), None

        state: ThoughtState = session.backbone_state
        current = state.current
        if request.transcript_ids is None:
            assert current is not None
            state.translated = current.ids
        else:
            state.translated = request.transcript_ids.tolist()

        ids = [*state.translated, *self.prompt.separator, *text.prefix]
        if current is None or current.cache is None or current.ids != state.translated:
            return torch.cat([opening, self._embed(ids)]), None
        cached_answer_length = current.cache.shape[3] - len(opening)
        return self._embed(ids[cached_answer_length:]), current.cache

    def _embed_opening(self, session: Session, speech: Tensor) -> Tensor:
        """Embed the prompt before the answer as (n, width), with the speech embeddings inserted."""
        ids = self.prompt.opening(len(speech), session.target_language, session.context)
        embeddings = self._embed(ids)
        embeddings[self.prompt.speech :][: len(speech)] = speech.to(embeddings)
        return embeddings

    def _embed(self, ids: list[int]) -> Tensor:
        """Embed n token ids as (n, width)."""
        layer = self.decoder.get_input_embeddings()
        embeddings: Tensor = layer(torch.tensor(ids, dtype=torch.long, device=layer.weight.device))
        return embeddings

    def _text(self, session: Session, frames: int) -> PartialText:
        """The written prefix of a translation of ``frames`` source frames."""
        return PartialText(
            opening=[],
            prefix=session.prefix_ids.tolist(),
            vocabulary=self.vocabularies.of(session.target_language),
            frames=frames,
        )
