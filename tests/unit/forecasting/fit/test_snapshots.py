"""`nd.ForecastSnapshots` and the facts about a training. Errors are compared with those of the metrics."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd


def panel(gap=False):
    """Three series with a week, twice as large from one to the next."""
    days = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 5, 29), "1d", eager=True)
    rng, n = np.random.default_rng(3), len(days)
    frames = [
        pl.DataFrame(
            {
                "unique_id": name,
                "ds": days,
                "y": scale * (2 + np.sin(np.arange(n) * 2 * np.pi / 7) + rng.normal(0, 0.1, n)),
            }
        )
        for name, scale in (("a", 1.0), ("b", 2.0), ("c", 4.0))
    ]
    table = pl.concat(frames)
    return table.filter(~((pl.col("unique_id") == "b") & (pl.col("ds") == days[60]))) if gap else table


def fitted(tmp_path, *callbacks, model=None, data=None, **fields):
    config = nd.TrainingConfig(
        **{"max_epochs": 3, "metrics": ("mae",), "progress": False, "refit": None, "early_stopping": None}
        | {"callbacks": callbacks, "checkpoints": nd.Checkpoints(directory=tmp_path / "run")}
        | fields
    )
    return (model or nd.MLP(h=7, input_size=21, hidden_size=8)).fit(panel() if data is None else data, config)


def test_the_error_of_a_snapshot_is_the_validation_metric_of_its_epoch(tmp_path):
    fitted(tmp_path, nd.ForecastSnapshots(series=("c",)), loss=nd.MQLoss(level=[80]))
    record = nd.read_run(tmp_path / "run")
    assert record.snapshots == (1, 2, 3)
    for epoch in record.epochs:
        assert record.snapshot(epoch["epoch"])["error"] == pytest.approx(epoch["validation_mae"], rel=1e-5)
    last = record.snapshot(3)
    assert last["naive_error"] == pytest.approx(record.about["naive"]["validation_mae"], rel=1e-5)
    assert len(last["by_step"]["model"]) == 7
    assert {one["id"] for one in last["worst"]} == {"a", "b", "c"}
    shown = last["series"][0]
    truth = panel().filter(pl.col("unique_id") == "c")["y"].to_list()
    assert shown["actual"] == pytest.approx(truth[-7:], rel=1e-4)
    assert shown["naive"] == pytest.approx(truth[-14:-7], rel=1e-4)  # the season is a week
    assert shown["history"] == pytest.approx(truth[-28:-7], rel=1e-4)
    assert shown["times"][-1].startswith("2024-05-29")
    low, high = shown["intervals"]["80"]
    assert all(one <= two for one, two in zip(low, high, strict=True))


def test_a_scaler_of_series_is_undone(tmp_path):
    config = nd.TrainingConfig(
        max_epochs=1, progress=False, refit=None, callbacks=[nd.ForecastSnapshots(series=("c",))],
        checkpoints=nd.Checkpoints(directory=tmp_path / "run"),
    )  # fmt: skip
    nd.NeuralForecast([nd.MLP(h=7, input_size=21, hidden_size=8)], freq="1d", local_scaler_type="standard").fit(
        panel(), config
    )
    record = nd.read_run(tmp_path / "run")
    record = record.runs[0] if record.what == "runs" else record
    shown = record.snapshot(1)["series"][0]
    truth = panel().filter(pl.col("unique_id") == "c")["y"].to_list()
    assert shown["actual"] == pytest.approx(truth[-7:], rel=1e-3)


def test_a_model_of_all_series_at_once(tmp_path):
    fitted(tmp_path, nd.ForecastSnapshots(), model=nd.TSMixer(h=7, input_size=21, n_series=3, n_block=1, ff_dim=8)
           if "n_series" in nd.TSMixer.model_fields else nd.TSMixer(h=7, input_size=21), loss=nd.MAE())  # fmt: skip
    record = nd.read_run(tmp_path / "run")
    assert [one["id"] for one in record.snapshot(3)["series"]] == ["a", "b", "c"]
    assert record.snapshot(3)["error"] == pytest.approx(record.epochs[2]["validation_mae"], rel=1e-5)


def test_snapshots_change_no_weight(tmp_path):
    one = fitted(tmp_path / "one", loss=nd.MAE())
    other = fitted(tmp_path / "other", nd.ForecastSnapshots(), loss=nd.MAE())
    assert one.history.step_loss == other.history.step_loss


def test_old_files_are_thinned_out(tmp_path):
    fitted(tmp_path, nd.ForecastSnapshots(series=1, keep=3), max_epochs=7, loss=nd.MAE())
    found = nd.read_run(tmp_path / "run").snapshots
    assert (len(found), found[0], found[-1]) == (3, 1, 7)


def test_a_wrong_name_and_an_interval_that_was_not_learned_are_refused(tmp_path):
    with pytest.raises(nd.ConfigError, match="names of the table, but got 'd'"):
        fitted(tmp_path, nd.ForecastSnapshots(series=("d",)))
    with pytest.raises(nd.ConfigError, match="level=99"):
        fitted(tmp_path, nd.ForecastSnapshots(level=(99.0,)), loss=nd.MQLoss(level=[80]))


def test_the_facts_about_a_training(tmp_path):
    fitted(tmp_path, data=panel(gap=True), loss=nd.MAE())
    about = nd.read_run(tmp_path / "run").about
    data = about["data"]
    assert (data["series"], data["rows"], data["observed"], data["seasons"][0]) == (3, 450, 449, 7)
    assert any("1 row" in text for text in data["report"])
    series = {one["id"]: one for one in nd.read_run(tmp_path / "run").details["series"]}
    assert [series[name]["missing"] for name in "abc"] == [0, 1, 0]
    assert series["b"]["longest_gap"] == 1
    assert about["scored"]["h"] == 7
    assert about["naive"]["season"] == 7


def test_the_naive_loss_by_hand(tmp_path):
    """One series, one held-out window: the mean absolute difference to the week before, in original units."""
    days = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 3, 31), "1d", eager=True)
    y = [10.0 + day % 7 + 0.01 * day**1.5 for day in range(len(days))]
    table = pl.DataFrame({"unique_id": "a", "ds": days, "y": y})
    data, held = table.head(len(y) - 7), table.tail(7)
    config = nd.TrainingConfig(
        max_epochs=1,
        loss=nd.MAE(),
        metrics=("mae",),
        progress=False,
        checkpoints=nd.Checkpoints(directory=tmp_path / "run"),
    )
    nd.DLinear(h=7, input_size=14, scaler="identity").fit(data, config, validation=held)
    about = nd.read_run(tmp_path / "run").about
    expected = np.mean([abs(y[-7 + step] - y[-14 + step]) for step in range(7)])
    assert about["naive"]["validation_mae"] == pytest.approx(expected, rel=1e-5)
    assert about["naive"]["validation_loss"] == pytest.approx(expected, rel=1e-5)
