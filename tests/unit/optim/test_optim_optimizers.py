"""Each optimizer, step by step: torch's against torch's classes, the others against float64 numpy transcriptions of the
papers' algorithms, written here from the papers' pseudocode."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from math import sqrt

import numpy as np
import pytest
import torch
from torch import nn

from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError, MissingExtraError
from neuro_divergent.optim import (
    LAMB,
    SGD,
    AdaBound,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Lion,
    Lookahead,
    Muon,
    NAdam,
    Optimizer,
    Optimizers,
    RAdam,
    RMSprop,
    ScheduleFreeAdamW,
    TorchOptimizer,
    set_rate,
    to_eval,
    to_train,
)

STEPS = 25


class Point(nn.Module):
    """One weight matrix; the gradient at each step is given, not computed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, -2.0, 0.5], [0.3, 4.0, -0.1]], dtype=torch.float64))


def gradient(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(size=(2, 3)) * (1 + step % 3)


def run(optimizer: torch.optim.Optimizer, module: nn.Module, steps: int = STEPS) -> np.ndarray:
    path = []
    for step in range(steps):
        module.weight.grad = torch.from_numpy(gradient(step).copy())
        optimizer.step()
        path.append(module.weight.detach().numpy().copy())
    return np.array(path)


def of_torch(cls: type, **arguments: object) -> np.ndarray:
    module = Point()
    return run(cls(module.parameters(), **arguments), module)


DECOUPLED = {"weight_decay": 0.1, "decoupled_weight_decay": True}
CASES = [
    (AdamW(), torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.01}),
    (AdamW(amsgrad=True, fused=False), torch.optim.AdamW, {"weight_decay": 0.01, "amsgrad": True}),
    (Adam(), torch.optim.Adam, {"lr": 1e-3}),
    (Adam(weight_decay=0.1, amsgrad=True), torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True}),
    (SGD(), torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}),
    (SGD(momentum=0.0), torch.optim.SGD, {"lr": 0.01}),
    (SGD(nesterov=True), torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    (SGD(weight_decay=0.1), torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
    (SGD(momentum=0.5, dampening=0.5), torch.optim.SGD, {"lr": 0.01, "momentum": 0.5, "dampening": 0.5}),
    (RMSprop(), torch.optim.RMSprop, {"lr": 1e-3, "alpha": 0.9}),
    (RMSprop(centered=True), torch.optim.RMSprop, {"lr": 1e-3, "alpha": 0.9, "centered": True}),
    (RMSprop(momentum=0.5), torch.optim.RMSprop, {"lr": 1e-3, "alpha": 0.9, "momentum": 0.5}),
    (NAdam(), torch.optim.NAdam, {}),
    (NAdam(weight_decay=0.1, decoupled=True), torch.optim.NAdam, DECOUPLED),
    (RAdam(), torch.optim.RAdam, {}),
    (RAdam(weight_decay=0.1, decoupled=True), torch.optim.RAdam, DECOUPLED),
    (Adagrad(rate_decay=0.1), torch.optim.Adagrad, {"lr_decay": 0.1}),
    (Adagrad(initial_accumulator=0.2), torch.optim.Adagrad, {"initial_accumulator_value": 0.2}),
    (Adafactor(), torch.optim.Adafactor, {}),
    (TorchOptimizer(cls="Adadelta", arguments={"rho": 0.8}), torch.optim.Adadelta, {"lr": 1e-3, "rho": 0.8}),
    (
        TorchOptimizer(cls=torch.optim.Rprop, arguments={"etas": [0.4, 1.3]}),
        torch.optim.Rprop,
        {"lr": 1e-3, "etas": (0.4, 1.3)},
    ),
]


@pytest.mark.parametrize(("description", "cls", "arguments"), CASES, ids=lambda value: getattr(value, "kind", ""))
def test_torchs_own_take_torchs_steps(description: Optimizer, cls: type, arguments: dict) -> None:
    module = Point()
    # A fused kernel may round differently in the last bits.
    np.testing.assert_allclose(run(description.build(module), module), of_torch(cls, **arguments), rtol=1e-12)


def test_a_parameter_may_get_its_first_gradient_late() -> None:
    # torch's fused SGD cannot: it wants every momentum or none. Plain SGD of torch is the reference.
    ours, theirs = nn.Linear(2, 2), nn.Linear(2, 2)
    theirs.load_state_dict(ours.state_dict())
    optimizers = [SGD().build(ours), torch.optim.SGD(theirs.parameters(), lr=1e-2, momentum=0.9)]
    for step in range(6):
        for module, optimizer in zip((ours, theirs), optimizers, strict=True):
            module.weight.grad = torch.full((2, 2), 1.0 + step)
            module.bias.grad = torch.full((2,), 2.0 + step) if step > 2 else None
            optimizer.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_adamw_by_the_paper() -> None:
    # Loshchilov and Hutter 2019, algorithm 2, in numpy: torch itself is not taken on trust for the default.
    weight, m, v, expected = Point().weight.detach().numpy().copy(), 0.0, 0.0, []
    for step in range(STEPS):
        g = gradient(step)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        corrected = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
        weight = weight - 1e-3 * (corrected[0] / (np.sqrt(corrected[1]) + 1e-8) + 0.01 * weight)
        expected.append(weight)
    module = Point()
    np.testing.assert_allclose(run(AdamW().build(module), module), expected, rtol=1e-10)


def test_lamb_by_the_paper() -> None:
    # You et al. 2020 (third version: without bias correction), φ(z) = min(z, 10).
    weight, m, v, expected = Point().weight.detach().numpy().copy(), 0.0, 0.0, []
    for step in range(STEPS):
        g = gradient(step)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        update = m / (np.sqrt(v) + 1e-6) + 0.1 * weight
        ratio = min(np.linalg.norm(weight), 10.0) / (np.linalg.norm(update) + 1e-6)
        weight = weight - 0.01 * ratio * update
        expected.append(weight)
    module = Point()
    optimizer = LAMB(learning_rate=0.01, weight_decay=0.1).build(module)
    np.testing.assert_allclose(run(optimizer, module), expected, rtol=1e-9)


@pytest.mark.parametrize("amsbound", [False, True])
def test_adabound_by_the_paper(amsbound: bool) -> None:
    # Luo et al. 2019, algorithm 2 with Adam's bias correction, as in the authors' experiments; L2 in the gradient.
    weight, m, v, top, expected = Point().weight.detach().numpy().copy(), 0.0, 0.0, 0.0, []
    for step in range(STEPS):
        t = step + 1
        g = gradient(step) + 0.1 * weight
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        top = np.maximum(top, v)
        rate = 1e-3 * sqrt(1 - 0.999**t) / (1 - 0.9**t) / (np.sqrt(top if amsbound else v) + 1e-8)
        low, high = 0.1 * (1 - 1 / (0.5 * t + 1)), 0.1 * (1 + 1 / (0.5 * t))
        weight = weight - np.clip(rate, low, high) * m
        expected.append(weight)
    module = Point()
    optimizer = AdaBound(weight_decay=0.1, gamma=0.5, amsbound=amsbound).build(module)
    np.testing.assert_allclose(run(optimizer, module), expected, rtol=1e-9)


def test_lion_by_the_paper() -> None:
    # Chen et al. 2023, algorithm 2.
    weight, m, expected = Point().weight.detach().numpy().copy(), 0.0, []
    for step in range(STEPS):
        g = gradient(step)
        weight = weight - 1e-2 * (np.sign(0.9 * m + 0.1 * g) + 0.1 * weight)
        m = 0.99 * m + 0.01 * g
        expected.append(weight)
    module = Point()
    optimizer = Lion(learning_rate=1e-2, weight_decay=0.1).build(module)
    np.testing.assert_allclose(run(optimizer, module), expected, rtol=1e-10)


def schedule_free(steps: int, warmup: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(y, x) after each step: Defazio et al. 2024, algorithm 1, with weights γ² as in the paper's section 4."""
    x = z = Point().weight.detach().numpy().copy()
    v, total, top = 0.0, 0.0, 0.0
    y = x
    for step in range(steps):
        t = step + 1
        g = gradient(step)
        rate = 0.05 * min(1.0, t / warmup) if warmup else 0.05
        v = 0.999 * v + 0.001 * g * g
        z = z - rate * (g / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) + 0.1 * y)
        top = max(top, rate)
        total += top**2
        c = top**2 / total
        x = (1 - c) * x + c * z
        y = 0.1 * z + 0.9 * x
        yield y, x


@pytest.mark.parametrize("warmup", [0, 8])
def test_schedule_free_adamw_by_the_paper(warmup: int) -> None:
    module = Point()
    optimizer = ScheduleFreeAdamW(learning_rate=0.05, weight_decay=0.1, warmup_steps=warmup).build(module)
    for step, (y, x) in enumerate(schedule_free(STEPS, warmup)):
        module.weight.grad = torch.from_numpy(gradient(step).copy())
        optimizer.step()
        np.testing.assert_allclose(module.weight.detach().numpy(), y, rtol=1e-8)
        to_eval(optimizer)
        np.testing.assert_allclose(module.weight.detach().numpy(), x, rtol=1e-8)
        to_train(optimizer)


def test_evaluating_changes_no_bit_of_a_schedule_free_training() -> None:
    # Going to the average and back by arithmetic alone would differ in the last bits of some of 2 500 weights.
    watched, alone = nn.Linear(50, 50), nn.Linear(50, 50)
    alone.load_state_dict(watched.state_dict())
    optimizers = [ScheduleFreeAdamW(learning_rate=0.05).build(module) for module in (watched, alone)]
    for step in range(STEPS):
        pull = torch.randn(50, 50, generator=torch.Generator().manual_seed(step))
        for module, optimizer in zip((watched, alone), optimizers, strict=True):
            module.weight.grad = pull.clone()
            optimizer.step()
        for _ in range(3):
            to_eval(optimizers[0])
            to_eval(optimizers[0])
            to_train(optimizers[0])
    assert torch.equal(watched.weight, alone.weight)


def test_modes_do_nothing_for_the_others() -> None:
    module = Point()
    optimizer = AdamW().build(module)
    before = module.weight.clone()
    to_eval(optimizer)
    to_train(optimizer)
    assert torch.equal(module.weight, before)


def test_lookahead_by_the_paper() -> None:
    # Zhang et al. 2019, algorithm 1, around plain gradient descent: k = 5, α = 0.5.
    fast = slow = Point().weight.detach().numpy().copy()
    expected = []
    for step in range(STEPS):
        fast = fast - 0.1 * gradient(step)
        if (step + 1) % 5 == 0:
            fast = slow = slow + 0.5 * (fast - slow)
        expected.append(fast)
    module = Point()
    optimizer = Lookahead(inner=SGD(learning_rate=0.1, momentum=0.0)).build(module)
    np.testing.assert_allclose(run(optimizer, module), expected, rtol=1e-10)


def test_lookahead_speaks_for_its_inner_optimizer() -> None:
    lookahead = Lookahead(inner=SGD(learning_rate=0.3, weight_decay=0.2))
    assert (lookahead.learning_rate, lookahead.weight_decay) == (0.3, 0.2)
    assert lookahead.replace(learning_rate=0.7).inner.learning_rate == 0.7
    assert Lookahead(inner="sgd").inner == SGD()
    with pytest.raises(ConfigError, match="cannot go around ScheduleFreeAdamW"):
        Lookahead(inner=ScheduleFreeAdamW())
    with pytest.raises(ConfigError, match="inner must be an optimizer"):
        Lookahead(inner=5)


def default(kind: str) -> Optimizer:
    given = {"TorchOptimizer": {"cls": "Adamax"}, "Optimizers": {"by": {"*": SGD()}}}
    if kind == "Muon":  # for matrices; the rest needs another one
        return Optimizers(by={"*": Muon()}, default=AdamW())
    return registry.resolve("optimizer", kind)(**given.get(kind, {}))


@pytest.mark.parametrize("kind", list(registry.members("optimizer")))
def test_every_optimizer_lowers_a_loss_and_survives_json(kind: str) -> None:
    description = default(kind)
    assert Optimizer.from_json(description.to_json()) == description
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
    module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = description.build(module)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (module(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.99 * losses[0]


@pytest.mark.parametrize("kind", list(registry.members("optimizer")))
def test_a_rate_of_zero_moves_nothing(kind: str) -> None:
    module = Point()
    optimizer = default(kind).build(module)
    before = module.weight.clone()
    set_rate(optimizer, 0.0)
    run(optimizer, module, 3)
    torch.testing.assert_close(module.weight, before, rtol=1e-12, atol=0)
    set_rate(optimizer, 1.0)
    run(optimizer, module, 3)
    assert not torch.equal(module.weight, before)


def test_set_rate_multiplies_each_groups_own_rate() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = Adam(learning_rate=0.1, groups=({"pattern": "1.*", "learning_rate": 0.4},)).build(module)
    set_rate(optimizer, 0.5)
    set_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.025, 0.1]
    assert [group["initial_lr"] for group in optimizer.param_groups] == [0.1, 0.4]


def test_fused_is_used_where_it_exists() -> None:
    for description in (Adam(), AdamW(), SGD(), Adagrad()):
        assert description.build(Point()).param_groups[0]["fused"] is True
        assert not description.replace(fused=False).build(Point()).param_groups[0]["fused"]
    on_meta = nn.Linear(2, 2, device="meta")
    assert not AdamW().build(on_meta).param_groups[0]["fused"]
    with pytest.raises(ConfigError, match="fused=True needs"):
        AdamW(fused=True).build(on_meta)


class Mine(torch.optim.SGD):
    """An optimizer class of the user's."""


def test_a_class_of_the_users_is_given_back_and_never_imported() -> None:
    description = TorchOptimizer(cls=Mine, arguments={"momentum": 0.5})
    assert isinstance(description.build(Point()), Mine)
    text = description.to_json()
    with pytest.raises(ConfigError, match="never imported"):
        Optimizer.from_json(text)
    assert Optimizer.from_json(text, using={"Mine": Mine}) == description


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: AdamW(learning_rate=0.0), "learning_rate must be greater than 0"),
        (lambda: AdamW(learning_rate=float("inf")), "finite"),
        (lambda: AdamW(lerning_rate=0.1), "did you mean learning_rate"),
        (lambda: Adam(betas=(0.9, 1.0)), "betas.1 must be less than 1"),
        (lambda: SGD(momentum=0.0, nesterov=True).build(Point()), "nesterov=True needs momentum"),
        (lambda: TorchOptimizer(cls="Adammax"), "Adamax"),
        (lambda: TorchOptimizer(cls=nn.Linear), "torch optimizer class"),
        (lambda: TorchOptimizer(cls=torch.optim.LBFGS), "use another cls"),
        (lambda: TorchOptimizer(cls="Rprop", weight_decay=0.1).build(Point()), "no weight decay"),
        (lambda: TorchOptimizer(cls="Adamax", arguments={"lr": 1.0}), "learning_rate"),
        (lambda: TorchOptimizer(cls="Adamax", arguments={"speed": 1.0}).build(Point()), "refused its arguments"),
    ],
)
def test_wrong_fields_are_refused_with_a_sentence(build: Callable, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()


def test_the_library_is_imported_only_when_one_of_its_optimizers_is_built(tmp_path) -> None:
    (tmp_path / "pytorch_optimizer.py").write_text("raise ModuleNotFoundError(name='pytorch_optimizer')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from torch import nn\n"
        "from neuro_divergent.optim import AdamW, LAMB\n"
        "from neuro_divergent.core.errors import MissingExtraError\n"
        "AdamW().build(nn.Linear(1, 1))\n"
        "assert 'pytorch_optimizer' not in sys.modules\n"
        "try:\n"
        "    LAMB().build(nn.Linear(1, 1))\n"
        "except MissingExtraError as error:\n"
        "    assert 'neuro-divergent[optimizers]' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('the missing package was not noticed')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert issubclass(MissingExtraError, ImportError)
