"""Which rows a model was trained on: what judges it must lie after them."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.fit.training_rows import trained_rows
from neuro_divergent.forecasting.several.ensemble import ensemble, validation_forecasts

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=0.2)


def table(lengths, start=0):
    """Row r of the n-th series has the value 1000 n + r, so that a value says which row it is."""
    parts = [
        pl.DataFrame({"unique_id": [name] * rows, "ds": range(start, start + rows), "y": np.arange(float(rows)) + add})
        for add, (name, rows) in zip(range(0, 10_000, 1000), lengths.items(), strict=False)
    ]
    return pl.concat(parts)


def short_lookback(h=6):
    return nd.MLP(h=h, input_size=12, hidden_size=4)


def first_values(members):
    """The first row of each window that weights are computed from."""
    return validation_forecasts(members)[1][:, 0].tolist()


def test_a_table_that_ends_where_a_member_was_trained_has_no_rows_for_weights():
    """A was trained on rows 0 to 149 and given 150 to 199; the table of B, the longer lookback, ends at 149."""
    rows = table({"a": 200})
    a = short_lookback().fit(rows[:150], FAST, validation=rows[150:])
    b = nd.DLinear(h=6, input_size=24).fit(rows[:150], FAST)
    assert trained_rows(a, b.data).tolist() == [150]
    assert trained_rows(b, a.data).tolist() == [120]
    with pytest.raises(nd.DataError, match="a window of 6 steps that no member was trained on"):
        ensemble([a, b], "weighted")


def test_weights_are_computed_after_the_last_moment_that_any_member_was_trained_on():
    """By hand: A knows both series to row 149; B's own split is at 120 of 150 and at 160 of 200. That leaves nothing of
    the first series and rows 160 to 199 of the second: windows of h=6, 3 apart, from 194 back to 161."""
    rows = table({"a": 200, "b": 200})
    early = pl.col("ds") < 150
    a = short_lookback().fit(rows.filter(early), FAST, validation=rows.filter(~early))
    b = nd.DLinear(h=6, input_size=24).fit(rows.filter(early | (pl.col("unique_id") == "b")), FAST)
    assert first_values([a, b]) == [1000.0 + row for row in range(161, 195, 3)]


def test_rows_are_found_by_time_where_tables_begin_at_different_moments():
    """The tables of 100 rows begin at times 0 and 50, so the splits at 80 % are at times 80 and 130."""
    first, second = (nd.DLinear(h=6, input_size=24).fit(table({"a": 100}, start), FAST) for start in (0, 50))
    assert trained_rows(first, second.data).tolist() == [30]
    assert trained_rows(second, first.data).tolist() == [100]
    assert trained_rows(first, nd.TimeSeriesDataFrame.from_frame(table({"a": 9, "new": 9}), freq=1)).tolist() == [9, 0]


def test_a_series_too_short_for_a_split_was_trained_on_whole():
    """40 rows are not enough for input_size=30 and two horizons of 6, so only the longer series was split, at 160."""
    rows = table({"long": 200, "short": 40})
    members = [nd.DLinear(h=6, input_size=30).fit(rows, FAST), short_lookback().fit(rows, FAST)]
    assert trained_rows(members[0], members[0].data).tolist() == [160, 40]
    assert first_values(members) == [float(row) for row in range(161, 195, 3)]


def test_at_least_a_horizon_is_held_back():
    """A fifth of 100 rows is shorter than h=30, so the last 30 rows are held back: one window."""
    rows = table({"a": 100})
    members = [nd.DLinear(h=30, input_size=20).fit(rows, FAST), short_lookback(30).fit(rows, FAST)]
    assert first_values(members) == [70.0]


def test_members_of_which_only_the_end_is_known_are_not_weighted_by_rows_that_may_have_been_trained_on(tmp_path):
    """A saved model knows how many rows at the end of its table it held back, but without its rows not when that is."""
    rows = table({"a": 200})
    kept, other = nd.DLinear(h=6, input_size=24).fit(rows, FAST), short_lookback().fit(rows, FAST)
    for context in (True, False):
        other.save(tmp_path / str(context), context=context)
    assert first_values([kept, nd.load(tmp_path / "True")]) == first_values([kept, other])
    with pytest.raises(nd.ConfigError, match="keeps only the last rows"):
        ensemble([kept, nd.load(tmp_path / "False")], "weighted")


def test_a_file_that_does_not_say_what_was_held_back_was_trained_on_all_its_rows(tmp_path):
    """Files of before have no such record: only rows after theirs are new."""
    fitted = short_lookback().fit(table({"a": 200}), FAST)
    fitted.history.events = [event for event in fitted.history.events if event.get("event") != "held_out"]
    fitted.save(tmp_path / "m")
    loaded = nd.load(tmp_path / "m")
    assert trained_rows(loaded, nd.TimeSeriesDataFrame.from_frame(table({"a": 260}), freq=1)).tolist() == [200]


def test_members_that_do_not_go_together_are_refused_before_they_are_weighted():
    dated = table({"a": 100}).with_columns(ds=pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 4, 9)))
    members = [
        model.fit(rows, FAST) for model, rows in ((short_lookback(), dated), (short_lookback(), table({"a": 99})))
    ]
    with pytest.raises(nd.ConfigError, match="must have one frequency"):
        ensemble(members, "weighted")
    with pytest.raises(nd.ConfigError, match="at least one fitted model"):
        ensemble([], "greedy")


def test_an_update_holds_back_the_end_of_its_own_rows():
    """By hand: of 210 rows the update sees the last 24 + 6 - 1 + 10 = 39 and holds back a fifth, 8, so rows 202 to 209
    are left; of the series without new rows, those that the first training held back, 160 to 199."""
    rows = table({"a": 210, "b": 200})
    fitted = nd.DLinear(h=6, input_size=24).fit(rows.filter(pl.col("ds") < 200), FAST)
    fitted.update(rows.filter(pl.col("ds") >= 200), FAST)
    assert trained_rows(fitted, fitted.data).tolist() == [202, 160]
    fitted.update(rows.filter(pl.col("ds") >= 209))  # as a rule nothing is held back
    assert trained_rows(fitted, fitted.data).tolist() == [210, 200]
