"""Sample paths and explanations."""

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats

import neuro_divergent as nd
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.sample_paths import error_correlation, inverted
from neuro_divergent.models import NBEATS, TFT, DeepAR, TSMixer

FAST = nd.TrainingConfig(max_steps=30, progress=False)


def panel(series=3, hours=300):
    return nd.samples.hourly_panel(series, hours)


@pytest.fixture(scope="module")
def quantiles():
    config = FAST.replace(loss=nd.DistributionLoss(distribution="Normal"))
    return nd.DLinear(h=6, input_size=24).fit(panel(), config)


class TestPaths:
    def test_every_series_step_and_path_has_a_row(self, quantiles):
        frame = quantiles.simulate(n_paths=4)
        assert frame.columns == ["unique_id", "ds", "sample_id", "DLinear"]
        assert frame.height == 3 * 4 * 6
        assert frame["sample_id"].unique().sort().to_list() == [0, 1, 2, 3]
        assert frame.filter(pl.col("sample_id") == 0)["ds"].to_list() == quantiles.predict()["ds"].to_list()

    def test_the_same_seed_draws_the_same_paths(self, quantiles):
        first, again, other = (quantiles.simulate(n_paths=3, seed=seed) for seed in (1, 1, 2))
        assert first.equals(again)
        assert not first.equals(other)

    def test_each_step_has_the_forecast_distribution(self, quantiles):
        """The 10 % and 90 % quantiles of 4,000 draws against the forecast's own."""
        frame = quantiles.simulate(n_paths=4000).filter(pl.col("unique_id") == "series-01")
        drawn = frame["DLinear"].to_numpy().reshape(4000, 6)
        asked = quantiles.predict(quantiles=[0.1, 0.9]).filter(pl.col("unique_id") == "series-01").to_numpy()[:, 3:]
        spread = (asked[:, 1] - asked[:, 0]).astype(float)
        error = np.abs(np.quantile(drawn, (0.1, 0.9), axis=0).T - asked.astype(float))
        assert (error < 0.06 * spread[:, None]).all()

    def test_steps_depend_on_each_other_as_errors_do(self, quantiles):
        wanted = error_correlation(quantiles, quantiles.data)
        assert wanted[0, 1] > 0.3, "errors of neighbouring hours go together in this panel"
        drawn = quantiles.simulate(n_paths=4000).filter(pl.col("unique_id") == "series-01")["DLinear"].to_numpy()
        ranks = stats.rankdata(drawn.reshape(4000, 6), axis=0)
        found = np.corrcoef(stats.norm.ppf(ranks / 4001), rowvar=False)
        assert found == pytest.approx(wanted, abs=0.06)

    def test_inversion_by_hand(self):
        values = np.array([[[0.0, 10.0, 30.0]]])
        uniform = np.array([[[0.5], [0.3], [0.05], [0.99]]]).reshape(1, 4, 1)
        assert inverted(values, np.array([0.1, 0.5, 0.9]), uniform).ravel() == pytest.approx([10, 5, 0, 30])

    def test_a_model_that_draws_itself(self):
        model = DeepAR(h=4, input_size=12, hidden_size=8)
        fitted = model.fit(panel(), FAST.replace(loss=nd.DistributionLoss(distribution="Normal")))
        own, copula = (fitted.simulate(n_paths=50, method=method) for method in ("auto", "gaussian_copula"))
        assert own.shape == copula.shape
        level = panel().filter(pl.col("unique_id") == "series-01")["y"].tail(24).mean()
        middle = own.filter(pl.col("unique_id") == "series-01")["DeepAR"].mean()
        assert middle == pytest.approx(level, rel=0.6), "in original units"

    def test_the_intervals_of_such_a_model_are_those_of_its_paths(self):
        """Against the quantiles of 4,000 simulated paths; one pass that feeds back the mean would be narrower."""
        model = DeepAR(h=6, input_size=12, hidden_size=8, samples=2000)
        fitted = model.fit(panel(1), FAST.replace(loss=nd.DistributionLoss(distribution="Normal")))
        drawn = fitted.simulate(n_paths=4000, method="model")["DeepAR"].to_numpy().reshape(4000, 6)
        asked = fitted.predict(quantiles=[0.1, 0.9]).select("DeepAR_ql0.1", "DeepAR_ql0.9").to_numpy()
        spread = asked[:, 1] - asked[:, 0]
        assert (np.abs(np.quantile(drawn, (0.1, 0.9), axis=0).T - asked) < 0.1 * spread[:, None]).all()
        assert fitted.predict(quantiles=[0.1]).equals(fitted.predict(quantiles=[0.1])), "drawn the same way each time"
        few = fitted.model.replace(samples=3).build(fitted.module.spec)
        assert few.samples == 3

    def test_bent_values_are_drawn_and_bent_back(self):
        """The first step has nothing before it: its paths are drawn from the quantiles that one pass gives it."""
        config = FAST.replace(loss=nd.MQLoss(level=[80]), calibrate=False)
        model = DeepAR(h=3, input_size=12, hidden_size=8, samples=4000, scaler="invariant", calendar=None)
        fitted = model.fit(panel(1), config)
        window = torch.from_numpy(fitted.data.store.y[-12:].copy()).view(1, 12, 1)
        with torch.no_grad():
            low, _, high = fitted.module(nd.Batch(window))[0, 0, 0].sort().values.tolist()
        asked = fitted.predict(level=[79])
        found = [asked["DeepAR-lo-79"][0], asked["DeepAR-hi-79"][0]]
        assert found == pytest.approx([low, high], abs=0.05 * (high - low))
        drawn = fitted.simulate(n_paths=4000)["DeepAR"].to_numpy().reshape(4000, 3)[:, 0]
        assert np.quantile(drawn, (0.105, 0.895)) == pytest.approx([low, high], abs=0.05 * (high - low))

    @pytest.mark.parametrize("weighted", [False, True])
    def test_features_before_a_head_are_not_drawn_as_values(self, weighted):
        """Quantiles of 4,000 draws against the forecast's own, asked for with all others: a head sorts its values."""
        loss = nd.ImplicitQuantile(width=8)
        loss = nd.Weighted(loss=loss, by="horizon", decay=0.9) if weighted else loss
        frame = panel(1).with_columns(pl.col("y") + 1000)
        fitted = DeepAR(h=4, input_size=24, hidden_size=16, layers=1).fit(frame, FAST.replace(loss=loss))
        drawn = fitted.simulate(n_paths=4000)["DeepAR"].to_numpy().reshape(4000, 4)
        every = fitted.predict(quantiles=[share / 1000 for share in range(5, 1000, 10)])
        asked = every.select("DeepAR_ql0.105", "DeepAR_ql0.895").to_numpy()
        spread = asked[:, 1] - asked[:, 0]
        assert (np.abs(np.quantile(drawn, (0.105, 0.895), axis=0).T - asked) < 0.06 * spread[:, None]).all()
        with pytest.raises(nd.ConfigError, match=f"DeepAR with {loss.kind} cannot draw paths"):
            fitted.simulate(method="model")

    def test_paths_around_a_point_forecast_with_intervals(self):
        data = nd.TimeSeriesDataFrame.from_frame(panel())
        fitted = nd.DLinear(h=6, input_size=24).fit(data.drop_last(60), FAST)
        with pytest.raises(nd.ConfigError, match="no distribution to draw from"):
            fitted.simulate()
        fitted.calibrate(data, PredictionIntervals(n_windows=50))
        frame = fitted.simulate(n_paths=500)
        middle = frame.group_by("unique_id", "ds", maintain_order=True).agg(pl.col("DLinear").median())["DLinear"]
        spread = frame.group_by("unique_id", "ds", maintain_order=True).agg(pl.col("DLinear").std())["DLinear"]
        assert ((middle - fitted.predict()["DLinear"]).abs() < 0.5 * spread).all()

    @pytest.mark.parametrize("model", [nd.MLP(h=4, input_size=12, hidden_size=8), DeepAR(h=4, input_size=12)])
    def test_paths_of_fewer_steps_need_the_columns_of_their_own_steps_only(self, model):
        """They begin as the whole paths do whose further steps have the last price that is known."""
        frame = panel(2).with_columns(price=pl.col("ds").dt.hour().cast(pl.Float64))
        config = FAST.replace(loss=nd.DistributionLoss(distribution="Normal"))
        fitted = model.replace(hidden_size=8).fit(frame, config, future=["price"])
        ahead = fitted.make_future_dataframe().with_columns(price=pl.col("ds").dt.hour().cast(pl.Float64))
        step = pl.int_range(pl.len()).over("unique_id")
        repeated = ahead.with_columns(price=pl.col("price").filter(step == 1).first().over("unique_id"))
        repeated = ahead.with_columns(price=pl.when(step < 2).then("price").otherwise(repeated["price"]))
        short = fitted.simulate(n_paths=5, future=ahead.filter(step < 2), h=2)
        whole = fitted.simulate(n_paths=5, future=repeated)
        assert short.equals(whole.filter(pl.int_range(pl.len()).over("unique_id", "sample_id") < 2))
        with pytest.raises(nd.DataError, match="known ahead, but got no values for the 2 steps after the last row"):
            fitted.simulate(h=2)

    def test_what_cannot_be_drawn(self, quantiles, tmp_path):
        with pytest.raises(nd.ConfigError, match="paths have at most the model's h=6 steps"):
            quantiles.simulate(h=7)
        with pytest.raises(nd.ConfigError, match="cannot draw paths"):
            quantiles.simulate(method="model")
        quantiles.save(tmp_path / "m")
        loaded = nd.load(tmp_path / "m")
        with pytest.raises(nd.DataError, match="at least 3 past windows"):
            loaded.simulate()
        assert loaded.simulate(panel(), n_paths=2).height == 36


class TestExplanations:
    def test_a_linear_network_is_explained_exactly(self):
        """DLinear is linear in the scaled window: attribution of lag i = weight of the lag × scaled value × scale.

        By hand through finite differences of `from_scaled`: each scaled value set to 0 in turn.
        """
        fitted = nd.DLinear(h=3, input_size=8).fit(panel(1), FAST)
        for method in ("integrated_gradients", "input_x_gradient"):
            found = fitted.explain(method=method, points=3)
            store = fitted.data.store
            window = torch.from_numpy(store.y[-8:].copy())[None, :, None]
            scaled, statistics = fitted.module.as_network_sees(nd.Batch(window))

            def forecast(y, statistics=statistics, scaled=scaled):
                return fitted.module.original(fitted.module.from_scaled(scaled._replace(y=y), statistics))[0, :, 0, 0]

            whole = forecast(scaled.y)
            for lag in range(8):
                without = scaled.y.clone()
                without[0, lag] = 0
                by_hand = (whole - forecast(without)).detach().numpy()
                assert found.values["y"][0, :, lag] == pytest.approx(by_hand, abs=1e-3)

    def test_attributions_sum_to_the_difference_from_the_baseline(self):
        frame = panel(2).with_columns(hour=pl.col("ds").dt.hour().cast(pl.Float64), load=pl.col("y") * 0.5)
        data = nd.TimeSeriesDataFrame.from_frame(frame, future=["hour"], historical=["load"])
        fitted = nd.MLP(h=4, input_size=12, hidden_size=16).fit(data, FAST)
        ahead = fitted.make_future_dataframe().with_columns(hour=pl.col("ds").dt.hour().cast(pl.Float64))
        found = fitted.explain(future=ahead, points=200)
        total = sum(values.reshape(2, 4, -1).sum(axis=2) for values in found.values.values())
        assert total == pytest.approx(found.forecast - found.baseline, abs=0.02 * np.abs(found.forecast).max())
        assert found.forecast.ravel() == pytest.approx(fitted.predict(future=ahead)["MLP"].to_numpy(), rel=1e-5)
        assert found.values["future"].shape == (2, 4, 16, 1)
        assert set(found.frame["feature"]) == {"y", "hour", "load"}
        assert found.frame.filter(pl.col("feature") == "hour")["position"].unique().sort().to_list() == list(
            range(-11, 5)
        )
        assert set(found.importance()["feature"]) == {"y", "hour", "load"}

    def test_the_parts_of_nbeats_add_up_to_its_forecast(self):
        fitted = NBEATS(h=4, input_size=12).fit(panel(2), FAST)
        found = fitted.explain(method="decomposition")
        assert {"trend", "seasonality"} <= set(found.values)
        assert sum(found.values.values()) == pytest.approx(found.forecast, rel=1e-4)
        assert found.frame["feature"].n_unique() == len(found.values)

    def test_what_tft_attends_to(self):
        fitted = TFT(h=3, input_size=8, hidden_size=8).fit(panel(2), FAST)
        attention = fitted.explain(method="decomposition").values["attention"]
        assert attention.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)

    def test_a_multivariate_model_names_the_series_it_looked_at(self):
        fitted = TSMixer(h=3, input_size=8).fit(panel(2), FAST)
        found = fitted.explain(steps=[2], points=2)
        assert found.values["y"].shape == (2, 1, 8, 2)
        assert set(found.frame["feature"]) == {"y of series-00", "y of series-01"}

    def test_wishes_that_cannot_be_met(self, quantiles):
        with pytest.raises(nd.ConfigError, match="does not report its parts"):
            quantiles.explain(method="decomposition")
        with pytest.raises(nd.ConfigError, match=r"numbers from 1 to h=6, but got steps=\[7\]"):
            quantiles.explain(steps=[7])
