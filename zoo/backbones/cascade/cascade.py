"""A cascade: one network transcribes, a text LLM translates the transcript (StreamUni, section
4.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.base import Backbone, TokenizerCorpus, dtype_named
from zoo.backbones.cascade import translator
from zoo.backbones.cascade.data import Collator, TextBatch
from zoo.backbones.cascade.prompt import Prompt, Template, Written
from zoo.backbones.common.families import families_exposing
from zoo.backbones.common.partial_text import PartialText
from zoo.backbones.common.pretrained.loading import load_tokenizer
from zoo.backbones.common.pretrained.weights import save_pretrained
from zoo.backbones.common.search import Answer, Context, SearchConfig, search
from zoo.backbones.common.teacher_forcing import causal_logits, token_accuracy, token_loss
from zoo.backbones.common.text.tokenizer import train_chat_tokenizer
from zoo.backbones.common.text.vocabulary import Vocabulary, containing, detokenise
from zoo.data.excerpts import ExcerptConfig
from zoo.errors import ZooError, unknown_choice
from zoo.streaming.session import Session
from zoo.streaming.text import TextStream
from zoo.types import Capability, Cut, Hypothesis, Request, Samples, Task, UnitKind

FAMILY = "cascade"  # its own name: a cascade transcribes nothing by itself
NEEDED = frozenset({Capability.TRANSCRIPT, Capability.AUDIO_TRIMMING})  # of what transcribes
TRANSCRIBER_TARGETS = ("source", "target")
CLOSING = ".,;:!?%)]}\u2019\u201d\u2026"  # signs without a space before them


@dataclass(slots=True)
class StreamState:
    """What one stream keeps between requests.

    Attributes:
        transcribing: The transcriber's session of the same audio.
        texts: Transcripts that were answered for the kept audio, by their ids.
        span: Stream position of the first sample, and number of samples, of ``transcript``.
        transcript: The newest transcript.
    """

    transcribing: Session
    texts: dict[tuple[int, ...], str] = field(default_factory=dict)
    span: tuple[Samples, Samples] | None = None
    transcript: Hypothesis | None = None


class Cascade(Backbone):
    """A transcriber, any backbone that exposes TRANSCRIPT, and a translator, a text LLM.

    Attributes:
        never: Ids that the translator never generates.
    """

    trains_on = ExcerptConfig
    exposes: ClassVar[frozenset[Capability]] = NEEDED | {Capability.PREFIX}

    transcriber: Backbone
    translator: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompt: Prompt
    never: list[int]
    vocabularies: dict[UnitKind, Vocabulary]

    def __init__(
        self,
        *,
        transcriber: Backbone,
        name: str | None,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        template: Template = Template(),  # noqa: B008 (frozen)
        written: Written = "prompt",
        transcriber_target: Literal["source", "target"] = "source",
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 200,
        dtype: str = "float32",
        plain: float = 0.0,
    ) -> None:
        """Configure both networks; ``load`` reads weights.

        Args:
            transcriber: The backbone that transcribes.
            name: Translator, hub id or folder; None: randomly initialised by ``config``.
            config: Fields of a configuration of Transformers.
            tokenizer: Hub id or folder; None: that of ``name``.
            template: Strings of the translator's prompt.
            written: Place in the prompt of the translation written so far, see ``Prompt``.
            transcriber_target: Target language of the transcriber: ``source``, with which Whisper
                transcribes, or ``target``, for one whose instruction names it.
            search: How a translation is generated.
            max_tokens: Most new ids of a translation, its end included.
            dtype: Of the translator's weights and activations.
            plain: Share of training transcripts without case and punctuation, see ``Collator``.

        Raises:
            ZooError: On values that do not fit together.
        """
        super().__init__()
        _check_transcriber(transcriber)
        if written not in get_args(Written):
            raise unknown_choice("value of written", written, get_args(Written))
        if transcriber_target not in TRANSCRIBER_TARGETS:
            raise unknown_choice("transcriber_target", transcriber_target, TRANSCRIBER_TARGETS)
        if written != "answer" and not template.quotes:
            raise ZooError(
                "An instruction without {translation} goes with backbone.written=answer only."
            )
        if max_tokens < 1 or not 0 <= plain <= 1:
            raise ZooError(
                "A cascade needs max_tokens of at least 1 and plain, a share, from 0 to 1; not "
                f"{max_tokens}, {plain}."
            )
        if name is None and tokenizer is None:
            raise ZooError(
                "A cascade's translator needs a tokenizer: name a folder that has one, or a "
                "trained model."
            )
        self.transcriber = transcriber
        self.frame_samples = transcriber.frame_samples
        self.name = name
        self.config = config
        self.tokenizer_source = str(name if tokenizer is None else tokenizer)
        self.template = template
        self.written = written
        self.transcriber_target = transcriber_target
        self.search = search
        self.max_tokens = max_tokens
        self.dtype = dtype_named(dtype)
        self.plain = plain

    def load(self) -> None:
        """Load both networks.

        Raises ZooError on what cannot be loaded, if possible before weights are read.
        """
        translator.check(self.name, self.config)
        self.tokenizer = load_tokenizer(self.tokenizer_source)
        self.prompt = Prompt(tokenizer=self.tokenizer, template=self.template, written=self.written)
        special = set(self.tokenizer.added_tokens_decoder) - {self.prompt.end}
        self.never = [*sorted(special), *containing(self.tokenizer, self.search.suppress)]
        self.vocabularies = {unit: Vocabulary(self.tokenizer, unit) for unit in get_args(UnitKind)}
        self.transcriber.load()
        self.translator = translator.build(
            self.name, self.config, tokenizer=self.tokenizer, dtype=self.dtype
        )
        self.eval()

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write the translator and its tokenizer as Transformers lays them out."""
        save_pretrained(self.translator, folder, dtype)
        self.tokenizer.save_pretrained(folder)

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """A byte-level BPE of both languages and the instruction, with the template's tokens."""
        train_chat_tokenizer(corpus, arguments.get("template") or Template()).save_pretrained(
            folder
        )

    @classmethod
    def exported_arguments(cls, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The translator's own arguments; the transcriber's weights are not exported."""
        transcriber = dict(arguments["transcriber"])
        transcriber["checkpoint" if "checkpoint" in transcriber else "name"] = None
        return {**super().exported_arguments(arguments), "transcriber": transcriber}

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return detokenise(self.tokenizer, token_ids)

    def open(self, session: Session) -> StreamState:
        """An empty state.

        Raises ZooError where the transcriber does not support the source language.
        """
        target = (
            session.source_language
            if self.transcriber_target == "source"
            else session.target_language
        )
        transcribing = Session(
            talk=session.talk,
            source_language=session.source_language,
            target_language=target,
            frame_samples=self.frame_samples,
            text_stream=TextStream(decode=self.transcriber.text, separator=target.separator),
            latency_multiplier=session.latency_multiplier,
            segments=session.segments,
        )
        transcribing.backbone_state = self.transcriber.open(transcribing)
        return StreamState(transcribing)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Transcribe audio that was not transcribed before, then translate.

        Raises:
            ValueError: If a request gives a transcript that was not answered since audio was last
                forgotten.
        """
        transcribed = [
            i
            for i, one in enumerate(requests)
            if one.task is Task.TRANSCRIPTION or one.transcript_ids is None
        ]
        hypotheses = self._transcripts(sessions, requests, transcribed)
        asked = [i for i, one in enumerate(requests) if one.task is Task.TRANSLATION]
        sources = [
            _text(hypotheses[i]) if i in hypotheses else _given(sessions[i], requests[i])
            for i in asked
        ]
        texts = [self._text(sessions[i], source) for i, source in zip(asked, sources, strict=True)]
        limits = [requests[i].max_words for i in asked]
        hypotheses |= dict(zip(asked, self._translate(texts, sources, limits), strict=True))
        return [hypotheses[i] for i in range(len(requests))]

    def _transcripts(
        self, sessions: Sequence[Session], requests: Sequence[Request], asked: Sequence[int]
    ) -> dict[int, Hypothesis]:
        """Transcripts of the requests ``asked``, by index; the newest audio is not transcribed
        twice.
        """
        spans = {
            i: (sessions[i].audio_start, len(sessions[i].visible_audio(requests[i].audio_end)))
            for i in asked
        }
        new = [i for i in asked if sessions[i].backbone_state.span != spans[i]]
        if new:
            transcribing = [_mirrored(sessions[i]) for i in new]
            given = [Request(task=Task.TRANSCRIPTION, audio_end=requests[i].audio_end) for i in new]
            for i, answer in zip(
                new, self.transcriber.decode(transcribing, given, frozenset()), strict=True
            ):
                state: StreamState = sessions[i].backbone_state
                state.span, state.transcript = spans[i], answer
                state.texts[_key(answer.token_ids)] = _text(answer)
        return {i: sessions[i].backbone_state.transcript for i in asked}

    def _translate(
        self, texts: Sequence[PartialText], sources: Sequence[str], max_words: Sequence[int | None]
    ) -> list[Hypothesis]:
        """Continue the prompts; no new token where there is no word to translate."""
        hypotheses = [text.unchanged(aligned=False) for text in texts]
        live = [i for i, source in enumerate(sources) if source]
        if not live:
            return hypotheses
        prompts = [texts[i].opening + (texts[i].prefix if self.prompt.forces else []) for i in live]
        answers = search(
            translator.prefill(self.translator, prompts),
            self.search,
            contexts=[
                Context(texts[i].prefix, prompt) for i, prompt in zip(live, prompts, strict=True)
            ],
            limits=[self.max_tokens] * len(live),
            end=self.prompt.end,
            never=self.never,
            stops=[texts[i].stop(max_words[i]) for i in live],
        )
        for i, answer in zip(live, answers, strict=True):
            hypotheses[i] = self._hypothesis(texts[i], answer)
        return hypotheses

    def _hypothesis(self, text: PartialText, answer: Answer) -> Hypothesis:
        """The answer as a continuation of the written ids."""
        plain = text.hypothesis(answer, limit=self.max_tokens)
        tokens = self._joined(text, answer.tokens)
        if tokens == answer.tokens:
            return plain
        joined = text.hypothesis(replace(answer, tokens=tokens), limit=self.max_tokens)
        return replace(joined, finished=plain.finished, truncated=plain.truncated)

    def _joined(self, text: PartialText, tokens: list[int]) -> list[int]:
        """The answer with a space before its first word.

        An answer that continues a translation in the prompt begins without one.
        """
        if (
            self.prompt.forces
            or not text.prefix
            or not tokens
            or text.vocabulary is self.vocabularies["char"]
        ):
            return tokens
        if bool(text.vocabulary.starts[tokens[0]]):
            return tokens
        starts = text.vocabulary.word_starts(torch.tensor(tokens)).tolist()
        first = starts.index(True, 1) if True in starts[1:] else len(tokens)
        word = self.text(tokens[:first])
        return tokens if word[:1] in CLOSING else [*self.prompt.ids(f" {word}"), *tokens[first:]]

    def _text(self, session: Session, source: str) -> PartialText:
        prefix = session.prefix_ids.tolist()
        opening = self.prompt.opening(
            source=session.source_language,
            target=session.target_language,
            transcript=source,
            translation=self.text(prefix),
        )
        return PartialText(
            opening=opening,
            prefix=prefix,
            vocabulary=self.vocabularies[session.target_language.unit],
            frames=0,
        )

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop the transcripts of forgotten audio."""
        if cut.frames:
            state: StreamState = session.backbone_state
            self.transcriber.forget(_mirrored(session), Cut(frames=cut.frames))
            state.span, state.transcript = None, None
            state.texts.clear()

    def collator(self) -> Collator:
        """Makes training batches of excerpts."""
        return Collator(self.prompt, self.plain)

    def forward(self, batch: TextBatch) -> dict[str, Tensor]:
        """Teacher forcing of the translator: ``loss`` and ``token_accuracy`` of labelled ids."""
        logits, targets = causal_logits(self.translator, batch.labels, input_ids=batch.input_ids)
        return {
            "loss": token_loss(logits, targets),
            "token_accuracy": token_accuracy(logits, targets),
        }


def _check_transcriber(transcriber: Backbone) -> None:
    if missing := NEEDED - transcriber.exposes:
        families = [name for name in families_exposing(NEEDED) if name != FAMILY]
        raise ZooError(
            f"{type(transcriber).__name__} cannot be a cascade's transcriber, for it does not "
            f"expose {' and '.join(sorted(missing))}; choose another with "
            f"backbone@backbone.transcriber=..., of a family that does: {', '.join(families)}."
        )


def _mirrored(session: Session) -> Session:
    """The transcriber's session: the same audio, without written text."""
    transcribing: Session = session.backbone_state.transcribing
    transcribing.audio, transcribing.audio_start = session.audio, session.audio_start
    transcribing.source_ended, transcribing.last_chunk_samples = (
        session.source_ended,
        session.last_chunk_samples,
    )
    transcribing.segment_end = session.segment_end
    return transcribing


def _key(token_ids: Tensor) -> tuple[int, ...]:
    return tuple(token_ids.tolist())


def _text(transcript: Hypothesis) -> str:
    return (transcript.transcript or "").strip()


def _given(session: Session, request: Request) -> str:
    """The text of the transcript that a request gives."""
    assert request.transcript_ids is not None
    texts: dict[tuple[int, ...], str] = {(): "", **session.backbone_state.texts}
    key = _key(request.transcript_ids)
    if key not in texts:
        raise ValueError(
            "The request gives a transcript that the transcriber has not answered for the kept "
            "audio."
        )
    return texts[key]
