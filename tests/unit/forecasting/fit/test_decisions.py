"""What is decided from data is decided by training rows: all held-out rows may change, the training stays the same.

The held-out rows of these tables are known: the last fifth, from one day on.
"""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.core import bundle
from neuro_divergent.forecasting.evaluate.cross_validation import cross_validation
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.network.output_columns import named_columns
from neuro_divergent.forecasting.predict.historical import Origins

CONFIG = nd.TrainingConfig(max_steps=4, progress=False, validation_split=0.2, early_stopping=None)
MODEL = nd.MLP(h=4, input_size=24, hidden_size=4)
ROWS, CUT = 150, 120
ROLES = {"categorical": ["kind", "shop"], "historical": ["past"], "future": ["price", "kind"], "weight": "w"}


def panel(poisoned=False, series=4, missing=False):
    """Series with a season of 7 and different noise; poisoned, all of the last fifth is something else."""
    draw, parts = np.random.default_rng(1), []
    for number in range(series):
        noise = draw.normal(size=ROWS)
        step = np.arange(ROWS)
        y = 10 + 3 * np.sin(step * 2 * np.pi / 7) + 0.1 * (number + 1) * noise
        kind = np.where(step % 3 == 0, "m", "q").astype(object)
        past, price, weight = step % 5 * 1.0, step % 4 * 1.0, np.ones(ROWS)
        if poisoned:
            late = step[CUT:]
            y[CUT:] = 900 * np.sin(late * 2 * np.pi / 10) + 500 * (series - number) * noise[CUT:]
            kind[CUT:] = np.where(late % 2 == 0, "a new one", "zz")
            past[CUT:], price[CUT:], weight[CUT:] = -7e3, 7e3, 9.0
        days = [datetime(2024, 1, 1) + timedelta(days=int(day)) for day in step]
        columns = {"unique_id": f"s{number}", "ds": days, "y": y, "past": past, "price": price, "w": weight}
        parts.append(pl.DataFrame(columns | {"kind": kind.tolist(), "shop": f"shop {number}"}))
    frame = pl.concat(parts)
    if poisoned and missing:
        gone = pl.col("ds") >= datetime(2024, 1, 1) + timedelta(days=CUT + 2)
        frame = frame.with_columns(y=pl.when(gone).then(None).otherwise("y"))
    return frame


def same_training(model, config, missing=False, **columns):
    """The models of the clean table and of the poisoned one, which must be the same but for their validation."""
    clean, other = (model.fit(panel(poisoned, missing=missing), config, **columns) for poisoned in (False, True))
    assert other.anchor == clean.anchor
    assert other.history.step_loss == clean.history.step_loss
    weights, others = clean.module.state_dict(), other.module.state_dict()
    assert weights.keys() == others.keys()
    assert all(bool((others[name] == tensor).all()) for name, tensor in weights.items())
    assert other.history.validation_loss != clean.history.validation_loss, "the poison was there to be seen"
    return clean, other


@pytest.mark.parametrize("anchor", ["auto", "seasonal"])
def test_seasons_of_an_anchor(anchor):
    clean, _ = same_training(MODEL.replace(anchor=anchor), CONFIG)
    assert clean.anchor == (7, 14)


def test_which_series_are_easy():
    same_training(MODEL, CONFIG.replace(curriculum=nd.EasySeriesFirst(start=0.25, share=1.0)))


def test_weights_by_a_function_that_looks_at_all_it_is_given():
    def rare(time, value):
        return 1 + np.abs(value - value.mean()) / value.std() + (time - time.min()) / (time.max() - time.min())

    same_training(MODEL, CONFIG.replace(loss=nd.Weighted(loss=nd.MAE(), by=rare)))


def test_categories_columns_and_weights():
    model = nd.NHITS(h=4, input_size=24, hidden_sizes=(8,))
    clean, other = same_training(model, CONFIG, **ROLES)
    assert other.data.store.categories["kind"] == ("m", "q")
    codes = other.data.store.categorical[:, list(other.data.store.categories).index("kind")].reshape(-1, ROWS)
    assert (codes[:, CUT:] == 0).all(), "unknown"
    assert (codes[:, :CUT] == np.where(np.arange(CUT) % 3 == 0, 1, 2)).all()
    whole = nd.TimeSeriesDataFrame.from_frame(panel(poisoned=True), **ROLES)
    assert whole.store.categories["kind"] == ("a new one", "m", "q", "zz")
    future = other.make_future_dataframe().with_columns(price=pl.lit(1.0), kind=pl.lit("zz"))
    assert other.predict(whole, future=future).equals(other.predict(panel(poisoned=True), future=future))
    assert model.num_parameters(panel(poisoned=True), CONFIG, **ROLES).total == clean.num_parameters
    assert other.fine_tune(whole, CONFIG).data.store.categories == other.data.store.categories
    student = nd.distill(other, nd.NHITS(h=4, input_size=24, hidden_sizes=(4,)), whole, CONFIG)
    assert np.isfinite(student.predict(future=future)["NHITS"].to_numpy()).all()


def test_a_table_that_was_cut_knows_nothing_of_what_was_cut_off():
    model = nd.NHITS(h=4, input_size=24, hidden_sizes=(8,))
    tables = [nd.TimeSeriesDataFrame.from_frame(panel(poisoned), **ROLES).drop_last(ROWS - CUT) for poisoned in (0, 1)]
    clean, other = (model.fit(table, CONFIG) for table in tables)
    assert other.history.step_loss == clean.history.step_loss
    assert other.history.validation_loss == clean.history.validation_loss


def test_folds_do_not_know_the_categories_after_them():
    """The first window is days 116 to 119, right before the poison; the others are 126 to 129 and 136 to 139."""
    model = nd.NHITS(h=4, input_size=24, hidden_sizes=(8,))

    def run(poisoned):
        late = nd.TimeSeriesSplit(n_splits=3, test_size=4, step_size=10)
        data = panel(poisoned).filter(pl.col("ds") < datetime(2024, 1, 1) + timedelta(days=CUT + 20))
        found = cross_validation([model], data, config=CONFIG, splitter=late, refit=True, **ROLES)
        return found.frame.filter(pl.col("cutoff") < datetime(2024, 1, 1) + timedelta(days=CUT)).drop("y")

    clean, other = run(False), run(True)
    assert clean["cutoff"].n_unique() == 1
    assert clean.equals(other)


def test_how_much_is_missing_in_held_out_rows_does_not_decide_a_recipe():
    def resolved(poisoned):
        config = nd.TrainingConfig(validation_split=0.2)
        return prepare(job_of(MODEL, panel(poisoned, missing=True), config)).config

    assert resolved(True) == resolved(False)


def test_the_season_of_the_naive_forecast_is_found_before_what_it_forecasts():
    fitted = MODEL.fit(panel().filter(pl.col("ds") < datetime(2024, 1, 1) + timedelta(days=CUT)), CONFIG)
    found = [fitted.evaluate(panel(poisoned), n_windows=8) for poisoned in (False, True)]
    assert [evaluation.season for evaluation in found] == [7, 7]


class StopAt(nd.Callback):
    def on_batch_end(self, state):
        if state.step == 2:
            state.stop("the test asked for it")


@pytest.mark.parametrize("poisoned", [False, True])
def test_a_run_that_let_all_rows_decide_goes_on_with_what_it_decided(poisoned, tmp_path):
    """What a run of an earlier version left: an identity that does not say which rows decided.

    Such a run of the poisoned table would have known four kinds: this one, which had two, is not one of those.
    """
    model = nd.NHITS(h=4, input_size=24, hidden_sizes=(8,))
    config = CONFIG.replace(checkpoints=nd.Checkpoints(str(tmp_path / "run"), every_n_steps=1))
    whole = model.fit(panel(poisoned), CONFIG, **ROLES)
    model.fit(panel(poisoned), config.replace(callbacks=(StopAt(),)), **ROLES)
    for place in (tmp_path / "run" / "checkpoints").iterdir():
        files = bundle.read(place)
        name = next(name for name in files if b'"decided_on"' in files[name])
        for text in (b', "decided_on": "training rows"', b',"decided_on":"training rows"'):
            files[name] = files[name].replace(text, b"")
        assert b"decided_on" not in files[name]
        bundle.write(place, files, overwrite=True)
    if poisoned:
        with pytest.raises(nd.StorageError, match=r"fingerprint|shape"):
            model.fit(panel(poisoned), config, resume="auto", **ROLES)
    else:
        assert model.fit(panel(), config, resume="auto", **ROLES).history.step_loss == whole.history.step_loss


def test_later_rows_do_not_change_the_quantiles_that_deepar_draws():
    """All windows of a batch are drawn from one stream of random numbers, also those whose lookback is poisoned."""
    model = nd.DeepAR(h=4, input_size=24, hidden_size=4, samples=20)
    fitted = same_training(model, CONFIG.replace(calibrate=False))
    columns, found = named_columns("DeepAR", (80.0,), ()), []
    for forecaster in fitted:
        table = forecaster.data
        origins = Origins.windows(table, np.full(table.n_series, CUT), steps=4, step_size=2)
        found.append(origins.forecasts(forecaster, columns))
    first = origins.time == CUT
    assert first.sum() == 4
    assert (found[0][first] == found[1][first]).all()
    assert (found[0][~first] != found[1][~first]).any()
