"""A source of the user's: numbered batches for a Trainer."""

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.conformance import SOURCE_CHECKS, ConformanceFailure, check_source
from neuro_divergent.core.errors import ConfigError, DataError, StorageError

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(12, 2)
Y = X.sum(axis=1, keepdims=True)


class InOrder:
    """Four rows at a time, in their order."""

    steps_per_epoch = 3

    def __init__(self, factor=1.0):
        self.factor = factor

    def batch(self, epoch, step):
        some = slice(4 * step, 4 * step + 4)
        return X[some], self.factor * Y[some]

    def identity(self):
        return {"factor": self.factor}


class Drawn:
    """New rows at every step, drawn under a key of the step."""

    steps_per_epoch = 2

    def batch(self, epoch, step):
        x = torch.randn(4, 2, generator=torch.Generator().manual_seed(100 * epoch + step))
        return x, x.sum(dim=1, keepdim=True), torch.ones(4)


def module():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(2, 1)


def config(**fields):
    return nd.TrainingConfig(**{"max_epochs": 4, "progress": False} | fields)


def test_a_source_in_order_trains_like_the_arrays_in_order():
    ours, theirs = module(), module()
    history = nd.Trainer(config()).fit(ours, InOrder(), validation=(X, Y))
    same = config(batch_size=4, shuffle=False, validation_split=None)
    expected = nd.Trainer(same).fit(theirs, (X, Y), validation=InOrder())
    assert torch.equal(ours.weight, theirs.weight)
    assert history.train_loss == expected.train_loss
    assert history.validation_loss == pytest.approx(expected.validation_loss, rel=1e-6)


class StopInTheEpoch(nd.Callback):
    def on_batch_end(self, state):
        if state.step == 3:
            state.stop("three steps are enough for now")


def test_threads_and_a_resume_change_no_bit(tmp_path):
    straight, threaded, resumed = module(), module(), module()
    nd.Trainer(config()).fit(straight, Drawn())
    nd.Trainer(config(num_workers=2)).fit(threaded, Drawn())
    kept = config(checkpoints=nd.Checkpoints(tmp_path / "run"))
    assert len(nd.Trainer(kept.replace(callbacks=(StopInTheEpoch(),))).fit(module(), Drawn())) == 1
    nd.Trainer(kept).fit(resumed, Drawn(), resume="auto")
    assert torch.equal(straight.weight, threaded.weight)
    assert torch.equal(straight.weight, resumed.weight)


def test_another_source_is_not_the_same_run(tmp_path):
    kept = config(max_steps=3, checkpoints=nd.Checkpoints(tmp_path / "run"))
    nd.Trainer(kept).fit(module(), InOrder())
    with pytest.raises(StorageError, match="factor"):
        nd.Trainer(kept).fit(module(), InOrder(2.0), resume="auto", resume_with={"max_steps": 5})


@pytest.mark.parametrize("name", SOURCE_CHECKS)
def test_good_sources_pass(name):
    check_source(InOrder(), name)
    check_source(Drawn, name)


class Counting(Drawn):
    def __init__(self):
        self.count = 0

    def batch(self, epoch, step):
        self.count += 1
        return super().batch(epoch, self.count)


class Careless(Drawn):
    def batch(self, epoch, step):
        x = torch.randn(4, 2)
        return x, x.sum(dim=1, keepdim=True)


def test_bad_sources_are_refused():
    with pytest.raises(ConformanceFailure, match="must be a pure function, but its x differs asked for a second time"):
        check_source(Counting, "is_a_pure_function")
    with pytest.raises(ConformanceFailure, match=r"not use torch's global generator"):
        check_source(Careless, "leaves_global_randomness_alone")


def test_mistakes_end_in_a_sentence():
    with pytest.raises(ConfigError, match=r"a source decides by itself .* but got batch_size, shuffle"):
        nd.Trainer(config(batch_size=4, shuffle=False)).fit(module(), InOrder())

    class Empty(InOrder):
        steps_per_epoch = 0

    class Short(InOrder):
        def batch(self, epoch, step):
            return X

    with pytest.raises(ConfigError, match="whole number of at least 1, but got 0"):
        nd.Trainer(config()).fit(module(), Empty())
    with pytest.raises(DataError, match=r"data must be \(x, y\)") as caught:
        nd.Trainer(config()).fit(module(), Short())
    assert "batch 0 of epoch 0 of Short" in caught.value.__notes__[0]
