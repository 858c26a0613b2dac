"""Distillation: a small model learns from a large one's forecasts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.data import samples
from neuro_divergent.forecasting.fit.distillation import Oracle, distill
from neuro_divergent.forecasting.fit.training_rows import trained_rows

PANEL = samples.hourly_panel(4, 260)
SETTINGS = nd.TrainingConfig(max_epochs=3, batch_size=64, progress=False, loss=nd.MAE())


@pytest.fixture(scope="module")
def teacher():
    return nd.MLP(h=8, input_size=48, hidden_size=32).fit(PANEL, SETTINGS, freq="1h")


def window(series, time, rows=16):
    return nd.Batch(torch.zeros(len(series), rows, 1), series=torch.tensor(series), time=torch.tensor(time))


def before(frame, time):
    """The rows of a frame before its time-th one, of every series."""
    return frame.filter(pl.int_range(pl.len()).over("unique_id") < time)


def test_the_teachers_forecasts_are_those_of_predict_at_the_same_moments(teacher):
    oracle = Oracle(teacher, teacher.data, 6)
    found = oracle.forecasts(window([2, 0], [100, 100]), (None,))[:, :, 0, 0].numpy()
    expected = teacher.predict(before(PANEL, 100), h=6)["MLP"].to_numpy().reshape(4, 6)[[2, 0]]
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scaler", ["standard", "boxcox"])
@pytest.mark.parametrize("loss", [nd.MAE(), nd.MQLoss(level=[80])])
def test_a_teacher_that_scales_series_teaches_in_original_units(scaler, loss):
    """Levels far apart, a teacher without a window scaler: a forecast in its scaled units would be near 0."""
    high = PANEL.with_columns(pl.col("y") - pl.col("y").min() + 1000)
    model = nd.MLP(h=4, input_size=12, hidden_size=16, scaler="identity")
    config = SETTINGS.replace(max_epochs=1, loss=loss)
    teacher = nd.NeuralForecast([model], local_scaler_type=scaler).fit(high, config)["MLP"]
    new = high.with_columns("new " + pl.col("unique_id"))
    for rows in (high, new):  # a new series is measured on the rows before the forecast
        levels = (None,) if not loss.probabilistic else (None, 0.1, 0.9)
        found = Oracle(teacher, teacher.table(rows), 4).forecasts(window([3, 1], [90, 90]), levels)[:, :, 0].numpy()
        quantiles = None if not loss.probabilistic else [0.1, 0.9]
        expected = teacher.predict(before(rows, 90), quantiles=quantiles).to_numpy()[:, 2:].astype(float)
        assert found == pytest.approx(expected.reshape(4, 4, -1)[[3, 1]][:, :, : len(levels)], rel=1e-5)
        assert found.min() > 500
    student = distill(teacher, nd.MLP(h=4, input_size=12, hidden_size=16, alias="student"), high, config, alpha=0.0)
    assert distance(student, teacher) < 50


def test_a_multivariate_teacher_that_scales_series_teaches_in_original_units():
    high = PANEL.with_columns(pl.col("y") + 1000)
    model = nd.TSMixer(h=4, input_size=12, scaler="identity")
    teacher = nd.NeuralForecast([model], local_scaler_type="standard").fit(high, SETTINGS.replace(max_epochs=1))
    teacher = teacher["TSMixer"]
    batch = nd.Batch(torch.zeros(1, 12, 4), series=torch.arange(4), time=torch.tensor([90]))
    found = Oracle(teacher, teacher.data, 4).forecasts(batch, (None,))[0, :, :, 0].numpy().T
    assert found == pytest.approx(teacher.predict(before(high, 90))["TSMixer"].to_numpy().reshape(4, 4), rel=1e-5)


@pytest.fixture(scope="module")
def priced():
    """Two columns: the teacher takes the price, the student the visits."""
    hour = pl.int_range(pl.len()).over("unique_id")
    return PANEL.with_columns(price=(hour % 5).cast(pl.Float64), visits=(hour % 3 * 100).cast(pl.Float64))


@pytest.fixture(scope="module")
def priced_teacher(priced):
    config = SETTINGS.replace(max_epochs=1)
    return nd.MLP(h=8, input_size=24, hidden_size=16).fit(priced, config, freq="1h", future=["price"])


def test_teacher_and_student_take_columns_of_their_own(priced, priced_teacher):
    """At the last origin of a student with h=6 the teacher's last two prices are unknown: the last one stands there."""
    last = int(priced_teacher.data.store.lengths[2]) - 6
    expected = []
    for name, time in (("series-01", 90), ("series-02", last)):
        rows = priced.filter(pl.col("unique_id") == name)
        expected.append(priced_teacher.predict(rows[:time], future=rows[time:], h=6)["MLP"].to_numpy())
    other = nd.TimeSeriesDataFrame.from_frame(priced, freq="1h", future=["visits", "price"])
    for oracle in (
        Oracle(priced_teacher, other, 6),
        Oracle(priced_teacher, nd.TimeSeriesDataFrame.from_frame(priced, freq="1h", future=["visits"]), 6, priced),
    ):
        found = oracle.forecasts(window([1, 2], [90, last]), (None,))[:, :, 0, 0].numpy()
        assert found == pytest.approx(np.stack(expected), rel=1e-5)
    student, config = nd.MLP(h=6, input_size=12, hidden_size=8), SETTINGS.replace(max_epochs=1)
    fitted = distill(priced_teacher, student, priced, config, freq="1h", future=["visits"])
    assert fitted.data.store.future_names == ("visits",)
    assert distill(priced_teacher, student, other, config).data.store.future_names == ("visits", "price")


def test_a_table_without_the_teachers_columns_is_refused(priced, priced_teacher):
    student = nd.MLP(h=6, input_size=12, hidden_size=8)
    without = nd.TimeSeriesDataFrame.from_frame(priced, freq="1h", future=["visits"])
    with pytest.raises(nd.DataError, match="price"):
        distill(priced_teacher, student, without, SETTINGS)


def test_what_the_teacher_was_trained_on_is_not_new_to_the_student():
    """The teacher was trained on all 260 rows, so none of those that the student held back is new to it."""
    config = SETTINGS.replace(max_epochs=1)
    big = nd.MLP(h=4, input_size=24, hidden_size=8).fit(PANEL, config.replace(validation_split=None), freq="1h")
    student = distill(big, nd.DLinear(h=4, input_size=12), PANEL, config.replace(validation_split=0.2))
    assert trained_rows(student, student.data).tolist() == [260] * 4
    alone = distill(big, nd.DLinear(h=4, input_size=12), PANEL, config.replace(validation_split=0.2), alpha=1.0)
    assert trained_rows(alone, alone.data).tolist() == [208] * 4


def distance(forecaster, teacher):
    mine, theirs = forecaster.predict(), teacher.predict()
    joined = mine.join(theirs, on=["unique_id", "ds"], suffix="_teacher")
    names = [name for name in joined.columns if name not in ("unique_id", "ds")]
    return float(np.abs(joined[names[0]].to_numpy() - joined[names[1]].to_numpy()).mean())


def test_the_share_of_the_truth_decides_who_is_followed(teacher):
    student = nd.MLP(h=8, input_size=48, hidden_size=16, alias="student")
    long = SETTINGS.replace(max_epochs=12, optimizer=nd.AdamW(learning_rate=5e-3), early_stopping=None)
    taught, true = (distill(teacher, student, PANEL, long, alpha=alpha) for alpha in (0.0, 1.0))
    assert distance(taught, teacher) < 0.8 * distance(true, teacher)
    alone = student.fit(teacher.data, long)
    assert true.history.step_loss == alone.history.step_loss  # alpha = 1 is plain training, to the bit


def test_students_of_quantiles_and_distributions():
    quantiles, spread = SETTINGS.replace(loss=nd.MQLoss(level=[80])), SETTINGS.replace(loss=nd.DistributionLoss())
    big = nd.MLP(h=4, input_size=24, hidden_size=16)
    small = nd.MLP(h=4, input_size=12, hidden_size=8)
    for ours in (quantiles, spread):
        teacher = big.fit(PANEL, ours, freq="1h")
        fitted = distill(teacher, small, PANEL, ours)
        assert np.isfinite(fitted.history.train_loss).all()
    by_quantiles = big.fit(PANEL, quantiles, freq="1h")
    with pytest.raises(nd.ConfigError, match="has only some quantiles"):
        distill(by_quantiles, small, PANEL, spread)


@pytest.mark.parametrize(
    ("student", "fields", "words"),
    [
        (nd.MLP(h=9, input_size=12), {}, "all steps of the student"),
        (nd.MLP(h=4, input_size=12), {"alpha": 1.5}, "alpha must be between"),
        (nd.TSMixer(h=4, input_size=12), {}, "both be univariate or both be multivariate"),
        (nd.MLP(h=4, input_size=12), {"config": SETTINGS.replace(loss=nd.MQLoss(level=[80]))}, "forecasts a point"),
    ],
)
def test_what_cannot_be_taught_is_refused(teacher, student, fields, words):
    with pytest.raises(nd.ConfigError, match=words):
        distill(teacher, student, PANEL, **fields)


def test_multivariate_teacher_and_student():
    big = nd.TSMixer(h=4, input_size=24).fit(PANEL, SETTINGS.replace(max_epochs=1), freq="1h")
    small = nd.TSMixer(h=4, input_size=12)
    fitted = distill(big, small, PANEL, SETTINGS.replace(max_epochs=1))
    assert np.isfinite(fitted.history.train_loss).all()


def test_an_augmentation_must_leave_the_horizon_to_the_teacher(teacher):
    student = nd.DLinear(h=6, input_size=16)
    fine = nd.Compose(steps=(nd.Jitter(), nd.Masking()))
    assert distill(teacher, student, PANEL, SETTINGS.replace(max_epochs=1, augmentation=fine)).model == student
    for wrong in (nd.Scaling(), nd.Compose(steps=(nd.Jitter(), nd.Compose(steps=(nd.Scaling(),))))):
        with pytest.raises(nd.ConfigError, match=r"\(Jitter and Masking do not\), but got Scaling"):
            distill(teacher, student, PANEL, SETTINGS.replace(augmentation=wrong))
