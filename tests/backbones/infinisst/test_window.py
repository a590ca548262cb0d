from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.backbones.infinisst.plain import PlainDecoder
from tests.fixtures.searches import ScoredSearch
from zoo.backbones.decoding.causal.branches import CausalBranches, empty_cache
from zoo.backbones.decoding.continuation import Answer, SearchContext
from zoo.backbones.encoders.wav2vec2.encoder import EncoderState
from zoo.backbones.infinisst.infinisst import InfiniSST
from zoo.backbones.infinisst.search import search
from zoo.backbones.infinisst.window import WindowConfig, WindowState, append_turn, recent_ids, slide

INSTRUCTION, END = 5, 2


def new_state(backbone: InfiniSST, instruction: int = INSTRUCTION) -> WindowState:
    encoder = EncoderState(left=torch.zeros(0), cache=torch.zeros(0))
    return WindowState(
        encoder=encoder, cache=empty_cache(backbone.decoder), instruction=instruction
    )


def ids(count: int, seed: int) -> list[int]:
    return torch.randint(8, 264, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


class Recorded(ScoredSearch):
    """Greedy search with forced tokens that records the log-probabilities of each step."""

    def scores(self, log_probs: Tensor) -> Tensor:
        STEPS.append(log_probs)
        forced = torch.full_like(log_probs, -torch.inf)
        forced[0, FORCED[len(STEPS) - 1]] = 0
        return forced


STEPS: list[Tensor] = []
FORCED: list[int] = []


def our_turn(
    backbone: InfiniSST,
    state: WindowState,
    prompt: list[int],
    answer_ids: list[int],
    window: WindowConfig,
) -> list[Tensor]:
    """Log-probabilities before each id in ``answer_ids``, the end included."""
    STEPS[:], FORCED[:] = [], answer_ids
    slide(state, window, backbone.decoder)
    embed = backbone.decoder.get_input_embeddings()
    turn = CausalBranches(backbone.decoder, [state], [embed(torch.tensor(state.pending + prompt))])
    config = Recorded(beams=1)
    (answer,) = search(turn, config, contexts=[SearchContext([], [])], limits=[20], end=END)
    append_turn(state, turn.prefilled(0), answer, end=END)
    return [step[0] for step in STEPS]


def released_rest(kept: int, rest: int, ends: list[int], size: int) -> int:
    """How many of the newest positions the released code keeps.

    kept, rest: positions now, with and without the instruction.

    ends: positions read when each turn ended, those of dropped turns too.
    """
    if kept <= size:
        return rest
    return next(ends[-1] - end for end in ends if ends[-1] - end < rest and ends[-1] - end <= size)


@torch.inference_mode()
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("unit", ["tokens", "turns"])
@pytest.mark.parametrize("size", [1000, 13, 8])
def test_window_equals_rotation_on_top_of_the_kept_keys(
    make: Callable[..., InfiniSST], size: int, unit: str, keep: bool
) -> None:
    backbone, window, sink = make(), WindowConfig(size=size, unit=unit), INSTRUCTION if keep else 0
    embed = backbone.decoder.get_input_embeddings()
    plain, state, pending = PlainDecoder(backbone.decoder, sink), new_state(backbone, sink), []
    fed, ends, kept = 0, [], set()
    for index in range(7):
        prompt = ids(4 + (INSTRUCTION if index == 0 else 0), seed=index)
        answer_ids = [*ids(index % 3 + 1, seed=100 + index), END]
        held = len(plain.kept[0])
        plain.slide(size if unit == "tokens" else released_rest(held, held - sink, ends, size))
        kept.add(len(plain.kept[0]) < held)
        for token in pending + prompt:
            expected = plain.feed(embed(torch.tensor(token)))
        ours = our_turn(backbone, state, prompt, answer_ids, window)
        assert len(ours) == len(answer_ids)
        for position, token in enumerate(answer_ids):
            # the norms compute in float32
            torch.testing.assert_close(ours[position], expected, rtol=0, atol=1e-6)
            if token != END:
                expected = plain.feed(embed(torch.tensor(token)))
        fed += len(pending) + len(prompt) + len(answer_ids) - 1
        ends.append(fed)
        pending = [END]
        assert state.num_cached == len(plain.kept[0])
    assert (state.dropped > 0) == (size < 1000) == (True in kept)


@torch.inference_mode()
def close_turn(state: WindowState, positions: int, tokens: list[int], cached: int) -> None:
    """A turn of ``positions`` prompt positions whose first ``cached`` answer tokens have keys."""
    grown = torch.cat(
        [state.cache, torch.randn(*state.cache.shape[:3], positions, 4).to(state.cache)], dim=3
    )
    generated = torch.zeros(*state.cache.shape[:3], cached, 4).to(state.cache)
    append_turn(state, grown, Answer(tokens, True, generated), end=END)


@torch.inference_mode()
def test_positions_and_turns_by_hand(make: Callable[..., InfiniSST]) -> None:
    backbone = make()
    state = new_state(backbone)
    close_turn(state, INSTRUCTION + 6, [50, 51], cached=2)
    close_turn(state, 7, [60], cached=0)
    close_turn(state, 4, [], cached=0)
    assert state.turns == [8, 7, 4]
    assert state.num_cached == INSTRUCTION + 19
    assert state.pending == [END]
    assert state.target_tokens == [(11, 50), (12, 51), (20, 60)]

    slide(state, WindowConfig(size=12), backbone.decoder)
    assert (state.num_cached, state.dropped, state.turns) == (INSTRUCTION + 12, 7, [1, 7, 4])
    assert state.next_position == INSTRUCTION + 19
    assert recent_ids(state, None) == [51, 60]
    slide(state, WindowConfig(size=10), backbone.decoder)
    assert state.turns == [6, 4]
    assert recent_ids(state, None) == [60]
    assert recent_ids(state, 100) == [60]


@torch.inference_mode()
def test_whole_turns_by_hand(make: Callable[..., InfiniSST]) -> None:
    backbone = make()
    state = new_state(backbone)
    for positions in (INSTRUCTION + 8, 7, 4):
        close_turn(state, positions, [], cached=0)
    values = state.cache[:, 1].clone()
    slide(state, WindowConfig(size=INSTRUCTION + 19, unit="turns"), backbone.decoder)
    assert state.turns == [8, 7, 4]
    slide(state, WindowConfig(size=INSTRUCTION + 18, unit="turns"), backbone.decoder)
    assert (state.turns, state.dropped) == ([7, 4], 8)
    expected = torch.cat([values[:, :, :INSTRUCTION], values[:, :, INSTRUCTION + 8 :]], dim=2)
    assert torch.equal(state.cache[:, 1], expected)
    slide(state, WindowConfig(size=3, unit="turns"), backbone.decoder)
    assert (state.turns, state.num_cached) == ([], INSTRUCTION)


@torch.inference_mode()
def test_the_instruction_turns_from_its_first_copy(make: Callable[..., InfiniSST]) -> None:
    """Many small moves end where one big move does, to the last bit."""
    backbone = make()
    states = [new_state(backbone) for _ in range(2)]
    for state in states:
        torch.manual_seed(3)
        close_turn(state, INSTRUCTION + 60, [], cached=0)
    for size in range(59, 9, -1):
        slide(states[0], WindowConfig(size=size), backbone.decoder)
    slide(states[1], WindowConfig(size=10), backbone.decoder)
    assert torch.equal(states[0].cache, states[1].cache)
    assert not torch.equal(states[0].cache[:, 0, :, :INSTRUCTION], states[0].anchor)
