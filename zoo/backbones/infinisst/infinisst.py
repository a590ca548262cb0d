"""InfiniSST as a backbone: streaming speech encoder, adapter and multi-turn language model."""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.architectures.speech_llm.data import Batch, TeacherForcingOutput
from zoo.backbones.architectures.speech_llm.speech_llm import SpeechLLM
from zoo.backbones.decoding.batches import pick
from zoo.backbones.decoding.causal.branches import CausalBranches, empty_cache
from zoo.backbones.decoding.continuation import Answer, SearchContext
from zoo.backbones.encoders.wav2vec2.adapter import MERGED
from zoo.backbones.encoders.wav2vec2.encoder import CHUNK_SAMPLES, FRAME_SAMPLES
from zoo.backbones.infinisst.search import TurnSearchConfig, search
from zoo.backbones.infinisst.window import WindowConfig, WindowState, append_turn, recent_ids, slide
from zoo.backbones.text.vocabulary import SPACES
from zoo.base.errors import ZooError
from zoo.base.languages import Language
from zoo.base.types import Capability, Cut, Hypothesis, Request
from zoo.streaming.session import Session


class InfiniSST(SpeechLLM):
    """Simultaneous speech translation model with a multi-turn dialogue (InfiniSST, section 3).

    A streaming encoder and an adapter convert each new chunk of speech (960 ms, 15 360 samples) to
    speech embeddings (section 3.2). The causal language model receives the embeddings as a user
    turn and generates the translation as an assistant turn. The latency multiplier m is the number
    of chunks per turn. Keys and values of earlier turns stay in a sliding window (section 3.5).

    Of the released code it does not reproduce: turn boundaries that persist from one talk into the
    next, a cache that doubles when a single turn exceeds the window, a latency token that is split
    if m has none, and a loss on the line break after the assistant's header.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS, Capability.CONTEXT})
    frame_samples = FRAME_SAMPLES
    experiment = "infinisst_minitalks"

    def __init__(
        self,
        *,
        window: WindowConfig = WindowConfig(),  # noqa: B008 (frozen)
        search: TurnSearchConfig = TurnSearchConfig(),  # noqa: B008 (frozen)
        **options: Any,
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            window: Size of the decoder's sliding window (section 3.5).
            search: Beam search options of a turn.
            options: Other arguments of ``SpeechLLM``.

        Raises:
            ZooError: Neither a tokenizer nor a checkpoint is given, the template or the data type
                is unknown, or ``latency_tokens`` is below 1.
        """
        super().__init__(suppress=search.suppress, **options)
        self.window = window
        self.search = search

    def forward(self, batch: Batch) -> TeacherForcingOutput:
        """Teacher forcing over whole dialogues (section 3.4).

        Args:
            batch: Padded dialogues with (B, n) samples, or with (B, frames, hidden) outputs of a
                frozen encoder.

        Returns:
            Loss and logits over the translation of each turn, end-of-turn ids included.
        """
        frames = batch.audio
        if frames.dim() == 2:  # (B, n) samples
            lengths = MERGED * (batch.speech_positions >= 0).sum(dim=1)  # (B,) frames
            frames = self.encode_training(batch.audio, batch.multiplier, lengths).hidden
        return self.teacher_forced(batch, frames)

    def block_sizes(self, multipliers: Collection[int]) -> Collection[int]:
        """Return the sizes of the blocks of whole talks in chunks: the latency multipliers m."""
        return multipliers

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Generate one turn per stream.

        Each stream encodes the whole chunks of its new audio, and the decoder generates tokens
        until the end-of-turn id. Encoded audio is removed from the session, because the window
        keeps keys and values instead. Samples that do not fill a chunk stay in the session. When
        the source has ended, the remaining samples are padded with zeros to a whole chunk. A stream
        without a whole chunk gets an empty hypothesis.

        Args:
            sessions: Streams to decode. The audio and the backbone state of a session change.
            requests: One request per session; a turn has no limits on audio or words.
            needs: Capabilities that the policy uses; InfiniSST has ``TURNS`` only.

        Returns:
            One hypothesis per session.
        """
        hypotheses = []
        for session in sessions:
            empty = Answer([], True, session.backbone_state.cache)
            hypotheses.append(self._hypothesis(session, empty))

        blocks = [take_chunks(session) for session in sessions]
        live = [index for index, block in enumerate(blocks) if block.numel()]
        if live:
            answers = self._generate_turns(pick(sessions, live), pick(blocks, live))
            for index, answer in zip(live, answers, strict=True):
                hypotheses[index] = self._hypothesis(sessions[index], answer)
        return hypotheses

    def _generate_turns(
        self, sessions: Sequence[Session], blocks: Sequence[Tensor]
    ) -> list[Answer]:
        """Generate one turn per stream and append the turn to the stream's window.

        Args:
            sessions: Streams that have at least one new chunk.
            blocks: (chunks x 15 360,) new samples of each stream.

        Returns:
            Generated token ids of each stream.
        """
        states: list[WindowState] = [session.backbone_state for session in sessions]
        chunk_counts = [block.numel() // CHUNK_SAMPLES for block in blocks]
        encoded = self.encoder.stream([state.encoder for state in states], blocks)
        for state in states:
            slide(state, self.window, self.decoder)

        prompts = [
            self._opening(session) + self.prompt.turn(num_chunks)
            for session, num_chunks in zip(sessions, chunk_counts, strict=True)
        ]
        embeddings = [
            self.embed(ids, self.adapt(frames[None])[0])
            for ids, frames in zip(prompts, encoded, strict=True)
        ]
        branches = CausalBranches(self.decoder, states, embeddings, steps=self.steps)
        earlier = [recent_ids(state, self.search.lookback) for state in states]
        answers = search(
            branches,
            self.search,
            contexts=[
                SearchContext(target_ids, prompt)
                for target_ids, prompt in zip(earlier, prompts, strict=True)
            ],
            limits=[
                self.search.tokens_per_chunk * max(num_chunks, session.latency_multiplier)
                for session, num_chunks in zip(sessions, chunk_counts, strict=True)
            ],
            end=self.prompt.end_of_turn,
            never=self.never,
        )
        for index, (state, answer) in enumerate(zip(states, answers, strict=True)):
            append_turn(state, branches.prefilled(index), answer, end=self.prompt.end_of_turn)
        return answers

    def _opening(self, session: Session) -> list[int]:
        """Return the token ids before the next user turn.

        The first turn follows the instruction. A later turn follows the generated ids that the
        decoder has not received yet, the end-of-turn id last.
        """
        state: WindowState = session.backbone_state
        is_first_turn = state.anchor is None
        return self._instruction(session) if is_first_turn else state.pending

    def _instruction(self, session: Session) -> list[int]:
        """Return the token ids of the instruction for a session's languages and multiplier."""
        return self.prompt.instruction(
            source=session.source_language,
            target=session.target_language,
            multiplier=session.latency_multiplier,
            context=session.context,
        )

    def _hypothesis(self, session: Session, answer: Answer) -> Hypothesis:
        """Return a generated turn as a hypothesis; the first token always starts a word."""
        word_starts = [self._starts_word(token, session.target_language) for token in answer.tokens]
        if word_starts:
            word_starts[0] = True
        return Hypothesis(
            token_ids=torch.tensor(answer.tokens, dtype=torch.long),
            word_starts=torch.tensor(word_starts, dtype=torch.bool),
            finished=True,
            truncated=not answer.finished,
        )

    def _starts_word(self, token: int, target: Language) -> bool:
        """Return whether a token starts a word: a leading space, or any token of characters."""
        token_string = str(self.tokenizer.convert_ids_to_tokens(token))
        return target.unit == "char" or token_string.startswith(SPACES)

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Check that the policy emits the whole turn, which the window already contains.

        Args:
            session: Stream of the hypothesis.
            hypothesis: Turn that ``decode`` returned.
            tokens: Number of tokens that the policy emits.

        Raises:
            ZooError: The policy emits only a part of the turn.
        """
        if tokens != hypothesis.num_new_tokens:
            raise ZooError("InfiniSST writes whole turns; choose policy=turn_taking.")

    def open(self, session: Session) -> WindowState:
        """Return a stream state with empty caches.

        Raises ZooError if the window keeps the instruction and the tokenizer has no latency token
        for the session's multiplier.
        """
        kept_instruction = self._instruction(session) if self.window.keep_instruction else []
        return WindowState(
            encoder=self.encoder.open(),
            cache=empty_cache(self.decoder),
            instruction=len(kept_instruction),
        )


def take_chunks(session: Session) -> Tensor:
    """Remove the whole chunks from a session's audio.

    When the source has ended, all samples are removed and padded with zeros to whole chunks. The
    text of the last turn is removed from the session as well, because each turn has its own text.

    Args:
        session: Stream, whose audio and text are changed.

    Returns:
        (chunks x 15 360,) samples; (0,) if the session has no whole chunk.
    """
    available = session.audio.numel()
    taken = available if session.source_ended else available - available % CHUNK_SAMPLES
    block = session.audio[:taken]

    frames = -(-taken // FRAME_SAMPLES)  # rounded up: the last frame of a source may be incomplete
    session.forget(Cut(tokens=session.prefix_ids.numel(), frames=frames))
    return F.pad(block, (0, -taken % CHUNK_SAMPLES))
