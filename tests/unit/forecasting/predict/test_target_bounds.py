"""Forecasts stay in the range of the target, whoever makes them."""

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd

FAST = nd.TrainingConfig(max_steps=5, progress=False)
SIZES = {"h": 4, "input_size": 8}
QUANTILES = FAST.replace(loss=nd.MQLoss(level=[80, 95]), calibrate=False)


def sales(series=3, rows=120):
    """Counts up to 9, most of them 0: intervals of a network without a range reach far below 0."""
    generator = np.random.default_rng(0)
    y = generator.poisson(0.4, size=series * rows) * generator.integers(1, 6, size=series * rows)
    names = np.repeat([f"s{number}" for number in range(series)], rows)
    return pl.DataFrame({"unique_id": names, "ds": np.tile(np.arange(rows), series), "y": y.clip(0, 9).astype(float)})


def numbers(frame, name="NLinear"):
    return frame.select(pl.col(f"^{name}.*$")).to_numpy()


@pytest.fixture(scope="module")
def fitted():
    return nd.NLinear(**SIZES).fit(sales(), QUANTILES)


@pytest.fixture(scope="module")
def whole():
    return nd.NLinear(**SIZES).fit(sales(), QUANTILES, lower=0, upper=9, integer=True)


def test_counts_have_no_negative_forecast_unless_it_is_allowed(fitted):
    free = nd.NLinear(**SIZES).fit(sales(), QUANTILES, lower=None)
    assert free.bounds is None
    assert numbers(free.predict()).min() < -0.1
    assert numbers(fitted.predict()).min() == 0.0
    kept = np.maximum(numbers(free.predict()), 0.0)
    assert np.array_equal(numbers(fitted.predict()), kept)  # all else is the same


def test_held_out_rows_do_not_decide_whether_a_target_is_a_count():
    late = sales().with_columns(pl.when(pl.col("ds") == 119).then(0.5).otherwise(pl.col("y")).alias("y"))
    assert nd.NLinear(**SIZES).fit(late, QUANTILES).bounds == nd.NLinear(**SIZES).fit(sales(), QUANTILES).bounds
    early = sales().with_columns(pl.when(pl.col("ds") == 3).then(0.5).otherwise(pl.col("y")).alias("y"))
    assert nd.NLinear(**SIZES).fit(early, QUANTILES).bounds is None


def test_a_given_range_holds_everywhere(whole, tmp_path):
    frames = [
        whole.predict(level=[80, 95]),
        whole.predict(quantiles=[0.2, 0.7], h=9),
        whole.predictor().predict(level=[80]),
        whole.predict_insample(step_size=7),
        whole.simulate(n_paths=30),
        whole.simulate(n_paths=30, method="schaake_shuffle"),
        nd.ensemble([whole, whole], "mean")
        .predict(level=[80])
        .rename(lambda name: name.replace("Ensemble", "NLinear")),
        whole.cross_validation(n_windows=2, config=QUANTILES).frame,
    ]
    for frame in frames:
        values = numbers(frame)
        assert values.min() >= 0
        assert values.max() <= 9
        assert np.array_equal(values, np.rint(values))
    values = whole.predictor().predict_array(np.zeros((2, 8)), level=[80])
    assert values.min() >= 0
    whole.save(tmp_path / "model")
    assert nd.load(tmp_path / "model").predict(level=[80]).equals(whole.predict(level=[80]))


def test_conformal_intervals_stay_in_the_range():
    fitted = nd.NLinear(**SIZES).fit(sales(), FAST, prediction_intervals=nd.PredictionIntervals(n_windows=4))
    assert numbers(fitted.predict(level=[95])).min() == 0.0


def test_several_models_each_keep_the_range():
    both = nd.NeuralForecast([nd.NLinear(**SIZES), nd.DLinear(**SIZES)]).fit(sales(), QUANTILES)
    frame = both.predict()
    assert min(numbers(frame, "NLinear").min(), numbers(frame, "DLinear").min()) == 0.0


def test_an_ensemble_of_whole_numbers_has_whole_numbers(whole):
    other = nd.NLinear(**SIZES).fit(sales(), QUANTILES.replace(seed=5, max_steps=60), lower=0, upper=9, integer=True)
    values = numbers(nd.ensemble([whole, other]).predict(level=[80]), "Ensemble")
    assert np.array_equal(values, np.rint(values))


def test_the_network_itself_is_not_limited(fitted):
    """`forward` gives the network's outputs: the range belongs to a frame of forecasts."""
    window = fitted.data.store.y[fitted.data.store.offsets[1:, None] + np.arange(-8, 0)]
    assert float(fitted.forward(torch.from_numpy(window)).min()) < 0


class TestHierarchies:
    FAMILY = nd.Hierarchy.read({"total": [1, 1], "a": [1, 0], "b": [0, 1]})

    def table(self):
        bottom = sales(2).with_columns(pl.col("unique_id").replace({"s0": "a", "s1": "b"}))
        total = bottom.group_by("ds").agg(pl.col("y").sum()).with_columns(unique_id=pl.lit("total"))
        return pl.concat([bottom, total.select("unique_id", "ds", "y")])

    @pytest.mark.parametrize("method", ["BottomUp", "MinTraceOLS"])
    def test_sums_stay_coherent(self, method):
        model = nd.HINT(S=self.FAMILY, model=nd.NLinear(**SIZES), reconciliation=method)
        fitted = model.fit(self.table(), FAST.replace(loss=nd.DistributionLoss(distribution="Normal")), integer=True)
        assert fitted.bounds == nd.NLinear(**SIZES).fit(self.table(), FAST, integer=True).bounds
        values = fitted.forecast_values(fitted.data)[:, :, 0]
        rows = {name: values[place] for place, name in enumerate(fitted.data.ids.tolist())}
        assert values.min() >= 0
        assert np.array_equal(rows["total"], rows["a"] + rows["b"])
        paths = fitted.simulate(n_paths=10)[model.name].to_numpy()
        assert paths.min() >= 0
        assert np.array_equal(paths, np.rint(paths))

    def test_a_range_that_sums_leave_is_refused(self):
        model = nd.HINT(S=self.FAMILY, model=nd.NLinear(**SIZES), reconciliation="BottomUp")
        with pytest.raises(nd.ConfigError, match="sums, which stay in the target's range only for lower=0"):
            model.fit(self.table(), FAST, upper=100)


def test_a_forecast_shows_the_mean_or_the_median_as_asked():
    """Against the loss itself: the negative binomial mean and its median."""
    config = FAST.replace(loss=nd.DistributionLoss(distribution="NegativeBinomial"), calibrate=False)
    fitted = nd.NLinear(**SIZES).fit(sales(), config)
    mean, median = (fitted.predict(level=[], point=point)["NLinear"] for point in ("mean", "median"))
    assert fitted.point == "mean"
    assert mean.equals(fitted.predict(level=[])["NLinear"])
    assert median.equals(fitted.predict(quantiles=[0.5])["NLinear_ql0.5"].rename("NLinear"))
    assert fitted.predictor().predict(level=[], point="median")["NLinear"].equals(median)
    fitted.point = "median"
    assert fitted.predict(level=[])["NLinear"].equals(median)
    plain = nd.NLinear(**SIZES).fit(sales(), FAST)
    with pytest.raises(nd.ConfigError, match="forecasts one point, so there is no mean to choose"):
        plain.predict(point="mean")
