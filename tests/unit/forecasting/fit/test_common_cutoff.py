"""Unequal panels: validation begins at one time for all series, and nothing is trained on rows after it."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuro_divergent as nd
from neuro_divergent.core import bundle
from neuro_divergent.data.windows.split import common_cutoff, split_at_cutoff, split_by_time
from neuro_divergent.forecasting.fit.training_rows import trained_rows
from neuro_divergent.models import TSMixer
from neuro_divergent.report import training_report

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=0.2)
MODEL = nd.MLP(h=4, input_size=8, hidden_size=4)
DAY = datetime(2024, 1, 1)


def panel(dated=True, **spans):
    """Series by name with their first and last (excluded) day."""
    parts = []
    for name, (first, last) in spans.items():
        days = [DAY + timedelta(days=day) for day in range(first, last)] if dated else list(range(first, last))
        y = 10 + np.sin(np.arange(first, last) / 3) + np.arange(first, last) / 50
        parts.append(pl.DataFrame({"unique_id": name, "ds": days, "y": y}))
    return pl.concat(parts)


def test_the_cutoff_leaves_a_share_of_all_rows():
    """By hand: 200 rows, of which 40 are wanted. The last 30 days hold 30 rows of b alone; from day 65 on it is 35 of b
    and 5 of a."""
    data = nd.TimeSeriesDataFrame.from_frame(panel(a=(0, 70), b=(0, 100), c=(10, 40)))
    assert common_cutoff(data.store, 0.2, 4) == np.datetime64(DAY + timedelta(days=65))
    split = split_at_cutoff(data.store, 0.2, 4, lookback=8)
    assert split.train[1].tolist() == [65, 65, 30]
    assert split.validation[1].tolist() == [70, 100, 30]


spans = st.tuples(st.integers(0, 60), st.integers(6, 60)).map(lambda pair: (pair[0], sum(pair)))


@settings(max_examples=40, deadline=None)
@given(spans=st.lists(spans, min_size=2, max_size=5), percent=st.integers(5, 60), h=st.integers(1, 6))
def test_the_cutoff_is_the_latest_day_that_leaves_enough(spans, percent, h):
    """Every day tried in turn with polars, from the newest one back."""
    frame = panel(**{f"s{number}": span for number, span in enumerate(spans)})
    newest = frame["ds"].max() - timedelta(days=h - 1)
    days = (newest - timedelta(days=back) for back in range(200))
    expected = next(day for day in days if 100 * frame.filter(pl.col("ds") >= day).height >= percent * frame.height)
    store = nd.TimeSeriesDataFrame.from_frame(frame, freq="1d").store
    assert common_cutoff(store, percent / 100, h) == np.datetime64(expected)
    rows = split_at_cutoff(store, percent / 100, h).train[1]
    trained = [frame.filter((pl.col("unique_id") == name) & (pl.col("ds") < expected)).height for name in store.ids]
    assert rows.tolist() in (trained, store.lengths.tolist())


@pytest.mark.parametrize(("rows", "series", "share", "h"), [(100, 3, 0.2, 4), (97, 7, 0.3, 4), (50, 2, 0.05, 6)])
def test_series_of_the_same_days_are_cut_as_before(rows, series, share, h):
    data = nd.TimeSeriesDataFrame.from_frame(panel(**{f"s{n}": (0, rows) for n in range(series)}))
    new, old = (cut(data.store, share, h, lookback=8) for cut in (split_at_cutoff, split_by_time))
    assert new.train[1].tolist() == old.train[1].tolist()


def test_nothing_after_the_cutoff_is_trained_on():
    """The series that ends later may not teach what the other one is validated on: all its later rows are changed."""
    rows = panel(a=(0, 80), b=(0, 120))
    config = FAST.replace(early_stopping=None)
    clean = MODEL.fit(rows, config)
    cutoff = DAY + timedelta(days=80)  # 200 rows: the last 40 days of b
    assert trained_rows(clean, clean.data).tolist() == [80, 80]
    later = rows.with_columns(y=pl.when(pl.col("ds") >= cutoff).then(-(pl.col("y") ** 2)).otherwise("y"))
    again = MODEL.fit(later, config)
    assert again.history.step_loss == clean.history.step_loss
    assert again.history.validation_loss != clean.history.validation_loss
    assert again.config.split_by == "date"
    assert "validated on the rows from 2024-03-21 00:00:00 on, one cutoff for all series" in repr(clean)
    each = MODEL.fit(rows, config.replace(split_by="series"))
    assert trained_rows(each, each.data).tolist() == [64, 96]
    assert "validated on the last 20 % of each series" in repr(each)
    said = training_report(clean).render()
    assert "Held out were the rows from 2024-03-21 00:00:00 on, one cutoff for all series." in said


def test_the_model_knows_its_cutoff_after_it_was_saved(tmp_path):
    fitted = MODEL.fit(panel(a=(0, 80), b=(0, 120)), FAST)
    fitted.save(tmp_path / "model")
    read = nd.load(tmp_path / "model")
    assert repr(read) == repr(fitted)
    whole = nd.TimeSeriesDataFrame.from_frame(panel(a=(0, 80), b=(0, 120)))
    assert trained_rows(read, whole).tolist() == [80, 80]


def test_whole_numbers_are_no_calendar():
    fitted = MODEL.fit(panel(dated=False, a=(0, 80), b=(0, 120)), FAST)
    assert fitted.config.split_by == "series"
    assert trained_rows(fitted, fitted.data).tolist() == [64, 96]
    asked = MODEL.fit(panel(dated=False, a=(0, 80), b=(0, 120)), FAST.replace(split_by="date"))
    assert trained_rows(asked, asked.data).tolist() == [80, 80]


@pytest.mark.parametrize("model", [MODEL, TSMixer(h=4, input_size=8)])
def test_series_that_begin_or_end_at_the_cutoff(model, caplog):
    """Of 200 rows the last 20 days have 40: `late` begins then and does not train, `over` has nothing to validate."""
    rows = panel(a=(0, 120), over=(0, 60), late=(100, 120))
    fitted = model.fit(rows, FAST, short="pad")
    assert trained_rows(fitted, fitted.data).tolist() == [100, 0, 60]
    assert len(fitted.history.validation_loss) > 0
    assert "1 of 3 series begin too late to train before the validation cutoff" in caplog.text


def test_a_local_scaler_measures_a_series_without_training_rows_by_what_it_has():
    rows = panel(a=(0, 120), late=(100, 120))
    many = nd.NeuralForecast([MODEL], local_scaler_type="standard").fit(rows, FAST, short="pad")
    assert np.isfinite(many.predict()["MLP"].to_numpy()).all()


def test_where_nothing_is_left_to_train_on_before_the_cutoff_nothing_is_held_back(caplog):
    fitted = MODEL.fit(panel(a=(0, 14), b=(2, 14)), FAST)
    assert "training without validation" in caplog.text
    assert trained_rows(fitted, fitted.data).tolist() == [14, 12]


def test_folds_of_a_dated_panel_share_their_cutoffs():
    """Two horizons of 4 before day 120. The series that ends at day 117 has one row less in the last, and the one that
    ended at 80 is never tested."""
    rows = panel(a=(0, 120), b=(0, 117), over=(0, 80))
    run = nd.cross_validation([MODEL], rows, config=FAST, n_windows=2)
    days = [(cutoff - DAY).days for cutoff in run.frame["cutoff"].unique().sort()]
    assert days == [111, 115]
    assert run.frame.group_by("unique_id", maintain_order=True).len().rows() == [("a", 8), ("b", 5)]
    counted = nd.cross_validation([MODEL], panel(dated=False, a=(0, 120), b=(0, 117)), config=FAST, n_windows=2)
    assert counted.frame["cutoff"].unique().sort().to_list() == [108, 111, 112, 115]


class StopAt(nd.Callback):
    def __init__(self, step):
        self.step = step

    def on_batch_end(self, state):
        if state.step == self.step:
            state.stop("the test asked for it")


def test_a_run_of_a_version_without_dates_goes_on_series_by_series(tmp_path):
    """What such a run left: checkpoints whose configuration has no field split_by."""
    rows, where = panel(a=(0, 80), b=(0, 120)), nd.Checkpoints(str(tmp_path / "run"), every_n_steps=2)
    config = FAST.replace(checkpoints=where, max_steps=6)
    whole = MODEL.fit(rows, config.replace(checkpoints=None, split_by="series"))
    MODEL.fit(rows, config.replace(split_by="series", callbacks=(StopAt(3),)))
    for place in (tmp_path / "run" / "checkpoints").iterdir():
        files = bundle.read(place)
        name = next(name for name in files if name.endswith(".json") and b'"split_by"' in files[name])
        files[name] = files[name].replace(b'"split_by":"series",', b"").replace(b'"split_by": "series",', b"")
        assert b"split_by" not in files[name]
        bundle.write(place, files, overwrite=True)
    resumed = MODEL.fit(rows, config, resume="auto")
    assert resumed.config.split_by == "series"
    assert resumed.history.step_loss == whole.history.step_loss


@pytest.mark.parametrize("refit", [False, True])
def test_a_series_that_begins_after_the_cutoff_is_scaled_by_its_own_rows(refit, tmp_path):
    """Nothing of it was trained on, so it is measured where it is forecast, like any new series: near its level."""
    rng = np.random.default_rng(0)
    rows = panel(a=(0, 100), b=(0, 100), late=(88, 100))
    level = pl.when(pl.col("unique_id") == "late").then(1e5).otherwise(10.0)
    rows = rows.with_columns(y=level * (1 + 0.01 * pl.Series(rng.normal(size=len(rows)))))
    model = MODEL.replace(scaler="identity")
    fitted = model.fit(rows, FAST.replace(refit_on_all=refit), local_scaler="standard", short="drop")
    own = rows.filter(unique_id="late")["y"]
    expected = fitted.predict().filter(unique_id="late")["MLP"].to_numpy()
    assert np.abs(expected - own.mean()).max() < 20 * own.std()

    fitted.save(tmp_path / "model")
    again = nd.load(tmp_path / "model").predict().filter(unique_id="late")["MLP"].to_numpy()
    np.testing.assert_allclose(again, expected, rtol=1e-6)
