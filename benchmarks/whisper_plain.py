"""SimulStreaming's loop over Whisper, restated on Transformers' network; no state between chunks.

At every chunk it computes the features of all kept audio, pads them to 30 s, encodes them, and
generates token by token after the kept text. All cross-attention is computed and returned; the
alignment of all tokens so far is computed anew for each token, and decoding stops at the first
token that AlignAtt would not write. Greedy search.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache

from zoo.backbones.base import Backbone
from zoo.backbones.decoding.partial_text import PartialText
from zoo.backbones.decoding.search import Answer
from zoo.backbones.whisper import Whisper
from zoo.base.types import Capability, Hypothesis, Request
from zoo.streaming.session import Session


class PlainWhisper(Backbone):
    """Gives the answers of a Whisper to requests for translations.

    Args:
        whisper: backbone that is not loaded yet, and is not used otherwise.
    """

    exposes = Whisper.exposes
    frame_samples = Whisper.frame_samples
    longest_input = Whisper.longest_input

    def __init__(self, whisper: Whisper) -> None:
        super().__init__()
        self.whisper = whisper

    def load(self) -> None:
        """Read the weights; the decoder's attention is eager, which returns its weights."""
        self.whisper.load()
        eager = copy.deepcopy(self.whisper.decoder.module.config)
        eager._attn_implementation = "eager"
        for module in self.whisper.decoder.module.modules():
            if hasattr(module, "config"):
                module.config = eager

    def arrange(self) -> None:
        """The weights stay as Transformers stores them."""

    def open(self, session: Session) -> Any:
        """As Whisper's."""
        return self.whisper.open(session)

    def text(self, token_ids: list[int]) -> str:
        """As Whisper's."""
        return self.whisper.text(token_ids)

    @torch.inference_mode()
    def decode(
        self, sessions: Sequence[Session], requests: Sequence[Request], needs: frozenset[Capability]
    ) -> list[Hypothesis]:
        """Answer one stream after another."""
        return [
            self._answer(session, request)
            for session, request in zip(sessions, requests, strict=True)
        ]

    def _answer(self, session: Session, request: Request) -> Hypothesis:
        wave = session.visible_audio(request.audio_end)
        session.backbone_state.features = self.whisper.spectrogram.open()
        [memory] = self.whisper.encode_audio([session], [wave])
        text = self.whisper._text(session, request)
        limit = self.whisper._limit(len(text.opening) + len(text.prefix))
        tokens, ended, attention = self._generate(memory, text, request, limit)
        hypothesis = text.hypothesis(Answer(tokens, ended, torch.empty(0)), limit=limit)
        return text.aligned(
            hypothesis, self.whisper.alignment, attention, opening=len(text.opening)
        )

    def _generate(
        self, memory: Tensor, text: PartialText, request: Request, limit: int
    ) -> tuple[list[int], bool, Tensor]:
        """Token ids, whether the model ended them, and attention (positions, heads, frames)."""
        cache: Any = EncoderDecoderCache(DynamicCache(), DynamicCache())
        inputs, tokens = [*text.opening, *text.prefix], list[int]()
        attention = torch.empty(0)
        frames = torch.tensor([text.frames])
        while True:
            output = self.whisper.decoder.module(
                input_ids=torch.tensor([inputs]),
                encoder_hidden_states=memory[None],
                past_key_values=cache,
                use_cache=True,
                output_attentions=True,
            )
            newest = self._chosen(output.cross_attentions)[..., : text.frames]
            attention = torch.cat([attention, newest]) if tokens else newest
            rows = self.whisper.alignment.align(
                attention, opening=len(text.opening), prefix=len(text.prefix), new=len(tokens) + 1
            )
            late = request.stop_at is not None and bool(request.stop_at(rows[-1:], frames))

            scores = self.whisper.decoder.head(output.last_hidden_state[0, -1]).log_softmax(dim=0)
            scores[self.whisper.never] = -torch.inf
            if not tokens and not text.prefix:
                scores[self.whisper.never_first] = -torch.inf
            token = int(scores.argmax())
            if token == self.whisper.end:
                return tokens, True, attention
            tokens.append(token)
            if late or len(tokens) == limit:
                return tokens, False, attention
            inputs = [token]

    def _chosen(self, layers: Sequence[Tensor]) -> Tensor:
        """Attention (positions, heads, frames) of the aligning heads, from that of all layers."""
        chosen = [
            layers[layer][0] if heads is None else layers[layer][0, list(heads)]
            for layer, heads in sorted(self.whisper.heads.items())
        ]
        return torch.cat(chosen).transpose(0, 1)
