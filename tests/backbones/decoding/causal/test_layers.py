"""Layers with few operations equal Transformers' forward pass, on the same weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.backbones.decoding.causal.networks import MODELS, network
from tests.fixtures.operations import Operations
from zoo.backbones.decoding.causal import branches as causal
from zoo.backbones.decoding.causal.branches import CausalBranches, Prefilled, empty_cache
from zoo.backbones.decoding.causal.layers import arrange, fast_layers, step_layers
from zoo.backbones.decoding.continuation import SearchContext
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.base.machine import weight_layout as layout
from zoo.base.machine.int8 import Int8Linear, quantise
from zoo.base.machine.weight_layout import PackedLinear, arrange_linear


@torch.inference_mode()
def decoded(model: PreTrainedModel, heads: Any = None) -> list[Tensor]:
    """Scores of two streams with three beams after prompts and steps, and what is recorded."""
    random = torch.Generator().manual_seed(0)
    width = model.config.hidden_size
    prompts = [torch.randn(n, width, generator=random).to(model.dtype) for n in (3, 7)]
    empty = Prefilled(empty_cache(model))
    turn = CausalBranches(model, [empty] * 2, prompts, heads=heads)
    turn.fork(3)
    found = [turn.log_probs]
    for rows in ([0, 1, 2, 3, 4, 5], [1, 1, 0, 3, 5, 4], [2, 2, 2, 4, 3, 4]):
        turn.step(torch.randint(64, (6,), generator=random), torch.tensor(rows))
        found.append(turn.log_probs)
    found += [turn.generated(4), turn.prefilled(1)]
    return found if heads is None else [*found, turn.attention(4)]


def assert_close(found: Sequence[Tensor], expected: Sequence[Tensor], atol: float = 2e-5) -> None:
    """The default is wide because norms compute in float32."""
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def with_transformers(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch, heads: Any = None
) -> list[Tensor]:
    """``decoded`` by Transformers' forward pass."""
    with monkeypatch.context() as patch:
        patch.setattr(causal, "fast_layers", lambda _: None)
        return decoded(model, heads)


@pytest.mark.parametrize("heads", [None, {0: [1, 3], 1: None}], ids=["plain", "recorded"])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 2e-5), (torch.float32, 1e-2)])
@pytest.mark.parametrize("kind", MODELS)
def test_all_kinds_equal_transformers(
    kind: str, dtype: torch.dtype, atol: float, heads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network(kind, dtype)
    assert fast_layers(model) is not None
    expected = with_transformers(model, monkeypatch, heads)
    assert_close(decoded(model, heads), expected, atol)
    assert_close(decoded(model, heads), expected, atol)  # the weights are side by side now


@pytest.mark.parametrize("kind", MODELS)
def test_packed_copies_are_used_until_a_weight_changes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "LEAST_ELEMENTS", 1)
    model = network(kind, torch.float32)
    expected = with_transformers(model, monkeypatch, heads={1: None})
    arrange(model, model)
    kept = fast_layers(model)
    assert_close(decoded(model, heads={1: None}), expected, 1e-3)
    assert fast_layers(model) is kept
    assert isinstance(model.get_output_embeddings(), PackedLinear)
    arrange(model, model)
    assert fast_layers(model) is kept

    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.mul_(-100)
        model.model.layers[0].self_attn.o_proj.weight.mul_(-100)
        weight = model.model.layers[0].self_attn
        (weight.q_proj if hasattr(weight, "q_proj") else weight.qkv_proj).weight.mul_(-100)
    found = decoded(model, heads={1: None})
    assert_close(found, with_transformers(model, monkeypatch, heads={1: None}), 1e-3)
    assert (found[0] - expected[0]).abs().max() > 1e-1
    assert fast_layers(model) is not kept


def test_an_adapter_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network("llama")
    plain = decoded(model)
    targets = ["q_proj", "v_proj", "o_proj", "up_proj"]
    inject_adapter_in_model(LoraConfig(r=2, target_modules=targets, init_lora_weights=False), model)
    model.double()
    found = decoded(model)
    assert_close(found, with_transformers(model, monkeypatch))
    assert (found[0] - plain[0]).abs().max() > 1e-3


def test_a_layer_of_another_kind_runs_as_in_transformers() -> None:
    model = network("llama")
    model.model.layers[0] = nn.Identity()
    assert fast_layers(model) is None


def test_joined_weights_are_trained_moved_and_saved_as_before(tmp_path: Path) -> None:
    model = network("llama")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = dict(model.named_parameters())
    decoded(model)
    attention = model.model.layers[0].self_attn
    projections = [attention.q_proj, attention.k_proj, attention.v_proj]
    blocks = {linear.weight.untyped_storage().data_ptr() for linear in projections}
    assert len(blocks) == 1  # and no second copy
    assert all(model.get_parameter(name) is value for name, value in parameters.items())
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    saved = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(saved[name], value) for name, value in before.items())

    # An optimiser's update in place and a move to another dtype are seen by the next search.
    loss = model(torch.tensor([[1, 2, 3]])).logits.square().sum()
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.01).step()
    changed = decoded(model)
    fresh = network("llama")
    fresh.load_state_dict(model.state_dict())
    assert_close(changed, decoded(fresh))
    model.float().double()
    assert_close(decoded(model), changed)


@pytest.mark.parametrize("is_arranged", [False, True])
def test_a_greedy_token_takes_few_operations(is_arranged: bool) -> None:
    """Counted as the difference of two searches: with rules and bookkeeping, without the prompt."""
    model = network("llama", torch.float32, num_hidden_layers=32)
    if is_arranged:
        arrange_linear(model)
    prompt = torch.randn(40, 32)
    config = SearchConfig(no_repeat_ngram=5, repetition_penalty=1.2)
    counts = []
    for limit in (4, 10):
        with torch.inference_mode(), Operations() as operations:
            turn = CausalBranches(model, [Prefilled(empty_cache(model))], [prompt])
            context = SearchContext([1, 2, 3, 4, 5, 6], [])
            search(turn, config, contexts=[context], limits=[limit], ends=[-1], never=[9])
        counts.append(operations.count)
    per_token = (counts[1] - counts[0]) / 6
    assert 32 * 10 < per_token <= 542


@pytest.mark.parametrize("kind", MODELS)
def test_int8_weights_are_used_by_all_products(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are close to the weights, and few and many operations agree up to bfloat16."""
    model = network(kind, torch.float32)
    expected = decoded(model)
    quantise(step_layers(model))
    arrange(model, model)
    linears = [one for one in model.modules() if isinstance(one, nn.Linear)]
    assert {type(one) for one in linears} == {Int8Linear}
    found = decoded(model)
    assert_close(found, with_transformers(model, monkeypatch), 0.2)
    for ours, theirs in zip(found, expected, strict=True):
        assert 0 < float((ours - theirs).norm() / theirs.norm()) < 0.2


def test_adapters_keep_their_weights() -> None:
    model = network("llama", torch.float32)
    config = LoraConfig(r=16, target_modules=["q_proj"], init_lora_weights=False)
    inject_adapter_in_model(config, model)
    quantise(step_layers(model))
    projection: Any = model.model.layers[0].self_attn.q_proj
    assert type(projection.base_layer) is Int8Linear
    assert type(projection.lora_A["default"]) is type(projection.lora_B["default"]) is nn.Linear
    assert all(bool(one.isfinite().all()) for one in decoded(model)[:1])
