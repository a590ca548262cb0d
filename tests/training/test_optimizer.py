"""The optimizers that a configuration names: groups that rest, resumed states, settings."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon

from tests.training import tiny
from zoo.base.errors import ZooError
from zoo.config import compose
from zoo.training.fsdp2 import FSDP2
from zoo.training.muon import MuonAdamW, mark_tables
from zoo.training.optimizer import ADAMW, OptimizerFactory, check_optimizer, create_optimizer
from zoo.training.recipe import build_training

CHOICES = ("adam", "adamw", "adamw_streamuni", "muon", "sgd")
RATES = [0.1, 0.1, 0.0, 0.0, 0.1]  # of the second group; the first one always moves
MISTAKES = {
    "training.weight_decay=0": "training.weight_decay is optimizer.weight_decay now",
    "+training.betas=[0.9,0.9]": "training.betas is optimizer.betas now",
    "training.epsilon=1e-7": "training.epsilon is optimizer.eps now",
    "optimizer=lion": "Unknown optimizer 'lion'; choose one of: adam, adamw",
    "optimizer.beta=0.9": "Unknown key 'optimizer.beta'; choose one of: ",
    "optimizer.betas=[0.9]": "optimizer.betas must be a list (a number or a Tensor, a number",
    "optimizer.betas=[1.5,0.9]": "The optimizer refuses its settings: Invalid beta parameter",
    "optimizer.lr=0": "optimizer.lr must be a number above 0, or null for the rates of the stages",
    "optimizer.params=[1]": "Unknown key 'optimizer.params'",
    "optimizer._partial_=false": "optimizer needs _partial_: true in its YAML file",
    "optimizer._target_=torch.load": "The optimizer refuses its settings",
}


def chosen(*overrides: str) -> OptimizerFactory:
    return build_training(compose("train", overrides))[1]


def weights_after_steps(kind: OptimizerFactory, rests: bool) -> tuple[Tensor, Tensor]:
    """Both parameters after random steps; ``rests``: zero gradients, not None, at rate 0."""
    first, second = nn.Parameter(torch.ones(3, 1)), nn.Parameter(torch.ones(2))
    groups: list[Mapping[str, Any]] = [{"params": [first]}, {"params": [second]}]
    optimizer = create_optimizer(kind, groups) if rests else kind(groups)
    random = torch.Generator().manual_seed(0)
    for rate in RATES:
        gradients = torch.randn(5, generator=random)
        first.grad, second.grad = gradients[:3, None].clone(), gradients[3:].clone()
        if not rate:
            second.grad = torch.zeros(2) if rests else None
        optimizer.param_groups[0]["lr"] = 0.1
        optimizer.param_groups[1]["lr"] = rate if rests else 0.1
        optimizer.step()
    return first.detach(), second.detach()


@pytest.mark.parametrize("choice", CHOICES)
def test_zeros_at_rest_are_no_gradients(choice: str) -> None:
    kind = chosen(f"optimizer={choice}", "optimizer.weight_decay=0.1")
    expected = weights_after_steps(kind, rests=False)
    for found, wanted in zip(weights_after_steps(kind, rests=True), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert not torch.equal(expected[1], torch.ones(2))


def test_a_closure_is_called_once_with_gradients() -> None:
    weight = nn.Parameter(torch.ones(1))
    optimizer = create_optimizer(partial(AdamW, weight_decay=0.0), [{"params": [weight]}])
    optimizer.param_groups[0]["lr"] = 0.5

    def closure() -> float:
        loss = weight.sum()
        loss.backward()
        return float(loss.detach())

    assert optimizer.step(closure) == 1.0
    assert weight.item() == pytest.approx(0.5)  # Adam's first step is the learning rate


def test_the_default_is_the_optimizer_of_earlier_versions() -> None:
    for factory in (ADAMW, chosen()):
        (group,) = factory([nn.Parameter(torch.ones(2))]).param_groups
        assert (*group["betas"], group["eps"], group["weight_decay"]) == (0.9, 0.98, 1e-8, 0.01)


def test_the_rate_of_the_optimizer_is_that_of_all_stages() -> None:
    own, _ = build_training(compose("train", []))
    same, _ = build_training(compose("train", ["optimizer=sgd", "optimizer.lr=0.3"]))
    assert len({stage.learning_rate for stage in own.curriculum.stages}) > 1
    assert {stage.learning_rate for stage in same.curriculum.stages} == {0.3}
    assert [s.steps for s in same.curriculum.stages] == [s.steps for s in own.curriculum.stages]


@pytest.mark.parametrize("given", MISTAKES)
def test_a_mistake_is_one_sentence(given: str) -> None:
    with pytest.raises(ZooError) as refusal:
        chosen(given)
    assert str(refusal.value).startswith(MISTAKES[given])
    assert "\n" not in str(refusal.value)


def test_only_classes_of_optimizers_need_no_word_of_the_user() -> None:
    for path in ("torch.optim.optimizer.defaultdict", "torch.optim.optimizer.warnings.warn"):
        with pytest.raises(ZooError, match="of a package that neither the zoo nor the command"):
            chosen(f"optimizer._target_={path}", "optimizer=sgd")


def test_muon_has_the_matrices_and_adamw_all_other_weights() -> None:
    """A step equals a step of Muon on some weights and a step of AdamW on the others."""
    networks = [nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7)) for _ in "ab"]
    networks[1].load_state_dict(networks[0].state_dict())
    mark_tables(networks[0])
    both = MuonAdamW([{"params": list(networks[0].parameters())}], lr=0.1)
    table, matrix, vector, head, bias = networks[1].parameters()
    options: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.01}
    alone = [
        Muon([matrix], adjust_lr_fn="match_rms_adamw", **options),
        AdamW([table, vector, head, bias], betas=(0.9, 0.98), **options),
    ]
    for optimizers, network in ((([both], networks[0])), (alone, networks[1])):
        for step in range(3):
            network(torch.arange(7)).square().mean().backward()
            for optimizer in optimizers:
                optimizer.step()
                if step == 1 and optimizer is both:  # a checkpoint is written and read
                    both.load_state_dict(both.state_dict())
            network.zero_grad()
    for found, wanted in zip(networks[0].parameters(), networks[1].parameters(), strict=True):
        assert torch.equal(found, wanted)


def test_muon_is_refused_where_matrices_are_divided() -> None:
    strategy = FSDP2()
    check_optimizer(chosen(), strategy)
    with pytest.raises(ZooError, match=r"optimizer=muon needs whole matrices.*strategy=auto"):
        check_optimizer(chosen("optimizer=muon"), strategy)


def losses(
    folder: Path, factory: OptimizerFactory, *, steps: int = 12, **options: Any
) -> list[float]:
    tiny.train(folder, steps=steps, optimizer=factory, **options)
    lines = (folder / "steps.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


@pytest.mark.parametrize("choice", CHOICES)
def test_each_choice_lowers_the_loss_and_resumes_bit_by_bit(choice: str, tmp_path: Path) -> None:
    factory = chosen(f"optimizer={choice}")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        tiny.pretrained(folder / "pretrained")
    expected = losses(whole, factory)
    losses(parts, factory, steps=6)
    assert losses(parts, factory, resume=True) == expected
    assert sum(expected[-3:]) < 0.98 * sum(expected[:3])


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    tiny.pretrained(tmp_path / "pretrained")
    losses(tmp_path, chosen(), steps=3)
    with pytest.raises(ZooError, match=r"the states of torch\.optim\.adamw\.AdamW, not of .*Muon"):
        losses(tmp_path, chosen("optimizer=muon"), steps=6, resume=True)


LION = """
import torch


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr: float = 1e-4, beta: float = 0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    state = self.state[weight]
                    mean = state.setdefault("mean", torch.zeros_like(weight))
                    mean.lerp_(weight.grad, 1 - group["beta"])
                    weight.sub_(group["lr"] * mean.sign())
        return loss
"""


def test_an_optimizer_of_another_package_needs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "lion_zoo" / "conf" / "optimizer"
    conf.mkdir(parents=True)
    (tmp_path / "lion_zoo" / "__init__.py").write_text(LION)
    (conf / "lion.yaml").write_text("_target_: lion_zoo.Lion\n_partial_: true\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = ["optimizer=lion", "optimizer.beta=0.8"]
    settings, factory = build_training(compose("train", given, [conf.parent]))
    # its file names no learning rate, so the stages keep theirs
    rates = [stage.learning_rate for stage in settings.curriculum.stages]
    default, _ = build_training(compose("train", []))
    assert rates == [stage.learning_rate for stage in default.curriculum.stages]
    assert factory([nn.Parameter(torch.ones(2))]).defaults["beta"] == 0.8
    tiny.pretrained(tmp_path / "pretrained")
    found = losses(tmp_path, factory)
    assert sum(found[-3:]) < sum(found[:3])
