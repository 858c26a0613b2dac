"""A Trainer epoch by epoch, on frames, dicts and DataLoaders, saved, resumed and restarted."""

import os
import signal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import neuro_divergent as nd

X = np.linspace(-1, 1, 80, dtype=np.float32).reshape(40, 2)
Y = X @ np.array([[1.0], [-2.0]], dtype=np.float32) + 0.5


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(2, 1)


def weights(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def config(**fields):
    given = {"max_epochs": 4, "batch_size": 8, "progress": False, "optimizer": nd.Adam(learning_rate=0.05)}
    return nd.TrainingConfig(**given | fields)


def test_epochs_one_by_one_are_the_bits_of_a_fit():
    whole = linear()
    history = nd.Trainer(config()).fit(whole, (X, Y))
    module, trainer, records = linear(), nd.Trainer(config()), []
    while not trainer.done:
        records.append(trainer.train_epoch(module, (X, Y)))
        assert trainer.validate_epoch()["validation_loss"] == records[-1]["validation_loss"]
    assert [record["train_loss"] for record in records] == history["train_loss"]
    trainer.finish()
    assert torch.equal(weights(module), weights(whole))
    with pytest.raises(nd.TrainingError, match="has ended"):
        trainer.save_checkpoint("nowhere")


def test_an_epoch_too_many_is_refused():
    trainer = nd.Trainer(config(max_epochs=2))
    trainer.train_epoch(linear(), (X, Y))
    with pytest.raises(nd.ConfigError, match="of its first call"):
        trainer.train_epoch(linear(), (X, Y))
    trainer.train_epoch()
    with pytest.raises(nd.TrainingError, match="no epoch left"):
        trainer.train_epoch()
    with pytest.raises(nd.NotFittedError, match="needs the module"):
        nd.Trainer(config()).train_epoch()


def test_given_rows_are_scored_by_hand():
    trainer = nd.Trainer(config(max_epochs=1, validation_split=None, metrics=("mae",)))
    module = linear()
    trainer.fit(module, (X, Y))
    figures = trainer.validate_epoch((X[:5], Y[:5]))
    error = module(torch.from_numpy(X[:5])).detach().numpy() - Y[:5]
    assert figures["validation_loss"] == pytest.approx(float((error**2).mean()), rel=1e-6)
    assert figures["validation_mae"] == pytest.approx(float(np.abs(error).mean()), rel=1e-6)
    with pytest.raises(nd.ConfigError, match="nothing is held out"):
        trainer.validate_epoch()


def test_predictions_are_the_modules_in_evaluation_mode():
    module = nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5))
    trainer = nd.Trainer(config(max_epochs=1))
    trainer.fit(module, (X, Y))
    module.train()
    expected = module[0](torch.from_numpy(X)).detach()
    for x in (X, pd.DataFrame(X), pl.DataFrame(X), DataLoader(TensorDataset(torch.from_numpy(X)), batch_size=7)):
        assert torch.allclose(trainer.predict(x), expected)
    assert module.training


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_are_their_arrays(library):
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y[:, 0], "name": ["x"] * 40})
    expected, module = linear(), linear()
    nd.Trainer(config()).fit(expected, (X, Y[:, 0]))
    nd.Trainer(config()).fit(module, (frame[["a", "b"]], frame["y"]))
    assert torch.equal(weights(module), weights(expected))
    with pytest.raises(nd.DataError, match="name holds something else"):
        nd.Trainer(config()).fit(linear(), (frame[["a", "name"]], frame["y"]))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = linear(1), linear(2)

    def forward(self, price, weather):
        return self.left(price) + self.right(weather)


def test_a_dict_of_inputs_goes_to_forward_by_name():
    module = Two()
    trainer = nd.Trainer(config(max_epochs=150, validation_split=None, accumulate_gradients=2))
    history = trainer.fit(module, ({"weather": -X, "price": X[::-1].copy()}, Y))
    assert history.train_loss[-1] < 1e-3
    assert trainer.predict({"price": X, "weather": X}).shape == (40, 1)
    with pytest.raises(nd.DataError, match="names of the arguments"):
        trainer.fit(module, ({1: X}, Y))


def loader(**options):
    return DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), batch_size=8, **options)


def test_a_loader_in_order_trains_as_the_arrays_in_order():
    expected, module = linear(), linear()
    nd.Trainer(config(shuffle=False, validation_split=None)).fit(expected, (X, Y))
    nd.Trainer(config(batch_size="auto")).fit(module, loader())
    assert torch.equal(weights(module), weights(expected))


def test_a_shuffled_loader_repeats_itself_and_resumes_at_the_end_of_an_epoch(tmp_path):
    whole, module = linear(), linear()
    settings = config(batch_size="auto", checkpoints=nd.Checkpoints(tmp_path, every_n_epochs=1))
    nd.Trainer(settings.replace(checkpoints=None)).fit(whole, loader(shuffle=True), validation=loader())
    run = nd.Trainer(settings).prepare(module, loader(shuffle=True), validation=loader())
    run.advance(10)  # two epochs
    run.close()
    nd.Trainer(settings).fit(module, loader(shuffle=True), validation=loader(), resume="auto")
    assert torch.equal(weights(module), weights(whole))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("step", [6, 7])
def test_a_loader_is_resumed_inside_an_epoch_to_the_same_bits(tmp_path, shuffle, step):
    whole, module = linear(), linear()
    nd.Trainer(config(batch_size="auto")).fit(whole, loader(shuffle=shuffle))
    trainer = nd.Trainer(config(batch_size="auto"))
    trainer.prepare(module, loader(shuffle=shuffle)).advance(step)  # one epoch has five steps
    trainer.save_checkpoint(tmp_path / "moment")
    again = linear(3)
    nd.Trainer(config(batch_size="auto")).resume_training(again, loader(shuffle=shuffle), tmp_path / "moment")
    assert torch.equal(weights(again), weights(whole))


class Noisy(TensorDataset):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + 0.01 * torch.randn(2), y


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: loader(shuffle=True, generator=torch.Generator().manual_seed(1)), "its generator has moved on"),
        (lambda: iter_again(list(loader())), "only a torch DataLoader"),
        (lambda: DataLoader(Noisy(*loader().dataset.tensors), batch_size=8), "global generator"),
    ],
)
def test_a_loader_whose_order_cannot_be_shown_to_repeat_is_not_resumed_inside_an_epoch(tmp_path, make, why):
    trainer = nd.Trainer(config(batch_size="auto"))
    trainer.prepare(linear(), make()).advance(7)
    trainer.save_checkpoint(tmp_path / "moment")
    with pytest.raises(nd.TrainingError, match=why):
        trainer.resume_training(linear(), make(), tmp_path / "moment")


def test_what_a_loader_decides_is_refused_in_the_configuration():
    with pytest.raises(nd.ConfigError, match="batch_size, accumulate_gradients"):
        nd.Trainer(config(accumulate_gradients=2)).fit(linear(), loader())
    with pytest.raises(nd.ConfigError, match="Set steps_per_epoch"):
        nd.Trainer(config(batch_size="auto")).fit(linear(), (item for item in loader()))


def test_batches_that_are_dicts_have_their_target_by_name():
    batches = [{"price": X, "weather": X, "target": Y}]
    assert len(nd.Trainer(config(batch_size="auto")).fit(Two(), iter_again(batches))) == 4
    with pytest.raises(nd.DataError, match="holds its target as"):
        nd.Trainer(config(batch_size="auto")).fit(Two(), iter_again([{"price": X}]))


class iter_again:  # noqa: N801  # a list would be taken for (x, y)
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


def test_a_trainer_saves_goes_back_and_gives_its_weights_to_another_module(tmp_path):
    trainer = nd.Trainer(config(early_stopping=None))
    trainer.train_epoch(linear(), (X, Y))
    trainer.save_checkpoint(tmp_path / "moment")
    there = weights(trainer.module).clone()
    trainer.train_epoch()
    assert not torch.equal(weights(trainer.module), there)
    other = linear(5)
    nd.Trainer().load_checkpoint(tmp_path / "moment", other)
    assert torch.equal(weights(other), there)
    trainer.load_checkpoint(tmp_path / "moment")
    assert torch.equal(weights(trainer.module), there)
    assert len(trainer.history) == 1
    with pytest.raises(nd.StorageError, match="another module"):
        nd.Trainer().load_checkpoint(tmp_path / "moment", nn.Linear(3, 1))
    with pytest.raises(nd.StorageError, match="of your own module"):
        nd.load(tmp_path / "moment")


CRASH = "ND_TEST_CRASH_MARK"


class CrashOnce(nn.Linear):
    """Kills its process once, in the middle of a training."""

    def forward(self, x):
        mark = os.environ.get(CRASH)
        if mark and self.training and torch.rand(()) < 0.2 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)


def build():
    return CrashOnce(2, 1)


def test_a_crashed_training_is_restarted_with_a_factory(tmp_path, monkeypatch):
    quiet = nd.Trainer(config())
    quiet.fit(build, (X, Y))
    monkeypatch.setenv(CRASH, str(tmp_path / "crashed"))
    tolerant = config(
        fault_tolerance=nd.FaultTolerance(retries=2), checkpoints=nd.Checkpoints(tmp_path / "run", every_n_steps=1)
    )
    trainer = nd.Trainer(tolerant)
    history = trainer.fit(build, (X, Y))
    assert (tmp_path / "crashed").exists()
    assert history.step_loss == quiet.history.step_loss
    assert torch.equal(weights(trainer.module), weights(quiet.module))
    assert not (tmp_path / "run" / "job").exists()


def test_restarts_need_a_factory_that_can_be_imported(tmp_path):
    tolerant = config(fault_tolerance=nd.FaultTolerance(), checkpoints=nd.Checkpoints(tmp_path))
    with pytest.raises(nd.ConfigError, match="instead of the module"):
        nd.Trainer(tolerant).fit(linear(), (X, Y))
    with pytest.raises(nd.ConfigError, match="no other process can import it"):
        nd.Trainer(tolerant).fit(lambda: linear(), (X, Y))
    with pytest.raises(nd.ConfigError, match="exists in this process"):
        nd.Trainer(tolerant.replace(batch_size="auto")).fit(build, loader())
