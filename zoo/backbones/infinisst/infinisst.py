"""InfiniSST: streaming encoder, adapter and multi-turn decoder behind the backbone contract."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.backbones.common.causal.branches import CausalBranches, empty_cache
from zoo.backbones.common.search import Answer, Context
from zoo.backbones.common.speech_llm.data import Batch, Output
from zoo.backbones.common.speech_llm.prompt import Template
from zoo.backbones.common.speech_llm.speech_llm import SpeechLLM
from zoo.backbones.common.text.vocabulary import SPACES
from zoo.backbones.common.wav2vec2.encoded import EncodedTalks, encode_talks
from zoo.backbones.common.wav2vec2.encoder import CHUNK_SAMPLES, FRAME_SAMPLES, EncoderConfig
from zoo.backbones.infinisst.search import TurnSearchConfig, search
from zoo.backbones.infinisst.window import (
    StreamState,
    WindowConfig,
    append_turn,
    recent_ids,
    slide,
)
from zoo.data.talks import Talk
from zoo.errors import ZooError
from zoo.languages import Language
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Hypothesis, Request


class InfiniSST(SpeechLLM):
    """The network of InfiniSST (sections 3.2 to 3.5), which takes turns with the speaker."""

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})
    frame_samples = FRAME_SAMPLES
    experiment = "infinisst_minitalks"

    def __init__(
        self,
        *,
        encoder: EncoderConfig,
        decoder: str | Mapping[str, Any],
        template: Template | str,
        tokenizer: str | None = None,
        checkpoint: str | None = None,
        encoder_weights: str | None = None,
        adapter_norm: bool = False,
        embedding_std: float | None = None,
        dtype: str = "float32",
        window: WindowConfig = WindowConfig(),  # noqa: B008 (frozen)
        search: TurnSearchConfig = TurnSearchConfig(),  # noqa: B008 (frozen)
    ) -> None:
        """Configure the backbone; ``load`` reads weights. Other arguments are those of
        ``SpeechLLM``.

        Args:
            window: Sliding window of the decoder.
            search: How a turn is generated.
        """
        super().__init__(
            encoder=encoder,
            decoder=decoder,
            template=template,
            tokenizer=tokenizer,
            checkpoint=checkpoint,
            encoder_weights=encoder_weights,
            adapter_norm=adapter_norm,
            embedding_std=embedding_std,
            dtype=dtype,
            suppress=search.suppress,
        )
        self.window = window
        self.search = search

    def forward(self, batch: Batch) -> Output:
        """Teacher forcing over whole trajectories (section 3.4): each turn's text and its end."""
        frames = batch.audio
        if frames.dim() == 2:
            frames = self.encode_training(batch.audio, batch.multiplier).hidden
        return self.teacher_forced(batch, frames)

    def encode_talks(
        self, talks: Sequence[Talk], *, multipliers: Collection[int], device: torch.device
    ) -> EncodedTalks:
        """Frames of whole talks with the encoder's blocks of each of these numbers of chunks."""
        return encode_talks(self.encoder, talks, multipliers, device=device)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Generate one turn per stream: encode all new audio, then decode until the end of turn.

        Encoded audio leaves the session, as the window is kept here. Audio short of a whole chunk
        waits for more, or is padded with zeros when the source has ended; a stream without a whole
        chunk gets an empty hypothesis.
        """
        hypotheses = [
            self._hypothesis(session, Answer([], True, session.backbone_state.cache))
            for session in sessions
        ]
        blocks = [take_chunks(session) for session in sessions]
        live = [index for index, block in enumerate(blocks) if block.numel()]
        if live:
            answers = self._generate_turns(
                [sessions[index] for index in live], [blocks[index] for index in live]
            )
            for index, answer in zip(live, answers, strict=True):
                hypotheses[index] = self._hypothesis(sessions[index], answer)
        return hypotheses

    def _generate_turns(
        self, sessions: Sequence[Session], blocks: Sequence[Tensor]
    ) -> list[Answer]:
        """Answers to blocks of (n x 15 360,) samples; each stream's window takes in its turn."""
        states: list[StreamState] = [session.backbone_state for session in sessions]
        chunks = [block.numel() // CHUNK_SAMPLES for block in blocks]
        encoded = self.encoder.stream([state.encoder for state in states], blocks)
        for state in states:
            slide(state, self.window, self.decoder)

        prompts = [
            self._opening(session) + self.prompt.turn(size)
            for session, size in zip(sessions, chunks, strict=True)
        ]
        embeddings = [
            self.embed(ids, self.adapter(frames[None])[0])
            for ids, frames in zip(prompts, encoded, strict=True)
        ]
        branches = CausalBranches(self.decoder, states, embeddings)
        earlier = [recent_ids(state, self.search.lookback) for state in states]
        answers = search(
            branches,
            self.search,
            contexts=[Context(*before) for before in zip(earlier, prompts, strict=True)],
            limits=[
                self.search.tokens_per_chunk * max(size, session.latency_multiplier)
                for session, size in zip(sessions, chunks, strict=True)
            ],
            end=self.prompt.end_of_turn,
            never=self.never,
        )
        for index, (state, answer) in enumerate(zip(states, answers, strict=True)):
            append_turn(state, branches.prefilled(index), answer, end=self.prompt.end_of_turn)
        return answers

    def _opening(self, session: Session) -> list[int]:
        """Ids before a turn: the instruction at first, then the end of the turn before."""
        state: StreamState = session.backbone_state
        return self._instruction(session) if state.anchor is None else state.pending

    def _instruction(self, session: Session) -> list[int]:
        return self.prompt.instruction(
            source=session.source_language,
            target=session.target_language,
            multiplier=session.latency_multiplier,
        )

    def _hypothesis(self, session: Session, answer: Answer) -> Hypothesis:
        starts = [self._starts_word(token, session.target_language) for token in answer.tokens]
        starts[:1] = [True] * len(starts[:1])
        return Hypothesis(
            token_ids=torch.tensor(answer.tokens, dtype=torch.long),
            word_starts=torch.tensor(starts, dtype=torch.bool),
            finished=True,
            truncated=not answer.finished,
        )

    def _starts_word(self, token: int, target: Language) -> bool:
        piece = str(self.tokenizer.convert_ids_to_tokens(token))
        return target.unit == "char" or piece.startswith(SPACES)

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Do nothing: the turn is in the window already.

        Raises ZooError unless all of it was written.
        """
        if tokens != hypothesis.num_new_tokens:
            raise ZooError("InfiniSST writes whole turns; choose policy=turn_taking.")

    def open(self, session: Session) -> StreamState:
        """Empty caches.

        Raises ZooError when the prompt has no token for the session's multiplier.
        """
        kept = len(self._instruction(session)) if self.window.keep_instruction else 0
        return StreamState(
            encoder=self.encoder.open(), cache=empty_cache(self.decoder), instruction=kept
        )


def take_chunks(session: Session) -> Tensor:
    """Remove the whole chunks from a session's audio; at the end of the source the rest is padded
    with zeros.

    The text of the last turn is forgotten as well: each turn is a text of its own.

    Returns:
        (chunks x 15 360,) samples.
    """
    samples = session.audio.numel()
    whole = samples if session.source_ended else samples - samples % CHUNK_SAMPLES
    block = session.audio[:whole]
    session.forget(Cut(tokens=session.prefix_ids.numel(), frames=-(-whole // FRAME_SAMPLES)))
    return F.pad(block, (0, -whole % CHUNK_SAMPLES))
