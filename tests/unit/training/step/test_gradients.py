"""Gradients by other ways, and the tools that check them."""

from __future__ import annotations

import copy
import logging

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch
from neuro_divergent.training.gradient_tape import ACTIVATIONS
from neuro_divergent.training.step.activation_checkpointing import checkpointed
from neuro_divergent.training.step.gradients import numerical_gradient

X = np.random.default_rng(0).normal(size=(64, 3))
Y = np.sin(X[:, :1])


def net(*, dropout=0.0, norm=False, seed=0):
    torch.manual_seed(seed)
    middle = [nn.BatchNorm1d(6)] if norm else []
    return nn.Sequential(
        nn.Linear(3, 6), *middle, nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 1)
    )


def config(**fields):
    return nd.TrainingConfig(
        **{"max_epochs": 2, "validation_split": None, "progress": False, "precision": "float64"} | fields
    )


def trained(**fields):
    module = net(**{key: fields.pop(key) for key in ("dropout", "norm") if key in fields})
    history = nd.Trainer(config(**fields)).fit(module, (X, Y))
    return torch.cat([tensor.double().flatten() for tensor in module.state_dict().values()]), history


@pytest.mark.parametrize(("method", "tolerance"), [("central", 1e-7), ("one_sided", 1e-4)])
@pytest.mark.parametrize("kind", [{}, {"dropout": 0.3}, {"norm": True}, {"accumulate_gradients": 2}])
def test_numerical_gradients_train_like_exact_ones(method, tolerance, kind):
    exact, known = trained(**kind)
    by_differences, history = trained(gradient_method=method, **kind)
    if "accumulate_gradients" in kind:
        assert history.step_loss == pytest.approx(known.step_loss, abs=1e-4)
    else:
        assert torch.allclose(exact, by_differences, atol=tolerance)


def test_a_difference_is_the_derivative():
    # d/dx of x³ at 2 is 12.
    x = torch.tensor([2.0], dtype=torch.float64)
    assert numerical_gradient(lambda: float(x**3), x).item() == pytest.approx(12.0, abs=1e-8)
    assert numerical_gradient(lambda: float(x**3), x, "one_sided").item() == pytest.approx(12.0, abs=1e-5)
    assert x.item() == 2.0


def test_a_long_wait_is_announced(caplog):
    module = nn.Linear(101, 100)
    wide = np.zeros((2, 101))
    with caplog.at_level(logging.WARNING):
        settings = config(gradient_method="one_sided", max_epochs=None, max_steps=1, precision="float32")
        nd.Trainer(settings).fit(module, (wide, np.zeros((2, 100))))
    assert "10200 times" in caplog.text


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient  # should be 2x times that


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.good, self.bad = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        return self.good(x) + WrongBackward.apply(self.bad(x))


def test_check_gradients_finds_the_wrong_backward_and_only_that():
    x = torch.from_numpy(X)
    with pytest.raises(nd.TrainingError, match=r"bad\.weight") as caught:
        nd.check_gradients(Wrong(), x)
    assert "good.weight" not in str(caught.value)
    assert max(nd.check_gradients(net(), x).values()) < 1e-6


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, x, scale):
        return self.inner(x) * scale


class OnBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, batch):
        return self.inner(batch.y[..., 0])


def test_check_gradients_takes_several_inputs_and_batches_and_changes_nothing():
    module = TwoInputs()
    nd.check_gradients(module, (torch.from_numpy(X), torch.tensor(2.0)))
    assert module.inner.weight.dtype == torch.float32
    assert module.inner.weight.grad is None
    nd.check_gradients(OnBatch(), Batch(torch.randn(5, 4, 1)))


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_the_gradient_of_every_activation(name):
    x = torch.linspace(-3.1, 3.3, 40, dtype=torch.float64, requires_grad=True)  # not at a kink
    assert torch.autograd.gradcheck(ACTIVATIONS[name], (x,))


def test_the_tape_by_hand():
    # y = sum(tanh(xW + b)); dy/dz = 1 - tanh², dW = xᵀ dz, db = dz.
    tape = nd.GradientTape()
    x, w, b = tape.record("x", [[1.0, 2.0]]), tape.record("w", [[0.1], [0.2]]), tape.record("b", [0.3])
    tape.record("unused", [5.0])
    tape.backward(tape.activation(tape.add(tape.matmul(x, w), b), "Tanh"))
    slope = 1 - np.tanh(0.8) ** 2
    assert tape.get_gradient("w").numpy() == pytest.approx(np.array([[slope], [2 * slope]]))
    assert tape.get_gradient("b").item() == pytest.approx(slope)
    assert tape.get_gradient("x").numpy() == pytest.approx(np.array([[0.1 * slope, 0.2 * slope]]))
    assert tape.get_gradient("unused").item() == 0.0


def test_the_tape_says_what_is_wrong():
    tape = nd.GradientTape()
    x = tape.record("x", [1.0])
    with pytest.raises(nd.NotFittedError, match="backward"):
        tape.get_gradient("x")
    with pytest.raises(nd.ConfigError, match="recorded once"):
        tape.record("x", [2.0])
    with pytest.raises(nd.ConfigError, match="gelu"):
        tape.activation(x, "gelo")
    tape.backward(tape.multiply(x, x))
    assert tape.get_gradient("x").item() == 2.0
    with pytest.raises(nd.ConfigError, match="the name must be one of x"):
        tape.get_gradient("z")


@pytest.mark.parametrize("every", [1, 2, 3, 9])
def test_checkpointed_activations_change_no_bit(every):
    kind = {"dropout": 0.3, "norm": True}
    plain, _ = trained(**kind)
    again, _ = trained(activation_checkpointing=nd.ActivationCheckpointing(every=every), **kind)
    assert torch.equal(plain, again)


def kept_bytes(module, x):
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    for parameter in [*module.parameters(), x]:
        kept[parameter.untyped_storage().data_ptr()] = 0
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module(x)
    del output
    return sum(size for pointer, size in kept.items() if pointer not in {p.data_ptr() for p in module.parameters()})


def test_checkpointing_keeps_half_the_memory_of_a_deep_network():
    # Per hidden layer GELU keeps its input and the next layer its own: two tensors; with checkpoints one.
    layers = [layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.GELU())]
    module, x = nn.Sequential(*layers, nn.Linear(32, 1)), torch.randn(64, 32)
    whole = kept_bytes(module, x)
    with checkpointed(module, 1) as stretches:
        assert kept_bytes(module, x) <= 0.55 * whole
    assert stretches == 9


def test_afterwards_the_network_is_as_before_and_can_be_copied():
    module = net()
    settings = config(activation_checkpointing=nd.ActivationCheckpointing())
    nd.Trainer(settings).fit(module, (X, Y))
    assert "forward" not in vars(module)
    other = copy.deepcopy(module)
    with torch.no_grad():
        other[0].weight.zero_()
    x = torch.from_numpy(X)
    assert not torch.equal(module(x), other(x))


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return x[:, :1]


def test_members_of_a_list_are_checkpointed_and_nothing_to_cut_is_refused():
    with checkpointed(Listed(), 2) as stretches:
        assert stretches == 2
    with pytest.raises(nd.ConfigError, match="needs blocks"), checkpointed(nn.Linear(3, 1)):
        pass


def test_averages_of_weights_by_hand():
    # One weight w = 3 - n after step n (SGD on |w + 100|, rate 1): EMA with d = ½ from 3: 2.5, 1.75, 0.875.
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([3.0]))

        def forward(self, x):
            return self.weight.expand(len(x), 1)

    def run(averaging):
        module = One()
        settings = config(
            max_epochs=3,
            loss=nd.MAE(),
            optimizer=nd.SGD(learning_rate=1.0, momentum=0.0),
            gradient_clipping=None,
            averaging=averaging,
            early_stopping=None,
            batch_size=4,
        )
        x, low = np.zeros((4, 1)), np.full((4, 1), -100.0)
        history = nd.Trainer(settings).fit(module, (x, low), validation=(x, x))
        return module.weight.item(), history.validation_loss

    assert run(None) == (0.0, [2.0, 1.0, 0.0])
    last, seen = run(nd.EMA(decay=0.5, warmup=False))
    assert last == pytest.approx(0.875)
    assert seen == pytest.approx([2.5, 1.75, 0.875])  # the validation looks at the average, |a - 0|
    assert run(nd.SWA(start=1))[0] == pytest.approx(0.5)  # the mean of 1 and 0
