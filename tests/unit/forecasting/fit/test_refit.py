"""A refit: what it learns, what it keeps of the selection run, and what is scored by what."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.runs.names import STOPPED_ON_REQUEST
from neuro_divergent.forecasting.evaluate.held_out import held_out_forecasts
from neuro_divergent.forecasting.fit.refit import fine_tuning
from neuro_divergent.forecasting.fit.training_rows import selection_rows, trained_rows
from neuro_divergent.forecasting.model.recipes import recipe_for

MODEL = nd.MLP(h=4, input_size=8, hidden_size=8, layers=1)
FIXED = nd.TrainingConfig(
    max_epochs=4, batch_size=16, steps_per_epoch=5, early_stopping=None, refit="fine_tune", progress=False
)


def frame(series: int = 2, rows: int = 80, **last: float) -> pl.DataFrame:
    """Waves of different lengths; `last` adds to the newest rows of a series."""
    parts = []
    for number in range(series):
        name = f"s{number}"
        y = np.sin(np.arange(rows) / (2.0 + number)) * (1 + number) + 3
        y[-6:] += last.get(name, 0.0)
        parts.append(pl.DataFrame({"unique_id": [name] * rows, "ds": np.arange(rows), "y": y}))
    return pl.concat(parts)


def weights(fitted: nd.Forecaster) -> torch.Tensor:
    return torch.cat([tensor.flatten().double() for tensor in fitted.module.state_dict().values()])


@pytest.fixture(scope="module")
def plain() -> nd.Forecaster:
    return MODEL.fit(frame(), FIXED.replace(refit=None), freq=1)


@pytest.fixture(scope="module", params=["fine_tune", "all"])
def refitted(request: pytest.FixtureRequest) -> nd.Forecaster:
    return MODEL.fit(frame(), FIXED.replace(refit=request.param), freq=1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "fine_tune"),
        ({"max_epochs": 5}, None),  # a length that the user gave is not extended
        ({"max_steps": 50}, None),
        ({"max_epochs": 5, "early_stopping": 3}, "fine_tune"),
        ({"early_stopping": None}, None),
        ({"early_stopping": nd.EarlyStopping(restore_best_weights=False)}, None),
        ({"validation_split": None}, None),
        ({"max_epochs": 5, "refit": "all"}, "all"),
        ({"refit": None}, None),
        ({"refit_on_all": True}, "all"),
        ({"refit_on_all": False}, None),
    ],
)
def test_the_recipe_refits_where_validation_ends_the_training(given: dict[str, Any], expected: str | None) -> None:
    assert nd.TrainingConfig(**given).resolved(recipe_for("mlp", 1000)).refit == expected


@pytest.mark.parametrize(("restored", "steps"), [(True, 12), (False, 30)])
def test_the_fine_tuning_is_as_long_as_the_training_of_the_weights_that_are_kept(restored: bool, steps: int) -> None:
    """Three tenths of 100 steps, of which the best weights took 40. The last weights took all of them."""
    stopping = nd.EarlyStopping(restore_best_weights=restored)
    config = nd.TrainingConfig(optimizer=nd.AdamW(), early_stopping=stopping)
    history = nd.History(epochs=[{"epoch": epoch} for epoch in range(1, 11)], best_epoch=4)
    assert fine_tuning(config, history, 100).max_steps == steps


def test_the_short_name_is_stored_in_the_field() -> None:
    config = nd.TrainingConfig(refit_on_all=True)
    assert config == nd.TrainingConfig(refit="all")
    assert config.replace(refit_on_all=False).refit is None
    assert nd.TrainingConfig.from_dict(json.loads(json.dumps({"refit_on_all": False}))).refit is None
    with pytest.raises(nd.ConfigError, match="refit_on_all=True is short for refit='all', but got refit='fine_tune'"):
        nd.TrainingConfig(refit_on_all=True, refit="fine_tune")
    with pytest.raises(nd.ConfigError, match="refit='fine_tune' needs validation"):
        nd.TrainingConfig(refit="fine_tune", validation_split=None)


@pytest.mark.parametrize("how", ["fine_tune", "all"])
def test_the_newest_rows_change_the_weights_only_after_the_selection(how: str) -> None:
    """Six rows of sixteen held-out ones differ: the selection run does not see them, the refit does."""
    first, other = (MODEL.fit(table, FIXED.replace(refit=how), freq=1) for table in (frame(), frame(s1=2.0)))
    alone = MODEL.fit(frame(s1=2.0), FIXED.replace(refit=None), freq=1)
    assert not torch.equal(weights(first), weights(other))
    assert torch.equal(weights(alone), weights(MODEL.fit(frame(), FIXED.replace(refit=None), freq=1)))
    assert first.history.step_loss == other.history.step_loss  # of the selection run


def test_the_history_is_of_the_selection_run_and_tells_of_the_refit(
    plain: nd.Forecaster, refitted: nd.Forecaster
) -> None:
    assert refitted.history.step_loss == plain.history.step_loss
    assert refitted.history.validation_loss == plain.history.validation_loss
    event = refitted.history.events[-1]
    assert (event["event"], event["how"]) == ("refit", refitted.config.refit)
    assert len(event["train_loss"]) == event["epochs"]
    assert "then refit on all rows" in repr(refitted)
    if event["how"] == "all":
        assert event["epochs"] == (plain.history.best_epoch or 4)
    else:
        assert 1 <= event["steps"] < 20  # a part of the 20 steps of the selection
        assert event["learning_rate"] <= refitted.config.optimizer.learning_rate  # type: ignore[union-attr]


def test_the_held_out_forecasts_are_those_of_the_selection_run(plain: nd.Forecaster, refitted: nd.Forecaster) -> None:
    """Rows 64 to 79 of each series were held out: 13 windows of 4 rows. The values are those of the table."""
    kept = refitted.kept
    assert kept is not None
    assert kept.values.shape == (26, 4, 1)
    table = frame()
    for series, time, actual in zip(kept.series, kept.time, kept.actual, strict=True):
        own = table.filter(pl.col("unique_id") == kept.ids[series].item(), pl.col("ds").is_between(time, time + 3))
        assert own["y"].to_list() == pytest.approx(actual.tolist(), rel=1e-6)
    mine, theirs = held_out_forecasts(refitted), held_out_forecasts(plain)
    assert mine is not None
    assert theirs is not None
    assert np.array_equal(mine.found.values, theirs.found.values)
    assert mine.evaluation.table.equals(theirs.evaluation.table)
    assert not np.allclose(refitted.predict()["MLP"], plain.predict()["MLP"])


def test_rows_that_the_refit_has_seen_are_scored_by_the_kept_forecasts(
    plain: nd.Forecaster, refitted: nd.Forecaster, caplog: pytest.LogCaptureFixture
) -> None:
    assert trained_rows(refitted, refitted.data).tolist() == [80, 80]
    assert selection_rows(refitted, refitted.data).tolist() == [64, 64]
    with caplog.at_level(logging.WARNING):
        assert (
            refitted.evaluate(frame(), n_windows=3)["MLP", "mae"] == plain.evaluate(frame(), n_windows=3)["MLP", "mae"]
        )
    assert "scores of the selection run, before the refit on all rows" in caplog.text
    with pytest.raises(nd.DataError, match="the refit of MLP was trained on the rows from 62"):
        refitted.evaluate(frame(), n_windows=15, step_size=1)  # the first windows begin before the held-out rows
    later = frame(rows=84)
    own = refitted.evaluate(later)["MLP", "mae"]
    forecast = refitted.predict().join(later, on=["unique_id", "ds"])
    assert own == pytest.approx((forecast["MLP"] - forecast["y"]).abs().mean(), rel=1e-5)


def test_intervals_and_weights_of_ensembles_come_from_the_kept_forecasts(
    plain: nd.Forecaster, refitted: nd.Forecaster, tmp_path: Path
) -> None:
    settings = nd.PredictionIntervals(n_windows=3)
    mine, theirs = (fitted.calibrate(frame(), settings).intervals for fitted in (refitted, plain))
    refitted.intervals = plain.intervals = None
    assert mine is not None
    assert theirs is not None
    assert np.allclose(mine.scores, theirs.scores, rtol=1e-5)
    linear = nd.NLinear(h=4, input_size=8)
    others = [linear.fit(frame(), FIXED.replace(refit=how), freq=1) for how in (None, "fine_tune")]
    wanted = nd.ensemble([plain, others[0]], "weighted").weights
    assert nd.ensemble([refitted, others[0]], "weighted").weights == pytest.approx(wanted, rel=1e-5)
    # All windows count if all members kept them: the mean absolute errors by hand.
    errors = [float(np.abs(one.kept.values[:, :, 0] - one.kept.actual).mean()) for one in (refitted, others[1])]
    inverse = 1 / np.array(errors)
    found = nd.ensemble([refitted, others[1]], "weighted").weights
    assert found == pytest.approx(inverse / inverse.sum(), rel=1e-5)
    refitted.save(tmp_path / "a")
    others[1].save(tmp_path / "b")
    loaded = [nd.load(tmp_path / name) for name in "ab"]
    assert nd.ensemble(loaded, "weighted").weights == pytest.approx(found)  # type: ignore[arg-type]


def test_a_saved_model_has_the_kept_forecasts_unless_it_has_no_rows(refitted: nd.Forecaster, tmp_path: Path) -> None:
    refitted.save(tmp_path / "model")
    loaded = nd.Forecaster.load(tmp_path / "model")
    assert loaded.kept is not None
    assert refitted.kept is not None
    for name, array in refitted.kept.to_arrays().items():
        assert np.array_equal(array, loaded.kept.to_arrays()[name])
    assert loaded.evaluate(frame())["MLP", "mae"] == refitted.evaluate(frame())["MLP", "mae"]
    refitted.save(tmp_path / "bare", context=False)
    assert nd.Forecaster.load(tmp_path / "bare").kept is None
    assert not (tmp_path / "bare" / "extras.safetensors").exists()


@pytest.mark.parametrize("change", [{"levels": ["0.1"]}, {"ids": ["s0"]}, {"step": 0}, {"names": ["a", "b"]}])
def test_kept_forecasts_that_do_not_fit_together_are_refused(refitted: nd.Forecaster, change: dict[str, Any]) -> None:
    kept = refitted.kept
    assert kept is not None
    with pytest.raises(nd.StorageError, match="kept forecasts must"):
        type(kept).from_parts(kept.facts() | change, kept.to_arrays())


def test_folds_and_members_do_not_refit() -> None:
    config = FIXED.replace(max_epochs=1)
    members = nd.fit_many(MODEL, frame(), config, seeds=2, freq=1)
    assert all(member.config.refit is None and member.kept is None for member in members)
    alone = nd.cross_validation([MODEL], frame(), config=config.replace(refit=None), n_windows=1, freq=1)
    assert nd.cross_validation([MODEL], frame(), config=config, n_windows=1, freq=1).frame.equals(alone.frame)


def test_rows_given_for_validation_are_trained_on_only_if_asked() -> None:
    early, late = frame().filter(pl.col("ds") < 68), frame().filter(pl.col("ds") >= 68)
    stopping = FIXED.replace(early_stopping=nd.EarlyStopping(patience=2), refit="auto")
    given = MODEL.fit(early, stopping, validation=late, freq=1)
    assert given.config.refit is None
    assert trained_rows(given, given.data).tolist() == [68, 68]
    asked = MODEL.fit(early, stopping.replace(refit="fine_tune"), validation=late, freq=1)
    assert trained_rows(asked, asked.data).tolist() == [80, 80]
    assert asked.kept is not None
    assert asked.kept.time.min() == 68


class Trainings(nd.Callback):
    """Counts trainings."""

    def __init__(self) -> None:
        self.count = 0

    def on_fit_start(self, state: Any) -> None:
        self.count += 1


def test_intervals_need_no_second_refit_and_a_fine_tuning_is_not_shown_to_callbacks() -> None:
    seen = Trainings()
    settings = nd.PredictionIntervals(n_windows=2)
    fitted = MODEL.fit(frame(), FIXED.replace(callbacks=(seen,)), prediction_intervals=settings, freq=1)
    assert seen.count == 2  # the selection, and the model whose errors are measured
    assert fitted.kept is not None
    assert len(fitted.predict(level=[80]).columns) == 5


def test_an_update_and_a_fine_tuning_know_that_the_parent_has_seen_all_rows(refitted: nd.Forecaster) -> None:
    child = refitted.fine_tune(frame(), FIXED.replace(refit=None))
    assert trained_rows(child, child.data).tolist() == [80, 80]
    own = refitted.fine_tune(frame(rows=100), FIXED)
    assert own.kept is not None
    assert own.history.events[-1]["event"] == "refit"
    fitted = MODEL.fit(frame(), FIXED, freq=1)
    fitted.update(frame(rows=84).filter(pl.col("ds") >= 80))
    assert fitted.kept is None
    assert trained_rows(fitted, fitted.data).tolist() == [84, 84]


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").iterdir())


@pytest.mark.parametrize("how", ["fine_tune", "all"])
@pytest.mark.parametrize("stage", ["selection", "refit"])
def test_a_run_goes_on_to_the_same_bits_after_a_kill_in_either_stage(how: str, stage: str, tmp_path: Path) -> None:
    """A kill leaves the checkpoints before it: those after it are taken away."""
    saved = nd.Checkpoints(tmp_path / "run", every_n_steps=1, keep_last=None)
    config = FIXED.replace(refit=how, early_stopping=nd.EarlyStopping(patience=4), checkpoints=saved)
    whole = MODEL.fit(frame(), config, freq=1)
    place = tmp_path / "run" / ("refit" if stage == "refit" else "")
    for path in checkpoints(place)[2:]:
        shutil.rmtree(path)
    if stage == "selection":
        shutil.rmtree(tmp_path / "run" / "refit")
    again = MODEL.fit(frame(), config, resume="auto", freq=1)
    assert torch.equal(weights(again), weights(whole))
    assert again.history.step_loss == whole.history.step_loss
    assert again.kept is not None
    assert whole.kept is not None
    assert np.array_equal(again.kept.values, whole.kept.values)
    assert [path.name for path in checkpoints(place)][:2] == ["step-00000001", "step-00000002"]


def test_other_best_weights_are_fine_tuned_anew(tmp_path: Path) -> None:
    saved = nd.Checkpoints(tmp_path / "run")
    config = FIXED.replace(max_epochs=2, checkpoints=saved)
    MODEL.fit(frame(), config, freq=1)
    longer = MODEL.fit(frame(), config, resume="auto", resume_with={"max_epochs": 4}, freq=1)
    assert (tmp_path / "run" / "refit" / "checkpoints-earlier").is_dir()
    assert len(longer.history) == 4
    assert longer.kept is not None


class StopAt(nd.Callback):
    """Requests a stop after a step."""

    def on_batch_end(self, state: Any) -> None:
        if state.step == 7:
            state.stop(STOPPED_ON_REQUEST)


def test_a_requested_stop_gives_the_model_so_far_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    config = FIXED.replace(checkpoints=nd.Checkpoints(tmp_path / "run"))
    stopped = MODEL.fit(frame(), config.replace(callbacks=(StopAt(),)), freq=1)
    assert stopped.history.stopped == STOPPED_ON_REQUEST
    assert stopped.kept is None
    assert trained_rows(stopped, stopped.data).tolist() == [64, 64]
    again, whole = MODEL.fit(frame(), config, resume="auto", freq=1), MODEL.fit(frame(), FIXED, freq=1)
    assert torch.equal(weights(again), weights(whole))


def test_a_run_of_an_earlier_version_is_not_refitted_unasked(tmp_path: Path) -> None:
    """Such a run says refit_on_all=false; this version would refit an early-stopped training by itself."""
    fields = {"max_epochs": 3, "batch_size": 16, "early_stopping": nd.EarlyStopping(patience=3), "progress": False}
    saved = nd.TrainingConfig(**fields, checkpoints=nd.Checkpoints(tmp_path / "run"))
    MODEL.fit(frame(), saved.replace(refit=None), freq=1)
    assert MODEL.fit(frame(), saved, resume="auto", freq=1).config.refit is None
    assert MODEL.fit(frame(), nd.TrainingConfig(**fields), freq=1).config.refit == "fine_tune"
    assert MODEL.fit(frame(), saved.replace(refit="all"), resume="auto", freq=1).kept is not None


def test_many_series_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 series with 13 windows, at most 100 forecasts: two of each, a horizon and more apart; then 10 series."""
    from neuro_divergent.forecasting.predict import kept

    monkeypatch.setattr(kept, "MAX_KEPT", 100)
    monkeypatch.setattr(kept, "NEIGHBOURS", 3)
    config = FIXED.replace(max_epochs=1, steps_per_epoch=1)
    fitted = MODEL.fit(frame(40), config, freq=1)
    assert fitted.kept is not None
    assert fitted.kept.step == 8
    grid = {76, 68}
    assert {int(time) for time in fitted.kept.time} == grid | {74, 75}
    assert len(fitted.kept) == 80 + 5 * 2
    held = held_out_forecasts(fitted)
    assert held is not None
    assert held.n_series == 40
    assert set(held.truth.time.tolist()) == grid
    monkeypatch.setattr(kept, "MAX_KEPT", 10)
    few = MODEL.fit(frame(40), config, freq=1).kept
    assert few is not None
    assert len(few.ids) == 10


def test_a_fine_tuning_of_scaled_series_keeps_forecasts_in_original_units_of_rows_that_are_new() -> None:
    # The series lie near 1003; scaled they would be near 0. The parent was trained on the first 80 rows.
    table = frame(rows=120).with_columns(pl.col("y") + 1000)
    config = FIXED.replace(loss=nd.MQLoss(level=[80]), calibrate=True, max_epochs=2)
    parent = MODEL.fit(table.filter(pl.col("ds") < 80), config, local_scaler="standard", freq=1)
    tuned = parent.fine_tune(table, config)
    assert tuned.kept is not None
    assert tuned.calibration is not None
    assert tuned.kept.time.min() == 96  # a fifth of 120 rows is held out
    assert np.abs(tuned.kept.actual - 1003).max() < 3
    assert np.abs(tuned.kept.values - 1003).max() < 10
    seen = parent.fine_tune(table.filter(pl.col("ds") < 80), config)
    assert seen.kept is None  # the refit of the parent was trained on all these rows: nothing is held out
    assert seen.calibration is parent.calibration


def test_members_that_began_with_weights_which_knew_the_rows_do_not_weigh_an_ensemble(refitted: nd.Forecaster) -> None:
    again = refitted.fine_tune(refitted.data, FIXED)
    with pytest.raises(nd.ConfigError, match="no member was trained on"):
        nd.ensemble([again, again], "weighted")


def test_an_update_keeps_the_correction_of_the_intervals_and_drops_an_inferred_limit_that_new_rows_break() -> None:
    counts = frame().with_columns(pl.col("y").round().abs() - pl.col("y").round().abs().min())
    early, late = counts.filter(pl.col("ds") < 70), counts.filter(pl.col("ds") >= 70)
    config = FIXED.replace(loss=nd.MQLoss(level=[80]), calibrate=True, max_epochs=2)
    fitted = MODEL.fit(early, config, freq=1)
    correction = fitted.calibration
    assert correction is not None
    assert fitted.bounds is not None
    fitted.update(late)
    assert fitted.calibration is correction
    assert fitted.bounds.lower == 0
    below = late.with_columns(pl.col("ds") + 10, pl.col("y") - 9)
    fitted.update(below)
    assert fitted.bounds is None
