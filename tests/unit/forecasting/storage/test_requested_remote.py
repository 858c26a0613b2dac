"""save_checkpoint, load_checkpoint, nd.load and resume_training with fsspec addresses, and with HINT."""

import fsspec
import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.errors import StorageError
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare

CONFIG = nd.TrainingConfig(max_steps=8, batch_size=8, steps_per_epoch=4, progress=False, seed=2, threads=1)
MODEL = nd.MLP(h=4, input_size=8, hidden_size=8, layers=1, dropout=0.1)


def table():
    return nd.samples.hourly_panel(2, 80)


@pytest.fixture
def address():
    system = fsspec.filesystem("memory")
    yield "memory://moments/first"
    if system.exists("/moments"):
        system.rm("/moments", recursive=True)


def test_a_moment_at_an_address_is_loaded_resumed_and_gone_back_to(address):
    whole = MODEL.fit(table(), CONFIG)
    run = prepare(job_of(MODEL, table(), CONFIG))
    run.advance(3)
    assert run.save_checkpoint(address) == address
    run.advance(5)
    run.load_checkpoint(address)
    assert run.training.state.step == 3
    run.close()
    assert nd.load(address).history.step_loss == whole.history.step_loss[:3]
    again = nd.resume_training(address, table())
    assert again.history.step_loss == whole.history.step_loss
    assert again.predict().equals(whole.predict())


def test_a_checkpoint_at_an_address_is_replaced_and_other_things_are_not(address):
    run = prepare(job_of(MODEL, table(), CONFIG))
    run.advance(1)
    run.save_checkpoint(address)
    run.advance(2)
    run.save_checkpoint(address)
    assert len(nd.load(address).history.step_loss) == 2
    fsspec.filesystem("memory").pipe_file("/moments/other/notes.txt", b"mine")
    with pytest.raises(StorageError, match="no checkpoint"):
        run.save_checkpoint("memory://moments/other")
    run.close()


def test_a_trainer_saves_and_loads_a_moment_at_an_address(address):
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    trainer = nd.Trainer(nd.TrainingConfig(max_epochs=3, batch_size=3, validation_split=None, early_stopping=None))
    module = torch.nn.Linear(2, 1)
    trainer.train_epoch(module, (x, y))
    trainer.save_checkpoint(address)
    kept = module.weight.detach().clone()
    trainer.train_epoch(module, (x, y))
    assert not torch.equal(module.weight, kept)
    other = torch.nn.Linear(2, 1)
    trainer.load_checkpoint(address, other)
    assert torch.equal(other.weight, kept)
    trainer.load_checkpoint(address)
    assert torch.equal(module.weight, kept)


def test_one_checkpoint_of_a_run_at_an_address_is_loaded(address):
    config = CONFIG.replace(checkpoints=nd.Checkpoints(address, every_n_steps=2, keep_last=None))
    whole = MODEL.fit(table(), config)
    loaded = nd.load(f"{address}/checkpoints/step-00000004")
    assert loaded.history.step_loss == whole.history.step_loss[:4]


@pytest.mark.parametrize("scaler", [None, "standard"])
def test_the_checkpoint_of_a_hierarchy_forecasts_as_its_run_does(tmp_path, scaler):
    # All steps are done at the checkpoint, so that the run returns the same weights and learns from the same rows.
    rows = pl.DataFrame({"unique_id": np.repeat(["a", "b"], 60), "ds": np.tile(np.arange(60), 2)})
    rows = rows.with_columns(y=np.random.default_rng(1).normal(20, 3, 120))
    family = nd.aggregate(rows, [[], ["unique_id"]], id_col="name")
    data = nd.TimeSeriesDataFrame.from_frame(family.data, id_col="name")
    model = nd.HINT(model=nd.MLP(h=4, input_size=8, hidden_size=8, layers=1), S=family.hierarchy)
    config = CONFIG.replace(loss=nd.DistributionLoss(), validation_split=None, early_stopping=None)
    run = prepare(job_of(model, data, config, local_scaler=scaler))
    run.advance(8)
    run.save_checkpoint(tmp_path / "moment")
    fitted = run.finish()
    loaded = nd.load(tmp_path / "moment")
    assert float(fitted.network.error_factors.abs().sum()) > 0
    torch.testing.assert_close(loaded.network.error_factors, fitted.network.error_factors, rtol=0, atol=0)
    assert loaded.predict().equals(fitted.predict())
    loaded.save(tmp_path / "model")  # as many rows as any saved model has
    assert nd.load(tmp_path / "model").data.store.lengths.max() == loaded.data.store.lengths.max()
