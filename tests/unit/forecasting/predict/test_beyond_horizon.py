"""Steps beyond the trained horizon: their intervals carry on the errors of the steps before, and a warning says so."""

import logging

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.network.output_columns import named_columns
from neuro_divergent.forecasting.predict.ahead import widened
from neuro_divergent.forecasting.predict.conformal import Calibration, PredictionIntervals
from neuro_divergent.models import DeepAR, TSMixer

FAST = nd.TrainingConfig(max_steps=20, progress=False)
H = 6


def walks(series=2, rows=150):
    rng = np.random.default_rng(1)
    y = 50 + np.cumsum(rng.standard_normal((series, rows)), axis=1)
    names = np.repeat([f"s{i}" for i in range(series)], rows)
    return pl.DataFrame({"unique_id": names, "ds": np.tile(np.arange(rows), series), "y": y.ravel()})


def widths(frame, level=80):
    name = frame.columns[2]
    return (frame[f"{name}-hi-{level}"] - frame[f"{name}-lo-{level}"]).to_numpy().reshape(2, -1)


MODELS = {
    "quantiles": (nd.DLinear(h=H, input_size=12), nd.MQLoss(level=[80])),
    "normal": (nd.DLinear(h=H, input_size=12), nd.DistributionLoss(distribution="Normal")),
    "mean above the quantile": (nd.DLinear(h=H, input_size=12), nd.DistributionLoss(distribution="NegativeBinomial")),
    "any quantile": (nd.DLinear(h=H, input_size=12), nd.ImplicitQuantile()),
    "drawn step by step": (DeepAR(h=H, input_size=12, hidden_size=8, layers=1), nd.DistributionLoss()),
    "all series at once": (TSMixer(h=H, input_size=12), nd.MQLoss(level=[80])),
}


@pytest.mark.parametrize("case", MODELS)
def test_intervals_never_become_narrower_where_forecasts_are_fed_back(case):
    model, loss = MODELS[case]
    fitted = model.fit(walks(), FAST.replace(loss=loss))
    short, long = fitted.predict(level=[80]), fitted.predict(level=[80], h=3 * H + 2)
    found = widths(long)
    assert np.array_equal(found[:, :H], widths(short))
    for seam in (H, 2 * H, 3 * H):
        assert (found[:, seam] >= found[:, seam - 1]).all(), (case, seam, found)


def test_errors_of_earlier_blocks_add_like_independent_ones():
    """By hand: 3 at the last step and 4 of the next block's own make √(3² + 4²) = 5; below the point twice as much.

    The median stays where it is, and a point above an upper quantile is not moved by what that side did not carry.
    """
    point, levels = 10.0, (None, 0.1, 0.5, 0.9)
    first = np.array([[[point, 4.0, 9.0, 13.0]]])
    second = np.array([[[20.0, 12.0, 19.0, 24.0]]])
    nothing = np.zeros((1, 4))
    values, carried = widened(first, levels, nothing)
    assert np.array_equal(values, first)
    assert carried.tolist() == [[0.0, 6.0, 0.0, 3.0]]
    values, carried = widened(second, levels, carried)
    assert values.tolist() == [[[20.0, 10.0, 19.0, 25.0]]]
    assert carried.tolist() == [[0.0, 10.0, 0.0, 5.0]]
    skewed, carried = widened(np.array([[[10.0, 2.0, 5.0, 9.0]]]), levels, nothing)
    assert skewed.tolist() == [[[10.0, 2.0, 5.0, 9.0]]]
    assert carried.tolist() == [[0.0, 8.0, 0.0, 0.0]]


def test_measured_errors_of_a_random_walk_go_on_as_a_random_walk():
    """Errors of a random walk grow with the root of the step: √1, √2, √3, and after h=3 go on with √4, √5, √6, √7."""
    scores = np.broadcast_to(np.sqrt([1.0, 2.0, 3.0]), (1, 9, 3))
    found = Calibration(PredictionIntervals(n_windows=9), np.array(["s"]), scores, np.ones(1))
    values = found.around(np.zeros((1, 7)), found.ids, np.ones(1), named_columns("m", (80,), ()))
    assert values[0, :, 2] == pytest.approx(np.sqrt(np.arange(1.0, 8.0)))


def test_measured_intervals_reach_beyond_the_horizon():
    model = nd.DLinear(h=H, input_size=12)
    fitted = model.fit(walks(), FAST, prediction_intervals=PredictionIntervals(n_windows=5))
    found = widths(fitted.predict(level=[80], h=2 * H + 1))
    assert np.array_equal(found[:, :H], widths(fitted.predict(level=[80])))
    assert (found[:, H] >= found[:, H - 1]).all()
    assert (found[:, 2 * H] >= found[:, 2 * H - 1]).all()


def test_counts_stay_counts():
    """What is added to the lower side does not lead below 0."""
    frame = walks().with_columns(y=(pl.col("y") % 3).floor())
    fitted = nd.DLinear(h=2, input_size=12).fit(frame, FAST.replace(loss=nd.DistributionLoss(distribution="Poisson")))
    assert fitted.predict(level=[80], h=20)["DLinear-lo-80"].min() >= 0


def test_steps_beyond_the_horizon_are_warned_of_once(caplog):
    fitted = nd.DLinear(h=H, input_size=12).fit(walks(), FAST)
    with caplog.at_level(logging.WARNING):
        fitted.predict(h=H)
        assert "extrapolated" not in caplog.text
        fitted.predict(h=2 * H)
        fitted.predict(h=2 * H)
    assert caplog.text.count("steps 7 to 12 are extrapolated") == 1
