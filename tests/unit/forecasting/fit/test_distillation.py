"""Distillation: a small model learns from a large one's forecasts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.data import samples
from neuro_divergent.forecasting.fit.distillation import Oracle, distill

PANEL = samples.hourly_panel(4, 260)
SETTINGS = nd.TrainingConfig(max_epochs=3, batch_size=64, progress=False, loss=nd.MAE())


@pytest.fixture(scope="module")
def teacher():
    return nd.MLP(h=8, input_size=48, hidden_size=32).fit(PANEL, SETTINGS, freq="1h")


def test_the_teachers_forecasts_are_those_it_gives_for_the_same_rows(teacher):
    table = teacher.data
    student = nd.DLinear(h=6, input_size=16)
    fitted = distill(teacher, student, table, SETTINGS.replace(max_epochs=1))
    oracle = Oracle(teacher, table, 6)
    start = 100  # the first row that is forecast, in series 2
    batch = nd.Batch(torch.zeros(1, 16, 1), series=torch.tensor([2]), time=torch.tensor([start]))
    rows = table.store.y[table.store.offsets[2] : table.store.offsets[3]]
    window = torch.from_numpy(rows[start - 48 : start].copy())[None]
    expected = teacher.forward(window)[:, :6]
    assert oracle.outputs(batch)[..., 0, 0].numpy() == pytest.approx(expected.numpy(), rel=1e-5)
    assert fitted.model == student


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
    with pytest.raises(nd.ConfigError, match="knows only some quantiles"):
        distill(by_quantiles, small, PANEL, spread)


@pytest.mark.parametrize(
    ("student", "fields", "words"),
    [
        (nd.MLP(h=9, input_size=12), {}, "as many steps"),
        (nd.MLP(h=4, input_size=12), {"alpha": 1.5}, "alpha must be between"),
        (nd.TSMixer(h=4, input_size=12), {}, "one series at a time"),
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
        with pytest.raises(nd.ConfigError, match="as Jitter and Masking do, but got Scaling"):
            distill(teacher, student, PANEL, SETTINGS.replace(augmentation=wrong))
