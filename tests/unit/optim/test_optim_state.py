"""Resuming an optimizer from tensors by name gives the bits of a run that was never interrupted."""

from __future__ import annotations

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from neuro_divergent.core import registry
from neuro_divergent.core.errors import StorageError, TrainingError
from neuro_divergent.optim import (
    LAMB,
    SGD,
    AdaBound,
    Adam,
    AdamW,
    Lookahead,
    Muon,
    Optimizer,
    Optimizers,
    RMSprop,
    ScheduleFreeAdamW,
    TorchOptimizer,
    forget_gradients,
    freeze,
    load_state,
    set_rate,
    state_tensors,
    to_eval,
    to_train,
)

STEPS = 14


class Net(nn.Module):
    """Matrices, vectors, an embedding, a frozen layer, and a layer that gets a gradient only now and then."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(5, 4)
        self.body = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4))
        self.seldom = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)
        freeze(self, "body.3.*")

    def loss(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(step)
        hidden = self.body(self.embed(torch.randint(5, (16,), generator=generator)))
        if step in (6, 9):
            hidden = hidden + self.seldom(hidden)
        return (self.head(hidden) - torch.randn(16, 1, generator=generator)).square().mean()


def train(module: Net, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        set_rate(optimizer, 1 / (1 + step))
        optimizer.zero_grad()
        module.loss(step).backward()
        optimizer.step()


def described(kind: str) -> Optimizer:
    given = {"TorchOptimizer": {"cls": "ASGD"}}.get(kind, {})
    groups = ({"pattern": "head.*", "rate_factor": 0.5, "weight_decay": 0.3},)
    return registry.resolve("optimizer", kind)(**given, weight_decay=0.1, groups=groups)


OF_SEVERAL = {"Muon", "Optimizers"}
"""Tested together below: Muon takes matrices only, and the decay belongs to the members."""
VARIANTS = [described(kind) for kind in registry.members("optimizer") if kind not in OF_SEVERAL] + [
    Optimizers({"body.*": Muon(weight_decay=0.1)}, default=AdamW(weight_decay=0.3)),
    Adam(amsgrad=True, fused=False),
    SGD(momentum=0.0),
    RMSprop(centered=True, momentum=0.9),
    AdaBound(amsbound=True),
    ScheduleFreeAdamW(warmup_steps=9),
    Lookahead(inner=LAMB(), every=3),
    Lookahead(inner=SGD(), every=4),
    TorchOptimizer(cls="Rprop"),
    TorchOptimizer(cls="Adadelta"),
]


@pytest.mark.parametrize("stop", [0, 1, 5, 8])
@pytest.mark.parametrize("description", VARIANTS, ids=lambda description: description.kind)
def test_resuming_gives_the_same_bits(description: Optimizer, stop: int) -> None:
    whole = Net()
    optimizer = description.build(whole)
    train(whole, optimizer, range(STEPS))

    first = Net()
    interrupted = description.build(first)
    train(first, interrupted, range(stop))
    weights = safetensors.torch.save(first.state_dict())
    state = safetensors.torch.save(state_tensors(interrupted))

    second = Net()
    resumed = description.build(second)
    train(second, resumed, range(2))  # what it had before must be forgotten
    second.load_state_dict(safetensors.torch.load(weights))
    load_state(resumed, safetensors.torch.load(state))
    train(second, resumed, range(stop, STEPS))

    for (name, expected), got in zip(whole.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(expected, got), name
    final = state_tensors(optimizer)
    assert final.keys() == state_tensors(resumed).keys()
    for name, tensor in state_tensors(resumed).items():
        assert torch.equal(tensor, final[name]), name
        assert tensor.dtype == final[name].dtype, name


def test_bfloat16_weights_resume_with_their_wider_state() -> None:
    # torch's own load_state_dict casts every state to the weight's type, which would lose bits of NAdam's product.
    module = nn.Linear(3, 3).to(torch.bfloat16)
    optimizer = TorchOptimizer(cls="NAdam").build(module)
    for step in range(5):
        module.weight.grad = torch.full_like(module.weight, 0.1 * step)
        optimizer.step()
    fresh = TorchOptimizer(cls="NAdam").build(module)
    load_state(fresh, state_tensors(optimizer))
    for name, tensor in state_tensors(optimizer).items():
        assert state_tensors(fresh)[name].dtype == tensor.dtype
        assert torch.equal(state_tensors(fresh)[name], tensor)


def test_state_is_keyed_by_parameter_name_and_free_of_the_grouping() -> None:
    module = Net()
    optimizer = AdamW().build(module)
    train(module, optimizer, range(3))
    tensors = state_tensors(optimizer)
    assert tensors["head.weight/exp_avg"].shape == (1, 4)
    assert not any(name.startswith(("body.3", "seldom")) for name in tensors)
    regrouped = AdamW(weight_decay=0.0, groups=({"pattern": "embed.*", "rate_factor": 2.0},)).build(module)
    load_state(regrouped, tensors)
    assert torch.equal(state_tensors(regrouped)["embed.weight/exp_avg_sq"], tensors["embed.weight/exp_avg_sq"])


def test_loading_copies() -> None:
    module = Net()
    optimizer = AdamW().build(module)
    train(module, optimizer, range(2))
    kept = {name: tensor.clone() for name, tensor in state_tensors(optimizer).items()}
    given = {name: tensor.clone() for name, tensor in kept.items()}
    load_state(optimizer, given)
    train(module, optimizer, range(2, 5))
    assert all(torch.equal(given[name], kept[name]) for name in kept)


def test_configuration_is_not_state() -> None:
    module = Net()
    optimizer = Lookahead(inner=AdamW(weight_decay=0.5)).build(module)
    train(module, optimizer, range(3))
    other = Lookahead(inner=AdamW(weight_decay=0.1, learning_rate=0.2)).build(module)
    load_state(other, state_tensors(optimizer))
    assert {group["weight_decay"] for group in other.param_groups} == {0.0, 0.1}
    assert {group["lr"] for group in other.param_groups} == {0.2}
    assert other.param_groups[0]["counter"] == 3


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    module = Net()
    optimizer = AdamW().build(module)
    train(module, optimizer, range(2))
    before = {name: tensor.clone() for name, tensor in state_tensors(optimizer).items()}
    for key in ("nobody/exp_avg", "head.weight/slow.slow_params", "head.weight/@lr#float", "head.weight/@params#int"):
        with pytest.raises(StorageError, match=r"head\.weight|nobody"):
            load_state(optimizer, before | {key: torch.zeros(())})
    with pytest.raises(StorageError, match="no place"):
        load_state(optimizer, {"head.weight/step#complex": torch.zeros(())})
    assert all(torch.equal(tensor, before[name]) for name, tensor in state_tensors(optimizer).items())


def test_a_schedule_free_state_is_read_only_while_training() -> None:
    module = Net()
    optimizer = ScheduleFreeAdamW().build(module)
    train(module, optimizer, range(2))
    to_eval(optimizer)
    with pytest.raises(TrainingError, match="to_train"):
        state_tensors(optimizer)
    to_train(optimizer)
    assert "head.weight/z" in state_tensors(optimizer)


def test_gradients_are_forgotten_as_the_optimizer_would() -> None:
    module = nn.Linear(2, 1)
    module(torch.ones(1, 2)).sum().backward()
    forget_gradients(torch.optim.SGD(module.parameters(), lr=0.1))
    assert [parameter.grad for parameter in module.parameters()] == [None, None]

    class Own(torch.optim.SGD):
        def zero_grad(self, set_to_none: bool = True) -> None:
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.grad = torch.full_like(parameter, 7.0)

    forget_gradients(Own(module.parameters(), lr=0.1))
    assert module.bias.grad is not None
    assert module.bias.grad.tolist() == [7.0]
