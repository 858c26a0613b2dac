"""The doctor on models of other kinds: several channels, recursion, distributions, gaps, no validation, refits."""

from __future__ import annotations

import polars as pl
import pytest

import neuro_divergent as nd

TABLE = nd.samples.hourly_panel(series=3, hours=200)
SIZES = {"h": 6, "input_size": 24}
QUICK = {"max_steps": 8, "batch_size": 16, "progress": False, "compile": False}
MODELS = {
    "several channels": nd.iTransformer(**SIZES, hidden_size=16, heads=2, layers=1),
    "recurrent": nd.GRU(**SIZES, hidden_size=8),
    "recursive": nd.DeepAR(**SIZES, hidden_size=8),
    "attention": nd.PatchTST(**SIZES, hidden_size=16, heads=2, layers=1, patch_len=8, stride=8),
    "without a network of weights": nd.NLinear(**SIZES),
    "invariant scaler": nd.MLP(**SIZES, hidden_size=8, scaler="invariant"),
}
CONFIGS = {
    "quantiles": {"loss": nd.MQLoss(level=[80])},
    "distribution": {"loss": nd.DistributionLoss(distribution="StudentT")},
    "no validation": {"validation_split": None},
    "refit": {"max_steps": None, "max_epochs": 2, "steps_per_epoch": 4, "refit": "all"},
    "accumulated": {"accumulate_gradients": 2},
    "averaged": {"averaging": nd.EMA()},
    "torch optimizer": {"optimizer": nd.ScheduleFreeAdamW(), "schedule": None},
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model_is_examined(kind: str) -> None:
    fitted = MODELS[kind].fit(TABLE, nd.TrainingConfig(**QUICK))
    assert not nd.diagnose(fitted).not_examined


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_kind_of_training_is_examined(kind: str) -> None:
    config = nd.TrainingConfig(**QUICK | CONFIGS[kind], callbacks=[nd.Doctor()])
    found = nd.diagnose(nd.MLP(**SIZES, hidden_size=8).fit(TABLE, config))
    assert found.not_examined == (("forecasts: no rows were held out",) if kind == "no validation" else ())


def test_later_rows_for_validation_are_the_held_out_rows() -> None:
    cut = TABLE["ds"].min() + pl.duration(hours=150)
    early, late = TABLE.filter(pl.col("ds") < cut), TABLE.filter(pl.col("ds") >= cut)
    fitted = nd.MLP(**SIZES, hidden_size=8).fit(early, nd.TrainingConfig(**QUICK), validation=late)
    assert not nd.diagnose(fitted).not_examined


def test_a_loaded_model_needs_its_table(tmp_path) -> None:
    fitted = nd.MLP(**SIZES, hidden_size=8).fit(TABLE, nd.TrainingConfig(**QUICK))
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    assert nd.diagnose(loaded).not_examined
    assert not nd.diagnose(loaded, TABLE).not_examined
    assert nd.diagnose(tmp_path / "model", TABLE).verdicts == nd.diagnose(loaded, TABLE).verdicts


def test_columns_statics_and_a_local_scaler_are_examined() -> None:
    table = TABLE.with_columns(
        price=pl.col("y").sin(), kind=pl.lit("a"), size=pl.col("unique_id").str.slice(-1).cast(pl.Float64)
    )
    config = nd.TrainingConfig(**QUICK)
    fitted = nd.MLP(**SIZES, hidden_size=8).fit(
        table, config, historical=["price"], categorical=["kind"], local_scaler="standard"
    )
    assert not nd.diagnose(fitted).not_examined


def test_a_trainer_on_arrays_has_a_history_and_may_have_a_doctor() -> None:
    import torch

    x = torch.linspace(-1, 1, 200)[:, None]
    config = nd.TrainingConfig(max_epochs=5, progress=False, callbacks=[nd.Doctor()])
    history = nd.Trainer(config).fit(torch.nn.Linear(1, 1), (x, 3 * x))
    assert nd.diagnose(history).not_examined
