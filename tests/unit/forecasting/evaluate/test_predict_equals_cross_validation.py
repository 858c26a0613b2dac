"""Cross-validation forecasts what `predict` would have: from a table that ends at the cutoff, with the same weights.

The forecasts are compared up to the rounding of float32, because other batches add up in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import neuro_divergent as nd

FILLS = ("mask", "zero", "forward", "mean", "linear", "backward")
TIMES: dict[str, tuple[str | int, str | None]] = {
    "steps": (1, None),
    "hours without a clock change": ("1h", None),
    "hours in Berlin": ("1h", "Europe/Berlin"),  # the clock goes back inside of every table
    "days in New York": ("1d", "America/New_York"),
    "months": ("1mo", None),
}
ONE_STEP = nd.TrainingConfig(max_steps=1, validation_split=None, progress=False)


@dataclass(frozen=True)
class Case:
    """A table with holes, and how it is read, trained on and scaled."""

    seed: int
    series: int
    holes: float
    absent: float
    times: str
    missing: str
    gaps: str
    beside: str | None
    scaler: str | None
    multivariate: bool

    def frame(self) -> pl.DataFrame:
        """Random walks that begin and end at different times; half of what is empty comes in runs."""
        rng = np.random.default_rng(self.seed)
        (freq, zone), parts = TIMES[self.times], []
        for number in range(self.series):
            first, rows = int(rng.integers(0, 4)), int(rng.integers(24, 34))
            rows = 34 - first if self.multivariate else rows
            empty = rng.random((3, rows)) < self.holes / 2
            empty[:, : rows - 1] |= empty[:, 1:]
            empty[1:, 0] = False
            y, x, z = (np.where(hole, np.nan, rng.normal(size=rows).cumsum() + 5) for hole in empty)
            when = stamps(freq, zone)[first : first + rows]
            part = pl.DataFrame({"unique_id": f"s{number}", "ds": when, "y": y, "x": x, "z": z}).fill_nan(None)
            gone = rng.random(rows) < self.absent
            gone[[0, -1]] = False
            parts.append(part.filter(~gone))
        return pl.concat(parts)

    def options(self) -> dict[str, Any]:
        (freq, zone) = TIMES[self.times]
        options: dict[str, Any] = {"freq": freq, "time_zone": zone, "missing": self.missing, "gaps": self.gaps}
        if self.beside is not None and not self.multivariate:
            options |= {"historical": ["x"], "future": ["z"], "features": ["lag:2"], "missing_exogenous": self.beside}
        return options

    def ahead(self, data: nd.TimeSeriesDataFrame, frame: pl.DataFrame) -> pl.DataFrame:
        """The column known ahead, with nothing in a row that is only known after it."""
        rows = data.to_polars()
        if self.beside not in ("linear", "backward"):
            return rows
        rows = rows.drop("z").join(frame.select("unique_id", "ds", "z"), on=["unique_id", "ds"], how="left")
        return rows.with_columns(pl.col("z").forward_fill().over("unique_id"))

    def model(self) -> nd.Model:
        if self.multivariate:
            return nd.MLPMultivariate(h=2, input_size=5, hidden_size=4, alias="net")
        return nd.MLP(h=2, input_size=5, hidden_size=4, alias="net")


def stamps(freq: str | int, zone: str | None) -> pl.Series:
    if isinstance(freq, int):
        return pl.Series(range(40))
    begin = pl.datetime(2024, 10, 26, 12 if freq == "1h" else 0, time_zone=zone)
    begin = pl.datetime(2024, 1, 1) if freq == "1mo" else begin
    return pl.select(pl.datetime_range(begin, begin.dt.offset_by(f"39{freq[1:]}"), freq)).to_series()[:40]


def compared(case: Case) -> int:
    """How many forecasts of a cross-validation were found again by `predict`."""
    frame = case.frame()
    data = nd.TimeSeriesDataFrame.from_frame(frame, **case.options())
    # The end of each series is tested: by date, one that ends early might have no row in any fold.
    folds = nd.TimeSeriesSplit(n_splits=3, test_size=2, step_size=1, align="series")
    result = nd.cross_validation(
        [case.model()], data, config=ONE_STEP, splitter=folds, local_scaler=case.scaler, short="pad"
    )
    fitted, count = result.forecasters["net"], 0
    ahead = case.ahead(data, frame) if data.store.future is not None else None
    for (cutoff,), found in result.frame.group_by("cutoff", maintain_order=True):
        names = found["unique_id"].unique(maintain_order=True).to_list()
        past = [data.select([name]) for name in names]
        ends = [int((table.all_times() <= cutoff).sum()) for table in past]
        if case.multivariate:
            assert len(names) == case.series
            groups = [(data, found)]
        else:
            groups = [(data.select([name]), found.filter(unique_id=name)) for name in names]
        for table, expected in groups:
            until = frame.filter(pl.col("unique_id").is_in(table.ids.tolist()), pl.col("ds") <= cutoff)
            cut = table.drop_last(int(table.store.lengths[0] - ends[names.index(table.ids[0].item())]))
            tables: list[Any] = [cut]
            if until.group_by("unique_id").agg((pl.col("ds") == cutoff).any())["ds"].all():
                tables.append(until)  # read anew; a table cannot end with a row that is absent
            later = None if ahead is None else ahead.filter(pl.col("ds") > cutoff)
            for some in tables:
                again = expected.join(fitted.predict(some, future=later), on=["unique_id", "ds"], suffix="_again")
                assert len(again) == len(expected)
                np.testing.assert_allclose(again["net_again"], again["net"], rtol=1e-4, atol=1e-4)
            count += len(expected)
    return count


cases = st.builds(
    Case,
    seed=st.integers(0, 10**6),
    series=st.integers(1, 3),
    holes=st.sampled_from((0.0, 0.3, 0.5)),
    absent=st.sampled_from((0.0, 0.2)),
    times=st.sampled_from(sorted(TIMES)),
    missing=st.sampled_from(FILLS),
    gaps=st.sampled_from(FILLS),
    beside=st.sampled_from((None, *FILLS[1:])),
    scaler=st.sampled_from((None, "standard", "robust", "minmax")),
    multivariate=st.booleans(),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
def test_cross_validation_forecasts_what_predict_does_from_the_table_cut_there(case: Case) -> None:
    assert compared(case) >= 6 * case.series


@pytest.mark.stress
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases)
def test_cross_validation_forecasts_what_predict_does_in_many_tables(case: Case) -> None:
    assert compared(case) >= 6 * case.series
