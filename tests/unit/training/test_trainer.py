"""What training must reach on problems whose answer is known, and that it is the same every time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd


def perceptron(*sizes, act=nn.Tanh, seed=0):
    torch.manual_seed(seed)
    layers = []
    for inner, outer in pairwise(sizes):
        layers += [nn.Linear(inner, outer), act()]
    return nn.Sequential(*layers[:-1])


def weights(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def plain(**fields):
    return nd.TrainingConfig(**{"validation_split": None, "early_stopping": None, "progress": False} | fields)


def test_linear_regression_finds_the_line_exactly():
    draw = np.random.default_rng(0)
    x = draw.normal(size=(200, 3))
    y = x @ np.array([[1.0], [2.0], [-3.0]]) + 0.5
    module = perceptron(3, 1)
    config = plain(
        max_epochs=150,
        optimizer=nd.Adam(learning_rate=0.05),
        schedule=nd.CosineAnnealing(),
        precision="float64",
        metrics=("r2",),
        validation_split=0.2,
    )
    history = nd.Trainer(config).fit(module, (x, y))
    assert abs(history["validation_r2"][-1] - 1.0) < 1e-6
    assert module[0].weight.detach().numpy() == pytest.approx(np.array([[1.0, 2.0, -3.0]]), abs=1e-4)
    assert module[0].bias.item() == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("loss", [nd.CrossEntropy(), nd.BinaryCrossEntropy(), nd.CrossEntropy(label_smoothing=0.05)])
def test_exclusive_or_is_learned_completely(loss):
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32).repeat(8, 0)
    y = (x.sum(1) == 1).astype(np.int64)
    module = perceptron(2, 16, 1 if loss.kind == "BinaryCrossEntropy" else 2)
    config = plain(max_epochs=150, loss=loss, optimizer=nd.Adam(learning_rate=0.03), metrics=("accuracy",))
    history = nd.Trainer(config).fit(module, (x, y), validation=(x, y))
    assert history["validation_accuracy"][-1] == 1.0


def test_a_sine_is_learned():
    x = np.linspace(-np.pi, np.pi, 256, dtype=np.float32)[:, None]
    module = perceptron(1, 32, 32, 1)
    config = plain(max_epochs=120, optimizer=nd.Adam(learning_rate=0.01), schedule=nd.OneCycle())
    nd.Trainer(config).fit(module, (x, np.sin(x)))
    with torch.no_grad():
        error = (module(torch.from_numpy(x)) - torch.from_numpy(np.sin(x))).square().mean()
    assert float(error) < 0.01


def test_two_spirals_are_told_apart():
    draw = np.random.default_rng(0)
    angle = np.sqrt(draw.uniform(0, 1, 400)) * 3 * np.pi
    side = np.arange(400) % 2
    arm = np.stack([np.cos(angle + np.pi * side), np.sin(angle + np.pi * side)], 1) * angle[:, None] / 5
    x = (arm + draw.normal(0, 0.02, arm.shape)).astype(np.float32)
    config = plain(
        max_epochs=200,
        loss=nd.CrossEntropy(),
        optimizer=nd.Adam(learning_rate=0.02),
        schedule=nd.OneCycle(),
        batch_size=100,
        metrics=("accuracy",),
        validate_every=50,
    )
    history = nd.Trainer(config).fit(perceptron(2, 48, 48, 2), (x, side), validation=(x, side))
    assert history["validation_accuracy"][-1] > 0.99
    assert len(history["validation_accuracy"]) == 4  # validated after epochs 50, 100, 150, 200


@pytest.mark.parametrize("loss", [nd.MSE(), nd.RMSE(), nd.Huber()])
@pytest.mark.parametrize("precision", ["float32", "accumulate64", "float64"])
def test_four_accumulated_batches_of_32_equal_one_of_128(loss, precision):
    draw = np.random.default_rng(1)
    x, weight = draw.normal(size=(300, 3)), draw.uniform(0.1, 2.0, 300)  # 300 = 128 + 128 + 44: the last one is ragged
    y = np.sin(x[:, :1])

    def run(size, parts):
        module = perceptron(3, 8, 1)
        config = plain(max_epochs=3, batch_size=size, accumulate_gradients=parts, loss=loss, precision=precision)
        history = nd.Trainer(config).fit(module, (x, y, weight))
        return weights(module), history.step_loss

    (large, losses), (small, accumulated) = run(128, 1), run(32, 4)
    tolerance = 1e-12 if precision == "float64" else 2e-6
    assert torch.allclose(large, small, rtol=0, atol=tolerance)
    assert accumulated == pytest.approx(losses, rel=1e-5)


def dropout_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))


@pytest.mark.parametrize("other", [{}, {"num_workers": 2}])
def test_the_same_seed_gives_the_same_bits(other):
    draw = np.random.default_rng(2)
    x = draw.normal(size=(200, 3)).astype(np.float32)

    def run(**fields):
        module = dropout_net()
        history = nd.Trainer(plain(max_epochs=4, seed=5).replace(**fields)).fit(module, (x, x[:, :1] ** 2))
        return weights(module), history.step_loss

    first, again, different = run(), run(**other), run(seed=6)
    assert torch.equal(first[0], again[0])
    assert first[1] == again[1]
    assert not torch.equal(first[0], different[0])


def test_training_leaves_the_callers_random_numbers_alone():
    x = np.random.default_rng(2).normal(size=(64, 3)).astype(np.float32)
    torch.manual_seed(9)
    expected = torch.rand(3)
    module = dropout_net()
    torch.manual_seed(9)
    nd.Trainer(plain(max_epochs=2)).fit(module, (x, x[:, :1]))
    assert torch.equal(torch.rand(3), expected)


def test_row_weights_count_like_repeated_rows():
    # By hand: the weighted mean of y = 0 (weight 3) and y = 4 (weight 1) is 1.
    x, y, weight = np.ones((2, 1)), np.array([[0.0], [4.0]]), np.array([3.0, 1.0])
    module = nn.Linear(1, 1, bias=False)
    config = plain(max_epochs=300, optimizer=nd.SGD(learning_rate=0.1, momentum=0.0), precision="float64")
    nd.Trainer(config).fit(module, (x, y, weight))
    assert module.weight.item() == pytest.approx(1.0, abs=1e-6)


COLUMN = nd.Weighted(loss=nd.MSE(), by="column")


@pytest.mark.parametrize("loss", [nd.MSE(), COLUMN, nd.Weighted(loss=COLUMN, by="horizon", weights=[2.0])])
def test_row_weights_count_once_under_every_loss(loss):
    # By hand, for a weight of 0: (3 · 0² + 1 · 4²) / (3 + 1) = 4. Had they counted twice it would be 16 / 10.
    data = np.ones((2, 1)), np.array([[0.0], [4.0]]), np.array([3.0, 1.0])
    module = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(module.weight)
    config = plain(max_epochs=1, loss=loss, optimizer=nd.SGD(learning_rate=1e-9), precision="float64")
    history = nd.Trainer(config).fit(module, data, validation=data)
    assert history.step_loss == pytest.approx([4.0])
    assert history.validation_loss == pytest.approx([4.0])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (([[1.0]], [[1.0], [2.0]]), "same number of rows"),
        (([[1.0], [float("nan")]], [[1.0], [2.0]]), "x must be finite, but row 1"),
        (([], []), "at least one row"),
        (([[1.0]], [[1.0]], [-1.0]), "weight must be finite and at least 0"),
        ((1.0, 2.0), "x must have rows"),
        (("abc", [1.0]), "x must be an array of numbers"),
        ([1.0], "data must be"),
    ],
)
def test_wrong_arrays_are_refused_with_the_place(data, words):
    with pytest.raises(nd.DataError, match=words):
        nd.Trainer(plain(max_epochs=1)).fit(nn.Linear(1, 1), data)


def test_a_loss_with_class_weights_may_be_validated_without_them():
    # Logits 0 for both classes whatever x is, and a rate that moves nothing: the plain cross entropy is log 2.
    module = nn.Linear(1, 2)
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    config = plain(
        max_epochs=1,
        loss=nd.CrossEntropy(class_weights=(1.0, 3.0)),
        validation_loss=nd.CrossEntropy(),
        optimizer=nd.SGD(learning_rate=1e-12),
    )
    data = (np.zeros((4, 1), dtype=np.float32), np.array([0, 1, 1, 1]))
    history = nd.Trainer(config).fit(module, data, validation=data)
    assert history.validation_loss == pytest.approx([np.log(2)])
    with pytest.raises(nd.ConfigError, match="BinaryCrossEntropy needs 1 per step and CrossEntropy 0"):
        nd.Trainer(plain(loss=nd.CrossEntropy(), validation_loss=nd.BinaryCrossEntropy())).fit(module, data)
