"""`fitted.predictor()`: the numbers of the forecaster, without the training; new rows; several threads."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.data.scaling.per_series import series_scaler
from neuro_divergent.forecasting.predict.local_scaling import LocalScaling

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=None)
L, H = 12, 4


def panel(rows=60, series=3):
    frame = nd.samples.hourly_panel(series, 200)
    frame = frame.upsample("ds", every="1h", group_by="unique_id", maintain_order=True).fill_null(strategy="forward")
    return frame.group_by("unique_id", maintain_order=True).head(rows)


def later(first, count=1, series=3):
    """The rows after the first ones of the same panel."""
    return panel(first + count, series).group_by("unique_id", maintain_order=True).tail(count)


def model(**fields):
    return nd.MLP(h=H, input_size=L, hidden_size=8, **fields)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(panel(), FAST)


CASES = {
    "mean": {"loss": nd.MSE()},
    "quantiles": {"loss": nd.MQLoss(level=[80, 95])},
    "distribution": {"loss": nd.DistributionLoss(distribution="StudentT", level=[80])},
    "implicit": {"loss": nd.ImplicitQuantile()},
    "float64": {"precision": "float64"},
}


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_the_numbers_are_those_of_the_forecaster(changes):
    own = model(anchor="last").fit(panel(), FAST.replace(**changes))
    predictor = own.predictor()
    asked = [{}, {"h": 2}, {"h": 3 * H}] + ([{"level": [80]}, {"quantiles": [0.2, 0.7]}] if "loss" in changes else [])
    asked = asked[:3] if changes.get("loss") == nd.MSE() else asked
    other = panel(40).with_columns(unique_id="other " + pl.col("unique_id"))
    for options in asked:
        for frame in (None, other, panel(series=1), panel(series=1).to_pandas(), other.to_pandas()):
            expected, found = own.predict(frame, **options), predictor.predict(frame, **options)
            assert type(found) is type(expected)
            assert found.equals(expected)


@pytest.mark.parametrize("scaler", ["standard", "robust", "minmax", "boxcox"])
def test_local_scalers_and_measured_errors(scaler):
    options = {"prediction_intervals": nd.PredictionIntervals(n_windows=2), "short": "drop"}
    frame = pl.concat([panel(), panel(20, 1).with_columns(unique_id=pl.lit("young"), y=pl.col("y") + 1000)])
    own = nd.NeuralForecast([model(scaler="identity")], local_scaler_type=scaler).fit(frame, FAST, **options)["MLP"]
    # As if the young series had been too short to be trained on: it is scaled by the rows it has, also those before
    # the context.
    trained = own.local.ids != "young"
    arrays = {name: array[trained] for name, array in own.local.scaler.to_arrays().items()}
    own.local = LocalScaling(scaler, series_scaler(scaler).from_arrays(arrays), own.local.ids[trained])
    short = frame.filter(pl.col("unique_id") == "young").tail(14)
    assert own.predictor().predict(level=[80]).equals(own.predict(level=[80]))
    assert own.predictor().predict(short, level=[80]).equals(own.predict(short, level=[80]))


def test_intervals_of_series_that_were_not_measured_are_as_wide_as_before():
    own = model().fit(panel(), FAST)
    own.calibrate(panel(80, 1), nd.PredictionIntervals(n_windows=2))
    assert own.predictor().predict(level=[80]).equals(own.predict(level=[80]))


def test_columns_and_features():
    frame = panel(70).with_columns(
        price=pl.col("ds").dt.hour().cast(pl.Float64),
        load=pl.col("y") * 0.5,
        day=pl.col("ds").dt.weekday().cast(pl.String),
        size=pl.col("unique_id").str.slice(-1).cast(pl.Float64),
    )
    past, future = frame.filter(pl.col("ds") < frame["ds"].max() - timedelta(hours=H - 1)), frame.drop("y", "load")
    roles = {"future": ["price"], "historical": ["load"], "static": ["size"], "categorical": ["day"]}
    own = model().fit(past, FAST, **roles, features=["hour", "lag:24"])
    predictor = own.predictor()
    assert predictor.predict(future=future).equals(own.predict(future=future))
    assert predictor.predict(past.to_pandas(), future=future).equals(own.predict(past.to_pandas(), future=future))
    with pytest.raises(nd.DataError, match="are known ahead"):
        predictor.predict()


@pytest.mark.parametrize("inner", [nd.NLinear(h=H, input_size=L), nd.TSMixer(h=H, input_size=L, hidden_size=8)])
def test_a_hierarchy_is_reconciled_and_grows_as_a_whole(inner):
    total = panel(63).group_by("ds", maintain_order=True).agg(unique_id=pl.lit("total"), y=pl.col("y").sum())
    rows = pl.concat([panel(63), total.select("unique_id", "ds", "y")])
    S = {"series-00": [1, 0, 0], "series-01": [0, 1, 0], "series-02": [0, 0, 1], "total": [1, 1, 1]}
    known = rows.group_by("unique_id", maintain_order=True).head(60)
    own = nd.HINT(model=inner, S=S).fit(known, FAST.replace(loss=nd.MQLoss(level=[80])))
    predictor = own.predictor()
    assert predictor.predict(level=[80]).equals(own.predict(level=[80]))
    new = rows.group_by("unique_id", maintain_order=True).tail(3)
    with pytest.raises(nd.DataError, match=r"before the last one|must end together"):
        predictor.observe(new.filter(pl.col("unique_id") == "total"))
    assert predictor.observe(new).predict().equals(own.predict(rows))
    with pytest.raises(nd.DataError, match="reconciles the forecasts of all series"):
        predictor.predict_array(np.zeros((1, L)))


def test_draws_of_a_network_that_makes_its_own_paths():
    config = FAST.replace(loss=nd.DistributionLoss(distribution="Normal", level=[80]))
    own = nd.DeepAR(h=H, input_size=L, hidden_size=8, layers=1).fit(panel(), config)
    assert own.predictor().predict(level=[50]).equals(own.predict(level=[50]))


def test_it_keeps_nothing_of_the_training_but_the_weights():
    own = model().fit(panel(200), FAST)
    predictor, expected = own.predictor(), own.predict()
    assert [one.data_ptr() for one in predictor.module.parameters()] == [
        one.data_ptr() for one in own.module.parameters()
    ]
    assert predictor.data.store.lengths.tolist() == [L] * 3
    gone = [weakref.ref(item) for item in (own, own.history, own.config, own.data, own.data.store, own.data.store.y)]
    del own
    gc.collect()
    assert [item() for item in gone] == [None] * len(gone)
    assert predictor.predict().equals(expected)


def test_what_the_forecaster_becomes_later_does_not_change_it():
    own = model().fit(panel(), FAST.replace(loss=nd.MQLoss(level=[80])))
    predictor, expected = own.predictor(), own.predict()
    own.point = "mean"
    own.module.train()
    own.update(later(60, 6), FAST)
    assert not own.predict().equals(expected)
    assert predictor.predict().equals(expected)
    assert not predictor.module.training


def test_a_loaded_model_and_one_without_rows(fitted, tmp_path):
    fitted.save(tmp_path / "with")
    fitted.save(tmp_path / "without", context=False)
    assert nd.load(tmp_path / "with").predictor().predict().equals(fitted.predict())
    bare = nd.load(tmp_path / "without").predictor()
    assert "without rows" in repr(bare)
    with pytest.raises(nd.DataError, match="context=False"):
        bare.predict()
    assert bare.predict(panel()).equals(fitted.predict())
    assert bare.observe(panel()).predict().equals(fitted.predict())


def test_its_size_and_its_name(fitted):
    predictor = fitted.predictor()
    weights = sum(tensor.nbytes for tensor in fitted.module.state_dict().values())
    rows = 3 * L * 4
    assert weights + rows < predictor.num_bytes < weights + rows + 1000
    last = panel()["ds"].max()
    assert repr(predictor) == f"Predictor(MLP: h=4, input_size=12, 3 series up to {last}, 0.0 MB)"


@pytest.mark.parametrize("as_pandas", [False, True])
def test_observed_rows_give_the_forecast_of_the_longer_table(fitted, as_pandas):
    predictor = fitted.predictor()
    for count in range(60, 63):  # one row of one series at a time
        for (name,), row in later(count).group_by("unique_id", maintain_order=True):
            predictor.observe(row.to_pandas() if as_pandas else row)
            assert predictor.data.ids[predictor.data.store.lengths != L].tolist() == [], name
    assert predictor.predict().equals(fitted.predict(panel(63)))
    predictor.observe(later(63, 30).to_pandas() if as_pandas else later(63, 30))
    assert predictor.predict().equals(fitted.predict(panel(93)))
    assert predictor.data.store.lengths.tolist() == [L] * 3


@pytest.mark.parametrize("kind", [pl.Datetime("ns"), pl.Datetime("ms"), pl.String])
def test_forecasts_keep_their_time_stamps_whatever_the_type_of_new_ones(fitted, kind):
    predictor = fitted.predictor()
    for rows in (later(60), later(61).head(1), later(61).tail(2)):
        predictor.observe(rows.with_columns(pl.col("ds").cast(kind)))
    assert predictor.predict().equals(fitted.predict(panel(62)))
    assert predictor.predict().schema == fitted.predict().schema


def test_short_and_new_series_grow():
    own = model().fit(panel(), FAST)
    predictor = own.predictor()
    new = panel(20, 1).with_columns(unique_id=pl.lit("new"))
    for first, last in ((0, 3), (3, 4), (4, 16), (16, 20)):
        predictor.observe(new[first:last])
        assert predictor.predict().filter(pl.col("unique_id") == "new").equals(own.predict(new[:last]))
    assert predictor.predict().height == 4 * H


def test_a_new_series_is_scaled_by_its_rows_until_the_context_is_full():
    options = {"local_scaler": "standard", "prediction_intervals": nd.PredictionIntervals(n_windows=2)}
    own = model(scaler="identity", anchor=None).fit(panel(), FAST, **options)
    ramp = pl.int_range(pl.len()).cast(pl.Float64)
    new = panel(40, 1).with_columns(unique_id=pl.lit("new"), y=pl.col("y") * 1.1**ramp)

    def forecast(*ends):
        predictor = own.predictor()
        for first, last in pairwise([0, *ends]):
            predictor.observe(new[first:last])
        return predictor.predict(level=[80]).filter(pl.col("unique_id") == "new")

    # As long as no row has left the context, and for the first rows however many: as the forecaster does it.
    for ends in ((40,), (1, 2, 3), (5, L), (3, 4, L + 9)):
        expected = own.predict(new[: ends[-1]], level=[80])
        for name in expected.columns[2:]:
            np.testing.assert_allclose(forecast(*ends)[name], expected[name], rtol=1e-5)
    # Then the scale stays, whether rows come one by one or together.
    assert forecast(*range(L, 30)).equals(forecast(L, 29))
    widths = [(frame["MLP-hi-80"] - frame["MLP-lo-80"]).to_numpy() for frame in (forecast(L), forecast(L, 29))]
    np.testing.assert_allclose(widths[0], widths[1], rtol=1e-4)


def test_a_gap_is_treated_as_in_the_training_data(fitted):
    predictor = fitted.predictor()
    rows = panel(66).filter(pl.int_range(pl.len()).over("unique_id").is_between(60, 62).not_())
    predictor.observe(rows.group_by("unique_id", maintain_order=True).tail(3))
    assert predictor.predict().equals(fitted.predict(rows))
    assert predictor.data.store.mask.sum() == 3 * (L - 3)
    predictor.observe(later(66).filter(pl.col("unique_id") == "series-01"))  # rows with a mask grow quickly too
    rows = pl.concat([rows, later(66).filter(pl.col("unique_id") == "series-01")]).sort("unique_id", "ds")
    assert predictor.predict().equals(fitted.predict(rows))


def test_months_count_on_from_their_own_grid():
    """February has no 30th: a row of the 28th stands for it, and the forecast goes on with the 30th of March."""
    days = [pd.Timestamp("2019-03-30") + pd.DateOffset(months=month) for month in range(60)]
    frame = pd.DataFrame({"ds": days, "y": np.sin(np.arange(60.0))})
    own = model().fit(frame[:40], FAST)
    predictor = own.predictor()
    for row in range(40, 48):
        predictor.observe(frame[row : row + 1])
    found = predictor.predict()
    assert found["ds"].tolist() == days[48:52]
    assert found.equals(own.predict(frame[:48]))
    assert predictor.predict(frame[30:48]).equals(found)
    assert days[11] == pd.Timestamp("2020-02-29")
    assert predictor.predict(frame[11:12])["ds"].tolist() == days[12:16]


REFUSED = {
    "a known row": (later(59), "must come after the known rows.*known up to"),
    "known and new rows": (later(58, 4), "must come after the known rows"),
    "another minute": (later(60).with_columns(pl.col("ds") + timedelta(minutes=30)), "must follow the frequency"),
    "no number": (later(60).with_columns(y=pl.lit("x")), "must hold numbers"),
    "a row twice": (pl.concat([later(60), later(60)]), "(?i)duplicate|twice|several rows|more than one"),
    "another column": (later(60).drop("y"), "y"),
}


@pytest.mark.parametrize(("rows", "rule"), REFUSED.values(), ids=REFUSED)
def test_refused_rows_change_nothing(fitted, rows, rule):
    predictor = fitted.predictor()
    known, expected = predictor.data, predictor.predict()
    good = later(60).filter(pl.col("unique_id") == "series-00")
    if rows.columns == good.columns and rows.schema == good.schema:  # one bad series keeps out a good one
        rows = pl.concat([good, rows.filter(pl.col("unique_id") != "series-00")])
    with pytest.raises(nd.DataError, match=rule):
        predictor.observe(rows)
    assert predictor.data is known
    assert predictor.predict().equals(expected)


def test_a_multivariate_model_takes_rows_of_all_of_its_series():
    own = nd.TSMixer(h=H, input_size=L, hidden_size=8).fit(panel(), FAST)
    predictor = own.predictor()
    with pytest.raises(nd.DataError, match="ends 1 steps before the last one"):
        predictor.observe(later(60).filter(pl.col("unique_id") == "series-00"))
    with pytest.raises(nd.DataError, match="differs in: new"):
        predictor.observe(panel(61, 1).with_columns(unique_id=pl.lit("new")))
    assert predictor.observe(later(60)).predict().equals(own.predict(panel(61)))


def test_threads_that_forecast_and_observe_get_what_one_thread_gets(fitted, request):
    """Each moment has one forecast, made before by one thread; threads see the moments in order and no other number."""
    frames = [panel(40 + 3 * number, 1) for number in range(6)]
    others = [frame.with_columns(unique_id=pl.lit("other")).to_pandas() for frame in frames]
    windows = [np.random.default_rng(number).normal(size=(number + 1, L)) for number in range(6)]
    moments = [fitted.predict(panel(60 + number)) for number in range(21)]
    by_frame = [fitted.predict(frame) for frame in others]
    plain = fitted.predictor()
    by_window = [plain.predict_array(window) for window in windows]
    predictor = fitted.predictor()

    def forecast(worker):
        seen = []
        for turn in range(40):
            number = (worker + turn) % 6
            assert predictor.predict(others[number]).equals(by_frame[number])
            assert np.array_equal(predictor.predict_array(windows[number]), by_window[number])
            found = predictor.predict()
            seen.append(next(place for place, moment in enumerate(moments) if found.equals(moment)))
        return seen

    def observe():
        for number in range(20):
            predictor.observe(later(60 + number))

    def refused():
        for _ in range(20):
            with pytest.raises(nd.DataError):
                predictor.observe(later(50))

    threads, interval = torch.get_num_threads(), sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    sys.setswitchinterval(1e-6)  # threads take turns in the middle of everything
    with ThreadPoolExecutor(6) as pool:
        workers = [pool.submit(forecast, worker) for worker in range(4)]
        jobs = [pool.submit(observe), pool.submit(refused)]
        seen = [worker.result() for worker in workers]
        assert [job.result() for job in jobs] == [None, None]
    assert all(places == sorted(places) for places in seen)
    assert predictor.predict().equals(moments[20])
    assert torch.get_num_threads() == threads


def test_rows_that_several_threads_observe_are_all_kept(fitted, request):
    interval = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    sys.setswitchinterval(1e-6)
    predictor = fitted.predictor()

    def observe(name):
        for row in range(60, 80):
            predictor.observe(later(row).filter(pl.col("unique_id") == name))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(observe, ["series-00", "series-01", "series-02"]))
    assert predictor.predict().equals(fitted.predict(panel(80)))


def test_weights_that_somebody_trains_on_are_asked_without_dropout():
    own = nd.NHITS(h=H, input_size=L, hidden_sizes=(8,), dropout=0.9).fit(panel(), FAST)
    predictor, expected = own.predictor(), own.predict()
    own.module.train()
    assert predictor.predict().equals(expected)
