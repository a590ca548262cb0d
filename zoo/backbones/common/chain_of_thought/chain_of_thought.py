"""Speech chain of thought on one speech LLM (StreamUni, section 3): hear, transcribe, translate. Knows no policy.

Every look hears all audio since the last truncation anew. A transcript begins with what the last one said, as far as
that still holds; a translation goes on from the transcript it follows. The words are those of a plain loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.causal.look import Look, hypothesis, silence
from zoo.backbones.common.chain_of_thought.draft import Drafted
from zoo.backbones.common.chain_of_thought.network import HearingLLM
from zoo.backbones.common.chain_of_thought.prompt import Template
from zoo.backbones.common.encoder_decoder.encoder_decoder import Text
from zoo.backbones.common.offline import Listener, StreamState
from zoo.backbones.common.search import Context, SearchConfig, Stop, search
from zoo.backbones.common.text.unspaced import UnspacedWords
from zoo.backbones.common.text.vocabulary import Vocabulary
from zoo.errors import ZooError, unknown_choice
from zoo.languages import Language
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Hypothesis, Request, Samples, Task

GREEDY = SearchConfig()
WORDS = ("jieba", "characters")


@dataclass(frozen=True, slots=True)
class Transcript:
    """What one look said. heard: first sample and number of samples. finished: the model closed it.

    cache: (layers, 2, heads, n, head size), keys and values of the prompt and the ids (not of those at the end that
    were not fed), or None.
    """

    heard: tuple[Samples, Samples]
    ids: list[int]
    finished: bool
    cache: Tensor | None


@dataclass(slots=True)
class ThoughtState(StreamState):
    """What one stream keeps between looks.

    transcript: of the last look that was transcribed. draft: ids that the next one may begin with. translated: ids of
    the transcript that was last translated.
    """

    transcript: Transcript | None = None
    draft: list[int] = field(default_factory=list)
    translated: list[int] = field(default_factory=list)

    @property
    def known(self) -> Transcript | None:
        """The transcript of what was heard last, if there is one."""
        known = self.transcript
        return known if known is not None and known.heard == self.heard else None


class ChainOfThought(HearingLLM):
    """Transcript and translation of all kept audio by one causal LM that hears.

    template, dtype: see ``HearingLLM``. draft: verify the stream's last transcript in one pass and go on where it fails
    (same words as token by token). reuse: translate from the transcript's keys and values (same words). search: how a
    translation is generated; transcripts are greedy (equation 4). alignment: what is told about it. max_tokens: a
    transcript, and a translation's new ids, have at most so many, separator and end included. words: what a word is in
    a language without spaces: what jieba finds, as the policy counts, or every character.
    """

    exposes: ClassVar[frozenset[Capability]] = Listener.exposes | {Capability.TRANSCRIPT}

    heads: Heads  # of the decoder, that make the alignment

    def __init__(
        self,
        *,
        template: Template,
        draft: bool = True,
        reuse: bool = True,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 256,
        dtype: str = "float32",
        words: Literal["jieba", "characters"] = "jieba",
    ) -> None:
        super().__init__(template=template, suppress=search.suppress, dtype=dtype)
        if max_tokens < 1:
            raise ZooError(f"A chain of thought needs max_tokens of at least 1, not {max_tokens}.")
        if words not in WORDS:
            raise unknown_choice("kind of words", words, WORDS)
        self.draft = draft
        self.reuse = reuse
        self.search = search
        self.alignment = alignment
        self.max_tokens = max_tokens
        self.words = words
        self._vocabularies: dict[str, Vocabulary] = {}

    def load(self) -> None:
        """Build the network and check what was configured against it. Raises ZooError where it does not fit."""
        super().load()
        config = self.decoder.model.config
        self.heads = self.alignment.chosen(
            layers=config.num_hidden_layers, heads=config.num_attention_heads
        )

    def open(self, session: Session) -> ThoughtState:
        """Nothing heard yet. What words are in the session's languages is found out here."""
        for language in (session.source_language, session.target_language):
            self._vocabulary(language)
        return ThoughtState(features=self.spectrogram.open())

    def forget(self, session: Session, cut: Cut) -> None:
        """Audio that goes takes with it what was said of it; what was not translated yet may be said again."""
        super().forget(session, cut)
        if cut.frames:
            state: ThoughtState = session.backbone_state
            done = state.translated
            tail = state.draft[len(done) :] if state.draft[: len(done)] == done else []
            state.draft = self.prompt.ids(
                self.text(tail).strip()
            )  # it begins a text now: without a space
            state.transcript, state.translated = None, []

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Hear all kept audio, once per look; then transcribe, once per look; then continue the written prefix.

        A translation that is given no transcript goes by the model's own. A stream whose audio is too short for an
        embedding says nothing.
        """
        waves = [
            session.visible_audio(request.audio_end)
            for session, request in zip(sessions, requests, strict=True)
        ]
        speech = self.hear(sessions, waves)
        own = [
            request.task is Task.TRANSCRIPTION or request.transcript_ids is None
            for request in requests
        ]
        asked = [
            i
            for i, mine in enumerate(own)
            if mine and len(speech[i]) and not sessions[i].backbone_state.known
        ]
        if asked:
            self._transcribe([sessions[i] for i in asked], [speech[i] for i in asked])
        aligned = Capability.ALIGNMENT in needs
        hypotheses = [
            self._transcript(session)
            if request.task is Task.TRANSCRIPTION
            else silence(self._text(session, 0), aligned)
            for session, request in zip(sessions, requests, strict=True)
        ]
        live = [
            i for i, one in enumerate(requests) if one.task is Task.TRANSLATION and len(speech[i])
        ]
        if live:
            looks = (
                [sessions[i] for i in live],
                [requests[i] for i in live],
                [speech[i] for i in live],
            )
            for index, answer in zip(live, self._translate(*looks, aligned), strict=True):
                hypotheses[index] = answer
        return hypotheses

    def _transcribe(self, sessions: Sequence[Session], speech: Sequence[Tensor]) -> None:
        """Greedy transcripts of what was heard last, up to the separator; each is kept in its stream's state."""
        states: list[ThoughtState] = [session.backbone_state for session in sessions]
        prompts = [
            self._opening(session, heard) for session, heard in zip(sessions, speech, strict=True)
        ]
        separator = self.prompt.separator
        guesses = [
            [*state.draft, *separator[:-1]] if self.draft and state.draft else []
            for state in states
        ]
        turn = Drafted(
            self.decoder,
            prompts,
            [guess[: self.max_tokens - 1] for guess in guesses],
            never=self.never,
        )
        answers = search(
            turn,
            GREEDY,
            contexts=[Context([], []) for _ in states],
            limits=[self.max_tokens - len(accepted) for accepted in turn.accepted],
            end=self.prompt.end,
            never=self.never,
            stops=[self._separated(accepted) for accepted in turn.accepted],
        )
        for index, (state, prompt, answer) in enumerate(zip(states, prompts, answers, strict=True)):
            said = turn.accepted[index] + answer.tokens
            found = self.prompt.transcribed(said)
            ids, kept = (said, len(said)) if found is None else found
            cache = None
            if self.reuse:
                fed = torch.cat([turn.prefilled(index), answer.generated], dim=3)
                cache = fed[:, :, :, : len(prompt) + kept]
            assert state.heard is not None
            state.transcript = Transcript(
                state.heard, ids, found is not None or answer.finished, cache
            )
            state.draft = ids

    def _separated(self, accepted: list[int]) -> Stop:
        """Whether an answer that begins with ``accepted`` ends with the separator."""
        return lambda tokens: self.prompt.transcribed(accepted + tokens) is not None

    def _transcript(self, session: Session) -> Hypothesis:
        """What was said of what was heard last; nothing where it is too short."""
        known: Transcript | None = session.backbone_state.known
        ids = torch.tensor(known.ids if known else [], dtype=torch.long)
        vocabulary = self._vocabulary(session.source_language)
        return Hypothesis(
            token_ids=ids,
            word_starts=vocabulary.word_starts(ids),
            finished=True,
            truncated=known is not None and not known.finished,
            sentence_ends=vocabulary.sentence_ends(ids),
            transcript=self.text(ids.tolist()).strip(),
        )

    def _translate(
        self,
        sessions: Sequence[Session],
        requests: Sequence[Request],
        speech: Sequence[Tensor],
        aligned: bool,
    ) -> list[Hypothesis]:
        """Search what follows transcript, separator and written prefix."""
        texts = [
            self._text(session, len(heard)) for session, heard in zip(sessions, speech, strict=True)
        ]
        prompts, fed = zip(*map(self._prompt, sessions, requests, speech, texts), strict=True)
        look = Look(
            self.decoder,
            prompts,
            prefixes=[len(text.prefix) for text in texts],
            speech=[(self.prompt.speech, len(heard)) for heard in speech],
            heads=self.heads if aligned else None,
            fed=fed,
        )
        answers = search(
            look,
            self.search,
            contexts=[Context(text.prefix, text.prefix) for text in texts],
            limits=[self.max_tokens] * len(texts),
            end=self.prompt.end,
            never=self.never,
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
        )
        told = self.alignment if aligned else None
        return [
            hypothesis(text, answer, limit=self.max_tokens, alignment=told)
            for text, answer in zip(texts, answers, strict=True)
        ]

    def _prompt(
        self, session: Session, request: Request, heard: Tensor, text: Text
    ) -> tuple[Tensor, Tensor | None]:
        """(n, width), what is fed before a translation, and keys and values of what has been fed already."""
        state: ThoughtState = session.backbone_state
        known = state.known
        if request.transcript_ids is None:
            assert known is not None
            state.translated = known.ids
        else:
            state.translated = request.transcript_ids.tolist()
        ids = [*state.translated, *self.prompt.separator, *text.prefix]
        if known is None or known.cache is None or known.ids != state.translated:
            return torch.cat([self._opening(session, heard), self._embed(ids)]), None
        opening = len(self.prompt.opening(len(heard), session.target_language))
        return self._embed(ids[known.cache.shape[3] - opening :]), known.cache

    def _opening(self, session: Session, heard: Tensor) -> Tensor:
        """(n, width): the prompt up to the answer, with speech embeddings (T, width)."""
        embeddings = self._embed(self.prompt.opening(len(heard), session.target_language))
        embeddings[self.prompt.speech : self.prompt.speech + len(heard)] = heard.to(embeddings)
        return embeddings

    def _embed(self, ids: list[int]) -> Tensor:
        layer = self.decoder.get_input_embeddings()
        embeddings: Tensor = layer(torch.tensor(ids, dtype=torch.long, device=layer.weight.device))
        return embeddings

    def _text(self, session: Session, frames: int) -> Text:
        vocabulary = self._vocabulary(session.target_language)
        return Text(
            opening=[], prefix=session.prefix_ids.tolist(), vocabulary=vocabulary, frames=frames
        )

    def _vocabulary(self, language: Language) -> Vocabulary:
        """What is known of the tokens' words; languages that write spaces share it."""
        jieba = language.unit == "char" and self.words == "jieba"
        kind = language.code if jieba else language.unit
        if kind not in self._vocabularies:
            made = (
                UnspacedWords(self.tokenizer, language)
                if jieba
                else Vocabulary(self.tokenizer, language.unit)
            )
            self._vocabularies[kind] = made
        return self._vocabularies[kind]
