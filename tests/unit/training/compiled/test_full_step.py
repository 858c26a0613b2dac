"""Steps that are compiled whole do what eager ones do; threads and compiling are decided once and kept."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.devices import resolve_device
from neuro_divergent.training.arrays import ArraySource, ArrayTask, as_rows
from neuro_divergent.training.compiled.choose import Decided, decide
from neuro_divergent.training.compiled.full_step import WholeStep, obstacle
from neuro_divergent.training.config.checkpoints import FaultTolerance
from neuro_divergent.training.process import thread_waiting as waiting
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.trainer import prepare, training_sampler

DATA = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
TARGET = DATA[:, :1] * 2 - DATA[:, 1:2]
BASE = nd.TrainingConfig(max_epochs=None, max_steps=50, batch_size=32, validation_split=None, progress=False)
"""Six full batches and one of eight rows in an epoch."""


@pytest.fixture
def graphs(caplog):
    """How many steps this test has compiled, as the log says."""
    caplog.set_level(logging.INFO, logger="neuro_divergent")
    return lambda: sum("the step was compiled in" in message for message in caplog.messages)


def network(*between: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    # No bias: before a batch norm its gradient is nothing but rounding, which Adam makes steps of.
    return nn.Sequential(nn.Linear(8, 16, bias=False), *(between or (nn.BatchNorm1d(16), nn.ReLU())), nn.Linear(16, 1))


def train(
    config: nd.TrainingConfig, y: np.ndarray = TARGET, layer: nn.Module | None = None, **resume: object
) -> tuple[nn.Module, nd.History]:
    module = network() if layer is None else network(nn.ReLU(), layer)
    return module, nd.Trainer(config).fit(module, (DATA, y), **resume)


ARRAYS = {
    "sgd": {
        "optimizer": nd.SGD(learning_rate=1e-2, nesterov=True, weight_decay=0.01),
        "gradient_clipping": [nd.ClipByValue(0.3), nd.ClipByNorm(0.5)],
    },
    "adamw": {
        "optimizer": nd.AdamW(
            learning_rate=1e-2,
            weight_decay=0.1,
            groups=(nd.ParameterGroup(pattern="0.*", learning_rate=1e-3),),
        ),
        "gradient_clipping": nd.ClipByNorm(0.5),
        "schedule": nd.CosineAnnealing(),
        "averaging": nd.EMA(decay=0.9),
    },
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_as_eagerly_over_fifty_steps(name, graphs):
    layer = nn.Dropout(0.1) if name == "sgd" else None
    eager, expected = train(BASE.replace(compile=False, **ARRAYS[name]), layer=layer)
    assert graphs() == 0
    module, history = train(BASE.replace(compile=True, **ARRAYS[name]), layer=layer)
    assert graphs() == 2  # for all epochs: the full batches and the smaller last ones
    np.testing.assert_allclose(history.step_loss, expected.step_loss, rtol=1e-4)
    np.testing.assert_allclose(history.gradient_norm, expected.gradient_norm, rtol=1e-4)
    for key, value in eager.state_dict().items():
        torch.testing.assert_close(module.state_dict()[key], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [nd.MLP(h=12, input_size=24, hidden_size=32), nd.NHITS(h=12, input_size=24)])
def test_forecasters_as_eagerly_over_fifty_steps(model, graphs):
    config = nd.TrainingConfig(max_steps=50, batch_size=32, progress=False, gradient_clipping=nd.ClipByNorm(0.1))
    expected = model.fit(nd.samples.air_passengers(), config.replace(compile=False)).history
    history = model.fit(nd.samples.air_passengers(), config.replace(compile=True)).history
    assert graphs() == 2
    np.testing.assert_allclose(history.step_loss, expected.step_loss, rtol=1e-3)
    np.testing.assert_allclose(history.validation_loss, expected.validation_loss, rtol=1e-3)


def test_a_resumed_compiled_run_has_the_same_bits(tmp_path, graphs):
    saved = nd.Checkpoints(tmp_path / "run", every_n_steps=6, keep_last=None)
    config = BASE.replace(max_steps=15, compile=True, checkpoints=saved, **ARRAYS["adamw"])
    whole, expected = train(config)
    # After six steps the next batch is the small one.
    place = next(path for path in (tmp_path / "run" / "checkpoints").iterdir() if int(path.name.split("-")[-1]) == 6)
    again = config.replace(checkpoints=nd.Checkpoints(tmp_path / "again"))
    module, history = train(again, resume=place)
    assert graphs() == 4
    assert history.step_loss == expected.step_loss
    for key, value in whole.state_dict().items():
        assert torch.equal(module.state_dict()[key], value), key


class Looks(nd.Callback):
    """What keeps a run from beginning with steps that are compiled whole."""

    def on_batch_end(self, state):
        pass


TOLERANT = {"fault_tolerance": FaultTolerance(retries=0)}


@pytest.mark.parametrize("late", [TOLERANT, {"callbacks": (Looks(),)}])
@pytest.mark.parametrize("first", [True, False])
def test_a_run_computes_to_its_end_as_it_began_whoever_watches_it(tmp_path, graphs, caplog, late, first):
    """Expected: the bits of the run that was never interrupted."""
    saved = nd.Checkpoints(tmp_path / "run", every_n_steps=6, keep_last=None)
    began = BASE.replace(max_steps=14, compile=True, checkpoints=saved, **({} if first else late))
    whole, expected = train(began)
    compiled = graphs()
    assert bool(compiled) == first
    place = tmp_path / "run" / "checkpoints" / "step-00000006"
    changed = {"fault_tolerance": None, "callbacks": ()} | (late if first else {})
    module, history = train(began.replace(checkpoints=nd.Checkpoints(tmp_path / "again"), **changed), resume=place)
    assert bool(graphs() - compiled) == first
    assert history.step_loss == expected.step_loss
    for key, value in whole.state_dict().items():
        assert torch.equal(module.state_dict()[key], value), key
    assert ("Looks may look at the gradients" in caplog.text) == ("callbacks" in late)


def test_what_a_resume_changes_on_purpose_may_end_whole_steps(caplog):
    caplog.set_level(logging.INFO, logger="neuro_divergent")
    kept = Decided(compile=True, threads=1, whole=True).facts()
    config = BASE.replace(compile=True, regularization=nd.Regularization(l1=0.1))
    assert not decide(prepared(network(), config), kept).whole
    assert "regularization" in caplog.text


def test_a_step_that_is_not_finite_changes_nothing():
    spoilt = TARGET.copy()
    spoilt[77] = 1e30  # its square is beyond float32
    config = BASE.replace(max_steps=9, nonfinite="skip", shuffle=False, **ARRAYS["adamw"])
    eager, expected = train(config.replace(compile=False), spoilt)
    module, history = train(config.replace(compile=True), spoilt)
    skipped = [event["step"] for event in history.events if event.get("event") == "skipped"]
    assert skipped == [event["step"] for event in expected.events if event.get("event") == "skipped"] == [2]
    for key, value in eager.state_dict().items():
        torch.testing.assert_close(module.state_dict()[key], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"accumulate_gradients": 2}, "accumulated"),
        ({"precision": "bf16"}, "bf16"),
        ({"regularization": nd.Regularization(l1=0.1)}, "regularization"),
        ({"optimizer": nd.RMSprop()}, "RMSprop"),
        ({"optimizer": nd.Adam(amsgrad=True)}, "Adam"),
        ({"gradient_clipping": nd.AdaptiveClip()}, "AdaptiveClip"),
        ({"gradient_method": "central"}, "central"),
    ],
)
def test_what_cannot_be_a_part_of_the_step_is_named(fields, word):
    assert word in (obstacle(BASE.resolved().replace(**fields)) or "")
    assert obstacle(BASE.resolved(), (), network()) is None


def test_dropout_beside_a_batch_norm_would_draw_differently():
    assert "draw" in (obstacle(BASE.resolved(), (), network(nn.BatchNorm1d(16), nn.Dropout(0.5))) or "")


def test_a_callback_that_looks_at_batches_keeps_its_gradients():
    class Looks(nd.Callback):
        def on_batch_end(self, state):
            assert state.module[0].weight.grad is not None

    assert "Looks" in (obstacle(BASE.resolved(), [Looks()]) or "")


def test_a_network_that_cannot_be_traced_runs_on(caplog):
    class Untraceable(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (1.0 if float(x.detach().sum()) > 0 else 0.5)

    Untraceable.__module__ = "neuro_divergent.nn"  # as if it were ours

    def run(compile_: bool) -> nd.History:
        torch.manual_seed(0)
        return nd.Trainer(BASE.replace(max_steps=4, compile=compile_)).fit(Untraceable(8, 1), (DATA, TARGET))

    caplog.set_level(logging.INFO, logger="neuro_divergent")
    np.testing.assert_allclose(run(True).step_loss, run(False).step_loss, rtol=1e-5)
    assert sum("the step cannot be compiled, so only the network is" in message for message in caplog.messages) == 1


def test_a_layer_that_counts_its_calls_is_not_frozen_into_the_step(caplog):
    class Warming(nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x) * min(1.0, self.calls / 10)

    def run(compile_: bool) -> nd.History:
        torch.manual_seed(0)
        return nd.Trainer(BASE.replace(max_steps=6, compile=compile_)).fit(Warming(8, 1), (DATA, TARGET))

    caplog.set_level(logging.INFO, logger="neuro_divergent")
    np.testing.assert_allclose(run(True).step_loss, run(False).step_loss, rtol=1e-5)
    assert any("Warming is not of torch" in message for message in caplog.messages)


def test_a_loss_of_somebody_else_may_change_from_step_to_step():
    class Own(nd.MSE): ...

    assert "Own" in (obstacle(BASE.resolved().replace(loss=Own()), (), network()) or "")
    assert "Own" in (obstacle(BASE.resolved().replace(loss=nd.Weighted(loss=Own())), (), network()) or "")


@pytest.mark.parametrize("freeze", [(), ("0.*",)])
def test_frozen_weights_and_buffers_are_read_and_not_changed(freeze, graphs):
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("by", torch.full((16,), 0.5))

        def forward(self, x):
            return x + self.by

    Shift.__module__ = "neuro_divergent.nn"
    config = BASE.replace(max_steps=10, freeze=freeze)
    runs = []
    for compile_ in (False, True):
        module = network(nn.ReLU(), Shift())
        runs.append((module, nd.Trainer(config.replace(compile=compile_)).fit(module, (DATA, TARGET))))
    assert graphs() == 2
    (eager, expected), (module, history) = runs
    np.testing.assert_allclose(history.step_loss, expected.step_loss, rtol=1e-5)
    assert torch.equal(module[0].weight, network()[0].weight) == bool(freeze)
    assert torch.equal(module[2].by, eager[2].by)


def prepared(module: nn.Module, config: nd.TrainingConfig, x: np.ndarray = DATA):
    config = config.resolved()
    precision = Precision(config.precision, resolve_device("cpu"), "dynamic")
    rows = as_rows((x, TARGET), config.loss, resolve_device("cpu"), precision.dtype)
    return prepare(module, config, ArraySource(rows, training_sampler(config, 200)), None, precision)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_small_steps_take_one_thread_and_large_ones_all():
    assert decide(prepared(network(), BASE), None).threads == 1
    # 8 million weights times 32 rows
    large = nn.Sequential(nn.Linear(8, 1 << 10), nn.Linear(1 << 10, 1 << 13), nn.Linear(1 << 13, 1))
    assert decide(prepared(large, BASE), None).threads == 2
    assert decide(prepared(network(), BASE.replace(threads=2)), None).threads == 2


@pytest.mark.usefixtures("two_threads")
def test_a_resume_keeps_what_was_decided():
    state = prepared(network(), BASE)
    for whole in (False, True):
        kept = Decided(compile=True, threads=2, whole=whole)
        assert decide(state, kept.facts()) == kept
    # A checkpoint from before this was one of the decisions is decided as it was then: from what the run has now.
    assert decide(state, {"compile": True, "threads": 2}).whole
    # A checkpoint from before there were decisions goes on as it was: eagerly, with the threads that there are.
    assert decide(state, {}) == Decided(compile=False, threads=2)


@pytest.mark.usefixtures("two_threads")
def test_the_decision_is_in_the_checkpoint_and_threads_are_given_back(tmp_path):
    import json

    train(BASE.replace(max_steps=3, checkpoints=nd.Checkpoints(tmp_path, every_n_steps=2)))
    assert torch.get_num_threads() == 2
    kept = json.loads(next(tmp_path.glob("checkpoints/*/state.json")).read_text())
    assert kept["decided"] == {"compile": False, "threads": 1, "whole": False}


def test_a_smaller_batch_is_left_to_the_eager_step_where_it_is_rare():
    state = prepared(network(), BASE.replace(batch_size=9))  # 22 full ones, then one of two rows
    assert WholeStep(ArrayTask(nd.MSE()), state).rows == {9}
    assert WholeStep(ArrayTask(nd.MSE()), state)(state, state.source.batch(0, 22)) is None
    assert WholeStep(ArrayTask(nd.MSE()), prepared(network(), BASE)).rows == {32, 8}


def test_a_busy_machine_is_seen():
    cores = os.cpu_count() or 1
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        assert any(waiting.busy(cores) for _ in range(200))
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert not waiting.busy(-(10**6))


@pytest.mark.usefixtures("two_threads")
def test_sleepers_wait_until_they_are_let_go(monkeypatch):
    import threading

    def sleepers() -> int:
        return sum(thread.name.startswith("sleeper-") for thread in threading.enumerate())

    monkeypatch.setattr(waiting, "busy", lambda threads: threads > 1)
    courtesy = waiting.YieldWhenBusy()
    state = prepared(network(), BASE)
    courtesy.on_epoch_start(state)
    begun = sleepers()
    assert begun >= 1
    courtesy.on_batch_end(state)
    assert sleepers() == begun
    monkeypatch.setattr(waiting, "busy", lambda threads: False)
    courtesy.on_epoch_start(state)  # the neighbour is gone
    for thread in threading.enumerate():
        if thread.name.startswith("sleeper-"):
            thread.join(5)
    assert sleepers() == 0
