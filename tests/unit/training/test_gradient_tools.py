"""Gradients on request: compute_gradients against autograd and a hand calculation, and the tape's own features."""

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd

X = np.array([[1.0, 2.0], [3.0, -1.0]], dtype=np.float64)
Y = np.array([[1.0], [0.0]], dtype=np.float64)


class Counted(nn.Linear):
    passes = 0

    def forward(self, x):
        self.passes += 1
        return super().forward(x)


def module():
    found = Counted(2, 1).double()
    with torch.no_grad():
        found.weight.copy_(torch.tensor([[0.5, -1.0]]))
        found.bias.fill_(0.25)
    return found


# f = x·w + b: 1·0.5 - 2 + 0.25 = -1.25 and 1.5 + 1 + 0.25 = 2.75; errors -2.25 and 2.75.
# dMSE/dw = mean of 2·error·x = (2·-2.25·1 + 2·2.75·3) / 2 = 6 and (2·-2.25·2 + 2·2.75·-1) / 2 = -7.25;
# dMSE/db = (2·-2.25 + 2·2.75) / 2 = 0.5.
BY_HAND = {"weight": [[6.0, -7.25]], "bias": [0.5]}


@pytest.mark.parametrize(("method", "passes"), [("autograd", 1), ("central", 6), ("one_sided", 4), ("numerical", 6)])
def test_every_method_gives_the_gradient_by_hand_in_its_number_of_passes(method, passes):
    model = module()
    found = nd.compute_gradients(model, (X, Y), method)
    assert model.passes == passes  # three numbers: 2N, or N + 1
    for name, value in BY_HAND.items():
        assert found[name].tolist() == pytest.approx(np.array(value), abs=1e-6)
    assert model.weight.tolist() == [[0.5, -1.0]]
    assert model.weight.grad is None


def test_a_forecaster_has_gradients_of_its_own_loss():
    config = nd.TrainingConfig(max_steps=2, loss=nd.MAE(), precision="float64", progress=False)
    fitted = nd.MLP(h=3, input_size=6, hidden_size=4, layers=1, dropout=0.3).fit(nd.samples.hourly_panel(2, 60), config)
    batch = next(iter(nd.DataLoader(fitted.data, lookback=6, horizon=3, batch_size=8)))
    batch = batch.to(torch.device("cpu"), torch.float64)
    exact = nd.compute_gradients(fitted, batch)
    for name, value in nd.compute_gradients(fitted, batch, "central").items():
        assert torch.allclose(value, exact[name], atol=1e-6), name


def test_misuse_of_compute_gradients_is_refused_in_words():
    with pytest.raises(nd.ConfigError, match="method must be"):
        nd.compute_gradients(module(), (X, Y), "forward")
    with pytest.raises(nd.ConfigError, match="torch module or a forecaster"):
        nd.compute_gradients("x", (X, Y))
    with pytest.raises(nd.ConfigError, match="not frozen"):
        nd.compute_gradients(module().requires_grad_(False), (X, Y))
    with pytest.raises(nd.ConfigError, match="differences need float32"):
        nd.compute_gradients(module().bfloat16(), (X, Y), "central")


def test_the_tape_takes_an_upstream_gradient_and_gives_those_on_the_way():
    tape = nd.GradientTape()
    tape.record("x", [[1.0, 2.0]])
    tape.record("w", [[3.0, -1.0], [4.0, 1.0]])
    tape.matmul("x", "w", name="hidden")  # [[11, 1]]
    y = tape.activation("hidden", "ReLU", name="y")
    assert tape.names == ["x", "w", "hidden", "y"]
    for call in (("y", [[0.5, 2.0]]), ([[0.5, 2.0]], "y"), (y, [[0.5, 2.0]])):
        tape.backward(*call)
        assert tape.get_gradient("hidden").tolist() == [[0.5, 2.0]]
        assert tape.get_gradient("w").tolist() == [[0.5, 2.0], [1.0, 4.0]]  # xᵀ · upstream
    tape.backward("y")
    assert tape.get_gradient("x").tolist() == [[2.0, 5.0]]  # rows of w summed
    with pytest.raises(nd.ConfigError, match="the shape of the output"):
        tape.backward("y", [1.0])
    with pytest.raises(nd.ConfigError, match=r"one of x, w, .*but got 'z'"):
        tape.matmul("z", "w")
    with pytest.raises(nd.ConfigError, match="recorded already"):
        tape.add("x", "x", name="y")
