"""The doctor on real trainings: what it sees, that it changes nothing, and that its remedies help."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.diagnostics.doctor import forecast_facts
from neuro_divergent.diagnostics.doctor.table_facts import table_facts
from neuro_divergent.forecasting.evaluate.held_out import held_out_forecasts
from neuro_divergent.report import training_report

TABLE = nd.samples.hourly_panel(series=6, hours=400)
MODEL = nd.MLP(h=12, input_size=48, hidden_size=32, anchor="auto")
CONFIG = nd.TrainingConfig(
    max_steps=150, steps_per_epoch=15, batch_size=64, learning_rate=2e-3, progress=False, compile=False
)


def weights(fitted: nd.Forecaster) -> list[torch.Tensor]:
    return list(fitted.network.state_dict().values())


def test_the_doctor_changes_no_bit_of_a_training() -> None:
    bare, watched = MODEL.fit(TABLE, CONFIG), MODEL.fit(TABLE, CONFIG.replace(callbacks=[nd.Doctor()]))
    assert all(torch.equal(one, other) for one, other in zip(weights(bare), weights(watched), strict=True))
    before, state = [tensor.clone() for tensor in weights(bare)], torch.get_rng_state()
    nd.diagnose(bare)
    assert all(torch.equal(one, other) for one, other in zip(before, weights(bare), strict=True))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.stress
def test_the_doctor_changes_no_bit_of_a_compiled_training() -> None:
    config = CONFIG.replace(compile=True)
    bare, watched = MODEL.fit(TABLE, config), MODEL.fit(TABLE, config.replace(callbacks=[nd.Doctor()]))
    assert all(torch.equal(one, other) for one, other in zip(weights(bare), weights(watched), strict=True))


def test_a_healthy_training_is_called_healthy() -> None:
    found = nd.diagnose(MODEL.fit(TABLE, CONFIG.replace(max_steps=300)))
    assert found.healthy, found
    assert not found.not_examined


def test_a_run_directory_is_diagnosed_with_and_without_its_table(tmp_path) -> None:
    MODEL.fit(TABLE, CONFIG.replace(learning_rate=1.0, checkpoints=tmp_path / "run"))
    alone, whole = nd.diagnose(tmp_path / "run"), nd.diagnose(tmp_path / "run", TABLE)
    assert alone.not_examined
    assert whole.verdicts[0].cause == "learning_rate_too_high"
    assert whole.verdicts[0].remedy["learning_rate"] < 1.0
    assert not whole.not_examined


def test_the_doctor_says_each_cause_once_and_writes_it_into_the_events(tmp_path, caplog) -> None:
    rising = nd.TrainingConfig(
        max_epochs=30, steps_per_epoch=20, batch_size=32, learning_rate=5e-3, schedule=None, early_stopping=None,
        progress=False, compile=False, validation_split=0.3, checkpoints=tmp_path / "run", callbacks=[nd.Doctor()],
    )  # fmt: skip
    small = TABLE.filter(pl.col("unique_id") == "series-01").tail(130)
    with caplog.at_level(logging.WARNING, "neuro_divergent.doctor"):
        fitted = nd.MLP(h=6, input_size=24, hidden_size=256).fit(small, rising)
    told = [record.message for record in caplog.records if "overfitting" in record.message]
    assert len(told) == 1
    assert "config.replace(early_stopping=" in told[0]
    events = [event for event in nd.read_run(tmp_path / "run").log.events if event["event"] == "verdict"]
    assert [event["cause"] for event in events].count("overfitting") == 1
    assert any(event.get("cause") == "overfitting" for event in fitted.history.events)


def test_the_doctor_can_end_a_training() -> None:
    table = TABLE.with_columns(copied=pl.col("y") * 2.0)
    fitted = MODEL.fit(table, CONFIG.replace(callbacks=[nd.Doctor(stop=True)]), future=["copied"])
    assert "leak" in fitted.history.stopped
    assert len(fitted.history.step_loss) <= 1


def test_a_failed_training_is_explained_from_its_directory(tmp_path) -> None:
    def logarithm(output, target):
        return torch.log(output - target)

    config = CONFIG.replace(loss=logarithm, checkpoints=tmp_path / "run", callbacks=[nd.Doctor()])
    with pytest.raises(nd.NonFiniteError):
        MODEL.fit(TABLE, config)
    assert nd.diagnose(tmp_path / "run").verdicts[0].cause == "nonfinite_loss"
    events = nd.read_run(tmp_path / "run").log.events
    assert [event["cause"] for event in events if event["event"] == "verdict"] == ["nonfinite_loss"]


def test_infinite_values_in_a_plain_table_are_a_verdict_and_no_error(tmp_path) -> None:
    MODEL.fit(TABLE, CONFIG.replace(max_steps=5, checkpoints=tmp_path / "run"))
    broken = TABLE.with_columns(y=pl.when(pl.int_range(pl.len()) == 40).then(float("inf")).otherwise(pl.col("y")))
    assert nd.diagnose(tmp_path / "run", broken).verdicts[0].cause == "nonfinite_data"


def test_a_report_uses_the_forecasts_that_it_has(monkeypatch) -> None:
    fitted = MODEL.fit(TABLE, CONFIG.replace(max_steps=30))
    held = held_out_forecasts(fitted)
    page = training_report(fitted, held=held).render()
    monkeypatch.setattr(forecast_facts, "forecasts_between", lambda *_: pytest.fail("forecast a second time"))
    again = training_report(fitted, held=held).render()
    assert "Not examined: other learning rates" in again
    assert again.count("worse_than_naive") == page.count("worse_than_naive")


def test_a_network_of_one_unit_is_too_narrow_and_not_dead() -> None:
    narrow = MODEL.replace(hidden_size=1, anchor=None)

    def kill(module: torch.nn.Module) -> None:
        with torch.no_grad():
            module.network.perceptron[0].bias.fill_(-100.0)

    fitted = narrow.fit(TABLE, CONFIG.replace(max_steps=30), begin_with=kill)
    assert "dead_units" not in nd.diagnose(fitted, probes=False)
    wide = narrow.replace(hidden_size=16).fit(TABLE, CONFIG.replace(max_steps=30), begin_with=kill)
    assert "dead_units" in nd.diagnose(wide, probes=False)


def test_wrong_things_are_refused() -> None:
    with pytest.raises(nd.ConfigError, match="can be diagnosed, but got int"):
        nd.diagnose(3)  # type: ignore[arg-type]
    with pytest.raises(nd.ConfigError, match="a history, which has no model"):
        nd.diagnose(nd.History(), TABLE)


def test_the_rate_of_a_remedy_is_a_short_number() -> None:
    # Without its configuration, the rate of a run is known only from the ends of the epochs.
    rates = [0.0978659, 0.05]
    history = nd.History(epochs=[{"epoch": i, "learning_rate": rate} for i, rate in enumerate(rates)])
    history.step_loss, history.gradient_norm = [1.0] * 40, [500.0] * 40
    assert nd.diagnose(history)["exploding_gradients"].remedy["learning_rate"] == 0.00979


def facts_of(y: list[float], rows: int, **columns: list[float]):
    frame = pl.DataFrame({"unique_id": ["a"] * len(y), "ds": list(range(len(y))), "y": y, **columns})
    store = nd.TimeSeriesDataFrame.from_frame(frame, freq=1, future=list(columns)).store
    return table_facts(store, np.array([rows]), lookback=4, h=2)


def test_a_shift_is_measured_against_the_changes_before() -> None:
    # The training rows alternate between 0 and 1; means of 8 rows never change. Then the level rises by 10.
    quiet = [float(i % 2) for i in range(200)]
    assert facts_of(quiet, 150).shift < 1
    assert facts_of([value + 10 * (i >= 170) for i, value in enumerate(quiet)], 150).shift > 10


def test_the_swing_of_a_season_is_no_change_of_level() -> None:
    # Half days of 12 rows differ by up to 5 * 4 / pi = 6.4, whole days by 0. Then the level rises by 4.
    day = [5 * np.sin(2 * np.pi * i / 24) for i in range(400)]
    assert facts_of(day, 320).shift < 1.5
    assert facts_of([value + 4 * (i >= 360) for i, value in enumerate(day)], 320).shift > 10


def test_repeated_windows_are_counted() -> None:
    draw = np.random.default_rng(0)
    fresh = draw.normal(size=100)
    assert facts_of(fresh.tolist(), 100).duplicated == 0
    # 100 rows twice: of the 195 windows of 6 rows, 95 are repetitions.
    assert facts_of([*fresh, *fresh], 200).duplicated == pytest.approx(95 / 195)


def test_a_leak_is_a_column_that_moves_with_the_target() -> None:
    draw = np.random.default_rng(1)
    y, other = np.cumsum(draw.normal(size=120)), np.cumsum(draw.normal(size=120))
    found = facts_of(y.tolist(), 100, copied=(3 * y + 1).tolist(), other=other.tolist()).leaks
    assert set(found) == {"copied"}
    assert found["copied"] == pytest.approx(1.0, abs=1e-4)
