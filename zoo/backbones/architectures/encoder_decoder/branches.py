"""Branches of an encoder-decoder: partial hypotheses of a batch of streams during a search.

Prompts are token ids, and each stream has one encoder output, its memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.architectures.encoder_decoder.layers import KnownFrames
from zoo.backbones.decoding.alignment import Heads
from zoo.backbones.decoding.branches import Branches
from zoo.backbones.decoding.static_memory import PlacedCache
from zoo.backbones.decoding.static_steps import (
    Computation,
    StaticSteps,
    StepInputs,
    Stepped,
    recorded_heads,
)
from zoo.backbones.decoding.step_records import StepRecords
from zoo.backbones.decoding.teacher_forcing import at_least_float32
from zoo.streaming.stages import stage


class EncoderDecoderBranches(Branches):
    """Branches of an encoder-decoder; all branches of a stream attend to the same encoder memory.

    ``generated`` returns cache positions, which ``attention``, ``states`` and ``append`` take.
    """

    @stage("prefill")
    def __init__(
        self,
        decoder: Decoder,
        memories: Sequence[Tensor],
        prompts: Sequence[list[int]],
        *,
        heads: Heads,
        states: bool = False,
        drafts: Sequence[list[int]] | None = None,
        steps: StaticSteps | None = None,
        known: Sequence[KnownFrames | None] | None = None,
    ) -> None:
        """Run the decoder over the prompts and drafts.

        Args:
            decoder: Text decoder.
            memories: (frames, width) encoder output of each stream, at least one frame.
            prompts: Prompt ids of each stream, at least one id. The search generates the ids that
                follow the prompt.
            heads: Heads whose cross-attention is recorded, by layer index. An empty mapping records
                no attention.
            states: Whether the hidden states of the decoder are kept.
            drafts: Ids that may follow each prompt, which a search accepts or rejects. None: no
                drafts.
            steps: Static memory and captured steps of the decoder. None: every step is a plain one.
            known: Last frames of each encoder output whose keys and values are known. None: none.
        """
        self.decoder = decoder
        self._keep_states = states
        self._frames = [len(memory) for memory in memories]
        self._lengths = [len(prompt) for prompt in prompts]
        self._attention = StepRecords()  # (streams, new, heads, frames)
        self._states = StepRecords()  # (streams, new, width)
        device = memories[0].device
        # Called before the steps, which use the addresses of weights that it may move.
        self._layers = decoder.prepare(heads)
        drafted = max(len(draft) for draft in drafts) if drafts else 0
        cache = decoder.cache(streams=len(prompts), room=max(self._lengths) + drafted, steps=steps)
        super().__init__(
            cache,
            self._lengths,
            device=device,
            max_positions=decoder.room,
            drafts=drafts,
        )

        self._steps = steps if steps is not None and steps.holds(cache) else None
        self._memory = decoder.project_memories(memories, self._steps, known)
        self._live_memory = self._memory
        self._kind = recorded_heads(heads), self._memory.keys[0].shape[2]
        ids = torch.zeros(self._positions.shape, dtype=torch.long, device=device)
        for stream, (prompt, draft) in enumerate(zip(prompts, self.drafts, strict=True)):
            row = torch.tensor([*prompt, *draft], device=device)
            ids[stream, self.prefix - len(prompt) :][: len(row)] = row
        hidden = self._append(self._plain(ids, self._positions, self._prompt_mask()))
        self._prompt_states = hidden[:, : self.prefix]
        self._begin(hidden)

    def generated(self, row: int) -> Tensor:
        """Return the cache positions, after the prompt, of the tokens fed to ``row``: (n,)."""
        return self.fed_positions(row)

    def probabilities(self, stream: int, position: int) -> Tensor:
        """Return the probabilities (vocabulary,) of the token after one position of the prompt."""
        state = self._prompt_states[stream, self.prefix - self._lengths[stream] + position]
        return at_least_float32(self._logits(state)).softmax(dim=-1)

    def attention(self, stream: int, cache_positions: Tensor) -> Tensor:
        """Return the cross-attention of the prompt and of generated tokens.

        Args:
            stream: Index of the stream.
            cache_positions: (n,) cache positions of the tokens, counted from the end of the prompt.

        Returns:
            (prompt + n, heads, frames) weights, without padded frames.
        """
        weights = self._gather(self._attention, stream, cache_positions)
        return weights[..., : self._frames[stream]]

    def newest_attention(self) -> Tensor:
        """Return the cross-attention of the newest position of each row.

        The shape is (rows, heads, longest). Columns after a stream's frames are padding.
        """
        newest = self._attention.newest  # (live streams, new, heads, longest)
        if len(self._attention) == 1:  # the prompts, which the beams of a stream share
            return newest[:, self.prefix - 1].repeat_interleave(self.beams, dim=0)
        return newest.flatten(0, 1)

    def prompt_attention(self, stream: int) -> Tensor:
        """Return the cross-attention (prompt, heads, frames) of a prompt without padded frames."""
        prompt = slice(self.prefix - self._lengths[stream], self.prefix)
        return self._attention.of(stream)[prompt, :, : self._frames[stream]]

    def states(self, stream: int, cache_positions: Tensor) -> Tensor:
        """Return the hidden states of the prompt and of the tokens at n cache positions.

        The shape is (prompt + n, width).
        """
        return self._gather(self._states, stream, cache_positions)

    def append(self, tokens: list[int], branches: Sequence[Tensor]) -> Tensor:
        """Feed one more token per stream after a branch, outside of the search.

        The rows of the search are unchanged: no row attends to the new token.

        Args:
            tokens: One id per stream.
            branches: (n,) cache positions of the tokens of each stream's branch, counted from the
                end of the prompt.

        Returns:
            (streams, 1) cache positions of the new tokens, counted from the end of the prompt.
        """
        self._return_all()
        device = self.visible.device
        visible = torch.zeros(self.streams, self._cache.length + 1, dtype=torch.bool, device=device)
        visible[:, : self.prefix] = self._prompt_visible
        visible[:, -1] = True
        positions = torch.zeros(self.streams, 1, dtype=torch.long, device=device)
        for stream, cache_positions in enumerate(branches):
            visible[stream, self.prefix + cache_positions] = True
            positions[stream] = self._lengths[stream] + len(cache_positions)

        new_position = self._cache.length - self.prefix
        ids = torch.tensor(tokens, device=device)[:, None]  # (streams, 1)
        rows = torch.tensor(self.live, device=device)
        self._feed(ids[rows], positions[rows], visible[rows, None])
        return torch.full((self.streams, 1), new_position, device=device)

    def _return_all(self) -> None:
        """Put the streams that left the batch during the search back into it."""
        self.live = list(self._rows)
        self._cache.live = self.streams
        self._live_memory = self._memory

    def _exchange(self, indices: Sequence[int], others: Sequence[int]) -> None:
        super()._exchange(indices, others)
        self._memory.exchange(indices, others)

    def keep(self, indices: Sequence[int]) -> None:
        """Let finished streams leave the batch; see ``Branches.keep``."""
        super().keep(indices)
        self._live_memory = self._memory.first(len(indices))

    def _feed(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        if self._steps is None:
            return self._append(self._plain(ids, positions, visible))
        stepped = self._steps.step(
            self._cache,
            ids,
            positions,
            visible,
            kind=self._kind,
            recorded=max(self._frames),
            prepare=self._computation,
            plain=lambda: self._plain(ids, positions, visible),
        )
        return self._append(stepped)

    def _plain(self, ids: Tensor, positions: Tensor, visible: Tensor) -> Stepped:
        """Run the decoder without static shapes; for the arguments see ``_feed``."""
        stepped: Stepped = self.decoder(
            ids,
            positions,
            visible,
            cache=self._cache,
            memory=self._live_memory,
            layers=self._layers,
        )
        return stepped

    def _append(self, stepped: Stepped) -> Tensor:
        """Count new positions of the cache, keep what is recorded, and return their states."""
        assert stepped.weights is not None
        self._attention.append(stepped.weights[..., : max(self._frames)], self.live)
        if self._keep_states:
            self._states.append(stepped.hidden, self.live)
        self._cache.length += stepped.hidden.shape[1]
        return stepped.hidden

    def _discard(self, positions: int) -> None:
        super()._discard(positions)
        self._attention.shorten(positions)
        if self._keep_states:
            self._states.shorten(positions)

    def _computation(self, live: int, beams: int, keys: int) -> Computation:
        """Return the decoder's computation for one shape; see ``static_steps.Prepare``."""
        decoder, memory, layers = self.decoder, self._live_memory, self._layers
        table = decoder.position_table(keys)

        def compute(inputs: StepInputs, cache: PlacedCache) -> Stepped:
            return decoder.run(
                inputs.ids,
                inputs.positions,
                inputs.mask,
                table=table,
                cache=cache,
                memory=memory,
                layers=layers,
            )

        return compute

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.decoder.head(hidden)
        return logits

    def _gather(self, records: StepRecords, stream: int, cache_positions: Tensor) -> Tensor:
        """Return one stream's rows of the prompt, without padding, and of these positions."""
        rows = records.of(stream)  # one row per cache position
        prompt_start = self.prefix - self._lengths[stream]
        prompt_rows = rows[prompt_start : self.prefix]
        return torch.cat([prompt_rows, rows[self.prefix + cache_positions]])


@dataclass(frozen=True, slots=True)
class Branch:
    """Reference to one branch within a batch of branches.

    Attributes:
        texts: Branches of the whole batch.
        stream: Index of the stream in the batch.
        cache_positions: (n,) cache positions of the branch's tokens, counted from the end of the
            prompt.
    """

    texts: EncoderDecoderBranches
    stream: int
    cache_positions: Tensor
