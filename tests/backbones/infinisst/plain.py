"""InfiniSST's decoding written out plainly, with nothing of the zoo: an oracle.

One position at a time, keys kept without rotation as in the paper and rotated anew at every
step, every beam with all its keys, every continuation of every beam scored.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel


def turned(x: Tensor, position: int | Tensor, frequencies: Tensor | None = None) -> Tensor:
    """Rotary position of (..., head size), written with complex numbers in double precision."""
    half = x.shape[-1] // 2
    if frequencies is None:  # single precision in checkpoints too
        frequencies = 1.0 / 10_000.0 ** (torch.arange(half, dtype=torch.float32) / half)
    angles = position * frequencies.double()
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double()) * torch.polar(
        torch.ones_like(angles), angles
    )
    return torch.cat([pairs.real, pairs.imag], dim=-1).to(x.dtype)


class PlainDecoder:
    """Keys of the instruction and of the newest positions, concatenated and then rotated."""

    def __init__(
        self, model: PreTrainedModel, instruction: int, frequencies: Tensor | None = None
    ) -> None:
        self.model = model
        self.frequencies = frequencies
        self.instruction = instruction
        self.kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in model.model.layers]

    def branch(self) -> "PlainDecoder":
        """A copy that goes its own way."""
        other = PlainDecoder(self.model, self.instruction, self.frequencies)
        other.kept = [list(kept) for kept in self.kept]
        return other

    def slide(self, positions: int) -> None:
        """Keep the instruction and the newest ``positions``."""
        for kept in self.kept:
            rest = kept[self.instruction :]
            kept[self.instruction :] = rest[max(0, len(rest) - positions) :]

    @torch.inference_mode()
    def feed(self, embedding: Tensor) -> Tensor:
        """One position, (hidden,); log-probabilities (vocabulary,) of the next token."""
        x = embedding
        for layer, kept in zip(self.model.model.layers, self.kept, strict=True):
            x = x + self._attend(layer.self_attn, layer.input_layernorm(x), kept)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.lm_head(self.model.model.norm(x)).double().log_softmax(-1)

    def _attend(
        self, attention: torch.nn.Module, x: Tensor, kept: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        size = attention.head_dim
        query, key, value = (
            projection(x).view(-1, size)
            for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "q_norm"):  # Qwen3
            query, key = attention.q_norm(query), attention.k_norm(key)
        kept.append((key, value))
        shared = query.shape[0] // key.shape[0]
        places = torch.arange(len(kept))[:, None, None]
        keys, values = (
            torch.stack(part).repeat_interleave(shared, dim=1) for part in zip(*kept, strict=True)
        )
        keys = turned(keys, places, self.frequencies).double()
        query = turned(query, len(kept) - 1, self.frequencies).double()
        weights = (torch.einsum("phd,hd->hp", keys, query) / size**0.5).softmax(-1)
        return attention.o_proj(
            torch.einsum("hp,phd->hd", weights, values.double()).flatten().to(x.dtype)
        )


class PlainSearch:
    """Beam search with repetition controls; nothing is cut off before it has been scored.

    A beam is (score, ids, decoder, log-probabilities of its next id). penalty: factor on the
    log-probability of ids already written. ngram: no ngram of this size occurs twice (0: off).
    Both count the ids of earlier turns.
    """

    def __init__(
        self,
        embed: torch.nn.Module,
        *,
        beams: int,
        limit: int,
        end: int,
        penalty: float,
        ngram: int,
    ) -> None:
        self.embed = embed
        self.beams = beams
        self.limit = limit
        self.end = end
        self.penalty = penalty
        self.ngram = ngram

    def answer(self, decoder: PlainDecoder, log_probs: Tensor, earlier: list[int]) -> list[int]:
        """Ids of the best answer, including its end if any; ``log_probs`` follow the prompt."""
        running, finished = [(0.0, [], decoder, log_probs)], []
        while True:
            continued = []
            for score, ids, state, following in running:
                scores = self.controlled(following, earlier + ids).tolist()
                continued += [
                    (score + new, [*ids, token], state) for token, new in enumerate(scores)
                ]
            continued.sort(key=lambda beam: -beam[0])
            running = []
            for rank, (score, ids, state) in enumerate(continued[: 2 * self.beams]):
                if ids[-1] == self.end or len(ids) == self.limit:
                    if rank < self.beams:
                        finished.append((score / len(ids), ids))
                elif len(running) < self.beams:
                    running.append((score, ids, state))
            finished = sorted(finished, key=lambda beam: -beam[0])[: self.beams]
            full = len(finished) == self.beams
            if not running or (full and running[0][0] / len(running[0][1]) <= finished[-1][0]):
                return finished[0][1]
            running = [self.grown(*beam) for beam in running]

    def grown(
        self, score: float, ids: list[int], state: PlainDecoder
    ) -> tuple[float, list[int], PlainDecoder, Tensor]:
        """The beam with its last id read."""
        own = state.branch()
        return score, ids, own, own.feed(self.embed.weight[ids[-1]])

    def controlled(self, log_probs: Tensor, earlier_ids: list[int]) -> Tensor:
        """Under the repetition controls."""
        scores = log_probs.clone()
        for token in set(earlier_ids):
            scores[token] *= self.penalty
        before = [
            earlier_ids[first : first + self.ngram]
            for first in range(len(earlier_ids) - self.ngram + 1)
        ]
        for token in range(len(scores)):
            if self.ngram and [*earlier_ids, token][-self.ngram :] in before:
                scores[token] = -torch.inf
        return scores


class PlainStream:
    """A talk, by turns. window: positions kept besides the instruction; unit: tokens or turns."""

    def __init__(
        self, decoder: PlainDecoder, search: PlainSearch, *, window: int, unit: str
    ) -> None:
        self.decoder = decoder
        self.search = search
        self.window = window
        self.unit = unit
        # for every kept position: the id, where it is a target id
        self.earlier_ids: list[int | None] = []
        self.turns: list[int] = []
        self.pending: list[int] = []

    def turn(self, prompt: list[Tensor]) -> list[int]:
        """Ids of the answer to a prompt (embeddings, the instruction's first)."""
        self.slide()
        before = len(self.earlier_ids)
        targets = [token for token in self.pending if token != self.search.end]
        earlier = [token for token in self.earlier_ids if token is not None] + targets
        for token in self.pending:
            self.read(self.search.embed.weight[token], token)
        for embedding in prompt:
            log_probs = self.read(embedding, None)
        ids = self.search.answer(self.decoder, log_probs, earlier)
        for token in ids[:-1]:
            self.read(self.search.embed.weight[token], token)
        self.pending = ids[-1:] if ids[-1] == self.search.end else [ids[-1], self.search.end]
        self.turns.append(len(self.earlier_ids) - max(before, self.decoder.instruction))
        return ids[:-1] if ids[-1] == self.search.end else ids

    def read(self, embedding: Tensor, token: int | None) -> Tensor:
        """One position; ``token`` is its id where it is a target id."""
        self.earlier_ids.append(None if token == self.search.end else token)
        return self.decoder.feed(embedding)

    def slide(self) -> None:
        """Drop old positions, by unit.

        tokens: the newest ``window`` stay. turns: once there are more than ``window`` positions,
        the oldest turns go until the rest fits.
        """
        if not self.earlier_ids:
            return
        if self.unit == "turns" and len(self.earlier_ids) > self.window:
            self.turns.pop(0)
            while sum(self.turns) > self.window:
                self.turns.pop(0)
        instruction = self.decoder.instruction
        everything = len(self.earlier_ids) - instruction
        rest = sum(self.turns) if self.unit == "turns" else min(self.window, everything)
        self.decoder.slide(rest)
        del self.earlier_ids[instruction : instruction + everything - rest]
