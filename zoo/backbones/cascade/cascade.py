"""A cascade: one network transcribes, and a text LLM translates (StreamUni, section 4.2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.architectures.chat_llm import ChatLLM
from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.cascade import translator
from zoo.backbones.cascade.data import CascadeCollator, TextBatch
from zoo.backbones.cascade.prompt import (
    CascadePrompt,
    PrefixPlace,
    PromptFields,
    Template,
    check_texts,
)
from zoo.backbones.cascade.timed import SourceTokens, TimedTranscript
from zoo.backbones.cascade.transcriber import (
    CascadeState,
    check_transcriber,
    committed_transcript,
    known_transcript,
    transcribe,
    transcriber_session,
    why_unaligned,
)
from zoo.backbones.decoding.alignment import AlignmentConfig, HeadAlignment
from zoo.backbones.decoding.batches import pick, put
from zoo.backbones.decoding.causal.aligned import AlignedBranches
from zoo.backbones.decoding.causal.branches import CausalBranches
from zoo.backbones.decoding.continuation import Answer, SearchContext, StopMarks
from zoo.backbones.decoding.early_stop import early_stop
from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.backbones.decoding.teacher_forcing import causal_logits, enable_checkpointing, token_losses
from zoo.backbones.encoders.encoder_memory import PROMPTED
from zoo.backbones.pretrained import lora as adapters
from zoo.backbones.pretrained.loading import end_ids, load_tokenizer
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.text.spoken import Vocabularies
from zoo.backbones.text.vocabulary import containing
from zoo.base.errors import check_choice, check_numbers
from zoo.base.languages import Language
from zoo.base.machine.int8 import DecoderWeights, decoder_weights_named
from zoo.base.types import Capability, Cut, Hypothesis, Request, Task
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream

TRANSCRIBER_TARGETS = ("source", "target")
TRANSCRIPTS = ("latest", "committed")


class Cascade(HeadAlignment, ChatLLM, Backbone):
    """A backbone that combines a transcriber and a translator.

    The transcriber is any backbone that exposes ``TRANSCRIPT`` and ``AUDIO_TRIMMING``. The
    translator is a text LLM that receives the transcript and the translation written so far. Only
    the translator is trained.

    If the transcriber also exposes ``ALIGNMENT``, so does the cascade, except with ``prefix_place``
    ``prompt``: the translator's self-attention aligns target tokens with tokens of the transcript,
    and the transcriber aligns these with frames (see ``timed``).

    Attributes:
        transcriber: The backbone that transcribes the audio.
        translator: The causal LM that translates transcripts.
        tokenizer: The tokenizer of the translator.
        prompt: Builds the prompts of the translator.
        never: Token ids that the translator never generates.
        ends: Token ids that end an answer of the translator.
        vocabularies: Word boundaries of the tokenizer by language.
    """

    trains_on = "ExcerptConfig"
    exposes: ClassVar[frozenset[Capability]] = PROMPTED | {Capability.TRANSCRIPT}
    chat: ClassVar[Template] = Template()
    adapted = translator.ADAPTED
    hub_task = "translation"  # an export has the translator
    training_arguments = frozenset({"lora", "gradient_checkpointing", "plain"})

    transcriber: Backbone
    translator: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompt: CascadePrompt
    never: list[int]
    ends: list[int]
    vocabularies: Vocabularies

    def __init__(
        self,
        *,
        transcriber: Backbone,
        name: str | None,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        template: Template = Template(),  # noqa: B008 (frozen)
        prefix_place: PrefixPlace = "prompt",
        transcriber_target: Literal["source", "target"] = "source",
        transcript: Literal["latest", "committed"] = "latest",
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(layer="all"),  # noqa: B008 (frozen)
        max_tokens: int = 200,
        dtype: str = "float32",
        decoder_weights: DecoderWeights = "dtype",
        plain: float = 0.0,
        lora: LoraConfig | None = None,
        gradient_checkpointing: bool = False,
    ) -> None:
        """Configure both networks; ``load`` reads weights.

        Args:
            transcriber: The backbone that transcribes the audio.
            name: Hub id or folder of the translator. None initialises a translator randomly from
                ``config``.
            config: Fields of the translator's Transformers configuration.
            tokenizer: Hub id or folder of the tokenizer. None loads the tokenizer of ``name``.
            template: Strings of the translator's prompt.
            prefix_place: Place of the translation written so far: ``prompt`` (in the instruction),
                ``answer`` (at the beginning of the answer) or ``both``. With ``prompt``, written
                tokens have no attention of their own, so that nothing is aligned.
            transcriber_target: Target language of the transcriber's session. ``source`` selects the
                source language; Whisper then transcribes. ``target`` selects the target language,
                for a transcriber whose instruction contains the target language.
            transcript: Text that is translated if the policy gives no transcript. ``latest``: the
                transcript of all kept audio. ``committed``: the words on which two consecutive
                transcripts agree, which are never revised, and the whole transcript at the end of
                the source or of a segment (the source of SimulStreaming's translator; see
                ``committed``). It begins anew when audio is forgotten.
            search: Search settings of translations.
            alignment: Self-attention layers and heads of the translator that align target tokens
                with the tokens of the transcript.
            max_tokens: Maximum number of generated tokens per translation, including the end token.
            dtype: Name of the floating-point type of the translator's weights and activations.
            decoder_weights: Type of the weights that each step of the translator reads: ``dtype``,
                or ``int8`` for less time per token on a CPU; trainings have no use for it.
            plain: Share, from 0 to 1, of training transcripts without case and punctuation.
            lora: Trainable adapter of the translator. An adapter in ``name`` is loaded; otherwise a
                new adapter is added. None merges an adapter in ``name`` into the weights.
            gradient_checkpointing: Whether training recomputes activations instead of keeping them.

        Raises:
            ZooError: If ``transcriber`` lacks a needed capability, if ``prefix_place``,
                ``transcriber_target``, ``transcript``, ``dtype`` or ``decoder_weights`` is unknown,
                if the instruction lacks {translation} and ``prefix_place`` is not ``answer``, if
                ``max_tokens`` or ``plain`` is out of range, or if neither ``name`` nor
                ``tokenizer`` is given.
        """
        super().__init__()
        check_transcriber(transcriber)
        check_choice("value of prefix_place", prefix_place, get_args(PrefixPlace))
        check_choice("transcriber_target", transcriber_target, TRANSCRIBER_TARGETS)
        check_choice("value of transcript", transcript, TRANSCRIPTS)
        check_numbers("A cascade", least=1, max_tokens=max_tokens)
        check_numbers("A cascade", least=0, most=1, plain=plain)
        check_texts(template, prefix_place, tokenizer if name is None else name)
        self.transcriber = transcriber
        self.frame_samples = transcriber.frame_samples
        self.longest_input = transcriber.longest_input
        self.name = name
        self.config = config
        self.tokenizer_source = str(name if tokenizer is None else tokenizer)
        self.template = template
        self.prefix_place = prefix_place
        self.transcriber_target = transcriber_target
        self.transcript = transcript
        self.search = search
        self.alignment = alignment
        self.max_tokens = max_tokens
        self.dtype = dtype_named(dtype)
        self.decoder_weights = decoder_weights_named(decoder_weights)
        self.plain = plain
        self.lora = lora
        self.gradient_checkpointing = gradient_checkpointing
        if reason := why_unaligned(transcriber, prefix_place):
            self.exposes = type(self).exposes - {Capability.ALIGNMENT}  # type: ignore[misc]
            self.unexposed = {Capability.ALIGNMENT: reason}

    @property
    def decoder(self) -> Any:
        """The translator, which is a causal LM."""
        return self.translator

    @property
    def model(self) -> PreTrainedModel:  # type: ignore[override]
        """The translator, which an export contains."""
        return self.translator

    @property
    def attention_shape(self) -> tuple[int, int]:
        """Number of layers of the translator, and of attention heads per layer."""
        config = self.translator.config
        return config.num_hidden_layers, config.num_attention_heads

    def check_languages(self, source: Language, target: Language) -> None:
        """Raise ZooError unless the transcriber supports its languages."""
        self.transcriber.check_languages(source, self._transcriber_target(source, target))

    def _transcriber_target(self, source: Language, target: Language) -> Language:
        """Return the target language of the transcriber's session."""
        return source if self.transcriber_target == "source" else target

    def int8_layers(self) -> Iterable[nn.Module]:
        """Return the linear layers of both decoders, of each if it gets int8 weights."""
        return chain(self.transcriber.int8_layers(), super().int8_layers())

    def unnamed_weights(self) -> str | None:
        """Return the argument of the translator or the transcriber that names no weights."""
        if (argument := self.transcriber.unnamed_weights()) is not None:
            return f"transcriber.{argument}"
        return super().unnamed_weights()

    def load(self) -> None:
        """Load transcriber, translator and tokenizer.

        The translator's configuration and tokenizer are checked before any weights are read.

        Raises:
            ZooError: If weights, configuration or tokenizer cannot be loaded, or if ``alignment``
                names a layer or head that the translator does not have.
        """
        translator.check(self.name, self.config)
        self.tokenizer = load_tokenizer(self.tokenizer_source)
        self.prompt = CascadePrompt(
            tokenizer=self.tokenizer, template=self.template, prefix_place=self.prefix_place
        )
        self.vocabularies = Vocabularies(self.tokenizer, "jieba")
        self.transcriber.load()
        self.translator = translator.build(
            self.name, self.config, tokenizer=self.tokenizer, dtype=self.dtype, lora=self.lora
        )
        if self.gradient_checkpointing:
            enable_checkpointing(self.translator)
        self.ends = end_ids(self.translator, self.prompt.end)
        special_ids = set(self.tokenizer.added_tokens_decoder) - set(self.ends)
        self.never = [*sorted(special_ids), *containing(self.tokenizer, self.search.suppress)]
        self.align_with(self.alignment)
        self.eval()

    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """Parameters of ``transcriber`` and ``translator``, and of ``lora`` if it is set."""
        parts = dict(super().parts())
        if self.lora is not None:
            parts["translator"] = adapters.others(self.translator)
            parts["lora"] = adapters.parameters(self.translator)
        return parts

    def exported_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Constructor arguments of an exported cascade, without the transcriber's weights.

        The path of the transcriber's weights is None, because an export contains the translator
        only.
        """
        transcriber = dict(arguments["transcriber"])
        weights_argument = "checkpoint" if "checkpoint" in transcriber else "name"
        transcriber[weights_argument] = None
        return {**super().exported_arguments(arguments), "transcriber": transcriber}

    def transcript_text(self, token_ids: list[int]) -> str:
        """Detokenise ids of a transcript by the transcriber."""
        return self.transcriber.transcript_text(token_ids)

    def open(self, session: Session) -> CascadeState:
        """Create the empty state of a stream, with a session for the transcriber.

        Raises:
            ZooError: If the transcriber does not support the source language.
        """
        target = self._transcriber_target(session.source_language, session.target_language)
        transcribing = Session(
            talk=session.talk,
            source_language=session.source_language,
            target_language=target,
            frame_samples=self.frame_samples,
            text_stream=TextStream(decode=self.transcriber.text, separator=target.separator),
            latency_multiplier=session.latency_multiplier,
            segments=session.segments,
            context=session.context,
        )
        transcribing.backbone_state = self.transcriber.open(transcribing)
        return CascadeState(transcribing)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Transcribe audio that is not transcribed yet, then translate the transcripts.

        A translation request without ``transcript_ids`` uses the transcript of the visible audio.

        Args:
            sessions: The streams of the batch.
            requests: One request per stream.
            needs: Optional fields of the hypotheses; only ``ALIGNMENT`` changes the computation.

        Returns:
            One hypothesis per request: a transcript or a translation.

        Raises:
            ValueError: If ``transcript_ids`` of a request differ from every transcript that was
                returned since audio was last forgotten.
        """
        aligned = Capability.ALIGNMENT in needs
        needs_transcript = [
            index
            for index, request in enumerate(requests)
            if request.task is Task.TRANSCRIPTION or request.transcript_ids is None
        ]
        hypotheses = transcribe(
            self.transcriber, sessions, requests, needs_transcript, aligned=aligned
        )

        translated = [
            index for index, request in enumerate(requests) if request.task is Task.TRANSLATION
        ]
        transcripts = [
            self._source(sessions[index], requests[index], hypotheses.get(index))
            for index in translated
        ]
        inputs = pick(sessions, translated), pick(requests, translated), transcripts
        translations = self._translate(*inputs, aligned=aligned)
        for index, transcript, translation in zip(
            translated, transcripts, translations, strict=True
        ):
            hypotheses[index] = replace(translation, transcript=transcript.text)
        return [hypotheses[index] for index in range(len(requests))]

    def _source(
        self, session: Session, request: Request, transcript: Hypothesis | None
    ) -> TimedTranscript:
        """The text to translate.

        Args:
            session: The stream.
            request: Translation request.
            transcript: Transcript of the visible audio. None: the request gives the transcript.
        """
        if transcript is None:
            return known_transcript(session, request.transcript_ids)
        if self.transcript == "committed":
            return committed_transcript(session)
        return known_transcript(session, transcript.token_ids)

    def _translate(
        self,
        sessions: Sequence[Session],
        requests: Sequence[Request],
        transcripts: Sequence[TimedTranscript],
        *,
        aligned: bool,
    ) -> list[Hypothesis]:
        """Generate translations; a stream with an empty transcript receives no new token.

        Args:
            sessions: The streams.
            requests: One translation request per stream.
            transcripts: Transcript of each stream.
            aligned: Whether the hypotheses contain an alignment with source frames.
        """
        texts = [
            self._partial_text(session, transcript)
            for session, transcript in zip(sessions, transcripts, strict=True)
        ]
        hypotheses = [text.unchanged(aligned=aligned) for text in texts]
        nonempty = [index for index, transcript in enumerate(transcripts) if transcript.text]
        if not nonempty:
            return hypotheses
        live, asked = pick(texts, nonempty), pick(requests, nonempty)
        if aligned:
            streams = pick(sessions, nonempty), pick(transcripts, nonempty)
            put(hypotheses, nonempty, self._translate_aligned(live, asked, *streams))
            return hypotheses

        prompts = [text.opening + (text.prefix if self.prompt.forces else []) for text in live]
        branches = translator.prefill(self.translator, prompts)
        answers = self._search(branches, live, asked, prompts)
        put(hypotheses, nonempty, map(self._hypothesis, live, answers))
        return hypotheses

    def _translate_aligned(
        self,
        texts: Sequence[PartialText],
        requests: Sequence[Request],
        sessions: Sequence[Session],
        transcripts: Sequence[TimedTranscript],
    ) -> list[Hypothesis]:
        """Generate translations with alignments.

        Args:
            texts: Prompt and written prefix of each stream, which the prompt does not end with.
            requests: One translation request per stream.
            sessions: The streams.
            transcripts: Transcript of each stream, at least one character.
        """
        sources = [
            self._source_tokens(session, transcript)
            for session, transcript in zip(sessions, transcripts, strict=True)
        ]
        # Of the columns of the attention, which are the tokens of the transcript.
        texts = [
            replace(text, frames=len(source.frames))
            for text, source in zip(texts, sources, strict=True)
        ]
        requests = [
            replace(request, stop_at=source.stop_rule(request.stop_at))
            for request, source in zip(requests, sources, strict=True)
        ]
        prompts = [text.opening + text.prefix for text in texts]
        branches = AlignedBranches(
            self.translator,
            translator.embed(self.translator, prompts),
            prefixes=[len(text.prefix) for text in texts],
            speech=[source.first + torch.arange(len(source.frames)) for source in sources],
            heads=self.heads,
        )
        marks = early_stop(branches, self.alignment, requests, texts, beams=self.search.beams)
        answers = self._search(branches, texts, requests, prompts, marks)
        hypotheses = branches.hypotheses(
            texts, answers, limit=self.max_tokens, alignment=self.alignment
        )
        return [
            replace(hypothesis, alignment=source.at_frames(hypothesis.require_alignment()))
            for hypothesis, source in zip(hypotheses, sources, strict=True)
        ]

    def _search(
        self,
        branches: CausalBranches,
        texts: Sequence[PartialText],
        requests: Sequence[Request],
        prompts: Sequence[list[int]],
        marks: StopMarks | None = None,
    ) -> list[Answer]:
        """Generate one answer per prompt.

        Args:
            branches: The translator after the prompts.
            texts: Written prefix of each stream.
            requests: One translation request per stream.
            prompts: Token ids of the prompts.
            marks: Early stop of the search. None: answers are complete.
        """
        return search(
            branches,
            self.search,
            contexts=[
                SearchContext(text.prefix, prompt)
                for text, prompt in zip(texts, prompts, strict=True)
            ],
            limits=[self.max_tokens] * len(texts),
            ends=self.ends,
            never=self.never,
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
            stop_marks=marks,
        )

    def _hypothesis(self, partial_text: PartialText, answer: Answer) -> Hypothesis:
        """Convert a generated answer to a hypothesis that continues the written prefix."""
        hypothesis = partial_text.hypothesis(answer, limit=self.max_tokens)
        tokens = self.prompt.insert_space(partial_text, answer.tokens)
        if tokens == answer.tokens:
            return hypothesis
        # The answer as the model generated it decides whether the limit of tokens was reached.
        spaced = partial_text.hypothesis(replace(answer, tokens=tokens), limit=self.max_tokens)
        return replace(spaced, finished=hypothesis.finished, truncated=hypothesis.truncated)

    def _partial_text(self, session: Session, transcript: TimedTranscript) -> PartialText:
        """The prompt and the written prefix of a stream with a transcript."""
        return PartialText(
            opening=self.prompt.opening(self._fields(session, transcript)),
            prefix=session.prefix_ids.tolist(),
            vocabulary=self.vocabularies.of(session.target_language),
            frames=transcript.num_frames,
        )

    def _fields(self, session: Session, transcript: TimedTranscript) -> PromptFields:
        """What the prompt of a stream contains."""
        return PromptFields(
            source=session.source_language,
            target=session.target_language,
            transcript=transcript.text,
            translation=self.text(session.prefix_ids.tolist()),
            context=session.context,
        )

    def _source_tokens(self, session: Session, transcript: TimedTranscript) -> SourceTokens:
        """The tokens of a transcript in the prompt of a stream, with their frames."""
        fields = self._fields(session, transcript)
        return transcript.tokens(self.prompt.transcript_characters(fields))

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the transcripts of forgotten audio."""
        if cut.frames:
            self.transcriber.forget(transcriber_session(session), Cut(frames=cut.frames))
            session.backbone_state.forget()

    def change_context(self, session: Session) -> None:
        """Drop the last transcript of a transcriber that has the context in its prompt."""
        if Capability.CONTEXT in self.transcriber.exposes:
            state: CascadeState = session.backbone_state
            state.transcribing.context = session.context
            self.transcriber.change_context(state.transcribing)
            state.span = state.transcript = None

    def collator(self) -> CascadeCollator:
        """The function that builds training batches from excerpts of talks."""
        return CascadeCollator(self.prompt, self.plain)

    def forward(self, batch: TextBatch) -> dict[str, Tensor]:
        """Compute the translator's teacher-forcing loss of a batch from ``collator``.

        Returns:
            Scalars ``loss`` and ``token_accuracy`` over all labelled tokens.
        """
        logits, targets = causal_logits(self.translator, batch.labels, input_ids=batch.input_ids)
        return token_losses(logits, targets)
