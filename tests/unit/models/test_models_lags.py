"""Lags of the target: which rows a step reads, that recursion feeds them back, and that old files have none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.storage.check_saved import checked_spec
from neuro_divergent.nn.inputs import StepInputs
from neuro_divergent.nn.lags import TargetLags, steps_read

OLD = Path(__file__).parents[2] / "golden" / "format1" / "recurrent"
LAGGED = [nd.LSTM, nd.GRU, nd.RNN, nd.DilatedRNN, nd.xLSTM, nd.TFT]
CONFIG = nd.TrainingConfig(max_epochs=None, max_steps=3, seed=0)


def weekly(days: int = 120, series: int = 3) -> pl.DataFrame:
    """Series whose only pattern is a season of seven rows."""
    day = np.arange(days)
    shape = np.array([5.0, 1.0, 2.0, 8.0, 3.0, 9.0, 4.0])
    draw = np.random.default_rng(0)
    frames = [
        pl.DataFrame({"unique_id": f"s{k}", "ds": day, "y": (k + 1) * shape[day % 7] + draw.normal(0, 0.1, days)})
        for k in range(series)
    ]
    return pl.concat(frames)


def test_a_step_reads_the_rows_that_lie_one_lag_before_it():
    """By hand: a window of the values 0 to 29, lags 3 and 20, horizon 5; the last 16 steps (14 to 29) are read."""
    spec = InputSpec(horizon=5, lookback=30, lags=(3, 20))
    assert steps_read(spec) == 16
    past, ahead = TargetLags(spec)(torch.arange(30.0).view(1, 30, 1))
    assert past[0, :, 0].tolist() == list(range(11, 27))
    assert past[0, :, 1].tolist() == [0.0] * 6 + list(range(10))  # steps 14 to 19 have no row 20 before
    assert ahead[0, :, 0].tolist() == [27, 28, 29, 27, 28]  # the last three rows again
    assert ahead[0, :, 1].tolist() == [10, 11, 12, 13, 14]


def test_the_steps_that_are_read():
    assert steps_read(InputSpec(horizon=4, lookback=100)) == 100
    assert steps_read(InputSpec(horizon=4, lookback=100, lags=(7,))) == 16
    assert steps_read(InputSpec(horizon=48, lookback=336, lags=(24, 168))) == 48
    assert steps_read(InputSpec(horizon=24, lookback=336, lags=(168, 48))) == 96
    assert steps_read(InputSpec(horizon=48, lookback=30, lags=(24,))) == 30


def test_deepar_also_reads_the_steps_beside_a_season_and_its_multiples():
    """A step is the last value plus the change at the same place of a season: two neighbours of that season."""
    model = nd.DeepAR(h=4, input_size=168)
    assert model.lags_of((), 500) == ()
    assert model.lags_of((7,), 9) == (6, 7, 8)
    assert model.lags_of((2,), 500) == (2, 3)  # the last value itself is no lag
    assert model.lags_of((24, 168), 500) == (23, 24, 25, 48, 72, 96, 120, 144, 167, 168)
    assert nd.LSTM(h=4, input_size=168).lags_of((24, 168), 500) == (24, 168)
    fitted = nd.DeepAR(h=4, input_size=28, hidden_size=4, samples=5).fit(weekly(), CONFIG)
    assert fitted.module.spec.lags == (6, 7, 8, 13, 14, 15)  # whole numbers show 7 and 14


def test_one_short_series_has_too_few_windows_for_lags():
    """A window of 24 rows and a horizon of 12: of 144 rows 115 are trained on, which are 80 windows."""
    table = nd.samples.air_passengers()
    config = CONFIG.replace(validation_split=0.2)
    lags = {
        model.kind: model.fit(table, config).module.spec.lags
        for model in (nd.LSTM(h=12, input_size=24), nd.TFT(h=12, input_size=24), nd.DeepAR(h=12, input_size=24))
    }
    assert lags == {"LSTM": (), "TFT": (12, 24), "DeepAR": (11, 12, 13, 23, 24)}
    several = pl.concat([table.with_columns(unique_id=pl.lit(name)) for name in "ab"])
    assert nd.LSTM(h=12, input_size=24).fit(several, config).module.spec.lags == (12, 24)


def test_columns_stay_beside_their_own_step():
    spec = InputSpec(horizon=2, lookback=20, future=1, historical=1, lags=(5,))
    clock = torch.arange(22.0).view(1, 22, 1)
    past, ahead = StepInputs(spec)(Batch(y=clock[:, :20], historical=100 + clock[:, :20], future=200 + clock))
    assert past.shape == (1, 16, 4)
    assert past[0, -1].tolist() == [19.0, 119.0, 219.0, 14.0]
    assert ahead is not None
    assert ahead[0, 1].tolist() == [221.0, 16.0]


def test_recursion_feeds_its_forecasts_back_through_the_lags():
    """Told its own forecasts, training equals forecasting. Lag 2 reaches into the horizon from its third step on."""
    model = nd.DeepAR(h=6, input_size=20, hidden_size=8)
    torch.manual_seed(0)
    network = model.build(InputSpec(horizon=6, lookback=20, lags=(2, 7))).eval().double()
    batch = Batch(y=torch.randn(3, 20, 1, dtype=torch.float64))
    forecast = network(batch)
    again = network.train_forward(batch._replace(target=forecast.squeeze(-1)))
    torch.testing.assert_close(again, forecast)
    changed = batch.y.clone()
    changed[:, 13] += 1.0  # read by no encoder step beside its own; one lag of 7 before the first forecast
    assert not torch.equal(network(Batch(y=changed))[:, 0], forecast[:, 0])


def test_auto_takes_the_season_of_the_training_rows():
    fitted = nd.LSTM(h=7, input_size=21, hidden_size=4).fit(weekly(), CONFIG, freq=1)
    assert fitted.module.spec.lags == (7, 14)
    assert fitted.anchor == (7, 14)
    noise = weekly().with_columns(y=pl.Series(np.random.default_rng(1).normal(size=360)))
    plain = nd.LSTM(h=7, input_size=21, hidden_size=4).fit(noise, CONFIG, freq=1)
    assert (plain.module.spec.lags, plain.anchor) == ((), (1,))
    assert nd.DeepAR(h=7, input_size=21, hidden_size=4).fit(weekly(), CONFIG, freq=1).anchor == ()


def test_auto_adds_the_other_seasons_of_the_frequency():
    """Hours of a day repeat here and weeks do not, but a week is usual for hours."""
    hour = np.arange(24 * 40)
    y = np.sin(2 * np.pi * hour / 24) + np.random.default_rng(0).normal(0, 0.1, len(hour))
    ds = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 2, 9, 23), "1h", eager=True)
    frame = pl.DataFrame({"unique_id": "a", "ds": ds, "y": y})
    fitted = nd.LSTM(h=7, input_size=168, hidden_size=4).fit(frame, CONFIG)
    assert fitted.anchor == (24, 48)
    assert fitted.module.spec.lags == (24, 48, 168)
    assert nd.LSTM(h=7, input_size=48, hidden_size=4).fit(frame, CONFIG).module.spec.lags == (24, 48)


@pytest.mark.parametrize("cls", [*LAGGED, nd.DeepAR])
def test_a_model_with_lags_survives_saving_and_more_training(cls, tmp_path):
    model = cls(h=4, input_size=16, hidden_size=8, lags=(3, 16))
    fitted = model.fit(weekly(), CONFIG, freq=1)
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    assert loaded.module.spec.lags == (3, 16)
    assert loaded.predict().equals(fitted.predict())
    tuned = nd.LSTM(h=4, input_size=16, hidden_size=8).fit(weekly(), CONFIG, freq=1).fine_tune(weekly(), CONFIG, freq=1)
    assert tuned.module.spec.lags == (7, 14)


def test_a_file_that_is_older_than_lags_has_none():
    written = json.loads((OLD / "model.json").read_text(encoding="utf-8"))
    assert "lags" not in written["model"]
    loaded = nd.load(OLD)
    assert loaded.model.lags is None
    assert loaded.module.spec.lags == ()
    assert loaded.model.anchor == written["model"]["anchor"]
    # A run file of the user's means today's default.
    assert nd.LSTM.from_dict(written["model"]).lags == "auto"


def test_a_model_inside_a_hierarchy_reads_its_lags():
    family = {"s0": [1, 1], "s1": [1, 0], "s2": [0, 1]}
    model = nd.HINT(model=nd.GRU(h=4, input_size=16, hidden_size=4), S=family)
    fitted = model.fit(weekly(), CONFIG, freq=1)
    assert fitted.module.spec.lags == (7, 14)
    assert fitted.fine_tune(weekly(), CONFIG, freq=1).module.spec.lags == (7, 14)
    older = model.to_dict()
    del older["model"]["lags"]
    assert nd.HINT.from_saved(older).model.lags is None
    recursive = nd.HINT(model=nd.GRU(h=4, input_size=16, hidden_size=4, recursive=True), S=family)
    assert recursive.fit(weekly(), CONFIG, freq=1).anchor == ()


def test_lags_that_cannot_be_read_are_refused():
    with pytest.raises(nd.ConfigError, match=r"longer than input_size=24.*Raise input_size to 168"):
        nd.LSTM(h=4, input_size=24, lags=[24, 168])
    with pytest.raises(nd.ConfigError, match="distinct"):
        nd.LSTM(h=4, input_size=24, lags=[7, 7])
    with pytest.raises(nd.ConfigError, match="sees_target=False hides"):
        nd.LSTM(h=4, input_size=24, lags=[7], sees_target=False)
    spec = {"horizon": 4, "lookback": 24, "categories": []}
    assert checked_spec(spec).lags == ()
    for wrong in ([25], [0], [1.5], "7", [True]):
        with pytest.raises(nd.CorruptFileError):
            checked_spec(spec | {"lags": wrong})


def test_deepar_forecasts_a_distribution_by_default():
    fitted = nd.DeepAR(h=4, input_size=16, hidden_size=8).fit(weekly(), CONFIG, freq=1)
    assert fitted.config.loss == nd.DistributionLoss(distribution="StudentT")
    forecast = fitted.predict(level=[80])
    low, middle, high = (forecast[f"DeepAR{end}"].to_numpy() for end in ("-lo-80", "", "-hi-80"))
    assert (low < middle).all()
    assert (middle < high).all()
