"""Windows of filled tables against a brute-force reading of the rules: only what is known at the origin fills a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.data.store.fills import shown_rows
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.windows import Windows

FILLS = ("mask", "zero", "forward", "mean", "linear", "backward")
LOOKBACK, HORIZON = 4, 2

Cells = list[float | None]
cells = st.one_of(st.none(), st.integers(-9, 9).map(float))


def known(values: Cells, policies: list[str], row: int, origin: int) -> tuple[float, bool]:
    """The value of a row as it is known from the rows before the origin, and whether there is one."""
    if not 0 <= row < len(values):
        return 0.0, False
    before = [value for value in values[:row] if value is not None]
    after = [(place, value) for place, value in enumerate(values[:origin]) if place > row and value is not None]
    value, policy = values[row], policies[row]
    if value is not None:
        return value, True
    if policy == "zero":
        return 0.0, True
    if policy == "backward" and after:
        return after[0][1], True
    if policy == "mask" or not before:
        return 0.0, False
    if policy == "mean":
        return sum(before) / len(before), True
    if policy == "linear" and after:
        left = max(place for place in range(row) if values[place] is not None)
        right, end = after[0]
        return before[-1] + (end - before[-1]) * (row - left) / (right - left), True
    return before[-1], True


class Case:
    """Two series that begin and end at different times, with empty cells and absent rows."""

    def __init__(self, y: list[Cells], x: list[Cells], absent: set[int], begin: int, policies: tuple[Any, Any, Any]):
        missing, gaps, other = policies
        self.y = [column.copy() for column in y]
        self.x = [[0.5, *other_column[1 : len(column)]] for column, other_column in zip(y, x, strict=True)]
        self.policies, frames = [], []
        for number, column in enumerate(self.y):
            gone = {row for row in absent if 0 < row < len(column) - 1}
            for row in gone:
                column[row] = self.x[number][row] = None
            self.policies.append([gaps if row in gone else missing for row in range(len(column))])
            times = [row + begin * number for row in range(len(column))]
            rows = {"unique_id": "ab"[number], "ds": times, "y": column, "x": self.x[number]}
            frame = pl.DataFrame(rows, schema_overrides={"y": pl.Float64, "x": pl.Float64})
            frames.append(frame[[row for row in range(len(column)) if row not in gone]])
        self.frame = pl.concat(frames)
        self.other = [[other] * len(column) for column in self.y]
        self.options = {"missing": missing, "gaps": gaps, "missing_exogenous": other}

    def window(self, series: int, origin: int) -> tuple[list[float], list[bool], list[float]]:
        """Target, whether it is shown, and the other column, in the rows before the origin."""
        rows = range(origin - LOOKBACK, origin)
        target = [known(self.y[series], self.policies[series], row, origin) for row in rows]
        beside = [known(self.x[series], self.other[series], row, min(origin, len(self.y[series]))) for row in rows]
        return [value for value, _ in target], [there for _, there in target], [value for value, _ in beside]


cases = st.builds(
    Case,
    y=st.tuples(*[st.lists(cells, min_size=8, max_size=14)] * 2).map(list),
    x=st.tuples(*[st.lists(cells, min_size=14, max_size=14)] * 2).map(list),
    absent=st.sets(st.integers(1, 12), max_size=4),
    begin=st.integers(0, 3),
    policies=st.tuples(*map(st.sampled_from, (FILLS, FILLS, FILLS[1:]))),
)


@settings(max_examples=60, deadline=None)
@given(case=cases, role=st.sampled_from(("historical", "future")), multivariate=st.booleans())
def test_a_window_shows_a_gap_as_it_was_known_at_its_end_and_no_made_up_target(
    case: Case, role: str, multivariate: bool
) -> None:
    table = TimeSeriesDataFrame.from_frame(case.frame, freq=1, **{role: ["x"]}, **case.options)
    shape: Any = {"lookback": LOOKBACK, "horizon": HORIZON, "start_padding": True, "short": "drop"}
    windows = Windows(table.store, **shape, multivariate=multivariate)
    shifts = [int(start) for start in table.store.start]
    for number in range(len(windows)):
        batch = windows.gather(np.array([number]))
        (own,), (time,) = windows.locate(np.array([number]))
        for channel, series in enumerate((0, 1) if multivariate else (own,)):
            origin = int(time) - (shifts[series] if multivariate else 0)
            y, shown, x = case.window(series, origin)
            assert batch.y[0, :, channel].tolist() == pytest.approx(y, abs=1e-6)
            assert (LOOKBACK * [True] if batch.mask is None else batch.mask[0, :, channel].tolist()) == shown
            block = getattr(batch, role)[0, :LOOKBACK]
            assert (block[:, channel, 0] if multivariate else block[:, 0]).tolist() == pytest.approx(x, abs=1e-6)
            assert batch.target is not None
            ahead = [known(case.y[series], ["mask"] * 14, origin + step, 0) for step in range(HORIZON)]
            assert batch.target[0, :, channel].tolist() == [value for value, _ in ahead]
            mask = batch.target_mask
            assert (HORIZON * [True] if mask is None else mask[0, :, channel].tolist()) == [seen for _, seen in ahead]


@settings(max_examples=60, deadline=None)
@given(case=cases, rows=st.integers(1, 14))
def test_a_table_that_is_cut_is_filled_as_if_it_had_always_ended_there(case: Case, rows: int) -> None:
    table = TimeSeriesDataFrame.from_frame(case.frame, freq=1, historical=["x"], **case.options)
    cut = table.head(rows)
    for store, skipped in ((cut.store, 0), (cut.tail(LOOKBACK).store, LOOKBACK)):
        shown = shown_rows(store)
        for series, (first, last) in enumerate(zip(store.offsets, store.offsets[1:], strict=False)):
            end = min(rows, len(case.y[series]))
            place = range(max(0, end - skipped) if skipped else 0, end)
            target = [known(case.y[series], case.policies[series], row, end) for row in place]
            beside = [known(case.x[series], case.other[series], row, end)[0] for row in place]
            assert store.y[first:last].tolist() == pytest.approx([value for value, _ in target], abs=1e-6)
            seen = [True] * len(place) if shown is None else shown[first:last].tolist()
            assert seen == [there for _, there in target]
            assert store.historical is not None
            assert store.historical[first:last, 0].tolist() == pytest.approx(beside, abs=1e-6)


def test_the_horizon_of_a_known_column_repeats_the_cell_before_an_empty_one() -> None:
    # By hand: from row 4 on, x is 5, empty, empty, 8. Who forecasts knows 8 no earlier than row 7.
    x = [1.0, 2.0, 3.0, 4.0, 5.0, None, None, 8.0]
    data = {"ds": range(8), "y": [1.0] * 8, "x": x}
    table = TimeSeriesDataFrame.from_frame(data, freq=1, future=["x"], missing_exogenous="linear")
    batch = Windows(table.store, lookback=4, horizon=4).gather(np.array([0]))
    assert batch.future is not None
    assert batch.future[0, :, 0].tolist() == [1, 2, 3, 4, 5, 5, 5, 8]


def test_a_column_is_filled_backward_from_its_first_value_on_and_is_0_before_it() -> None:
    data = {"ds": range(6), "y": [1.0] * 6, "x": [None, None, None, 7.0, 8.0, 9.0]}
    table = TimeSeriesDataFrame.from_frame(data, freq=1, historical=["x"], missing_exogenous="backward")
    batch = Windows(table.store, lookback=3, horizon=1).gather(np.arange(3))
    assert batch.historical is not None
    assert batch.historical[:, :, 0].tolist() == [[0, 0, 0], [7, 7, 7], [7, 7, 8]]
