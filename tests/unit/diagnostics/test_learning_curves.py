"""Learning curves: the newest rows, never the future, and verdicts on tables whose answer is known."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.diagnostics import learning_curves
from neuro_divergent.diagnostics.learning_curve_result import CurveFit

MODEL = nd.MLP(h=4, input_size=8, hidden_size=8)


def rows_of(count: int, y: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"unique_id": ["a"] * count, "ds": range(count), "y": y})


def test_a_share_is_the_newest_part_and_never_the_future(monkeypatch):
    """Values are row numbers, so a table shows which rows it has. The test part of 2 folds of 4 rows begins at 72."""
    seen = []

    def keep(model, tables, configs, **options):
        seen.extend(table.store.y for table in tables)
        return fit_many(model, tables, configs, **options)

    fit_many = learning_curves.fit_many
    monkeypatch.setattr(learning_curves, "fit_many", keep)
    config = nd.TrainingConfig(max_steps=2, validation_split=None, early_stopping=None)
    curves = nd.LearningCurves(train_sizes=[0.5, 1.0], cv_folds=2)
    result = curves.analyze(MODEL, rows_of(80, np.arange(80.0)), config)
    assert [(int(y[0]), int(y[-1])) for y in seen] == [(36, 71), (0, 71), (38, 75), (0, 75)]
    assert {(item.size, item.fold) for item in result.fits} == {(0.5, 0), (1.0, 0), (0.5, 1), (1.0, 1)}


def result_of(train: list[float], held: list[float], naive: float = 10.0, sizes: int = 2) -> nd.LearningCurveResult:
    fits = [
        CurveFit(size=0.5 if place == 0 else 1.0, fold=fold, seed=1, rows=100 * (1 + place), train=a * (1 - 0.1 * fold),
                 train_naive=naive, validation=b * (1 - 0.1 * fold), validation_naive=naive)
        for place, (a, b) in enumerate(zip(train, held, strict=True)) for fold in range(3)
    ]  # fmt: skip
    return nd.LearningCurveResult(model="M", scoring="mae", fits=tuple(fits[: sizes * 3]))


def test_verdicts_follow_the_figures():
    """By hand: a gap of 3 overfits, a training error of 1.2 naive errors underfits, halves at twice the rows."""
    over = result_of([2.0, 2.0], [6.0, 6.0])
    assert over.is_overfitting()
    assert not over.is_underfitting()
    assert over.gap == pytest.approx(3.0)
    assert "overfits" in over.verdict
    under = result_of([13.0, 13.0], [13.5, 13.5])
    assert under.is_underfitting()
    assert not under.is_overfitting()
    assert "underfits" in under.verdict
    good = result_of([4.0, 4.0], [8.0, 4.2])
    assert not good.is_overfitting()
    assert not good.is_underfitting()
    assert good.gain_of_doubling == pytest.approx(1 - 4.2 / 8.0)
    assert "More data helps" in good.verdict


def test_pure_noise_learned_by_heart_overfits(tmp_path):
    pytest.importorskip("matplotlib")
    noise = rows_of(120, np.random.default_rng(0).normal(size=120))
    config = nd.TrainingConfig(max_steps=150, validation_split=None, early_stopping=None, schedule=None)
    model = nd.MLP(h=4, input_size=16, hidden_size=64)
    result = nd.LearningCurves(train_sizes=[0.6, 1.0], cv_folds=3).analyze(model, noise, config)
    assert result.is_overfitting(), result
    assert nd.LearningCurveResult.from_json(result.to_json()) == result
    assert result.to_polars().height == 6
    result.plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_a_model_that_hardly_trained_underfits():
    wave = rows_of(160, 5 + np.sin(np.arange(160) * 2 * np.pi / 8) * 3)
    config = nd.TrainingConfig(
        max_steps=1, validation_split=None, early_stopping=None, optimizer=nd.SGD(learning_rate=1e-9)
    )
    model = MODEL.replace(anchor=None)
    result = nd.LearningCurves(train_sizes=[0.5, 1.0], cv_folds=2, seeds=2).analyze(model, wave, config)
    assert result.is_underfitting(), result
    assert not result.is_overfitting()


def test_seeds_and_too_small_shares(caplog):
    config = nd.TrainingConfig(max_steps=2, validation_split=None, early_stopping=None)
    curves = nd.LearningCurves(train_sizes=[0.05, 0.5, 1.0], cv_folds=1, seeds=(3, 4))
    with caplog.at_level("WARNING"):
        result = curves.analyze(MODEL, rows_of(80, np.arange(80.0)), config)
    assert "0.05" in caplog.text
    assert {(item.size, item.seed) for item in result.fits} == {(0.5, 3), (0.5, 4), (1.0, 3), (1.0, 4)}
    assert [point.fits for point in result.points] == [2, 2]


def test_wrong_settings_are_refused():
    with pytest.raises(nd.ConfigError, match="two or more"):
        nd.LearningCurves(train_sizes=[0.5])
    with pytest.raises(nd.ConfigError, match="at most"):
        nd.LearningCurves(train_sizes=[0.5, 1.5])
    with pytest.raises(nd.NeuroDivergentError):
        nd.LearningCurves(scoring="nothing").analyze(MODEL, rows_of(80, np.arange(80.0)))
    with pytest.raises(nd.DataError, match="longer series"):
        nd.LearningCurves(train_sizes=[0.1, 0.2], cv_folds=1).analyze(MODEL, rows_of(40, np.arange(40.0)))


@pytest.mark.parametrize("scoring", ["r2", "bias", "coverage", "directional_accuracy"])
def test_a_score_that_is_no_error_is_refused(scoring):
    """The verdicts divide errors by errors: a sign or a score that is better if higher would turn them round."""
    with pytest.raises(nd.ConfigError, match="0 at best"):
        nd.LearningCurves(scoring=scoring)


def test_the_metric_is_found_in_any_case():
    assert nd.LearningCurves(scoring="MAE").scoring == "mae"


def test_trainings_elsewhere_give_the_same_curves():
    config = nd.TrainingConfig(max_steps=3, validation_split=None, early_stopping=None)
    curves = nd.LearningCurves(train_sizes=[0.5, 1.0], cv_folds=1)
    rows = rows_of(80, np.sin(np.arange(80.0)))
    here = curves.analyze(MODEL, rows, config)
    with ThreadPoolExecutor(1) as executor:
        elsewhere = curves.analyze(MODEL, rows, config, executor=executor)
    # Here, both shares train as one computation: equal but for rounding.
    assert [item.validation for item in elsewhere.fits] == pytest.approx([item.validation for item in here.fits])
    assert [item.rows for item in elsewhere.fits] == [item.rows for item in here.fits]
