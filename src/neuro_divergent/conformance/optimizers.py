"""The conformance suite of optimizers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neuro_divergent.conformance.descriptions import is_documented, round_trips
from neuro_divergent.conformance.examples import optimizer_examples
from neuro_divergent.conformance.suite import Suite, require
from neuro_divergent.optim import Optimizer, freeze, load_state, set_rate, state_tensors, to_eval, to_train

OPTIMIZERS: Suite[Optimizer] = Suite("optimizer", optimizer_examples)
"""The checks of optimizers; `check_optimizer` runs one of them."""

DESCENT_STEPS = 60


@OPTIMIZERS.check
def description_round_trips(optimizer: Optimizer) -> None:
    """JSON and YAML restore the description."""
    round_trips(optimizer)


@OPTIMIZERS.check
def description_is_documented(optimizer: Optimizer) -> None:
    """The class and every field are described."""
    is_documented(optimizer)


@OPTIMIZERS.check
def reduces_a_quadratic(optimizer: Optimizer) -> None:
    """With the default settings, sixty steps lower a least-squares loss."""
    module = _network(optimizer)
    live = optimizer.build(module)
    first = float(_loss(module).detach())
    _train(module, live, DESCENT_STEPS)
    to_eval(live)
    last = float(_loss(module).detach())
    require(last < first, f"{DESCENT_STEPS} steps must lower the squared error, but it went {first} → {last}")
    bad = [name for name, parameter in module.named_parameters() if not parameter.isfinite().all()]
    require(not bad, f"the parameters must stay finite, but these did not: {', '.join(bad)}")


@OPTIMIZERS.check
def groups_carry_names_and_first_rates(optimizer: Optimizer) -> None:
    """Every group has "names" beside "params", and "initial_lr": checkpoints and schedules need both."""
    module = _network(optimizer)
    groups = optimizer.build(module).param_groups
    names = [name for group in groups for name in group.get("names", ())]
    wanted = sorted(name for name, parameter in module.named_parameters() if parameter.requires_grad)
    require(sorted(names) == wanted, f"the groups' names must be {wanted}, but are {sorted(names)}")
    require(all("initial_lr" in group for group in groups), 'every group must have "initial_lr", but some have none')


@OPTIMIZERS.check
def rate_follows_set_rate(optimizer: Optimizer) -> None:
    """With a factor of 0 the first step changes nothing, with 0.5 it is shorter, and 1 restores the first rate."""
    lengths = {}
    for factor in (0.0, 0.5, 1.0):
        module = _network(optimizer)
        live = optimizer.build(module)
        set_rate(live, factor)
        rates = [(float(group["lr"]), factor * group["initial_lr"]) for group in live.param_groups]
        require(all(rate == wanted for rate, wanted in rates), f"set_rate({factor}) must set {rates=} (is, should be)")
        before = _weights(module)
        _train(module, live, 1)
        lengths[factor] = max(float((weight - before[name]).abs().max()) for name, weight in _weights(module).items())
    require(lengths[0.0] == 0, f"at a learning rate of 0 a step must change nothing, but it moved by {lengths[0.0]}")
    require(0 < lengths[0.5] < lengths[1.0], f"half the rate must make a shorter step, but the steps are {lengths}")


@OPTIMIZERS.check
def state_round_trips_exactly(optimizer: Optimizer) -> None:
    """Stopped after seven steps and resumed from the saved state, ten more steps give the same bits."""
    module, other = _network(optimizer), _network(optimizer)
    live = optimizer.build(module)
    _train(module, live, 7)
    saved = {name: tensor.clone() for name, tensor in state_tensors(live).items()}
    other.load_state_dict(module.state_dict())
    resumed = optimizer.build(other)
    load_state(resumed, saved)
    again = state_tensors(resumed)
    differ = [name for name in saved if name not in again or not torch.equal(saved[name], again[name])]
    require(
        saved.keys() == again.keys() and not differ, f"load_state must restore the state exactly, but not: {differ}"
    )
    _train(module, live, 10)
    _train(other, resumed, 10)
    for name, weight in _weights(module).items():
        same = torch.equal(weight, dict(other.named_parameters())[name])
        require(same, f"a resumed run must give the same bits as one that never stopped, but {name} differs")


@OPTIMIZERS.check
def evaluation_leaves_training_as_it_was(optimizer: Optimizer) -> None:
    """Switching to the weights for evaluation and back between two steps changes no bit."""
    module, other = _network(optimizer), _network(optimizer)
    live, watched = optimizer.build(module), optimizer.build(other)
    for _ in range(5):
        _train(module, live, 1)
        _train(other, watched, 1)
        to_eval(watched)
        to_train(watched)
    for name, weight in _weights(module).items():
        same = torch.equal(weight, dict(other.named_parameters())[name])
        require(same, f"to_eval and to_train must not change the training, but {name} differs")


@OPTIMIZERS.check
def frozen_parameters_stay(optimizer: Optimizer) -> None:
    """Parameters that were frozen before the optimizer was built are not changed, decayed or averaged."""
    module = _network(optimizer)
    frozen = freeze(module, "0.*")
    before = _weights(module)
    _train(module, optimizer.build(module), 5)
    moved = [name for name in frozen if not torch.equal(before[name], _weights(module)[name])]
    require(not moved, f"frozen parameters must not change, but {', '.join(moved)} changed")
    learns = optimizer.takes(module) - set(frozen)
    still = [name for name in before if name in learns and torch.equal(before[name], _weights(module)[name])]
    require(not still, f"the other parameters must learn, but {', '.join(still)} did not change")


@OPTIMIZERS.check
def parameters_without_gradient_are_skipped(optimizer: Optimizer) -> None:
    """A parameter without a gradient in a step does not change, and learns when it gets a gradient."""
    module = _network(optimizer)
    live = optimizer.build(module)
    torch.autograd.backward(module[:2](_data()[0]).square().mean())
    before = _weights(module)
    live.step()
    last = _weights(module)
    require(torch.equal(before["2.weight"], last["2.weight"]), "a parameter without a gradient must not move")
    _train(module, live, 2)
    require(
        not torch.equal(last["2.weight"], _weights(module)["2.weight"]), "2.weight must learn when it gets a gradient"
    )


def _network(optimizer: Optimizer) -> nn.Sequential:
    """Two layers and a norm; what the optimizer cannot train (a bias under Muon) is frozen."""
    generator = torch.Generator().manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    able = optimizer.takes(module)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name in able)
    return module


def _data() -> tuple[Tensor, Tensor]:
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3


def _loss(module: nn.Module) -> Tensor:
    x, y = _data()
    loss: Tensor = (module(x) - y).square().mean()
    return loss


def _train(module: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    to_train(optimizer)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(_loss(module))
        optimizer.step()


def _weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
