"""The usual season of short tables, and the means of the last seasons."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.losses import MAE
from neuro_divergent.search.auto.naive import is_naive, naive_forecaster
from neuro_divergent.search.auto.portfolio import portfolio
from neuro_divergent.search.auto.profile import profile_of


def rows_of(y):
    """A frame of quarterly series from [S, T]."""
    dates = pl.datetime_range(pl.datetime(2010, 1, 1), pl.datetime(2040, 1, 1), "3mo", eager=True)[: y.shape[1]]
    frames = [pl.DataFrame({"unique_id": str(number), "ds": dates, "y": row}) for number, row in enumerate(y)]
    return pl.concat(frames)


def quarterly(y):
    """A table of quarterly series from [S, T]."""
    return nd.TimeSeriesDataFrame.from_frame(rows_of(y), freq="1q")


@pytest.mark.parametrize(("h", "season", "mean"), [(8, 4, 3), (3, 4, 8), (5, 1, 3), (9, 4, 2)])
def test_the_mean_of_the_last_seasons_by_hand(h, season, mean):
    y = np.random.default_rng(1).normal(10, 2, (3, 60))
    fitted = naive_forecaster(quarterly(y), h, season, MAE(), mean=mean)
    assert is_naive(fitted)
    last = y[:, -mean * season :].reshape(3, mean, season).mean(axis=1)
    expected = np.tile(last, (1, -(-h // season)))[:, :h]
    found = fitted.predict()[fitted.model.name].to_numpy().reshape(3, h)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_mean_wins_where_series_are_noise_around_their_seasons(tmp_path):
    """Independent noise: the mean of 8 seasons has an error variance of 1 + 1/8, the last season of 2."""
    draw = np.random.default_rng(2)
    y = np.tile([10.0, 14.0, 8.0, 12.0], 20) + draw.normal(0, 2, (20, 80))
    auto = nd.AutoForecaster(h=4, include=[nd.NLinear(h=4, input_size=4)], search=False, time_limit=20, progress=False)
    found = auto.fit(quarterly(y))
    board = found.leaderboard
    assert board.row("mean of 8 seasons (4)").weight > 0
    ratio = board.row("mean of 8 seasons (4)").score / board.row("seasonal naive (4)").score
    assert ratio == pytest.approx((1.125 / 2) ** 0.5, rel=0.15)
    found.save(tmp_path / "saved")
    assert nd.load(tmp_path / "saved").predict().equals(found.predict())
    later = found.update(rows_of(np.hstack([y, y[:, :4]])).group_by("unique_id").tail(4))
    assert any(member.model.name == "mean of 8 seasons (4)" and is_naive(member) for member in later.members)


def test_the_usual_season_of_short_series_is_taken_if_it_forecasts():
    """Nine quarters are too few for a test of the autocorrelation."""
    draw = np.random.default_rng(3)
    rows = np.full(6, 12)
    seasonal = np.tile([10.0, 14.0, 8.0, 12.0], 4) + draw.normal(0, 2.0, (6, 16))
    walk = draw.normal(size=(6, 16)).cumsum(axis=1)
    profile = profile_of(quarterly(walk), 4, rows)
    assert (profile.seasons, profile.confirmed) == ((), True)
    profile = profile_of(quarterly(seasonal[:2]), 4, rows[:2])
    assert (profile.seasons, profile.confirmed) == ((4,), False)
    assert "the usual one" in profile.words()
    wanted, _ = portfolio(profile, "fast", "mase", (80,), 1)
    assert next(one for one in wanted if one.model.kind == "MLP").model.anchor == (4,)
    poisoned = seasonal[:2].copy()
    poisoned[:, 12:] = 1e6 * draw.normal(size=(2, 4))  # rows after the first twelve decide nothing
    assert profile_of(quarterly(poisoned), 4, rows[:2]).seasons == (4,)


def test_series_that_do_not_change_get_a_reason():
    auto = nd.AutoForecaster(h=3, include=["NLinear"], search=False, time_limit=10, progress=False)
    found = auto.fit({"ds": range(60), "y": [3.0] * 60})
    assert list(found.predict()["AutoForecaster"]) == [3.0] * 3
    assert any("not defined" in sentence for sentence in found.reasons)
    assert not any("nan" in sentence for sentence in found.reasons)
