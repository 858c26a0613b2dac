"""compile="auto": which runs compile their step, and that a resume keeps what was decided."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.devices import resolve_device
from neuro_divergent.training.arrays import ArraySource, as_rows
from neuro_divergent.training.compiled.choose import decide
from neuro_divergent.training.process import compiler_processes as compilers
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.trainer import prepare, training_sampler

DATA = np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32)
TARGET = DATA[:, :1] * 2 - DATA[:, 1:2]
LONG = 200_000
BASE = nd.TrainingConfig(max_steps=LONG, batch_size=32, validation_split=None, progress=False)
needs_compiler = pytest.mark.skipif(not compilers.installed(), reason="there is no C++ compiler")


def perceptron(*more: nn.Module, hidden: int = 16) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, hidden), *more, nn.ReLU(), nn.Linear(hidden, 1))


class Own(nn.Linear):
    """A layer of somebody else's."""


def prepared(module: nn.Module, config: nd.TrainingConfig) -> TrainState:
    config = config.resolved()
    precision = Precision(config.precision, resolve_device("cpu"), "dynamic")
    rows = as_rows((DATA, TARGET), config.loss, resolve_device("cpu"), precision.dtype)
    return prepare(module, config, ArraySource(rows, training_sampler(config, 96)), None, precision)


def compiles(module: nn.Module, config: nd.TrainingConfig, *callbacks: nd.Callback) -> bool:
    return decide(prepared(module, config), None, callbacks).compile


@needs_compiler
def test_long_trainings_of_small_perceptrons_compile_and_say_why(caplog):
    caplog.set_level(logging.INFO, logger="neuro_divergent")
    assert compiles(perceptron(nn.Dropout(0.1)), BASE)
    assert [message for message in caplog.messages if "compiled" in message and str(LONG) in message]
    assert compiles(perceptron(), BASE)
    assert compiles(perceptron(), BASE.replace(max_steps=None, max_epochs=LONG // 3))
    assert not compiles(perceptron(), BASE.replace(max_steps=10_000))
    assert not compiles(perceptron(), BASE.replace(compile=False))
    assert compiles(perceptron(), BASE.replace(max_steps=10, compile=True))


class Looks(nd.Callback):
    """May look at the gradients."""

    def on_batch_end(self, state: Any) -> None: ...


@needs_compiler
def test_what_was_not_measured_stays_eager():
    assert not compiles(perceptron(nn.LayerNorm(16)), BASE)
    assert not compiles(nn.Sequential(Own(8, 1), nn.Linear(1, 1)), BASE)
    assert not compiles(perceptron(nn.Linear(4096, 4096), hidden=4096), BASE)  # 16 million weights times 32 rows
    assert not compiles(perceptron(), BASE.replace(accumulate_gradients=2))
    assert not compiles(perceptron(), BASE, Looks())


@pytest.mark.parametrize("variables", [{"PATH": ""}, {"CXX": "no-such-compiler"}])
def test_without_a_compiler_a_long_training_is_eager_and_says_so(monkeypatch, caplog, variables):
    monkeypatch.delenv("CXX", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.INFO, logger="neuro_divergent")
    assert not compiles(perceptron(), BASE)
    assert sum("no C++ compiler" in message for message in caplog.messages) == 1
    assert not compiles(perceptron(), BASE.replace(max_steps=100))
    assert sum("no C++ compiler" in message for message in caplog.messages) == 1  # it would not have paid


class Stop(nd.Callback):
    """Ends a run after so many epochs of three steps; unlike a hook for batches that does not keep it eager."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_end(self, state: Any) -> None:
        if state.epoch + 1 >= self.epochs:
            state.stop("enough")


def train(config: nd.TrainingConfig, epochs: int, **resume: Any) -> tuple[nn.Module, nd.History]:
    module = perceptron()
    history = nd.Trainer(config.replace(callbacks=(Stop(epochs),))).fit(module, (DATA, TARGET), **resume)
    return module, history


@pytest.fixture
def graphs(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """How many steps this test has compiled, as the log says."""
    caplog.set_level(logging.INFO, logger="neuro_divergent")
    return lambda: sum("the step was compiled in" in message for message in caplog.messages)


def decided(run: Path) -> bool:
    newest = sorted((run / "checkpoints").iterdir())[-1]
    found: bool = json.loads((newest / "state.json").read_text())["decided"]["compile"]
    return found


@needs_compiler
def test_a_compiled_run_is_as_the_eager_one_and_stays_compiled(tmp_path, graphs):
    config = BASE.replace(checkpoints=nd.Checkpoints(tmp_path))
    eager, expected = train(BASE.replace(compile=False), 8)
    assert graphs() == 0
    train(config, 5)
    assert graphs() == 1
    # With so few steps left a run that begins would not compile.
    module, history = train(config, 8, resume="auto", resume_with={"max_steps": 100})
    assert graphs() == 2
    assert decided(tmp_path)
    np.testing.assert_allclose(history.step_loss, expected.step_loss, rtol=1e-4)
    for key, value in eager.state_dict().items():
        torch.testing.assert_close(module.state_dict()[key], value, rtol=1e-4, atol=1e-5)


def test_an_eager_run_stays_eager_when_it_is_made_longer(tmp_path, graphs):
    config = BASE.replace(checkpoints=nd.Checkpoints(tmp_path))
    train(config.replace(max_steps=100), 2)
    train(config.replace(max_steps=100), 4, resume="auto", resume_with={"max_steps": LONG})
    assert not decided(tmp_path)
    assert graphs() == 0
