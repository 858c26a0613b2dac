"""The windows behind prediction intervals: how far apart they are, how well they cover, how an update renews them."""

import logging

import numpy as np
import polars as pl
import pytest
from scipy.stats import betabinom, binom

import neuro_divergent as nd
from neuro_divergent.forecasting.network.output_columns import named_columns
from neuro_divergent.forecasting.predict.conformal import Calibration, PredictionIntervals

FAST = nd.TrainingConfig(max_steps=30, progress=False)
HOUR = np.timedelta64(1, "h")


def hours(y):
    return pl.DataFrame({"ds": np.datetime64("2024-01-01T00", "us") + HOUR * np.arange(len(y)), "y": y})


def autoregressive(rng, *shape, share=0.6):
    """AR(1) along the last axis, with its stationary spread from the first value on."""
    noise = rng.standard_normal(shape)
    y = np.empty(shape)
    y[..., 0] = noise[..., 0] / np.sqrt(1 - share**2)
    for step in range(1, shape[-1]):
        y[..., step] = share * y[..., step - 1] + noise[..., step]
    return y


def restless(rng, days):
    """Hourly: a daily shape and AR(1) noise that is four times as large on four days of twelve, the last ones too."""
    time = np.arange(24 * days)
    loud = (time // 24 - days) % 12 >= 8
    return 20 + 5 * np.sin(2 * np.pi * time / 24) + np.where(loud, 4.0, 1.0) * autoregressive(rng, 24 * days)


def test_windows_are_a_horizon_apart_unless_a_distance_is_given():
    assert PredictionIntervals(n_windows=60).rows(24) == 60 * 24
    assert PredictionIntervals(n_windows=60, step_size=1).rows(24) == 24 + 59
    y = np.arange(200.0) % 7
    data = nd.TimeSeriesDataFrame.from_frame(hours(y))
    fitted = nd.DLinear(h=5, input_size=10).fit(data.drop_last(30), FAST)
    fitted.calibrate(data, PredictionIntervals(n_windows=4))
    origins = range(200 - 20, 200, 5)
    errors = [np.abs(y[at : at + 5] - fitted.predict(hours(y[:at]))["DLinear"].to_numpy()) for at in origins]
    assert fitted.intervals.scores[0] * fitted.intervals.scale[0] == pytest.approx(np.array(errors), abs=1e-4)


def test_sixty_windows_of_hours_cover_what_they_promise():
    """60 days measure the intervals, the 119 days after them test them; the noise is loud on four days of twelve.

    Neighbouring hours are not independent: of AR(1) noise with share 0.6, (1 - 0.6)/(1 + 0.6) = 1/4 of the values
    count, six per day. Three standard deviations of a binomial share are 3·√(0.8·0.2·(1/360 + 1/714)) = 0.08. Sixty
    windows that are one hour apart lie in the loud last days: they cover calm days whole, 1·8/12 + 0.8·4/12 = 0.93.
    """
    y, rest = restless(np.random.default_rng(3), 36 + 60), restless(np.random.default_rng(4), 120)
    past, whole = (nd.TimeSeriesDataFrame.from_frame(hours(part)) for part in (y, np.concatenate([y, rest])))
    fitted = nd.DLinear(h=24, input_size=48).fit(past.drop_last(24 * 60), FAST.replace(max_steps=200))
    margin = 3 * np.sqrt(0.8 * 0.2 * (1 / 360 + 1 / 714))

    def coverage(settings):
        fitted.calibrate(past, settings)
        found = fitted.evaluate(whole, level=[80], n_windows=119, metrics=["coverage"])
        return found["DLinear", "coverage-80"]

    assert coverage(PredictionIntervals(n_windows=60, step_size=1)) > 0.8 + margin
    assert coverage(PredictionIntervals(n_windows=60)) == pytest.approx(0.8, abs=margin)


def test_coverage_of_independent_series_is_as_theory_says():
    """300 AR(1) series, 9 windows each, pooled: at every step the covered ones of 300 others are beta-binomial.

    With n exchangeable scores and rank k = ⌈(n+1)·0.8⌉, the coverage is Beta(k, n+1-k), and the count of m new values
    is BetaBinomial(m, k, n+1-k) (Vovk 2012). All four steps stay between its 0.01 % and its 99.99 % quantile.
    """
    series, h, windows = 300, 4, 9
    y = autoregressive(np.random.default_rng(7), series, 120)
    names = np.repeat([f"s{i:03}" for i in range(series)], 120)
    frame = pl.DataFrame({"unique_id": names, "ds": np.tile(np.arange(120), series), "y": y.ravel()})
    data = nd.TimeSeriesDataFrame.from_frame(frame)
    fitted = nd.DLinear(h=h, input_size=12).fit(data.drop_last(h * (windows + 1)), FAST)
    fitted.calibrate(
        data.drop_last(h), PredictionIntervals(n_windows=windows, method="conformal_error", pooling="panel")
    )
    steps = fitted.evaluate(data, level=[80], metrics=["coverage"]).by_step.filter(pl.col("model") == "DLinear")
    n = series * windows
    k = int(np.ceil((n + 1) * 0.8))
    low, high = betabinom.ppf([1e-4, 1 - 1e-4], series, k, n + 1 - k)
    inside = steps["coverage-80"].to_numpy() * series
    assert ((inside >= low) & (inside <= high)).all(), (inside, low, high)
    assert high - low < 1.5 * np.diff(binom.ppf([1e-4, 1 - 1e-4], series, 0.8)), "the margin is that of 300 values"


def test_series_of_their_own_say_how_many_windows_they_have(caplog):
    """Nine windows are enough for 80 %, (9+1)·0.8 ≤ 9, and not for 95 %, (9+1)·0.95 > 9."""
    scores = np.arange(1.0, 19.0).reshape(2, 9, 1)
    settings = PredictionIntervals(n_windows=9, pooling="series")
    found = Calibration(settings, np.array(["a", "b"]), scores, np.ones(2))
    with caplog.at_level(logging.WARNING):
        found.around(np.zeros((2, 1)), found.ids, np.ones(2), named_columns("m", (80,), ()))
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        found.around(np.zeros((2, 1)), found.ids, np.ones(2), named_columns("m", (95,), ()))
    assert "9 windows are too few for intervals of 95 %" in caplog.text


def test_too_short_a_table_is_told_how_many_windows_fit():
    """100 rows, h=10: 4 windows leave 60 rows to train on, of which the model needs 20 + 10."""
    y = np.sin(np.arange(100.0))
    with pytest.raises(nd.DataError, match=r"n_windows=10, step_size=10.*has 100.*at most n_windows=7"):
        nd.DLinear(h=10, input_size=20).fit(hours(y), FAST, prediction_intervals=PredictionIntervals(n_windows=10))
    nd.DLinear(h=10, input_size=20).fit(hours(y), FAST, prediction_intervals=PredictionIntervals(n_windows=7))


def test_fewer_windows_than_asked_for_are_said(caplog):
    """100 rows of a series that the model does not know: 9 windows of 10 rows have a row before them."""
    y = np.sin(np.arange(100.0))
    fitted = nd.DLinear(h=10, input_size=20).fit(hours(y).with_columns(unique_id=pl.lit("a")), FAST)
    with caplog.at_level(logging.WARNING):
        fitted.calibrate(hours(y).with_columns(unique_id=pl.lit("b")), PredictionIntervals(n_windows=12))
    assert "n_windows=12" in caplog.text
    assert "9 windows" in caplog.text
    assert np.isfinite(fitted.intervals.scores).sum() == 9 * 10


@pytest.fixture
def quiet():
    """A model of two calm series, its intervals measured on their last rows."""
    y = np.tile(np.sin(np.arange(120.0)), 2) + 0.1 * np.random.default_rng(0).standard_normal(240)
    frame = pl.DataFrame({"unique_id": ["a"] * 120 + ["b"] * 120, "ds": [*range(120), *range(120)], "y": y})
    return nd.DLinear(h=4, input_size=12).fit(
        frame, FAST, prediction_intervals=PredictionIntervals(n_windows=5, method="conformal_error")
    )


def later(rows, value=50.0):
    return pl.DataFrame(
        {"unique_id": ["a"] * rows + ["b"] * rows, "ds": [*range(120, 120 + rows)] * 2, "y": [value] * 2 * rows}
    )


def test_update_measures_new_windows_with_the_weights_that_have_not_seen_them(quiet):
    """Eight new rows are two windows of four: the newest two of five scores, from the forecasts before the update."""
    before, scale = quiet.intervals.scores.copy(), quiet.intervals.scale
    rows = later(8)
    first = quiet.predict()
    seen = rows.group_by("unique_id").head(4).select(quiet.data.to_polars().columns)
    second = quiet.predict(pl.concat([quiet.data.to_polars(), seen], how="vertical_relaxed").sort("unique_id", "ds"))
    expected = [np.abs(50 - frame["DLinear"].to_numpy().reshape(2, 4)) / scale[:, None] for frame in (first, second)]
    quiet.update(rows)
    assert quiet.intervals.scores[:, :3].tolist() == before[:, 2:].tolist()
    assert quiet.intervals.scores[:, 3] == pytest.approx(expected[0], rel=1e-4)
    assert quiet.intervals.scores[:, 4] == pytest.approx(expected[1], rel=1e-4)


def test_an_update_by_single_rows_renews_the_steps_that_have_come(quiet):
    """One new row is one step ahead of the row before: step 1 gains a score, the others keep theirs."""
    before = quiet.intervals.scores.copy()
    quiet.update(later(1))
    after = quiet.intervals.scores
    assert after[:, :4, 0].tolist() == before[:, 1:, 0].tolist()
    assert (after[:, 4, 0] > 10 * before[:, :, 0].max()).all()
    assert after[:, :, 1:].tolist() == before[:, :, 1:].tolist()


def test_a_series_that_is_new_in_an_update_has_the_intervals_of_the_panel(quiet):
    rows = later(4).with_columns(unique_id=pl.lit("c"))
    more = pl.DataFrame({"unique_id": ["c"] * 40, "ds": range(80, 120), "y": np.sin(np.arange(40.0))})
    before = quiet.intervals.scores.copy()
    quiet.update(pl.concat([more, rows.head(4)]))
    assert quiet.intervals.ids.tolist() == ["a", "b"]
    assert quiet.intervals.scores.tolist() == before.tolist()
    assert quiet.predict(level=[80]).height == 12


@pytest.mark.parametrize(("split_by", "measured"), [("auto", 0), ("series", 8)])
def test_no_series_is_learned_from_later_than_another_is_measured(split_by, measured):
    """By hand: b ends on day 120, so with two windows of 4 all series are cut at day 112; a ended before that."""
    days = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 4, 29), "1d", eager=True)
    parts = [
        pl.DataFrame({"unique_id": name, "ds": days[:count], "y": np.sin(np.arange(float(count)))})
        for name, count in (("a", 80), ("b", 120))
    ]
    fitted = nd.DLinear(h=4, input_size=12).fit(
        pl.concat(parts), FAST.replace(split_by=split_by), prediction_intervals=PredictionIntervals(n_windows=2)
    )
    assert np.isfinite(fitted.intervals.scores[0]).sum() == measured
    assert np.isfinite(fitted.intervals.scores[1]).sum() == 8
    assert (fitted.predict(level=[80])["DLinear-hi-80"] > fitted.predict()["DLinear"]).all()
