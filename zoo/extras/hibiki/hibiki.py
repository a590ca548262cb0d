"""Hibiki as a backbone: it translates at 12.5 frames per second, and decides itself when to write.

Each frame has the codes of 80 ms of the source, one text token (most are padding) and the codes of
80 ms of target speech. What the end of a source needs follows its last frame: a frame that marks
the end, and silence until the model ends its text.
"""

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F
from sentencepiece import SentencePieceProcessor
from torch import Tensor
from transformers import MimiModel

from zoo.backbones.base import Backbone, dtype_named
from zoo.backbones.pretrained.hub import check, local_folder
from zoo.backbones.pretrained.loading import load_network, loader_errors
from zoo.backbones.pretrained.weights import without_initial_values
from zoo.base.errors import ZooError, check_choice, check_numbers
from zoo.base.languages import Language
from zoo.base.types import SAMPLE_RATE, Capability, Cut, Hypothesis, Request, Seconds
from zoo.extras.hibiki.codec import FRAME, Codec, CodecState
from zoo.extras.hibiki.config import read_config
from zoo.extras.hibiki.network import Choose, HibikiNetwork, Ring
from zoo.extras.hibiki.weights import END, load
from zoo.streaming.session import Session
from zoo.streaming.stages import stage

Opening = Literal["silence", "repeat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How tokens are chosen; the defaults are those of the paper on Hibiki-Zero (section 4.5).

    Attributes:
        temperature: Temperature of the speech; 0: the token with the highest score.
        top_k: Number of candidates of the speech.
        text_temperature: Temperature of the text.
        text_top_k: Number of candidates of the text.
        released: Whether the numbers in the checkpoint, or where it has none those of the authors'
            code (0.8, 250, 0.7, 25), take the place of the four.
        seed: Seed; the random numbers of a stream follow from it and the name of its talk.

    Raises:
        ZooError: A number is out of range.
    """

    temperature: float = 0.8
    top_k: int = 250
    text_temperature: float = 0.8
    text_top_k: int = 250
    released: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_numbers(
            "backbone.sampling",
            least=0,
            temperature=self.temperature,
            text_temperature=self.text_temperature,
        )
        check_numbers("backbone.sampling", least=1, top_k=self.top_k, text_top_k=self.text_top_k)

    def numbers(self, published: Mapping[str, float]) -> tuple[tuple[float, int], ...]:
        """Return temperature and candidates of text and of speech.

        Args:
            published: Numbers in the checkpoint.
        """
        if not self.released:
            return (self.text_temperature, self.text_top_k), (self.temperature, self.top_k)
        text = published.get("temp_text", 0.7), int(published.get("top_k_text", 25))
        speech = published.get("temp", 0.8), int(published.get("top_k", 250))
        if published.get("use_sampling", True):
            return text, speech
        return (0, 1), (0, 1)


@dataclass(slots=True, eq=False)
class StreamState:
    """State of one stream.

    Attributes:
        codec: State of the codec.
        rings: Keys and values of the temporal Transformer, one per layer.
        random: Random numbers of the stream.
        sources: Codes of the last frames of the source, newest last.
        targets: Codes of the last frames of target speech, newest last.
        text: Text token of the last frame.
        frame: Number of frames processed.
        waiting: Codes of frames of the source that are not processed yet.
        first_word: Frame of the first word.
        source_end: Frame that marks the end of the source.
        end: Frame in which the text ended after that.
    """

    codec: CodecState
    rings: list[Ring]
    random: torch.Generator
    sources: deque[Tensor]
    targets: deque[Tensor]
    text: int
    frame: int = 0
    waiting: deque[Tensor] = field(default_factory=deque)
    first_word: int | None = None
    source_end: int | None = None
    end: int | None = None


@dataclass(slots=True, eq=False)
class Turn:
    """What a stream writes in one step: text tokens, codes of target speech, and how it ended."""

    tokens: list[int] = field(default_factory=list)
    codes: list[Tensor] = field(default_factory=list)
    truncated: bool = False


class Hibiki(Backbone):
    """Hibiki (Labiausse et al., 2025) and Hibiki-Zero (2026): text and speech of a translation."""

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS, Capability.WAVEFORM})
    frame_samples = FRAME
    hub_task = "audio-to-audio"

    def __init__(
        self,
        *,
        name: str,
        codec: str = "kyutai/mimi",
        sources: Sequence[str] = ("fr", "es", "pt", "de"),
        sampling: SamplingConfig = SamplingConfig(),
        opening: Opening = "silence",
        end_seconds: Seconds = 30.0,
        dtype: str = "float32",
    ) -> None:
        """Configure the backbone; ``load`` reads weights.

        Args:
            name: Hub id or folder in the authors' layout: config.json, weights and tokenizer.
            codec: Hub id or folder of Mimi, in the layout of Transformers.
            sources: Codes of the languages that the model translates into English.
            sampling: How tokens are chosen.
            opening: What precedes the source, whose first frames the model cannot hear: ``silence``
                is as many frames of silence as the longest delay (the code of Hibiki-Zero);
                ``repeat`` is the first frame once more (that of Hibiki).
            end_seconds: Longest silence that follows a source until the model ends its text.
            dtype: Name of the floating-point type of the weights; the codec is in float32.

        Raises:
            ZooError: A value is unknown or out of range.
        """
        super().__init__()
        check_choice("backbone.opening", opening, get_args(Opening))
        check_numbers("Hibiki", least=0, most=600, end_seconds=end_seconds)
        self.name = name
        self.codec_name = codec
        self.sources = tuple(sources)
        self.sampling = sampling
        self.opening = opening
        self.end_frames = round(end_seconds * SAMPLE_RATE / FRAME)
        self.dtype = dtype_named(dtype)

    def check_languages(self, source: Language, target: Language) -> None:
        """Raise ZooError unless a source language is translated into English."""
        if source.code not in self.sources or target.code != "en":
            raise ZooError(
                f"Hibiki translates {', '.join(self.sources)} into en, not {source.code} into "
                f"{target.code}; set source_language and target_language, or backbone.sources."
            )

    def load(self) -> None:
        """Create the network as config.json describes it; read weights, tokenizer and codec.

        Raises:
            ZooError: A file is missing or damaged, or does not fit the others.
        """
        patterns = ["config.json", "*.safetensors", "*.model"]
        unread = ["mimi*", "tokenizer-*"]  # the codec is read by its own name
        folder = local_folder("Hibiki", self.name, files=patterns, left_out=unread)
        self.config = read_config(folder)
        check("codec", self.codec_name)
        with without_initial_values():
            self.network = HibikiNetwork(self.config).to(self.dtype).eval()
        load(self.network, folder / self.config.weights)
        mimi = load_network(MimiModel, self.codec_name, torch.float32)
        self.codec = Codec(mimi, source=self.config.sources, target=self.config.targets)
        self.tokenizer = read_tokenizer(folder / self.config.tokenizer, ids=self.config.text)
        self.numbers = self.sampling.numbers(self.config.sampling)

    @torch.inference_mode()
    def open(self, session: Session) -> StreamState:
        """Return the state of a new stream, which waits for the frames of its opening."""
        seed = hashlib.sha256(f"{self.sampling.seed} {session.talk}".encode()).digest()
        kept = max(self.config.delays) + 1
        state = StreamState(
            codec=self.codec.open(),
            rings=[Ring(self.config.temporal.context) for _ in self.network.transformer.layers],
            random=torch.Generator().manual_seed(int.from_bytes(seed[:8])),
            sources=deque(maxlen=kept),
            targets=deque(maxlen=kept),
            text=self.config.text,
        )
        if self.opening == "silence" and kept > 1:
            state.waiting.extend(self.codec.encode(self.codec.open(), self._silence(kept - 1)))
        return state

    def _silence(self, frames: int) -> Tensor:
        return torch.zeros(frames * FRAME)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Translate the whole frames of the new audio of each stream.

        Encoded audio is removed from the sessions. The rest of a frame stays there until the source
        ends, which adds zeros.

        Args:
            sessions: Streams to decode.
            requests: One request per session; a turn has no limits.
            needs: Capabilities that are required; target speech is decoded for ``WAVEFORM`` only.

        Returns:
            One hypothesis per session.
        """
        states: list[StreamState] = [session.backbone_state for session in sessions]
        for session, state in zip(sessions, states, strict=True):
            self._take_audio(session, state)
        turns = [Turn() for _ in sessions]
        while live := [
            index
            for index, session in enumerate(sessions)
            if self._has_frame(session, states[index], turns[index])
        ]:
            self._advance([states[index] for index in live], [turns[index] for index in live])
        return [
            self._hypothesis(session, turn, speaks=Capability.WAVEFORM in needs)
            for session, turn in zip(sessions, turns, strict=True)
        ]

    def _take_audio(self, session: Session, state: StreamState) -> None:
        """Remove whole frames, and the text before them, from a session and encode the frames."""
        samples = session.audio
        if not session.source_ended:
            samples = samples[: samples.numel() // FRAME * FRAME]
        # the last written token stays, so that the next ones continue its word
        written = max(session.prefix_ids.numel() - 1, 0)
        session.forget(Cut(tokens=written, frames=-(-samples.numel() // FRAME)))
        if samples.numel():
            samples = F.pad(samples, (0, -samples.numel() % FRAME))
            codes = self.codec.encode(state.codec, samples)
            if self.opening == "repeat" and not state.sources and not state.waiting:
                state.waiting.append(codes[0])
            state.waiting.extend(codes)

    def _has_frame(self, session: Session, state: StreamState, turn: Turn) -> bool:
        """Return whether a stream has another frame to process, and add those after its end."""
        if state.waiting or not session.source_ended:
            return bool(state.waiting)
        if state.source_end is None:
            state.source_end = state.frame
            mark = torch.full((self.config.sources,), self.config.codes)
            self.codec.encode(state.codec, self._silence(1))  # the mark takes the place of a frame
            state.waiting.append(mark)
            return True
        if state.end is not None:  # the last frame of speech is the one before the end of the text
            if state.frame >= state.end + max(self.config.delays):
                return False
        elif state.frame - state.source_end > self.end_frames:
            turn.truncated = True
            return False
        state.waiting.extend(self.codec.encode(state.codec, self._silence(1)))
        return True

    @stage("decode")
    def _advance(self, states: Sequence[StreamState], turns: Sequence[Turn]) -> None:
        """Process one frame of each stream."""
        device = self.network.text_linear.weight.device
        inputs = []
        for state in states:
            state.sources.append(state.waiting.popleft().to(device))
            inputs.append(self._inputs(state))
        tokens = torch.stack(inputs)
        positions = torch.tensor([state.frame for state in states], device=device)
        hidden = self.network.step(tokens, [state.rings for state in states], positions)
        text, codes = self.network.generate(hidden, self._chooser(states, device))
        for state, turn, token, spoken in zip(states, turns, text.tolist(), codes, strict=True):
            self._record(state, turn, token, spoken)

    def _inputs(self, state: StreamState) -> Tensor:
        """Return the (1 + codebooks,) ids that a frame receives.

        The text and the codes of the target are those of the frame before, and the source is that
        of the frame itself; a stream with a delay begins later. Ids before the begin are special.
        """
        config, newest = self.config, state.sources[-1]
        ids = [newest.new_full((), state.text)]
        for index, delay in enumerate(config.delays[1:]):
            target = index < config.targets
            if state.frame <= delay:
                ids.append(newest.new_full((), config.codes))
            elif target:
                ids.append(state.targets[-1][index])
            else:
                ids.append(state.sources[-1 - delay][index - config.targets])
        return torch.stack(ids)

    def _chooser(self, states: Sequence[StreamState], device: torch.device) -> Choose:
        """Return the function that chooses the tokens of a frame.

        The random numbers of a stream are drawn on the CPU before any is needed, so that they
        depend neither on the device nor on the other streams, and reach a GPU in one transfer.
        """
        kinds = [self.numbers[0]] + [self.numbers[1]] * self.config.targets
        widest = max(top_k for _, top_k in kinds)
        noise = None
        if any(temperature for temperature, _ in kinds):
            drawn = [
                torch.empty(len(kinds), widest).exponential_(generator=state.random)
                for state in states
            ]
            noise = torch.stack(drawn, dim=1).to(device)

        def choose(scores: Tensor, stream: int) -> Tensor:
            temperature, top_k = kinds[stream]
            if not temperature or noise is None:
                return scores.argmax(dim=-1)
            # the largest of probabilities divided by exponential noise is a sample of them
            top, ids = (
                (scores.float() / temperature)
                .softmax(dim=-1)
                .topk(min(top_k, scores.shape[-1]), dim=-1)
            )
            best = (top / noise[stream, :, : top.shape[-1]]).argmax(dim=-1, keepdim=True)
            return ids.gather(-1, best)[:, 0]

        return choose

    def _record(self, state: StreamState, turn: Turn, token: int, codes: Tensor) -> None:
        """Keep what a frame generated; write its token, and speech whose codes are complete."""
        frame, latest = state.frame, max(self.config.delays)
        state.text = token
        state.targets.append(codes)
        state.frame += 1
        if state.end is None:
            if token > self.config.padding:
                turn.tokens.append(token)
                state.first_word = frame if state.first_word is None else state.first_word
            elif token == END and state.source_end is not None:
                state.end = frame
        complete = frame - latest
        spoken = state.first_word is not None and complete >= state.first_word
        if spoken and (state.end is None or complete < state.end):
            # the deque holds the last frames: that of a stream with a delay is newer
            delays = self.config.delays[1 : 1 + self.config.targets]
            turn.codes.append(
                torch.stack([state.targets[delay][index] for index, delay in enumerate(delays)])
            )

    def _hypothesis(self, session: Session, turn: Turn, *, speaks: bool) -> Hypothesis:
        """Return a turn as a hypothesis. A turn with speech and no text has a padding token."""
        tokens = turn.tokens or ([self.config.padding] if turn.codes and speaks else [])
        speech = torch.zeros(0) if speaks else None
        if speaks and turn.codes:
            codec: CodecState = session.backbone_state.codec
            speech = self.codec.decode(codec, torch.stack(turn.codes)).cpu()
        kept = session.prefix_ids.numel()
        starts = [self.tokenizer.id_to_piece(token).startswith("▁") for token in tokens]
        return Hypothesis(
            token_ids=torch.tensor(tokens, dtype=torch.long),
            word_starts=torch.tensor([False] * kept + starts, dtype=torch.bool),
            prefix_length=kept,
            finished=True,
            truncated=turn.truncated,
            speech=speech,
        )

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Raise ZooError unless a whole turn is written: the model continues its own output."""
        if tokens != hypothesis.num_new_tokens:
            raise ZooError("Hibiki writes whole turns; choose policy=turn_taking.")

    def text(self, token_ids: list[int]) -> str:
        """Detokenise ids; padding and other special ids have no text."""
        words = [token for token in token_ids if token > self.config.padding]
        return str(self.tokenizer.decode(words))


def read_tokenizer(path: Path, *, ids: int) -> SentencePieceProcessor:
    """Read a SentencePiece model.

    Args:
        path: Its file.
        ids: Number of text ids of the network.

    Raises:
        ZooError: The file is missing or damaged, or has another number of ids.
    """
    with loader_errors(f"{path} is no tokenizer"):
        tokenizer = SentencePieceProcessor(model_file=str(path))
    if tokenizer.get_piece_size() != ids:
        raise ZooError(
            f"{path} has {tokenizer.get_piece_size()} ids, but the network has {ids} text ids."
        )
    return tokenizer
