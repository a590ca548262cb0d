"""InfiniSST's decoding as published, inside the zoo's search, prompt and window.

In the authors' code the prompt is encoded and prefilled once per beam; convolutions run again over
the block before the new one; keys are cached without rotation and all of them rotated at every
step; caches grow by concatenation, hold a copy of the prefix per beam and are reordered in full;
logits are computed at all positions.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from zoo.backbones.decoding.causal.decoder import rotary_of
from zoo.backbones.decoding.static_steps import StaticSteps
from zoo.backbones.encoders.wav2vec2.encoder import (
    CHUNK_FRAMES,
    CHUNK_SAMPLES,
    EncoderState,
    StreamingEncoder,
)
from zoo.backbones.infinisst import infinisst as network
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.window import WindowConfig, WindowState, slide
from zoo.streaming.session import Session


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to x (..., positions, head size)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class PlainTurn:
    """Replaces ``CausalBranches`` for one stream.

    Beams are rows of one batch. Caches grow by concatenation, rows are reordered with their caches,
    and shared keys are copied per head.
    """

    def __init__(
        self,
        decoder: PreTrainedModel,
        states: Sequence[WindowState],
        prompts: Sequence[Tensor],
        *,
        beams: int,
        steps: StaticSteps,
    ) -> None:
        assert steps.capture == "off"  # the published code has no static steps
        self.decoder = decoder
        [state], [prompt] = states, prompts
        self.cache = [kept[:, None].repeat(1, beams, 1, 1, 1) for kept in state.cache]
        self.positions = torch.arange(state.num_cached + len(prompt))
        self.prefix = len(self.positions)
        causal = self.positions <= self.positions[state.num_cached :, None]
        logits = self._run(prompt.expand(beams, -1, -1), self.positions[state.num_cached :], causal)
        self.log_probs = logits[:, -1].log_softmax(-1)

    def fork(self, beams: int) -> None:
        """Do nothing: every beam has had a row since the prompt."""

    def step(self, tokens: Tensor, rows: Tensor | None = None) -> None:
        """Row i continues row ``rows[i]`` (None: itself) with ``tokens[i]``."""
        rows = torch.arange(len(tokens)) if rows is None else rows
        embeddings = self.decoder.get_input_embeddings()(tokens)
        self.cache = [kept.index_select(1, rows) for kept in self.cache]
        position = self.positions[-1:] + 1
        self.positions = torch.cat([self.positions, position])
        logits = self._run(embeddings[:, None], position, None)[:, 0]
        self.log_probs = logits.log_softmax(-1)

    def prefilled(self, stream: int) -> Tensor:
        """As ``CausalBranches.prefilled``."""
        return torch.stack([kept[:, stream, :, : self.prefix] for kept in self.cache])

    def generated(self, row: int) -> Tensor:
        """As ``CausalBranches.generated``."""
        return torch.stack([kept[:, row, :, self.prefix :] for kept in self.cache])

    def _run(self, x: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        model = self.decoder.model
        angles = [part[0] for part in model.rotary_emb(x, self.positions[None])]
        new_angles = [part[0] for part in model.rotary_emb(x, positions[None])]
        for index, layer in enumerate(model.layers):
            x = x + self._attend(
                layer.self_attn, layer.input_layernorm(x), index, angles, new_angles, mask
            )
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.decoder.get_output_embeddings()(model.norm(x))

    def _attend(
        self,
        attention: Any,
        x: Tensor,
        index: int,
        angles: list[Tensor],
        new_angles: list[Tensor],
        mask: Tensor | None,
    ) -> Tensor:
        query, key, value = (
            projection(x).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        self.cache[index] = torch.cat([self.cache[index], torch.stack([key, value])], dim=3)
        keys, values = self.cache[index]
        keys = rotate(keys, *angles)
        keys, values = (
            part.repeat_interleave(query.shape[1] // part.shape[1], dim=1)
            for part in (keys, values)
        )
        attended = F.scaled_dot_product_attention(
            rotate(query, *new_angles), keys, values, attn_mask=mask
        )
        return attention.o_proj(attended.transpose(1, 2).flatten(2))


def plain_slide(state: WindowState, config: WindowConfig, decoder: PreTrainedModel) -> None:
    """Slide a window of unrotated keys: the instruction's keys stay as they were."""
    slide(state, config, decoder)
    assert state.anchor is not None
    state.cache[:, 0, :, : state.instruction] = state.anchor


@torch.inference_mode()
def plain_encode(
    states: Sequence[EncoderState],
    blocks: Sequence[Tensor],
    *,
    encoder: StreamingEncoder,
    beams: int,
) -> list[Tensor]:
    """Encode the block once per beam.

    ``left`` holds the block before it, which is convolved again.
    """
    [state], [block] = states, blocks
    samples = torch.cat([state.left, block]).to(state.cache).repeat(beams, 1)
    frames = block.numel() // CHUNK_SAMPLES * CHUNK_FRAMES
    convolved = encoder.feature_extractor(samples).transpose(1, 2)[:, -frames:]
    cache = F.pad(state.cache[:, :, None].repeat(1, 1, beams, 1, 1, 1), (0, 0, 0, frames))
    mask = torch.ones(1, cache.shape[4], dtype=torch.bool)  # every cached frame of whole chunks
    hidden, _ = encoder.encoder(encoder.feature_projection(convolved), mask, cache)
    state.cache = cache[:, :, 0, :, -encoder.config.past_frames :].clone()
    state.left = samples[0, -state.left.numel() :]
    return [hidden[0]]


@contextmanager
def computing_as_published(backbone: InfiniSST) -> Iterator[None]:
    """Let the backbone compute as published; search, prompt and window stay the zoo's."""
    beams, encoder = backbone.search.beams, backbone.encoder
    with (
        patch.object(network, "CausalBranches", partial(PlainTurn, beams=beams)),
        patch.object(network, "slide", plain_slide),
        patch.object(encoder, "stream", partial(plain_encode, encoder=encoder, beams=beams)),
    ):
        yield


def copied(session: Session) -> Session:
    """Copy a session; its text stream refers to the network, which all copies share."""
    return copy.deepcopy(session, {id(session.text_stream): session.text_stream})


def plain_session(session: Session, decoder: PreTrainedModel, before: Tensor) -> Session:
    """A copy of a session with the caches of the published form.

    before: (n,) samples of the last block and its left context.
    """
    session = copied(session)
    state: WindowState = session.backbone_state
    assert state.anchor is not None
    state.cache[:, 0] = unrotated(state.cache[:, 0], state.dropped, decoder)
    state.anchor = state.cache[:, 0, :, : state.instruction].clone()
    state.encoder.left = before
    return session


def unrotated(keys: Tensor, first: int, decoder: PreTrainedModel) -> Tensor:
    """Undo the rotation of keys (layers, heads, positions, head size) from position ``first``."""
    cos, sin = rotary_of(decoder)(keys.double(), first + torch.arange(keys.shape[2])[None])
    return rotate(keys.double(), cos[0], -sin[0]).to(keys.dtype)
