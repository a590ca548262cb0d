"""InfiniSST: streaming encoder, adapter and multi-turn decoder behind the backbone contract. Knows no clock."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from zoo.backbones import hub
from zoo.backbones.base import Backbone
from zoo.backbones.infinisst.adapter import Adapter
from zoo.backbones.infinisst.batch import Batch, Output
from zoo.backbones.infinisst.decoder import build_decoder
from zoo.backbones.infinisst.encoder import CHUNK_SAMPLES, FRAME_SAMPLES, Encoded, EncoderConfig, StreamingEncoder
from zoo.backbones.infinisst.pretrained import WEIGHTS, load_encoder
from zoo.backbones.infinisst.prompt import IGNORED, Prompt, Template, template_named
from zoo.backbones.infinisst.search import Answer, Context, SearchConfig, search
from zoo.backbones.infinisst.turn import Turn
from zoo.backbones.infinisst.window import StreamState, WindowConfig, close, empty_cache, recent, slide
from zoo.errors import ZooError, some, unknown
from zoo.languages import Language
from zoo.streaming.session import Session
from zoo.types import Capability, Cut, Hypothesis, Request


class InfiniSST(Backbone):
    """The network of InfiniSST (sections 3.2 to 3.5). One ``forward`` and one ``decode`` over the same three children.

    encoder: its shape. decoder: hub id, local folder, or a config's fields (random weights); with a checkpoint, which
    has all weights, only the config is read. adapter_norm: see ``Adapter``. tokenizer: hub id or local folder; None:
    the checkpoint's. template: strings of the dialogue, or the name of some (``prompt.TEMPLATES``). checkpoint: folder
    with ``model.safetensors`` and tokenizer files; None: random (or pretrained) parts. encoder_weights: where the
    encoder starts from without a checkpoint, see ``pretrained.load_encoder``; None: random. embedding_std: of a random
    decoder. window: the decoder's. search: how a turn is generated.
    """

    exposes: ClassVar[frozenset[Capability]] = frozenset({Capability.TURNS})
    frame_samples = FRAME_SAMPLES

    encoder: StreamingEncoder
    adapter: Adapter
    decoder: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    prompt: Prompt
    never: list[int]  # ids that are never said

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
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
    ) -> None:
        super().__init__()
        if tokenizer is None and checkpoint is None:
            raise ZooError("InfiniSST needs a tokenizer: name one (hub id or folder) or a checkpoint that has it.")
        self.encoder_config = encoder
        self.decoder_source = decoder
        self.template = template_named(template)
        self.tokenizer_source = tokenizer if tokenizer is not None else checkpoint
        self.checkpoint = checkpoint
        self.encoder_weights = encoder_weights
        self.adapter_norm = adapter_norm
        self.embedding_std = embedding_std
        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise unknown("dtype", dtype, ("float32", "bfloat16", "float16", "float64"))
        self.dtype = getattr(torch, dtype)
        self.window = window
        self.search = search

    def load(self) -> None:
        """Create the three children and read what the constructor named. Raises ZooError on weights that do not fit."""
        if self.checkpoint is not None and not (Path(self.checkpoint) / WEIGHTS).is_file():
            raise ZooError(
                f"There is no trained InfiniSST in {self.checkpoint} (no {WEIGHTS}); train one for this language pair "
                "with python train.py experiment=infinisst_minitalks target_language=..., or name another folder with "
                "backbone.checkpoint=..."
            )
        for noun, name in self._named():
            hub.check(noun, name)
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(self.tokenizer_source)
        except (OSError, ValueError) as error:
            raise ZooError(
                f"No tokenizer could be loaded from {self.tokenizer_source}; it must be a folder or a name on the hub."
            ) from error
        self.prompt = Prompt(tokenizer=self.tokenizer, template=self.template)
        self.never = [self.prompt.speech, *self.prompt.containing(self.search.suppress)]
        self.encoder = StreamingEncoder(self.encoder_config).to(self.dtype)
        if self.checkpoint is None and self.encoder_weights is not None:
            load_encoder(self.encoder, self.encoder_weights)
        self.decoder = build_decoder(
            self.decoder_source,
            vocabulary=len(self.tokenizer),
            embedding_std=self.embedding_std,
            dtype=self.dtype,
            empty=self.checkpoint is not None,
        )
        adapter = Adapter(
            hidden=self.encoder_config.hidden, embedding=self.decoder.config.hidden_size, norm=self.adapter_norm
        )
        self.adapter = adapter.to(self.dtype)
        if self.checkpoint is not None:
            self._read(Path(self.checkpoint) / WEIGHTS)

    def _named(self) -> Iterator[tuple[str, str]]:
        """What comes from a folder or the hub: noun and name."""
        yield "tokenizer", str(self.tokenizer_source)
        if self.checkpoint is None and self.encoder_weights is not None:
            yield "encoder", self.encoder_weights
        if isinstance(self.decoder_source, str):
            yield "decoder", self.decoder_source

    def save(self, folder: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write ``model.safetensors`` (in ``dtype``; None: as they are) and the tokenizer to ``folder``."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tied = self._tied()
        weights = {
            name: tensor.detach().to(dtype or tensor.dtype).contiguous().cpu()
            for name, tensor in self.state_dict().items()
            if name not in tied
        }
        save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
        self.tokenizer.save_pretrained(folder)

    def forward(self, batch: Batch) -> Output:
        """Teacher forcing over whole trajectories (section 3.4): the loss covers each turn's text and its end."""
        samples = batch.heard.dim() == 2
        frames = self.encode_training(batch.heard, batch.multiplier).hidden if samples else batch.heard
        embeddings = self.decoder.get_input_embeddings()(batch.input_ids)
        speech = self.adapter(frames.to(self.dtype)).to(embeddings.dtype)
        rows, places = (batch.speech_positions >= 0).nonzero(as_tuple=True)
        positions = batch.speech_positions[rows, places]
        embeddings = embeddings.index_put((rows, positions), speech[rows, places])
        hidden = self.decoder.model(inputs_embeds=embeddings, use_cache=False).last_hidden_state
        targets = batch.labels[:, 1:]
        labelled = targets != IGNORED
        logits = self.decoder.get_output_embeddings()(hidden[:, :-1][labelled])
        loss = F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), targets[labelled])
        return Output(loss, logits, targets[labelled])

    def encode_training(self, samples: Tensor, multiplier: int) -> Encoded:
        """(batch, n) samples from the start of a stream to (batch, n / 320, hidden), no gradients when frozen."""
        trained = any(parameter.requires_grad for parameter in self.encoder.parameters())
        with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
            return self.encoder(samples.to(self.dtype), multiplier)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """One turn per stream: all audio not heard yet, then words until its end. Requests ask for nothing else.

        Heard audio leaves the session (the window lives here). Audio short of a whole chunk waits for more, or is
        filled up with zeros when the source has ended; a stream without a chunk says nothing.
        """
        hypotheses = [self._hypothesis(session, Answer([], True, session.backbone.cache)) for session in sessions]
        blocks = [heard(session) for session in sessions]
        live = [index for index, block in enumerate(blocks) if block.numel()]
        if live:
            answers = self._turns([sessions[index] for index in live], [blocks[index] for index in live])
            for index, answer in zip(live, answers, strict=True):
                hypotheses[index] = self._hypothesis(sessions[index], answer)
        return hypotheses

    def _turns(self, sessions: Sequence[Session], blocks: Sequence[Tensor]) -> list[Answer]:
        states: list[StreamState] = [session.backbone for session in sessions]
        chunks = [block.numel() // CHUNK_SAMPLES for block in blocks]
        encoded = self.encoder.stream([state.encoder for state in states], blocks)
        for state in states:
            slide(state, self.window, self.decoder)
        prompts = [
            self._opening(session) + self.prompt.turn(size) for session, size in zip(sessions, chunks, strict=True)
        ]
        turn = Turn(self.decoder, states, [self._embed(*said) for said in zip(prompts, encoded, strict=True)])
        earlier = [recent(state, self.search.lookback) for state in states]
        answers = search(
            turn,
            self.search,
            contexts=[Context(*before) for before in zip(earlier, prompts, strict=True)],
            limits=[
                self.search.tokens_per_chunk * max(size, session.multiplier)
                for session, size in zip(sessions, chunks, strict=True)
            ],
            end=self.prompt.end_of_turn,
            never=self.never,
        )
        for index, (state, answer) in enumerate(zip(states, answers, strict=True)):
            close(state, turn.prefilled(index), answer, end=self.prompt.end_of_turn)
        return answers

    def _opening(self, session: Session) -> list[int]:
        """Ids in front of a turn: the instruction at first, then the end of the turn before."""
        state: StreamState = session.backbone
        return self._instruction(session) if state.anchor is None else state.pending

    def _instruction(self, session: Session) -> list[int]:
        return self.prompt.instruction(source=session.source, target=session.target, multiplier=session.multiplier)

    def _embed(self, ids: list[int], frames: Tensor) -> Tensor:
        """(len(ids), embedding): token embeddings with the adapter's where the ids say speech."""
        tokens = torch.tensor(ids, device=frames.device)
        embeddings = self.decoder.get_input_embeddings()(tokens)
        embeddings[tokens == self.prompt.speech] = self.adapter(frames[None])[0].to(embeddings.dtype)
        return embeddings

    def _hypothesis(self, session: Session, answer: Answer) -> Hypothesis:
        starts = [self._starts_word(token, session.target) for token in answer.tokens]
        starts[:1] = [True] * len(starts[:1])
        return Hypothesis(
            token_ids=torch.tensor(answer.tokens, dtype=torch.long),
            word_starts=torch.tensor(starts, dtype=torch.bool),
            finished=True,
            truncated=not answer.finished,
        )

    def _starts_word(self, token: int, target: Language) -> bool:
        piece = str(self.tokenizer.convert_ids_to_tokens(token))
        return target.unit == "char" or piece.startswith(("\u0120", "\u2581"))  # the signs for a space in front

    def commit(self, session: Session, hypothesis: Hypothesis, tokens: int) -> None:
        """Nothing to do: the turn is in the window already. Raises ZooError unless it was written in full."""
        if tokens != hypothesis.new:
            raise ZooError("InfiniSST writes whole turns; choose policy=turn_taking.")

    def open(self, session: Session) -> StreamState:
        """Empty caches. Raises ZooError when the prompt cannot tell the session's multiplier."""
        kept = len(self._instruction(session)) if self.window.keep_instruction else 0
        return StreamState(encoder=self.encoder.open(), cache=empty_cache(self.decoder), instruction=kept)

    def text(self, token_ids: list[int]) -> str:
        """Plain detokenisation, special tokens left out."""
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _tied(self) -> set[str]:
        """Names in the state dict that share their storage with an earlier one."""
        seen: dict[int, str] = {}
        return {name for name, tensor in self.state_dict().items() if seen.setdefault(tensor.data_ptr(), name) != name}

    def _read(self, path: Path) -> None:
        try:
            missing, unexpected = self.load_state_dict(load_file(path), strict=False)
        except SafetensorError as error:
            raise ZooError(f"{path} is damaged or no safetensors file ({error}).") from error
        except RuntimeError as error:
            first = str(error).splitlines()[1].strip()  # under a headline; one of many
            raise ZooError(f"Checkpoint {str(path.parent)!r} does not fit the network: {first}") from error
        wrong = [*(set(missing) - self._tied()), *unexpected]
        if wrong:
            raise ZooError(f"Checkpoint {str(path.parent)!r} does not fit the network: {some(sorted(wrong))}.")


def heard(session: Session) -> Tensor:
    """Take the whole chunks out of the session's audio, (chunks x 15 360,); a last piece is filled up with zeros.

    The last turn's text goes too: a turn is a text of its own.
    """
    samples = session.audio.numel()
    whole = samples if session.source_ended else samples - samples % CHUNK_SAMPLES
    block = session.audio[:whole]
    session.forget(Cut(tokens=session.prefix.numel(), frames=-(-whole // FRAME_SAMPLES)))
    return F.pad(block, (0, -whole % CHUNK_SAMPLES))
