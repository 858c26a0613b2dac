"""Parts of neuralforecast that scripts import besides its models; values by hand or as neuralforecast 3.3 gave them."""

import importlib

import numpy as np
import pandas as pd
import pytest
import torch

from neuro_divergent.compat.neuralforecast import NeuralForecast
from neuro_divergent.compat.neuralforecast.common._scalers import TemporalNorm, masked_mean, masked_median
from neuro_divergent.compat.neuralforecast.losses import numpy as metrics
from neuro_divergent.compat.neuralforecast.losses.pytorch import MAE, Accuracy, DistributionLoss, MQLoss
from neuro_divergent.compat.neuralforecast.models import MLP, NHITS, DeepAR, DLinear
from neuro_divergent.compat.neuralforecast.training import RateTable
from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataset
from neuro_divergent.compat.neuralforecast.utils import (
    AirPassengersPanel,
    augment_calendar_df,
    generate_series,
    interp_2d,
    level_to_quantiles,
    quantiles_to_level,
    schaake_shuffle_sample,
)
from neuro_divergent.core.errors import ConfigError, StorageError

PREFIX = "neuro_divergent.compat.neuralforecast"
DATA = AirPassengersPanel[["unique_id", "ds", "y"]]
SMALL = {"h": 4, "input_size": 8, "hidden_size": 4}


@pytest.mark.parametrize("path", ["models.mlp", "models.dilated_rnn", "core"])
def test_module_paths_of_the_peer_have_its_models(path):
    module = importlib.import_module(f"{PREFIX}.{path}")
    name = {"models.mlp": "MLP", "models.dilated_rnn": "DilatedRNN", "core": "LSTM"}[path]
    assert getattr(module, name).__name__ == name


@pytest.mark.parametrize("name", ["_base_model", "_modules"])
def test_base_classes_for_plugins_are_out_of_scope(name):
    with pytest.raises(ImportError, match="not supported here"):
        getattr(importlib.import_module(f"{PREFIX}.common.{name}"), "BaseModel")  # noqa: B009


def test_quantiles_and_names_of_a_loss_stand_in_the_order_of_its_outputs():
    loss = MQLoss(level=[80, 90])
    assert loss.output_names == ["-median", "-lo-90", "-lo-80", "-hi-80", "-hi-90"]
    assert loss.quantiles.tolist() == pytest.approx([0.5, 0.05, 0.1, 0.9, 0.95])
    assert not loss.is_distribution_output
    assert DistributionLoss("Normal").is_distribution_output


def test_accuracy_counts_equal_classes_and_trains_nothing():
    assert float(Accuracy()(torch.tensor([1.0, 0.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, 1.0, 0.0]))) == 0.5
    with pytest.raises(ConfigError, match="needs a gradient, but Accuracy has none"):
        MLP(**SMALL, loss=Accuracy())


def test_metrics_of_arrays():
    y, forecast = np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.0, 2.0])
    assert metrics.mae(y, forecast) == 1.0
    assert metrics.rmse(y, forecast) == pytest.approx(np.sqrt(5 / 3))
    assert metrics.mape(y, forecast) == pytest.approx((1 + 0 + 0.5) / 3)
    assert metrics.mae(y, forecast, weights=np.array([1.0, 0.0, 0.0])) == 1.0
    assert metrics.mqloss(y, np.stack([forecast] * 2, -1), np.array([0.1, 0.9])) == pytest.approx(0.5)


def test_temporal_norm_gives_back_what_it_took():
    x = torch.rand(3, 5, 2) * 100
    for dim, kind in ((1, "robust"), (-1, "standard"), (1, None)):
        norm = TemporalNorm(kind, dim=dim)
        torch.testing.assert_close(norm.inverse_transform(norm.transform(x, torch.ones_like(x))), x)
    mask = torch.tensor([[1, 1, 0]])
    assert masked_mean(torch.tensor([[1.0, 3.0, 99.0]]), mask).item() == 2.0
    assert masked_median(torch.tensor([[1.0, 3.0, 99.0]]), mask).item() == 1.0


def test_any_scheduler_of_torch_gives_its_own_rates():
    model = MLP(
        **SMALL, max_steps=4, lr_scheduler=torch.optim.lr_scheduler.LinearLR,
        lr_scheduler_kwargs={"start_factor": 0.5, "total_iters": 2},
    )  # fmt: skip
    schedule = model.member.config.schedule
    assert isinstance(schedule, RateTable)
    assert schedule.factors == pytest.approx((0.5, 0.75, 1.0, 1.0))  # half the rate, growing over two steps


def test_no_steps_leave_the_network_as_it_was_drawn():
    two = [MLP(**SMALL, max_steps=steps, learning_rate=1e-30) for steps in (0, 3)]
    nf = NeuralForecast(models=two, freq="ME")
    nf.fit(DATA)
    first, second = (forecaster.network.state_dict() for forecaster in nf.forecasters.values())
    for name, weights in first.items():
        torch.testing.assert_close(weights, second[name], rtol=0, atol=0)


def test_a_model_without_its_target_forecasts_from_the_columns_alone():
    model = NHITS(
        h=4, input_size=8, mlp_units=[[4, 4]] * 3, futr_exog_list=["trend"], exclude_insample_y=True, max_steps=2
    )
    nf = NeuralForecast(models=[model], freq="ME")
    nf.fit(AirPassengersPanel)
    changed = AirPassengersPanel.assign(y=AirPassengersPanel["y"] * 3)
    future = nf.make_future_dataframe().assign(trend=1.0)
    one, other = (nf.predict(df=table, futr_df=future)["NHITS"] for table in (AirPassengersPanel, changed))
    assert np.array_equal(one, other)
    with pytest.raises(ConfigError, match="uses only the target's past"):
        DLinear(h=4, input_size=8, exclude_insample_y=True)
    recursive = DeepAR(h=4, input_size=8, exclude_insample_y=True, max_steps=1, lstm_hidden_size=4)
    with pytest.raises(ConfigError, match="recursive"):
        NeuralForecast(models=[recursive], freq="ME").fit(DATA)


def test_trajectories_are_those_of_the_last_fit():
    model = MLP(**SMALL, max_steps=6, val_check_steps=2, loss=MAE())
    nf = NeuralForecast(models=[model], freq="ME")
    nf.fit(DATA, val_size=4)
    assert [step for step, _ in model.train_trajectories] == [0, 1, 2, 3, 4, 5]
    assert [step for step, _ in model.valid_trajectories] == [2, 4, 6]
    assert model.hparams.max_steps == model.hparams["max_steps"] == 6


def test_a_dataset_has_series_end_to_end():
    dataset, ids, last, times = TimeSeriesDataset.from_df(DATA)
    assert (len(dataset), dataset.max_size, len(times)) == (2, 144, 288)
    assert list(ids) == ["Airline1", "Airline2"]
    assert last[0] == DATA["ds"].max()
    assert dataset[1]["temporal"][0, -1].item() == DATA["y"].iloc[-1]
    shorter = TimeSeriesDataset.trim_dataset(dataset, left_trim=4, right_trim=2)
    assert shorter.max_size == 138
    assert shorter[0]["temporal"][0, 0].item() == DATA["y"].iloc[4]
    model = MLP(**SMALL, max_steps=2).fit(dataset=dataset, test_size=8)
    assert model.predict(dataset=dataset, step_size=4).shape == (2 * 2 * 4, 1)


def test_files_and_folders_of_parquet_are_a_table(tmp_path):
    AirPassengersPanel.to_parquet(tmp_path / "all.parquet", index=False)
    DATA.to_parquet(tmp_path / "folder", partition_cols=["unique_id"], index=False)
    found = []
    for files in ([tmp_path / "all.parquet"], sorted((tmp_path / "folder").iterdir())):
        nf = NeuralForecast(models=[MLP(**SMALL, max_steps=2)], freq="ME")
        nf.fit([str(path) for path in files])
        found.append(nf.predict()["MLP"].to_numpy())
    assert np.array_equal(*found)


def test_an_empty_folder_is_saved_into_and_foreign_files_are_never_deleted(tmp_path):
    nf = NeuralForecast(models=[MLP(**SMALL, max_steps=1)], freq="ME")
    nf.fit(DATA)
    (tmp_path / "empty").mkdir()
    nf.save(tmp_path / "empty")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    for overwrite in (False, True):  # the peer would delete the note
        with pytest.raises(StorageError):
            nf.save(tmp_path / "full", overwrite=overwrite)
        assert (tmp_path / "full" / "note.txt").read_text() == "mine"
    nf.save(tmp_path / "empty", overwrite=True)
    loaded = NeuralForecast.load(tmp_path / "empty")
    assert loaded.models[0].h == 4
    assert loaded.predict()["MLP"].equals(nf.predict()["MLP"])


def test_calendar_columns_run_from_minus_a_half_to_a_half():
    frame, names = augment_calendar_df(pd.DataFrame({"ds": pd.to_datetime(["2024-01-01", "2024-12-31"])}), freq="D")
    assert names == ["weekday", "monthday", "yearday"]
    assert frame["yearday"].tolist() == [-0.5, 0.5]
    assert frame["weekday"].tolist() == pytest.approx([-0.5, 1 / 6 - 0.5])  # a Monday and a Tuesday


def test_levels_and_quantiles_are_two_ways_to_say_it():
    assert level_to_quantiles([80]) == pytest.approx([0.1, 0.9])
    assert quantiles_to_level([0.1, 0.5, 0.9]) == [0, 80]


def test_interpolation_and_the_shuffle_keep_the_draws_of_each_step():
    x = torch.tensor([[0.25, 0.5]], dtype=torch.float64)
    knots = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    assert interp_2d(x, knots, torch.tensor([[0.0, 10.0, 20.0]]).double()).tolist() == [[5.0, 10.0]]
    values = torch.linspace(0, 1, 99, dtype=torch.float64).expand(1, 3, 99)
    rising = [torch.arange(60, dtype=torch.float64)]
    paths = schaake_shuffle_sample(torch.linspace(0.01, 0.99, 99).double(), values, rising, 20, seed=0)[0]
    order = paths.argsort(dim=0)
    assert (order[:, 0] == order[:, 1]).all(), "stretches of a rising past keep their order, so the paths do"


def test_series_that_are_made_up_have_their_columns():
    series, static = generate_series(3, n_temporal_features=2, n_static_features=1, equal_ends=True)
    assert list(series.columns) == ["unique_id", "ds", "y", "temporal_0", "temporal_1"]
    assert series.groupby("unique_id", observed=True)["ds"].max().nunique() == 1
    assert list(static.columns) == ["static_0", "unique_id"]
