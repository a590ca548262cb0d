"""A thinker in a dialogue, which answers each chunk of speech with words or ``<wait>``.

CUHKSZ's system of IWSLT 2026 (2026.iwslt-1.13): the language model decides itself, as the first
token of its turn, whether the speech so far allows more words. Keys and values of the dialogue are
kept between turns, so each turn costs its own positions; a bound on the number of turns limits
memory and positions (``DialogueBound``).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.architectures.chat_llm import ChatLLM
from zoo.backbones.architectures.dialogue.controls import EmissionControls
from zoo.backbones.architectures.dialogue.data import DialogueBatch, DialogueCollator
from zoo.backbones.architectures.dialogue.prompt import DialogueBound, DialogueTemplate, TurnPrompt
from zoo.backbones.architectures.dialogue.state import DialogueState, Turn
from zoo.backbones.architectures.thinker.thinker import Thinker
from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.decoding.batches import pick, put
from zoo.backbones.decoding.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.decoding.continuation import Answer, SearchContext
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.backbones.decoding.static_steps import Capture, StaticSteps
from zoo.backbones.decoding.teacher_forcing import (
    causal_logits,
    enable_checkpointing,
    gradients_if_trained,
    token_losses,
)
from zoo.backbones.encoders.audio.spectrogram import encoder_inputs
from zoo.backbones.pretrained.loading import check_sources, end_ids
from zoo.backbones.pretrained.lora import LoraConfig
from zoo.backbones.text.vocabulary import containing, vocabularies
from zoo.base.errors import ZooError
from zoo.base.machine.int8 import DecoderWeights, decoder_weights_named
from zoo.base.types import SAMPLE_RATE, Capability, Cut, Hypothesis, Request, Samples
from zoo.streaming.session import Session
from zoo.streaming.stages import stage

SHORTEST: Samples = SAMPLE_RATE // 10  # of a user turn; shorter audio is padded with silence


class Dialogue(Thinker, ChatLLM, Backbone):
    """A thinker that takes turns: ``<wait>`` or words after each chunk of speech.

    A user turn has the speech embeddings of its chunk alone, as if each chunk were a recording. The
    policy ``turn_taking`` emits the words of each turn; a turn of ``<wait>`` is a READ.

    Attributes:
        prompt: Builds the token ids of turns.
        never: Token ids that are never generated among words.
        ends: Token ids that end a turn.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS, Capability.CONTEXT})
    training_arguments = frozenset({"lora", "gradient_checkpointing"})
    noun: ClassVar[str]
    chat: ClassVar[DialogueTemplate] = DialogueTemplate()

    prompt: TurnPrompt
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
        template: DialogueTemplate | None = None,
        bound: DialogueBound = DialogueBound(),  # noqa: B008 (frozen)
        emission: EmissionControls = EmissionControls(),  # noqa: B008 (frozen)
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        reuse: bool = True,
        capture: Capture = "off",
        dtype: str = "float32",
        decoder_weights: DecoderWeights = "dtype",
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
            template: Strings of the dialogue. None uses the model's published chat format.
            bound: Number of turns that a dialogue keeps, in training and streaming.
            emission: Controls of the choice between words and ``<wait>``.
            search: Search settings of the words of a turn.
            reuse: Whether keys and values of earlier turns are kept. The generated tokens do not
                depend on this setting.
            capture: ``auto`` replays decoding steps as CUDA graphs on a GPU; ``static`` computes
                steps of the same fixed shapes without graphs, on any device; ``off`` does neither.
            dtype: Name of the floating-point type of weights and activations.
            decoder_weights: Type of the weights that each decoding step reads: ``dtype``, or
                ``int8`` for less time per token on a CPU; trainings have no use for it.

        Raises:
            ZooError: If neither ``name`` nor both ``config`` and ``tokenizer`` are given, or if
                ``dtype`` or ``decoder_weights`` is unknown.
        """
        super().__init__()
        check_sources(self.noun, name, config, tokenizer)
        self.name = name
        self.config = config or {}
        self.tokenizer_source = str(tokenizer or name)
        self.embedding_std = embedding_std
        self.lora = lora
        self.gradient_checkpointing = gradient_checkpointing
        self.template = self.chat if template is None else template
        self.added_tokens = (self.template.wait,)
        self.bound = bound
        self.emission = emission
        self.search = search
        self.reuse = reuse
        self.steps = StaticSteps(capture)
        self.dtype = dtype_named(dtype)
        self.decoder_weights = decoder_weights_named(decoder_weights)

    def load(self) -> None:
        """Build the network and its prompt.

        Raises:
            ZooError: If the network cannot be loaded, or if the tokenizer lacks a special token of
                the template.
        """
        self.build()
        if self.gradient_checkpointing:
            enable_checkpointing(self.model)
        self.eval()
        self.vocabularies = vocabularies(self.tokenizer)
        self.prompt = TurnPrompt(tokenizer=self.tokenizer, template=self.template)
        self.ends = end_ids(self.model, self.prompt.end)
        self.never = [
            self.prompt.audio,
            self.prompt.wait,
            *containing(self.tokenizer, self.search.suppress),
        ]

    def collator(self) -> DialogueCollator:
        """The function that builds training batches from streams."""
        return DialogueCollator(
            self.prompt, self.spectrogram, self.prepared, self.embeddings, self.bound
        )

    def forward(self, batch: DialogueBatch) -> dict[str, Tensor]:
        """Compute ``loss`` and ``token_accuracy``, scalars over the labelled tokens of a batch."""
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        is_speech = (batch.input_ids == self.prompt.audio)[..., None]
        with gradients_if_trained(self.parts()["encoder"]):
            hidden = torch.cat(self._encode(batch.features))
        speech = self.project(hidden)[batch.speech].to(embeddings.dtype)
        embeddings = embeddings.masked_scatter(is_speech, speech)
        return token_losses(*causal_logits(self.decoder, batch.labels, inputs_embeds=embeddings))

    def open(self, session: Session) -> DialogueState:
        """Create the state of a stream, whose dialogue has an instruction and no turn."""
        ids = self.prompt.instruction(
            session.source_language, session.target_language, session.context
        )
        return DialogueState(instruction=self._embed(ids), cache=empty_cache(self.decoder))

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Generate one turn per stream.

        The audio of the turn is removed from the session, because the dialogue keeps its speech
        embeddings. A stream without new audio gets an empty hypothesis.

        Args:
            sessions: Streams to decode. The audio and the backbone state of a session change.
            requests: One request per session; a turn has no limits on audio or words.
            needs: Capabilities that the policy uses; a dialogue has ``TURNS`` only.

        Returns:
            One hypothesis per session.
        """
        hypotheses = [self._hypothesis(session, [], truncated=False) for session in sessions]
        waves = [take_audio(session) for session in sessions]
        live = [index for index, wave in enumerate(waves) if wave.numel()]
        if live:
            speech = self._embed_speech(pick(waves, live))
            put(hypotheses, live, self._generate_turns(pick(sessions, live), speech))
        return hypotheses

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Check that the policy emits the whole turn, which the dialogue already contains.

        Raises:
            ZooError: The policy emits only a part of the turn.
        """
        if tokens != hypothesis.num_new_tokens:
            raise ZooError(f"{type(self).__name__} writes whole turns; choose policy=turn_taking.")

    def _generate_turns(
        self, sessions: Sequence[Session], speech: Sequence[Tensor]
    ) -> list[Hypothesis]:
        """Generate one turn per stream and add it to the dialogue of the stream.

        Args:
            sessions: Streams with new audio.
            speech: (n, width) speech embeddings of the new audio of each stream.
        """
        states: list[DialogueState] = [session.backbone_state for session in sessions]
        for state in states:
            state.drop_turns(self.bound)
            if not self.reuse:
                state.empty_cache()
        users = [self._embed_user(embeddings) for embeddings in speech]
        pairs = zip(states, users, strict=True)
        branches = CausalBranches(
            self.decoder,
            [Prefilled(state.cache) for state in states],
            [state.prompt(user) for state, user in pairs],
            steps=self.steps,
        )
        waits = self._choose_waits(sessions, branches.log_probs)
        answers = search(
            branches,
            self.search,
            contexts=[SearchContext(state.words, state.words) for state in states],
            limits=[self._limit(*pair) for pair in zip(sessions, waits, strict=True)],
            ends=self.ends,
            never=self.never,
            never_first=[[] if session.source_ended else self.ends for session in sessions],
        )

        hypotheses = []
        for index, (session, state) in enumerate(zip(sessions, states, strict=True)):
            answer = answers[index]
            if waits[index]:  # in place of the token that the search generated
                answer = Answer([], True, answer.generated[:, :, :, :0])
            ids = [self.prompt.wait] if waits[index] else answer.tokens
            turn = torch.cat([users[index], self._embed([*ids, self.prompt.end])])
            state.add(Turn(turn, answer.tokens), [branches.prefilled(index), answer.generated])
            hypotheses.append(
                self._hypothesis(session, answer.tokens, truncated=not answer.finished)
            )
        return hypotheses

    def _choose_waits(self, sessions: Sequence[Session], log_probs: Tensor) -> list[bool]:
        """Return whether each stream waits.

        A stream waits if ``<wait>``, after its bias, or an end token is the most likely first token
        of its turn. It does not wait at the end of the source, nor after ``max_waits`` waits.

        Args:
            sessions: The streams.
            log_probs: (streams, vocabulary) log-probabilities of the first token of each turn.
        """
        scores = log_probs.clone()
        wait = scores[:, self.prompt.wait] + self.emission.wait_bias
        scores[:, self.never] = -torch.inf
        scores[:, self.prompt.wait] = wait
        best = scores.argmax(dim=-1).tolist()
        most = self.emission.max_waits
        return [
            token in (self.prompt.wait, *self.ends)
            and not session.source_ended
            and (most is None or session.backbone_state.waits < most)
            for token, session in zip(best, sessions, strict=True)
        ]

    def _limit(self, session: Session, waits: bool) -> int:
        """Return the most tokens that a search generates; the token of a wait is not used."""
        if waits:
            return 1
        controls = self.emission
        return controls.final_tokens if session.source_ended else controls.max_tokens

    def _hypothesis(self, session: Session, words: list[int], *, truncated: bool) -> Hypothesis:
        """Return the words of a turn as a hypothesis."""
        ids = torch.tensor(words, dtype=torch.long)
        vocabulary = self.vocabularies[session.target_language.unit]
        return Hypothesis(
            token_ids=ids,
            word_starts=vocabulary.word_starts(ids),
            finished=True,
            truncated=truncated,
        )

    @stage("encoder")
    def _embed_speech(self, waves: Sequence[Tensor]) -> list[Tensor]:
        """Compute the speech embeddings (n, width) of each wave, independently of the others."""
        features = encoder_inputs(self.spectrogram, self.prepared, waves)
        return [self.project(hidden) for hidden in self._encode(features)]

    def _encode(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Encode features (F, bins) to (T, hidden), in the data type of the encoder."""
        device, dtype = self.model.device, self.part_dtype("encoder")
        hidden, _ = self.encode([frames.to(device, dtype) for frames in features])
        return hidden

    def _embed_user(self, speech: Tensor) -> Tensor:
        """Embed a user turn as (n, width), with the speech embeddings inserted."""
        ids = self.prompt.user(len(speech))
        embeddings = self._embed(ids)
        embeddings[ids.index(self.prompt.audio) :][: len(speech)] = speech.to(embeddings)
        return embeddings

    def _embed(self, ids: list[int]) -> Tensor:
        """Embed n token ids as (n, width)."""
        layer = self.decoder.get_input_embeddings()
        embeddings: Tensor = layer(torch.tensor(ids, dtype=torch.long, device=layer.weight.device))
        return embeddings


def take_audio(session: Session) -> Tensor:
    """Remove the new audio of a turn from a session.

    Samples that do not fill a source frame stay for the next turn, unless the source has ended. The
    text of the last turn is removed from the session as well, because each turn has its own text.

    Args:
        session: Stream, whose audio and text are changed.

    Returns:
        (n,) samples, padded with silence to ``SHORTEST``; (0,) if the session has no whole frame.
    """
    available = session.audio.numel()
    taken = available if session.source_ended else available - available % session.frame_samples
    wave = session.audio[:taken]
    frames = -(-taken // session.frame_samples)  # rounded up: the last frame may be incomplete
    session.forget(Cut(tokens=session.prefix_ids.numel(), frames=frames))
    return F.pad(wave, (0, max(SHORTEST - taken, 0))) if taken else wave
