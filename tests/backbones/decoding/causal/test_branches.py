"""Rows of a turn are branches of one sequence; each equals the model on that branch alone."""

import random
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import DynamicCache

from zoo.backbones.decoding.causal.branches import ROOM, CausalBranches, empty_cache
from zoo.backbones.decoding.continuation import Answer
from zoo.backbones.encoders.wav2vec2.encoder import EncoderState
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.window import WindowState, append_turn

END, BEAMS = 2, 3


def embedded(backbone: InfiniSST, ids: list[int]) -> Tensor:
    return backbone.decoder.get_input_embeddings()(torch.tensor(ids))


def alone(backbone: InfiniSST, ids: list[int]) -> tuple[Tensor, Tensor]:
    """Transformers on the whole sequence: log-probabilities of the next id, all keys and values."""
    cache = DynamicCache()
    logits = backbone.decoder(torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[
        0, -1
    ]
    kept = torch.stack([torch.stack([layer.keys[0], layer.values[0]]) for layer in cache.layers])
    return logits.log_softmax(-1), kept


@torch.inference_mode()
def test_branches_are_what_they_are_alone(make: Callable[..., InfiniSST]) -> None:
    """Streams of different age, random places and ids, more steps than the first cache size."""
    backbone, chance = make(), random.Random(0)
    prompts = [[chance.randrange(8, 264) for _ in range(size)] for size in (3, 9)]
    encoder = EncoderState(torch.zeros(0), torch.zeros(0))
    states = [WindowState(encoder=encoder, cache=empty_cache(backbone.decoder)) for _ in prompts]
    first = CausalBranches(backbone.decoder, states[1:], [embedded(backbone, prompts[1][:4])])
    append_turn(states[1], first.prefilled(0), Answer([], True, first.generated(0)), end=END)

    turn = CausalBranches(
        backbone.decoder,
        states,
        [embedded(backbone, prompts[0]), embedded(backbone, prompts[1][4:])],
    )
    turn.fork(BEAMS)
    branches = [list(ids) for ids in prompts for _ in range(BEAMS)]
    for _ in range(ROOM // BEAMS + 20):
        rows = [chance.randrange(BEAMS) + row // BEAMS * BEAMS for row in range(len(branches))]
        tokens = [chance.randrange(8, 264) for _ in rows]
        turn.step(torch.tensor(tokens), torch.tensor(rows))
        branches = [[*branches[row], token] for row, token in zip(rows, tokens, strict=True)]
    for row, ids in enumerate(branches):
        log_probs, kept = alone(backbone, ids)
        before = len(prompts[row // BEAMS])
        # the norms compute in float32
        torch.testing.assert_close(turn.log_probs[row], log_probs, rtol=0, atol=2e-6)
        torch.testing.assert_close(
            turn.prefilled(row // BEAMS), kept[..., :before, :], rtol=0, atol=2e-6
        )
        torch.testing.assert_close(turn.generated(row), kept[..., before:, :], rtol=0, atol=2e-6)
