"""Steps of fixed shapes, with and without a graph, equal plain steps; failures fall back."""

import copy
import gc
import pickle
import random
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.backbones.decoding.causal.networks import MODELS, network
from tests.backbones.decoding.graphs import Graphs, assert_equal, refused, stale, without_host
from zoo.backbones.decoding.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.decoding.static_steps import CHECKED, StaticSteps
from zoo.base.errors import ZooError

BEAMS = 3
STEPS = 40
HEADS = {0: [1, 3], 1: None}
pytestmark = pytest.mark.usefixtures("small_shapes")


@torch.inference_mode()
def searched(
    model: PreTrainedModel, steps: StaticSteps | None, *, heads: Any = None, seed: int = 0
) -> list[Tensor]:
    """All scores of three streams, of which two leave, and what is read of them at the end."""
    chance, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    width = model.config.hidden_size
    prompts = [torch.randn(n, width, generator=generator).to(model.dtype) for n in (3, 7, 5)]
    empty = Prefilled(empty_cache(model))
    turn = CausalBranches(model, [empty] * 3, prompts, heads=heads, steps=steps)
    found = [turn.prefilled(1).clone(), turn.log_probs]
    turn.fork(BEAMS)
    for step in range(STEPS):
        if step == 5:
            turn.keep([0, 2])
        if step == 10:
            turn.keep([1])
        rows = len(turn.live) * BEAMS
        tokens = torch.randint(64, (rows,), generator=generator)
        parents = [row // BEAMS * BEAMS + chance.randrange(BEAMS) for row in range(rows)]
        turn.step(tokens, torch.tensor(parents))
        found.append(turn.log_probs)
    found.append(turn.generated(1))
    return found if heads is None else [*found, turn.attention(1)]


@pytest.mark.parametrize("heads", [None, HEADS], ids=["plain", "recorded"])
def test_static_steps_equal_plain_ones(heads: Any) -> None:
    model, steps = network("llama"), StaticSteps("static")
    for seed in range(3):
        found = searched(model, steps, heads=heads, seed=seed)
        assert_equal(found, searched(model, None, heads=heads, seed=seed))


def test_all_searches_use_the_same_memory_and_no_old_contents() -> None:
    model, steps = network("llama"), StaticSteps("static")
    expected = searched(model, None)
    first = searched(model, steps)
    [memory] = steps.memory._regions.values()
    with torch.inference_mode():
        memory.fill_(torch.nan)
    assert_equal(searched(model, steps), expected)
    assert [kept is memory for kept in steps.memory._regions.values()] == [True]
    assert_equal(first, expected)  # nothing that was read of the first search is a view


def test_a_search_within_another_gets_memory_of_its_own() -> None:
    model, steps = network("llama"), StaticSteps("static")
    expected = searched(model, None)
    prompt = torch.ones(4, model.config.hidden_size, dtype=model.dtype)
    with torch.inference_mode():
        outer = CausalBranches(model, [Prefilled(empty_cache(model))], [prompt], steps=steps)
        before = outer.prefilled(0).clone()
        assert_equal(searched(model, steps), expected)
        assert torch.equal(outer.prefilled(0), before)


def test_graphs_are_captured_once_per_shape_and_compared_at_first() -> None:
    model, graphs = network("llama"), Graphs()
    steps = StaticSteps("auto", capturer=graphs)
    searched(model, steps)  # the memory grows
    graphs.captured = 0
    expected = searched(model, None, heads=HEADS)
    assert_equal(searched(model, steps, heads=HEADS), expected)
    shapes = graphs.captured
    assert 3 < shapes < STEPS
    assert_equal(searched(model, steps, heads=HEADS), expected)
    assert graphs.captured == shapes
    assert steps.capture == "auto"
    assert all(step.replays > CHECKED for step in list(steps._steps.values())[-2:])


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("heads", [None, HEADS], ids=["plain", "recorded"])
def test_a_step_copies_nothing_between_host_and_gpu(kind: str, heads: Any) -> None:
    model = network(kind)
    steps = StaticSteps("auto", capturer=without_host)
    assert_equal(searched(model, steps, heads=heads), searched(model, None, heads=heads))
    assert steps.capture == "auto"


def test_graphs_of_moved_weights_are_captured_again() -> None:
    model, graphs = network("llama"), Graphs()
    steps = StaticSteps("auto", capturer=graphs)
    for _ in range(2):
        searched(model, steps)
    before = graphs.captured
    fresh = network("llama")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.data = fresh.get_parameter(name).data.mul(0.5)
    assert_equal(searched(model, steps), searched(model, None))
    assert graphs.captured > before


@pytest.mark.parametrize("capture", ["static", "auto"])
def test_biases_that_a_training_changes_are_not_kept(capture: Any) -> None:
    """Biases are joined by a copy, so their addresses stay the same."""
    model = network("qwen2")
    steps = StaticSteps(capture, capturer=Graphs())
    searched(model, steps)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "bias" in name:
                weight.mul_(-2)
    assert_equal(searched(model, steps), searched(model, None))
    assert steps.capture == capture


@pytest.mark.parametrize(
    ("capturer", "reason"),
    [(stale, "differ from plain ones"), (refused, "not permitted when stream is capturing\\)")],
)
def test_a_wrong_or_refused_graph_is_given_up(capturer: Any, reason: str) -> None:
    model = network("llama")
    steps = StaticSteps("auto", capturer=capturer)
    expected = searched(model, None, heads=HEADS)
    with pytest.warns(UserWarning, match=reason) as warned:
        found = searched(model, steps, heads=HEADS)
    assert_equal(found, expected)
    assert len(warned) == 1
    assert steps.capture == "off"


def test_a_search_outside_inference_mode_uses_memory_that_was_made_in_it() -> None:
    model, steps = network("llama"), StaticSteps("static")
    expected = searched(model, None)
    searched(model, steps)
    memory = steps.memory._regions["text"]
    with torch.no_grad():
        assert_equal(searched.__wrapped__(model, steps), expected)
    assert steps.memory._regions["text"] is memory


def test_cleared_steps_keep_neither_memory_nor_weights() -> None:
    model, steps = network("qwen2"), StaticSteps("auto", capturer=Graphs())
    expected = searched(model, None)
    searched(model, steps)
    searched(model, steps)
    memory = weakref.ref(steps.memory._regions["text"])
    weights = weakref.ref(model.model.layers[0].self_attn.q_proj.weight.untyped_storage())
    steps.free_memory()
    for weight in model.parameters():
        weight.data = weight.data.clone()
    gc.collect()
    assert (memory(), weights()) == (None, None)
    assert_equal(searched(model, steps), expected)
    assert steps.capture == "auto"


def test_a_copy_has_the_arguments_only() -> None:
    model, steps = network("llama"), StaticSteps("static")
    expected = searched(model, steps)
    pickled: StaticSteps = pickle.loads(pickle.dumps(steps))
    for copied in (copy.deepcopy(steps), pickled):
        assert (copied.capture, copied._steps, copied.memory._regions) == ("static", {}, {})
        assert_equal(searched(model, copied), expected)


def test_auto_changes_nothing_without_a_gpu() -> None:
    model, steps = network("llama"), StaticSteps("auto")
    found = searched(model, steps)
    assert not steps.memory._regions
    assert all(torch.equal(*pair) for pair in zip(found, searched(model, None), strict=True))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ZooError, match=r"capture 'on'; choose one of: off, auto, static"):
        StaticSteps("on")  # type: ignore[arg-type]
