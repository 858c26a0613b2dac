"""Rows of a gap are seen by nobody: also not by the later forecasts of a long test part, nor in a user's hole."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.evaluate.cross_validation import cross_validation
from neuro_divergent.forecasting.evaluate.folds import TimeSeriesSplit
from neuro_divergent.forecasting.evaluate.hidden_rows import without_rows
from neuro_divergent.models import TSMixer

FAST = nd.TrainingConfig(max_steps=2, progress=False)
STEPS, TEST, GAP = 120, 18, 4
SMALL = nd.NHITS(h=10, input_size=12, hidden_sizes=(8,))  # h reaches over the gap: some columns are not known ahead


def panel():
    """Two series with a column known up to now, a category known up to now, and a rolling mean of the target."""
    frame = nd.samples.hourly_panel(3, STEPS).filter(pl.col("unique_id") != "series-00")  # which has missing hours
    number = pl.int_range(pl.len()).over("unique_id")
    return frame.with_columns(past=(number % 7).cast(pl.Float64), kind=(number % 3).cast(pl.String))


def forecasts(model, frame, splitter):
    columns = {"historical": ["past", "kind"], "categorical": ["kind"], "features": ["rolling_mean:3"]}
    found = cross_validation([model], frame, config=FAST, splitter=splitter, h=6, **columns)
    naive = next(name for name in found.evaluation.frame.columns if "naive" in name)
    return found.frame[model.name].to_list(), found.evaluation.frame[naive].to_list()


def poisoned(frame, first, last):
    """Every column of some steps changed: the target, what is known up to now, the category."""
    number = pl.int_range(pl.len()).over("unique_id")
    there = (number >= first) & (number < last)
    return frame.with_columns(
        y=pl.when(there).then(1e6).otherwise(pl.col("y")),
        past=pl.when(there).then(-99.0).otherwise(pl.col("past")),
        kind=pl.when(there).then(pl.lit("1")).otherwise(pl.col("kind")),
    )


@pytest.mark.parametrize("model", [SMALL, TSMixer(h=6, input_size=12)])
def test_the_later_forecasts_of_a_long_test_part_do_not_see_the_gap(model):
    """Test rows 102 to 119 are forecast in three turns of 6; the gap is 98 to 101, and row 97 is seen by all."""
    split, frame, first = TimeSeriesSplit(n_splits=1, test_size=TEST, gap=GAP), panel(), STEPS - TEST
    clean = forecasts(model, frame, split)
    assert forecasts(model, poisoned(frame, first - GAP, first), split) == clean
    assert forecasts(model, poisoned(frame, first - GAP - 1, first - GAP), split) != clean
    # Each forecast ends its look back a gap before its first target: row 102 + 6 - 4 is the first that the second one
    # does not see.
    late = forecasts(model, poisoned(frame, first + 6 - GAP, first + 6), split)[0]
    assert np.reshape(late, (2, 3, 6))[:, :2].tolist() == np.reshape(clean[0], (2, 3, 6))[:, :2].tolist()


def test_the_hole_of_a_splitter_is_a_gap():
    """scikit-learn's TimeSeriesSplit(gap=4) leaves four positions between the sides; here as plain pairs."""
    model, frame, first = SMALL, panel(), STEPS - TEST
    hole = [(range(first - GAP), range(first, STEPS))]
    clean = forecasts(model, frame, hole)
    assert clean == forecasts(model, frame, TimeSeriesSplit(n_splits=1, test_size=TEST, gap=GAP))
    assert forecasts(model, poisoned(frame, first - GAP, first), hole) == clean


def test_folds_may_have_holes_of_different_sizes():
    """By hand: the first fold sees up to position 79 and forecasts from 82, the second up to 99 and from 100."""
    pairs = [(range(80), range(82, 88)), (range(100), range(100, 106))]
    run = cross_validation([nd.NLinear(h=6, input_size=12)], panel(), config=FAST, splitter=pairs, refit=True)
    hours = (run.frame["ds"] - run.frame["cutoff"]).dt.total_hours().to_list()
    assert hours == [*range(3, 9), *range(1, 7)] * 2
    truth = panel().rename({"y": "truth"})
    both = run.frame.join(truth, on=["unique_id", "ds"])
    assert (both["y"] - both["truth"]).abs().max() < 1e-3
    run.plot()


@pytest.mark.parametrize("fill", ["zero", "forward", "mean", "linear", "backward"])
def test_what_is_filled_beside_a_gap_says_nothing_of_the_gap(fill):
    """Rows 97 and 102 are empty, on both sides of the gap; row 99 is empty inside of it."""
    number = pl.int_range(pl.len()).over("unique_id")
    first = STEPS - TEST
    empty = number.is_in([first - GAP - 1, first - GAP + 1, first])
    split = TimeSeriesSplit(n_splits=1, test_size=TEST, gap=GAP)

    def found(frame):
        holes = frame.with_columns(y=pl.when(empty).then(None).otherwise(pl.col("y")))
        if fill in ("linear", "backward"):
            holes = holes.with_columns(past=pl.when(empty).then(None).otherwise(pl.col("past")))
        columns = {"historical": ["past"], "missing": fill, "gaps": fill, "missing_exogenous": fill}
        return cross_validation([SMALL], holes, config=FAST, splitter=split, h=6, **columns).frame["NHITS"].to_list()

    assert found(poisoned(panel(), first - GAP, first)) == found(panel())


def test_hidden_rows_are_filled_from_what_is_seen():
    """By hand: rows 3 and 4 are hidden and row 5 is empty, so all three lie between 2 and 6, or repeat 2."""
    frame = pl.DataFrame({"unique_id": "a", "ds": range(8), "y": [0.0, 1.0, 2.0, 3.0, None, None, 6.0, 7.0]})
    shown = {}
    for fill in ("linear", "forward", "mask"):
        table = nd.TimeSeriesDataFrame.from_frame(frame, missing=fill, gaps=fill)
        shown[fill] = without_rows(table, np.array([3]), np.array([5])).to_polars(filled=True)["y"].to_list()
    assert shown == {
        "linear": [0, 1, 2, 3, 4, 5, 6, 7],
        "forward": [0, 1, 2, 2, 2, 2, 6, 7],
        "mask": [0, 1, 2, None, None, None, 6, 7],
    }
