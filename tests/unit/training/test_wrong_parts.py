"""Parts of the user's that break their contract are named in the error, with the contract."""

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.training.step.eager import Eager

X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
SHORT = nd.TrainingConfig(max_epochs=1, progress=False)


def train(data=(X, X[:, :1]), **fields):
    return nd.Trainer(SHORT.replace(**fields)).fit(nn.Linear(2, 1), data)


class _Reduced(nd.Loss):
    """A mean, which the engine would have taken."""

    def values(self, output, target, context=None):
        return (output[..., 0] - target).abs().mean()


class _Widened(nd.Loss):
    """Broadcasts [32, 1, 1] against [32, 1]."""

    def values(self, output, target, context=None):
        return output - target


@pytest.mark.parametrize(("loss", "shape"), [(_Reduced(), r"\(\)"), (_Widened(), r"\(32, 32, 1\)")])
def test_a_loss_that_keeps_no_value_per_target(loss, shape):
    sentence = rf"one value per target, shape \(32, 1\), but {loss.kind} returned {shape}"
    with pytest.raises(nd.ConfigError, match=sentence):
        train(loss=loss)


def test_a_loss_of_windows_that_keeps_no_value_per_target():
    with pytest.raises(nd.ConfigError, match=r"shape \(\d+, 6, 1\), but _Reduced returned \(\). Do not"):
        nd.MLP(h=6, input_size=12, hidden_size=4).fit(nd.samples.air_passengers(), SHORT.replace(loss=_Reduced()))


class _Nothing(nd.Schedule):
    """Forgets its factor."""

    def factor_at(self, step, context):
        return None


class _Tensors(nd.Schedule):
    """A number of torch is a number."""

    def factor_at(self, step, context):
        return torch.tensor(0.5)


def test_a_schedule_without_a_factor():
    with pytest.raises(nd.ConfigError, match=r"of _Nothing must return a finite number .* but got None at step 0"):
        train(schedule=_Nothing())
    assert train(schedule=_Tensors(), learning_rate=0.1)["learning_rate"] == pytest.approx([0.05])


class _Empty(nd.Optimizer):
    """Forgets its return."""

    def create(self, groups):
        return None


def test_an_optimizer_that_is_none():
    with pytest.raises(nd.ConfigError, match=r"create\(groups\) returns a torch optimizer, but that of _Empty"):
        train(optimizer=_Empty())


class _Level(nd.SeriesScaler):
    """Forgets the scale."""

    def measure(self, values, series):
        return 1.0


def test_a_series_scaler_with_one_number():
    model = nd.MLP(h=6, input_size=12, hidden_size=4)
    with pytest.raises(nd.ConfigError, match=r"each of location, scale.* gave \(1.0,\)"):
        nd.NeuralForecast([model], local_scaler_type=_Level()).fit(nd.samples.air_passengers(), SHORT)


class _Loss(Eager):
    def step(self, task, state, batch):
        return 3.0


class _JustTheLoss(nd.StrategySettings):
    """Gives a number instead of a Step."""

    def build(self):
        return _Loss()


def test_a_strategy_that_gives_a_number():
    with pytest.raises(nd.TrainingError, match=r"Step\(loss, norm, taken\), but that of _Loss gave 3.0"):
        train(strategy=_JustTheLoss())


class _Uncounted:
    def batch(self, epoch, step):
        return X, X[:, :1]


class _Batchless:
    steps_per_epoch = 3


def test_half_a_source():
    with pytest.raises(nd.DataError, match="_Uncounted has no steps_per_epoch"):
        train(_Uncounted())
    with pytest.raises(nd.DataError, match=r"_Batchless has no batch\(epoch, step\)"):
        train(_Batchless())


class Named(nd.Callback):
    def __init__(self, name):
        self.name = name


def test_a_class_of_a_callback_that_needs_arguments():
    with pytest.raises(nd.ConfigError, match=r"called without arguments, but Named needs some: .*'name'"):
        nd.TrainingConfig(callbacks=[Named])
