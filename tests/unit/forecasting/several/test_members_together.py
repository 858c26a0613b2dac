"""Models that were trained on different tables: aligned by series and time, or refused."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.several.ensemble import Ensemble, ensemble, validation_forecasts

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=0.2)
LEVEL = {"a": 1000.0, "b": 0.0, "c": 10.0}


def table(names, rows=60, start=0):
    times = np.arange(start, start + rows)
    parts = [{"unique_id": [name] * rows, "ds": times, "y": LEVEL[name] + times % 7} for name in names]
    return pl.concat([pl.DataFrame(part) for part in parts])


def linear(rows, input_size=4, **columns):
    return nd.DLinear(h=2, input_size=input_size).fit(rows, FAST, **columns)


def perceptron(rows, input_size=4, **columns):
    return nd.MLP(h=2, input_size=input_size, hidden_size=8).fit(rows, FAST, **columns)


@pytest.fixture(scope="module")
def apart():
    return [linear(table("ab")), linear(table("bc"))]


@pytest.fixture(scope="module")
def shifted():
    return [linear(table("ab")), linear(table("ab", start=5))]


@pytest.mark.parametrize(
    "together", [lambda m: Ensemble(m), nd.NeuralForecast.from_forecasters], ids=["mean", "beside"]
)
def test_series_and_moments_that_do_not_match_are_refused_by_name(apart, shifted, together):
    with pytest.raises(
        nd.DataError, match=r"only member 1 \(DLinear\) has 'a' and only member 2 \(DLinear1?\) has 'c'"
    ):
        together(apart).predict()
    with pytest.raises(nd.DataError, match=r"series 'a' ends at 59 in member 1 \(DLinear\) and at 64 in member 2"):
        together(shifted).predict()


def test_one_table_for_all_members_is_forecast_series_by_series(apart):
    """By hand: the mean of what each member says about the same series and time."""
    rows = table("abc", 40)
    mean = Ensemble(apart).predict(rows)
    both = [member.predict(rows) for member in apart]
    assert mean.select("unique_id", "ds").equals(both[0].select("unique_id", "ds"))
    expected = (both[0].to_numpy()[:, 2] + both[1].to_numpy()[:, 2]).astype(float) / 2
    assert mean["Ensemble"].to_numpy() == pytest.approx(expected, rel=1e-6)


def test_members_that_kept_different_numbers_of_rows_end_at_the_same_moment(tmp_path):
    members = [linear(table("ab"), 4), linear(table("ab"), 12)]
    expected = Ensemble(members).predict()
    Ensemble(members).save(tmp_path / "both")
    assert nd.load(tmp_path / "both").predict().equals(expected)


def test_an_updated_member_forecasts_other_moments_than_the_rest():
    members = [linear(table("ab")), linear(table("ab"))]
    members[0].update(table("ab", 2, start=60))
    with pytest.raises(nd.DataError, match="series 'a' ends at 61 in member 1"):
        Ensemble(members).predict()


def test_members_of_another_unit_are_refused():
    thousands = table("ab").with_columns(pl.col("y") * 1000)
    with pytest.raises(
        nd.DataError, match="the same target in the same unit, but series 'a' has 1003 at 59 in member 1"
    ):
        Ensemble([linear(table("ab")), linear(thousands)]).predict()


def rich():
    return table("ab").with_columns(price=pl.col("y") * 2, visits=pl.col("y") * 3)


@pytest.mark.parametrize("given", [None, rich()], ids=["held back", "validation="])
def test_members_with_different_columns_are_weighted_by_the_same_windows(given):
    """The errors of each member, from its own table at the same moments: 1 / error, by hand."""
    members = [perceptron(rich(), future=["price"]), perceptron(rich(), 8, historical=["visits"])]
    forecasts, truth = validation_forecasts(members, given)
    # Rows 48 to 59 are held back: 11 windows of 2 of each series, whose targets say which rows they are.
    expected = [[LEVEL[name] + row % 7, LEVEL[name] + (row + 1) % 7] for name in "ab" for row in range(48, 59)]
    assert truth.tolist() == expected
    alone = [member.evaluate(rich(), n_windows=11, step_size=1).frame["MLP"].to_numpy() for member in members]
    assert np.sort(forecasts.reshape(2, -1)) == pytest.approx(np.sort(np.stack(alone)), rel=1e-5)
    errors = np.abs(forecasts - truth).mean(axis=(1, 2))
    weights = ensemble(members, "weighted", validation=given).weights
    assert weights == pytest.approx((1 / errors) / (1 / errors).sum())
    assert ensemble(members, "greedy", validation=given).weights.sum() == pytest.approx(1.0)


def test_a_table_without_a_members_columns_is_refused_by_name():
    members = [perceptron(rich(), future=["price"]), perceptron(table("ab"), 8)]
    with pytest.raises(nd.DataError, match="price"):
        ensemble(members, "weighted", validation=nd.TimeSeriesDataFrame.from_frame(table("ab"), freq=1))


def test_members_whose_tables_do_not_hold_the_windows_are_refused_by_moment():
    """The second member has the longer lookback, so its table says where windows begin: the first one's ends before."""
    members = [perceptron(rich().filter(pl.col("ds") < 52), future=["price"]), perceptron(table("ab"), 8)]
    with pytest.raises(nd.DataError, match="lacks rows around 51 of series 'a'"):
        ensemble(members, "weighted")


def test_models_side_by_side_read_a_table_with_the_columns_of_each():
    members = [perceptron(rich(), future=["price"]), perceptron(rich(), 8, historical=["visits"])]
    beside = nd.NeuralForecast.from_forecasters(members)
    ahead = members[0].make_future_dataframe().with_columns(price=pl.lit(2.0))
    expected = [member.predict(rich(), future=ahead) for member in members]
    found = beside.predict(rich(), future=ahead)
    assert found["MLP"].to_list() == expected[0]["MLP"].to_list()
    assert found["MLP1"].to_list() == expected[1]["MLP1"].to_list()


def overfitted(rows):
    """A member that knows its rows by heart, and one that does not."""
    config = nd.TrainingConfig(max_epochs=60, progress=False, validation_split=None, loss=nd.MAE(), seed=1)
    heart = nd.MLP(h=2, input_size=12, hidden_size=128, scaler="identity", alias="heart")
    return heart.fit(rows, config), nd.DLinear(h=2, input_size=12).fit(rows, config.replace(max_epochs=3))


@pytest.fixture(scope="module")
def noise():
    y = np.random.default_rng(3).normal(size=140)
    return pl.DataFrame({"unique_id": ["a"] * 140, "ds": range(140), "y": y})


@pytest.fixture(scope="module")
def pair(noise):
    return overfitted(noise[:110])


def test_weights_look_only_at_rows_that_no_member_was_trained_on(noise, pair):
    """Noise cannot be forecast, so on unseen rows both members are about equally bad: 30 rows, 29 windows of 2."""
    truth = validation_forecasts(pair, noise)[1]
    assert truth.shape == (29, 2)
    assert truth[0].tolist() == pytest.approx(noise["y"][110:112].to_list(), rel=1e-6)
    assert 0.3 < ensemble(pair, "weighted", validation=noise).weights[0] < 0.7
    with pytest.raises(nd.DataError, match="a window of 2 steps that no member was trained on"):
        ensemble(pair, "weighted", validation=noise[:110])


@pytest.mark.parametrize("context", [True, False])
def test_a_loaded_member_is_judged_by_rows_after_those_it_kept(noise, pair, tmp_path, context):
    """With its rows it is known to end at 109; without them, at the latest input_size=12 rows after the one kept."""
    for number, member in enumerate(pair):
        member.save(tmp_path / str(number), context=context)
    loaded = [nd.load(tmp_path / str(number)) for number in range(2)]
    truth = validation_forecasts(loaded, noise)[1]
    assert truth[0].tolist() == pytest.approx(noise["y"][110:112].to_list(), rel=1e-6)
    with pytest.raises(nd.DataError, match="no member was trained on"):
        ensemble(loaded, "weighted", validation=noise[:110])


def test_what_a_model_was_continued_from_was_trained_on_too(noise, pair, tmp_path):
    """The base knows rows 0 to 109 by heart: tuning it on the first 60 does not make the others unseen."""
    tuned = pair[0].fine_tune(noise[:60], FAST.replace(max_steps=1))
    tuned.save(tmp_path / "tuned")
    for member in (tuned, nd.load(tmp_path / "tuned")):
        assert validation_forecasts([member], noise)[1].shape == (29, 2)
    other = pair[0].fine_tune(noise.with_columns(unique_id=pl.lit("new"))[:60], FAST.replace(max_steps=1))
    # A series that the base never saw: what the tuning held back, rows 48 to 59, and all after it.
    assert validation_forecasts([other], noise.with_columns(unique_id=pl.lit("new")))[1].shape == (140 - 48 - 1, 2)
