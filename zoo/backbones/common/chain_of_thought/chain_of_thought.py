"""Speech chain of thought on one speech LLM: transcribe, then translate (StreamUni, section 3).

Every request encodes all audio since the last truncation. A transcript begins with the last one, as
far as greedy search would still generate it; a translation continues the transcript it follows. The
words are those of a plain loop.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones.base import Backbone, TokenizerCorpus, dtype_named
from zoo.backbones.common import lora as adapters
from zoo.backbones.common.alignment import AlignmentConfig, Heads
from zoo.backbones.common.audio.spectrogram import Spectrogram
from zoo.backbones.common.causal.aligned import AlignedBranches
from zoo.backbones.common.chain_of_thought.data import Collator, CotBatch, analysed
from zoo.backbones.common.chain_of_thought.drafted import DraftedBranches
from zoo.backbones.common.chain_of_thought.prompt import Prompt, Template
from zoo.backbones.common.chain_of_thought.state import ThoughtState, Transcript
from zoo.backbones.common.encoder_memory import OFFLINE, encoder_memories, forget_memory
from zoo.backbones.common.lora import LoraConfig
from zoo.backbones.common.partial_text import PartialText
from zoo.backbones.common.search import Context, SearchConfig, Stop, search
from zoo.backbones.common.teacher_forcing import (
    IGNORED,
    causal_logits,
    gradients_if_trained,
    token_accuracy,
    token_loss,
)
from zoo.backbones.common.text.tokenizer import train_chat_tokenizer
from zoo.backbones.common.text.unspaced import Vocabularies
from zoo.backbones.common.text.vocabulary import containing
from zoo.data.chain_of_thought import ThoughtConfig
from zoo.errors import ZooError
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Hypothesis, Request, Task

GREEDY = SearchConfig()


class ChainOfThought(Backbone):
    """An audio encoder, a projector and a causal LM, in one model of Transformers.

    A family fills ``build``, which sets ``model``, ``tokenizer`` and ``spectrogram``, and the
    members below it that describe its network.
    """

    exposes: ClassVar[frozenset[Capability]] = OFFLINE | {Capability.TRANSCRIPT}
    trains_on = ThoughtConfig
    training_arguments = frozenset({"lora", "gradient_checkpointing"})
    noun: ClassVar[str]  # the model's name, for messages
    chat: ClassVar[Template] = Template()  # the published prompt
    adapted: ClassVar[str] = ""  # layers of an adapter, see ``lora.inject``

    model: PreTrainedModel  # the only child with weights
    tokenizer: PreTrainedTokenizerBase
    spectrogram: Spectrogram
    prompt: Prompt
    never: list[int]  # ids that are never generated
    heads: Heads  # of the decoder, for the alignment

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
        draft: bool = True,
        reuse: bool = True,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 256,
        dtype: str = "float32",
        words: Literal["jieba", "characters"] = "jieba",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id or folder; None: a randomly initialised network by ``config``.
            config: Fields of the family's own configuration.
            tokenizer: Hub id or folder; None: that of ``name``.
            embedding_std: Standard deviation of randomly initialised embeddings (None: the
                config's).
            lora: Adapter of the text part that can be trained: the one of ``name``, or a new one.
                None: the adapter of ``name``, if any, is added to the weights.
            gradient_checkpointing: Whether training recomputes activations instead of keeping them.
            template: Strings of the prompt; None: the published ones.
            draft: Whether the last transcript is verified in one pass, and continued where it
                fails; the words are the same.
            reuse: Whether a translation continues the transcript's keys and values; the words are
                the same.
            search: How a translation is generated; transcripts are greedy (equation 4).
            alignment: Which self-attention aligns target tokens with speech.
            max_tokens: Most new ids of a transcript and of a translation, separator and end
                included.
            dtype: Of weights and activations.
            words: Word boundaries in a language without spaces: as jieba finds them, or every
                character.

        Raises:
            ZooError: On values that are out of range or missing.
        """
        super().__init__()
        if name is None and (config is None or tokenizer is None):
            raise ZooError(
                f"{self.noun} needs backbone.name, or backbone.config and backbone.tokenizer."
            )
        if max_tokens < 1:
            raise ZooError(f"A chain of thought needs max_tokens of at least 1, not {max_tokens}.")
        self.vocabularies = Vocabularies(words)
        self.name = name
        self.config = config or {}
        self.tokenizer_source = str(tokenizer or name)
        self.embedding_std = embedding_std
        self.lora = lora
        self.gradient_checkpointing = gradient_checkpointing
        self.template = self.chat if template is None else template
        self.draft = draft
        self.reuse = reuse
        self.search = search
        self.alignment = alignment
        self.max_tokens = max_tokens
        self.dtype = dtype_named(dtype)

    @abstractmethod
    def build(self) -> None:
        """Create ``model`` in ``dtype``, read weights, set ``tokenizer`` and ``spectrogram``.

        Raises:
            ZooError: On what cannot be loaded.
        """

    @property
    @abstractmethod
    def decoder(self) -> Any:
        """The causal LM: ``get_input_embeddings()``, ``get_output_embeddings()`` and ``model``.

        ``model(inputs_embeds, attention_mask (batch, 1, new, keys) added to the scores,
        position_ids (batch, new), past_key_values, use_cache, recorder)`` returns hidden states;
        its attention is ``zoo_grouped`` and its ``config`` states the shapes.
        """

    @staticmethod
    @abstractmethod
    def prepared(frames: Tensor) -> Tensor:
        """(F, bins) frames of the spectrogram to the encoder's input; no learned parts."""

    @staticmethod
    @abstractmethod
    def embeddings(features: int) -> int:
        """Number of speech embeddings of so many feature frames; 0 where they are too few."""

    @abstractmethod
    def encode(self, features: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """(F, bins) each to (T, hidden) of the last and of a middle layer; streams do not interact.

        T is ``embeddings(F)``, at least one.
        """

    @abstractmethod
    def project(self, hidden: Tensor) -> Tensor:
        """(..., hidden) of the encoder's last layer to (..., width of the LLM)."""

    @abstractmethod
    def parts(self) -> Mapping[str, Iterable[nn.Parameter]]:
        """Parameters by name: ``encoder``, ``projector``, ``decoder``, and ``lora`` if there is
        one.
        """

    def load(self) -> None:
        """Build the network and its prompt. Raises ZooError where they do not fit."""
        self.build()
        self.eval()
        self.prompt = Prompt(tokenizer=self.tokenizer, template=self.template)
        self.never = [self.prompt.audio, *containing(self.tokenizer, self.search.suppress)]
        if set(self.never) & set(self.prompt.separator):
            raise ZooError(
                f"The search suppresses tokens of the separator {self.template.separator!r}, so no "
                f"transcript could end; change search.suppress, now {list(self.search.suppress)}."
            )
        config = self.decoder.model.config
        self.heads = self.alignment.chosen(
            layers=config.num_hidden_layers, heads=config.num_attention_heads
        )

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Write model, adapter (as ``lora.save`` states) and tokenizer as Transformers lays them
        out.
        """
        adapters.save(self.model, folder, dtype, self.lora, self.adapted)
        self.tokenizer.save_pretrained(folder)

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return self.prompt.text(token_ids)

    @classmethod
    def train_tokenizer(
        cls, corpus: TokenizerCorpus, folder: Path, arguments: Mapping[str, Any]
    ) -> None:
        """A byte-level BPE of both languages and the instruction, with the template's tokens."""
        train_chat_tokenizer(corpus, arguments.get("template") or cls.chat).save_pretrained(folder)

    def collator(self) -> Collator:
        """Makes training batches of pieces of talks."""
        return Collator(self.prompt, self.spectrogram, type(self).prepared, type(self).embeddings)

    def forward(self, batch: CotBatch) -> dict[str, Tensor]:
        """Teacher forcing on batches of ``collator``.

        Returns:
            ``loss`` and ``token_accuracy`` over the answers; the loss of ``transcript`` and of
            ``translation``.
        """
        hidden, _ = self._encoded(batch.features)
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        is_speech = (batch.input_ids == self.prompt.audio)[..., None]
        speech = self.project(hidden).to(embeddings.dtype)
        embeddings = embeddings.masked_scatter(is_speech, speech)

        logits, targets = causal_logits(self.decoder, batch.labels, inputs_embeds=embeddings)
        transcript = batch.transcript[:, 1:][batch.labels[:, 1:] != IGNORED]
        losses = token_loss(logits, targets, reduction="none")
        return {
            "loss": losses.mean(),
            "transcript": losses[transcript].mean(),
            "translation": losses[~transcript].mean(),
            "token_accuracy": token_accuracy(logits, targets),
        }

    def encode_training(self, samples: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
        """(batch, n) samples to (batch, T, hidden) of the last and of a middle layer.

        ``multiplier`` is ignored: the encoder has no blocks of chunks. No gradients when it is
        frozen.
        """
        return self._encoded(analysed(self.spectrogram, self.prepared, samples).to(samples.device))

    def _encoded(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, F, bins) to (batch, T, hidden), last and middle layer."""
        with gradients_if_trained(self.parts()["encoder"]):
            last, middle = self.encode(list(features.to(self.model.dtype)))
        return torch.stack(last), torch.stack(middle)

    def open(self, session: Session) -> ThoughtState:
        """An empty state. Word boundaries of the session's languages are prepared here."""
        for language in (session.source_language, session.target_language):
            self.vocabularies.of(self.tokenizer, language)
        return ThoughtState(features=self.spectrogram.open())

    def forget(self, session: Session, cut: Cut) -> None:
        """Drop what was computed from forgotten audio; untranslated words stay as a draft."""
        forget_memory(session, cut)
        if cut.frames:
            state: ThoughtState = session.backbone_state
            text = self.text(state.untranslated()).strip()  # begins a text now: without a space
            state.draft = self.prompt.ids(text)
            state.transcript, state.translated = None, []

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Encode all kept audio, transcribe it once, and continue the written prefix.

        A translation without a given transcript uses the model's own. A stream whose audio is too
        short for an embedding gets no new token.
        """
        asked = list(zip(sessions, requests, strict=True))
        waves = [session.visible_audio(request.audio_end) for session, request in asked]
        speech = encoder_memories(self.encode_audio, sessions, waves)
        untranscribed = [
            index
            for index, (session, request) in enumerate(asked)
            if (request.task is Task.TRANSCRIPTION or request.transcript_ids is None)
            and len(speech[index])
            and not session.backbone_state.current
        ]
        if untranscribed:
            self._transcribe(
                [sessions[index] for index in untranscribed],
                [speech[index] for index in untranscribed],
            )

        aligned = Capability.ALIGNMENT in needs
        hypotheses = [
            self._transcript(session)
            if request.task is Task.TRANSCRIPTION
            else self._text(session, 0).unchanged(aligned=aligned)
            for session, request in asked
        ]
        live = [
            index
            for index, request in enumerate(requests)
            if request.task is Task.TRANSLATION and len(speech[index])
        ]
        if live:
            translations = self._translate(
                [sessions[index] for index in live],
                [requests[index] for index in live],
                [speech[index] for index in live],
                aligned,
            )
            for index, hypothesis in zip(live, translations, strict=True):
                hypotheses[index] = hypothesis
        return hypotheses

    def encode_audio(self, sessions: Sequence[Session], waves: Sequence[Tensor]) -> list[Tensor]:
        """Speech embeddings (T, width) of each wave (n,); T is 0 where it is too short for one."""
        inputs = [
            self.prepared(
                self.spectrogram.compute(session.backbone_state.features, wave, session.audio_start)
            )
            for session, wave in zip(sessions, waves, strict=True)
        ]
        device, dtype = self.model.device, self.model.dtype
        width = self.decoder.model.config.hidden_size
        speech = [torch.zeros(0, width, dtype=dtype, device=device) for _ in waves]
        live = [index for index, features in enumerate(inputs) if self.embeddings(len(features))]
        if live:
            hidden, _ = self.encode([inputs[index].to(device, dtype) for index in live])
            projected = self.project(torch.cat(hidden)).split([len(states) for states in hidden])
            for index, embeddings in zip(live, projected, strict=True):
                speech[index] = embeddings
        return speech

    def _transcribe(self, sessions: Sequence[Session], speech: Sequence[Tensor]) -> None:
        """Greedy transcripts of the encoded audio, up to the separator, into the states."""
        states: list[ThoughtState] = [session.backbone_state for session in sessions]
        prompts = [self._opening(*pair) for pair in zip(sessions, speech, strict=True)]
        separator = self.prompt.separator
        drafts = [
            [*state.draft, *separator[:-1]] if self.draft and state.draft else []
            for state in states
        ]
        branches = DraftedBranches(
            self.decoder,
            prompts,
            [draft[: self.max_tokens - 1] for draft in drafts],
            never=self.never,
        )
        answers = search(
            branches,
            GREEDY,
            contexts=[Context([], []) for _ in states],
            limits=[self.max_tokens - len(accepted) for accepted in branches.accepted],
            end=self.prompt.end,
            never=self.never,
            stops=[self._separated(accepted) for accepted in branches.accepted],
        )

        for index, (state, prompt, answer) in enumerate(zip(states, prompts, answers, strict=True)):
            generated = branches.accepted[index] + answer.tokens
            found = self.prompt.transcribed(generated)
            ids, kept = (generated, len(generated)) if found is None else found
            cache = None
            if self.reuse:
                fed = torch.cat([branches.prefilled(index), answer.generated], dim=3)
                cache = fed[:, :, :, : len(prompt) + kept]
            assert state.span is not None
            finished = found is not None or answer.finished
            state.transcript = Transcript(state.span, ids, finished, cache)
            state.draft = ids

    def _separated(self, accepted: list[int]) -> Stop:
        """The condition that an answer, which begins with ``accepted``, ends with the separator."""
        return lambda tokens: self.prompt.transcribed(accepted + tokens) is not None

    def _transcript(self, session: Session) -> Hypothesis:
        """The current transcript; empty where the audio is too short."""
        current: Transcript | None = session.backbone_state.current
        ids = torch.tensor(current.ids if current else [], dtype=torch.long)
        vocabulary = self.vocabularies.of(self.tokenizer, session.source_language)
        return Hypothesis(
            token_ids=ids,
            word_starts=vocabulary.word_starts(ids),
            finished=True,
            truncated=current is not None and not current.finished,
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
        """Continue transcript, separator and written prefix."""
        texts = [
            self._text(session, len(frames))
            for session, frames in zip(sessions, speech, strict=True)
        ]
        prompts, caches = zip(*map(self._prompt, sessions, requests, speech, texts), strict=True)
        branches = AlignedBranches(
            self.decoder,
            prompts,
            prefixes=[len(text.prefix) for text in texts],
            speech=[(self.prompt.speech, len(frames)) for frames in speech],
            heads=self.heads if aligned else None,
            caches=caches,
        )
        answers = search(
            branches,
            self.search,
            contexts=[Context(text.prefix, text.prefix) for text in texts],
            limits=[self.max_tokens] * len(texts),
            end=self.prompt.end,
            never=self.never,
            stops=[
                text.stop(request.max_words) for text, request in zip(texts, requests, strict=True)
            ],
        )
        alignment = self.alignment if aligned else None
        return branches.hypotheses(texts, answers, limit=self.max_tokens, alignment=alignment)

    def _prompt(
        self, session: Session, request: Request, speech: Tensor, text: PartialText
    ) -> tuple[Tensor, Tensor | None]:
        """(n, width) to feed before a translation, and keys and values of what was fed already."""
        state: ThoughtState = session.backbone_state
        current = state.current
        if request.transcript_ids is None:
            assert current is not None
            state.translated = current.ids
        else:
            state.translated = request.transcript_ids.tolist()

        ids = [*state.translated, *self.prompt.separator, *text.prefix]
        if current is None or current.cache is None or current.ids != state.translated:
            return torch.cat([self._opening(session, speech), self._embed(ids)]), None
        opening = len(self.prompt.opening(len(speech), session.target_language))
        return self._embed(ids[current.cache.shape[3] - opening :]), current.cache

    def _opening(self, session: Session, speech: Tensor) -> Tensor:
        """(n, width): the prompt up to the answer, with speech embeddings (T, width)."""
        embeddings = self._embed(self.prompt.opening(len(speech), session.target_language))
        embeddings[self.prompt.speech : self.prompt.speech + len(speech)] = speech.to(embeddings)
        return embeddings

    def _embed(self, ids: list[int]) -> Tensor:
        layer = self.decoder.get_input_embeddings()
        embeddings: Tensor = layer(torch.tensor(ids, dtype=torch.long, device=layer.weight.device))
        return embeddings

    def _text(self, session: Session, frames: int) -> PartialText:
        return PartialText(
            opening=[],
            prefix=session.prefix_ids.tolist(),
            vocabulary=self.vocabularies.of(self.tokenizer, session.target_language),
            frames=frames,
        )


def enable_checkpointing(model: PreTrainedModel) -> None:
    """Let training recompute activations; inputs get no gradients for that."""
    name = "activation_checkpointing_enable"  # other versions of Transformers: gradient_...
    enable = getattr(model, name if hasattr(model, name) else "gradient_checkpointing_enable")
    enable({"use_reentrant": False})
    model.disable_input_require_grads()  # needed by reentrant checkpointing only
