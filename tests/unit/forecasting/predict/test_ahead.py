"""Beyond the end of the table: longer horizons, future tables, new rows, other tables."""

import logging
from itertools import product

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.models import LSTM, DeepAR, TSMixer

FAST = nd.TrainingConfig(max_steps=5, progress=False)


def panel(series=3, hours=120):
    return nd.samples.hourly_panel(series, hours)


@pytest.fixture(scope="module")
def fitted():
    return nd.DLinear(h=6, input_size=24).fit(panel(), FAST)


@pytest.fixture(scope="module")
def priced():
    frame = panel(2).with_columns(price=pl.col("ds").dt.hour().cast(pl.Float64))
    return nd.MLP(h=4, input_size=8, hidden_size=4).fit(frame, FAST, future=["price"])


def prices(fitted, h):
    return fitted.make_future_dataframe(h=h).with_columns(price=pl.col("ds").dt.hour().cast(pl.Float64))


def test_a_longer_horizon_feeds_forecasts_back(fitted, caplog):
    """By hand: the second pass sees the last 18 rows and the 6 forecasts of the first."""
    fitted._said.clear()
    with caplog.at_level(logging.INFO):
        long = fitted.predict(h=12)
        fitted.predict(h=12)
    assert caplog.text.count("was trained for h=6") == 1
    short = fitted.predict()
    name = "series-01"
    of = lambda frame: frame.filter(pl.col("unique_id") == name)["DLinear"].to_numpy()  # noqa: E731
    assert np.array_equal(of(long)[:6], of(short))
    y = panel().filter(pl.col("unique_id") == name)["y"].to_numpy()[-18:]
    window = torch.from_numpy(np.concatenate([y, of(short)]).astype(np.float32))[None]
    assert of(long)[6:] == pytest.approx(fitted.forward(window)[0].numpy(), rel=1e-5)


def test_a_shorter_horizon_is_the_beginning(fitted):
    whole = fitted.predict().group_by("unique_id", maintain_order=True).head(2)
    assert fitted.predict(h=2).equals(whole)
    with pytest.raises(nd.ConfigError, match="h must be a whole number of at least 1, but got h=0"):
        fitted.predict(h=0)


def test_a_longer_horizon_needs_the_columns_of_all_its_steps(priced):
    assert priced.predict(future=prices(priced, 10), h=10).height == 20
    with pytest.raises(nd.DataError, match="row for every step of the horizon"):
        priced.predict(future=prices(priced, 6), h=10)


def test_columns_known_only_up_to_now_cannot_be_fed_back():
    frame = panel(2).with_columns(load=pl.col("y") * 2)
    fitted = nd.MLP(h=4, input_size=8, hidden_size=4).fit(frame, FAST, historical=["load"])
    with pytest.raises(nd.DataError, match=r"load are known only for the past \(h=9\). Train with h=9"):
        fitted.predict(h=9)


def test_the_future_table_s_rows_and_what_is_missing_of_them(priced):
    needed = priced.make_future_dataframe()
    assert needed.columns == ["unique_id", "ds"]
    assert needed.height == 8
    assert priced.get_missing_future(needed).height == 0
    lacking = priced.get_missing_future(needed[[0, 1, 3, 4, 5, 6]])
    assert lacking.rows() == needed[[2, 7]].rows()
    assert priced.get_missing_future(needed.head(0)).equals(needed)
    as_text = needed.with_columns(pl.col("ds").dt.to_string("%Y-%m-%d %H:%M:%S")).tail(7)
    assert priced.get_missing_future(as_text).rows() == needed.head(1).rows()
    with pytest.raises(nd.DataError, match="but got none named ds"):
        priced.get_missing_future(needed.drop("ds"))


def test_other_series_and_newer_rows_are_forecast_after_their_own_end(fitted):
    other = nd.samples.hourly_panel(2, 60, seed=5).with_columns(unique_id=pl.col("unique_id") + "-new")
    forecast = fitted.predict(other)
    assert forecast["unique_id"].unique().sort().to_list() == ["series-00-new", "series-01-new"]
    assert forecast["ds"].min() == other["ds"].max() + pl.Series([3_600_000_000]).cast(pl.Duration("us"))[0]


def test_the_quick_way_of_one_clean_series_is_the_usual_way(fitted):
    """A clean polars or pandas frame is read by shortcut; the same rows as an Arrow table go through every check."""
    one = panel().filter(pl.col("unique_id") == "series-01")
    quick, usual = fitted.predict(one), pl.from_arrow(fitted.predict(one.to_arrow()))
    assert quick.equals(usual)
    assert pl.from_pandas(fitted.predict(one.to_pandas())).equals(usual)
    with pytest.raises(nd.DataError, match="must hold numbers"):
        fitted.predict(one.with_columns(y=pl.lit("x")))
    with_gap = pl.concat([one[:50], one[53:]])
    assert fitted.predict(with_gap).height == 6
    assert fitted.predict(one.reverse()).equals(quick), "rows out of order are sorted by the usual way"


def test_a_multivariate_model_forecasts_the_series_it_knows():
    fitted = TSMixer(h=4, input_size=8).fit(panel(), FAST)
    assert fitted.predict(h=9).height == 27
    with pytest.raises(nd.DataError, match="differs in: series-02"):
        fitted.predict(panel(2))


def test_in_sample_forecasts_stand_beside_the_truth(fitted):
    frame = fitted.predict_insample(step_size=6)
    assert frame.columns == ["unique_id", "ds", "cutoff", "y", "DLinear"]
    truth = panel().select("unique_id", "ds", pl.col("y").alias("truth"))
    joined = frame.join(truth, on=["unique_id", "ds"])
    assert (joined["y"] - joined["truth"]).abs().max() < 1e-3
    last = frame.filter(pl.col("unique_id") == "series-01").tail(6)
    y = panel().filter(pl.col("unique_id") == "series-01")["y"].to_numpy()
    window = torch.from_numpy(y[-30:-6].astype(np.float32))[None]
    assert last["DLinear"].to_numpy() == pytest.approx(fitted.forward(window)[0].numpy(), rel=1e-5)
    assert frame["cutoff"].n_unique() == 19, "120 rows in steps of 6 leave 19 origins with a row before"


def test_an_update_goes_on_from_the_weights_and_keeps_the_rest():
    frame = panel(2, 200)
    cut = frame["ds"].unique().sort()[160]
    early, late = frame.filter(pl.col("ds") < cut), frame.filter(pl.col("ds") >= cut)
    fitted = nd.DLinear(h=6, input_size=24).fit(early, nd.TrainingConfig(max_epochs=5, progress=False))
    before = {name: tensor.clone() for name, tensor in fitted.module.state_dict().items()}
    assert fitted.update(late) is fitted
    now = fitted.module.state_dict()
    moved = [float((now[name] - tensor).abs().sum()) for name, tensor in before.items()]
    size = sum(float(tensor.abs().sum()) for tensor in before.values())
    assert 0 < sum(moved) < 0.1 * size, "the weights moved, but did not start over"
    assert len(fitted.history) == 5
    assert fitted.predict()["ds"].min() > late["ds"].max()
    assert (fitted.data.n_series, len(fitted.data)) == (2, 400)


def test_an_update_learns_only_from_what_is_near_the_new_rows():
    """Poison the far past: nothing of it may be looked at."""
    frame = panel(2, 200)
    stamps = frame["ds"].unique().sort()
    early, late = frame.filter(pl.col("ds") < stamps[180]), frame.filter(pl.col("ds") >= stamps[180])
    found = []
    for value in (None, 1e6):
        fitted = nd.DLinear(h=6, input_size=24).fit(early, FAST)
        if value is not None:
            fitted.data.store.y[:50] = value
        found.append(fitted.update(late, FAST.replace(validation_split=None)).history.step_loss)
    assert found[0] == found[1]


def test_an_update_after_loading(tmp_path):
    frame = panel(2, 200)
    stamps = frame["ds"].unique().sort()
    fitted = nd.DLinear(h=6, input_size=24).fit(frame.filter(pl.col("ds") < stamps[180]), FAST)
    fitted.save(tmp_path / "m")
    loaded = nd.load(tmp_path / "m").update(frame.filter(pl.col("ds") >= stamps[180]))
    assert loaded.predict()["ds"].min() > stamps[-1]


def test_fine_tuning_freezes_what_it_is_told_to(fitted):
    other = nd.samples.hourly_panel(2, 100, seed=11)
    model = nd.MLP(h=4, input_size=8, hidden_size=4).fit(panel(), FAST)
    tuned = model.fine_tune(other, FAST, freeze=["network.perceptron.0.*"])
    assert tuned is not model
    own, new = model.module.state_dict(), tuned.module.state_dict()
    changed = {name for name in own if not torch.equal(own[name], new[name])}
    assert changed
    assert not any(name.startswith("network.perceptron.0.") for name in changed)
    rate = model.fine_tune(other).config.optimizer.learning_rate
    assert rate == pytest.approx(0.1 * model.config.optimizer.learning_rate)


def test_fine_tuning_slows_groups_with_a_rate_of_their_own_too():
    group = nd.ParameterGroup(pattern="network.perceptron.0.*", learning_rate=0.02)
    grouped = FAST.replace(optimizer=nd.AdamW(learning_rate=0.01, groups=(group,)))
    model = nd.MLP(h=4, input_size=8, hidden_size=4).fit(panel(), grouped)
    optimizer = model.fine_tune(nd.samples.hourly_panel(2, 100, seed=11)).config.optimizer
    assert optimizer.learning_rate == pytest.approx(0.001)
    assert optimizer.groups[0].learning_rate == pytest.approx(0.002)


def test_weights_and_table_must_belong_together(priced):
    with pytest.raises(nd.ConfigError, match="needs 3"):
        nd.DLinear(h=4, input_size=8).fit(panel(), FAST).fine_tune(panel(), FAST.replace(loss=nd.MQLoss(level=[80])))
    with pytest.raises(nd.DataError, match="trained for future=1, but the table has 0"):
        priced.fine_tune(panel(), FAST, freq="1h")


def test_a_model_without_context_needs_data(fitted, tmp_path):
    fitted.save(tmp_path / "m", context=False)
    loaded = nd.load(tmp_path / "m")
    with pytest.raises(nd.DataError, match="saved with context=False"):
        loaded.predict()
    assert loaded.predict(panel()).equals(fitted.predict())


def test_a_recursive_network_is_told_the_forecast_and_not_its_first_output():
    """With three quantiles the first output is the lowest one; what is fed back must be the median."""
    fitted = LSTM(h=3, input_size=8, recursive=True).fit(panel(), FAST.replace(loss=nd.MQLoss(level=[80])))
    outputs = torch.tensor([[1.0, 5.0, 9.0]])
    assert fitted.network.feedback(outputs).item() == 5.0


HEADED = [nd.ImplicitQuantile(width=4), nd.Weighted(loss=nd.ImplicitQuantile(width=4), by="horizon", decay=0.5)]
COUNTS = [nd.DistributionLoss(distribution=name) for name in ("Poisson", "NegativeBinomial", "Tweedie")]


PERCENT = [nd.MAPE(), nd.SMAPE(), nd.Weighted(loss=nd.MASE(seasonality=1), by="horizon", decay=0.5)]


@pytest.mark.parametrize(
    ("loss", "scaler"),
    [
        *product([*COUNTS, nd.PoissonMixture(), nd.NBMM(), *HEADED], ["robust", "revin", "identity"]),
        *product(PERCENT, ["robust", "invariant"]),
    ],
)
def test_a_recursive_network_is_told_its_forecast_whatever_the_units_of_the_loss(loss, scaler):
    """A window and the forecast of its first step, read as the truth, give what the network said about the second."""
    model = LSTM(h=2, input_size=8, hidden_size=4, layers=1, recursive=True, scaler=scaler, calendar=None)
    counts = panel().with_columns((pl.col("y") * 3).abs().round() + 1)
    module = model.fit(counts, FAST.replace(loss=loss), freq="1h").module
    window = torch.tensor([[3.0, 9.0, 4.0, 7.0, 5.0, 8.0, 6.0, 20.0]]).unsqueeze(-1)
    with torch.no_grad():
        forecast = module.forecast(nd.Batch(window))
        first = module.loss.point(module.original(forecast))[:, :1]
        told = module.scaler.transform(first, forecast.stats)
        scaled, _ = module.as_network_sees(nd.Batch(window))
        _, state = module.network.start(scaled, None)
        second, _ = module.network.advance(told, state, None, 1)
        expected = second if module.head is None else module.head(second)
        if forecast.stats.size is not None:  # windows that are not scaled: parameters in units of the window
            expected = module.loss.natural(expected, forecast.stats.size)
    assert forecast.raw[:, 1, 0].numpy() == pytest.approx(expected[:, 0].numpy(), abs=1e-5)
    if module.head is None and loss not in PERCENT:
        assert abs(float(told) - float(forecast.raw[0, 0, 0, 0])) > 1e-3  # not the first output itself


@pytest.mark.parametrize("model", [LSTM(h=3, input_size=8, hidden_size=4, recursive=True), DeepAR(h=3, input_size=8)])
@pytest.mark.parametrize("loss", PERCENT)
def test_recursive_networks_train_on_bent_values_with_a_loss_in_original_units(model, loss):
    model = model.replace(hidden_size=4, scaler="invariant")
    config = FAST.replace(loss=loss, teacher_forcing=nd.TeacherForcing(start=0.5))
    assert model.fit(panel().with_columns(pl.col("y").abs() + 5), config).predict()[model.kind].is_finite().all()


def test_teacher_forcing_by_chance_tells_the_forecast_of_a_count_too():
    loss = nd.DistributionLoss(distribution="Poisson")
    model = LSTM(h=3, input_size=8, hidden_size=4, layers=1, recursive=True, calendar=None)
    module = model.fit(panel().with_columns(pl.col("y").abs().round()), FAST.replace(loss=loss), freq="1h").module
    window = torch.tensor([[3.0, 9.0, 4.0, 7.0, 5.0, 8.0, 6.0, 20.0]]).unsqueeze(-1)
    module.network.teacher_forcing = 0.0
    with torch.no_grad():
        alone = module.forecast(nd.Batch(window)).raw
        taught = module.train().forecast(nd.Batch(window, target=torch.zeros(1, 3, 1))).raw
    assert taught.numpy() == pytest.approx(alone.numpy(), abs=1e-6)


def test_a_shorter_horizon_needs_the_columns_of_its_own_steps_only(priced):
    """The steps that are not asked for take the last price; where their prices are given, those count."""
    short = prices(priced, 2)
    assert priced.get_missing_future(short, h=2).height == 0
    last = short.group_by("unique_id", maintain_order=True).last()
    more = [last.with_columns(pl.col("ds").dt.offset_by(f"{hours}h")) for hours in (1, 2)]
    repeated = priced.predict(future=pl.concat([short, *more]))
    asked = priced.predict(future=short, h=2)
    assert asked["MLP"].to_list() == repeated.group_by("unique_id", maintain_order=True).head(2)["MLP"].to_list()
    whole = priced.predict(future=prices(priced, 4))
    given = priced.predict(future=prices(priced, 4), h=2)
    assert given["MLP"].to_list() == whole.group_by("unique_id", maintain_order=True).head(2)["MLP"].to_list()
    with pytest.raises(nd.DataError, match="row for every step of the horizon"):
        priced.predict(future=prices(priced, 1), h=2)


def test_further_steps_count_up_to_the_first_that_a_series_does_not_know(priced):
    """Three prices are known: the network sees what it does when the third is written down for the fourth step too."""
    first = prices(priced, 4)["ds"].min()
    fourth = pl.col("ds").dt.offset_by("-3h") == first
    written = prices(priced, 4).with_columns(price=pl.when(fourth).then(pl.col("price") - 1).otherwise("price"))
    expected = priced.predict(future=written, h=2)
    assert not expected.equals(priced.predict(future=prices(priced, 2), h=2))
    short = prices(priced, 4).filter(~fourth | (pl.col("unique_id") == "series-00"))  # one series knows all four
    empty = prices(priced, 4).with_columns(price=pl.when(fourth).then(None).otherwise("price"))
    for future in (prices(priced, 3), short, empty, prices(priced, 3).to_arrow().to_reader()):
        assert priced.predict(future=future, h=2).equals(expected)


def test_only_steps_that_lack_are_passed_over(priced):
    broken = prices(priced, 4).with_columns(pl.col("price").cast(pl.String))
    broken = broken.with_columns(price=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("abc")).otherwise("price"))
    with pytest.raises(nd.DataError, match="'abc' at row 3 of the future table"):
        priced.predict(future=broken, h=2)
    twice = pl.concat([prices(priced, 4), prices(priced, 4)[3:4]])
    with pytest.raises(nd.DataError, match="one row per series and time, but got several"):
        priced.predict(future=twice, h=2)
    with pytest.raises(nd.DataError, match="known ahead, but got no values for the 2 steps after the last row"):
        priced.predict(h=2)
    with pytest.raises(nd.DataError, match=r"at 2024-01-06 01:00:00 \(2 rows are missing in all\)"):
        priced.predict(future=prices(priced, 1), h=2)
    empty = prices(priced, 4).with_columns(price=pl.when(pl.int_range(pl.len()) == 5).then(None).otherwise("price"))
    with pytest.raises(nd.DataError, match="got an empty cell at row 5 of the future table"):
        priced.predict(future=empty, h=2)


def test_the_calendar_goes_on_where_the_future_table_ends():
    frame = panel(1).with_columns(price=pl.lit(1.0))
    fitted = nd.MLP(h=4, input_size=8, hidden_size=4).fit(frame, FAST, future=["price"], features=["hour"])
    prices_of = lambda h: fitted.make_future_dataframe(h=h).with_columns(price=pl.lit(1.0))  # noqa: E731
    assert fitted.predict(future=prices_of(2), h=2).equals(fitted.predict(future=prices_of(4), h=2))


def test_a_future_table_of_another_clock_is_refused_before_its_rows_are_counted(priced):
    zoned = prices(priced, 4).with_columns(pl.col("ds").dt.replace_time_zone("Europe/Berlin"))
    for ask in (priced.get_missing_future, lambda future: priced.predict(future=future)):
        with pytest.raises(nd.DataError, match="must have no time zone, as in the data"):
            ask(zoned)
