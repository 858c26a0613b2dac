"""The range of the target: lower, upper and integer of a table. Expected values are by hand."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.read.target_range import range_of
from neuro_divergent.data.schema.bounds import Bounds

LEVELS = (None, 0.1, 0.5, 0.9)


def days(values, name="a"):
    stamps = [dt.date(2024, 1, 1) + dt.timedelta(days=day) for day in range(len(values))]
    return pl.DataFrame({"unique_id": name, "ds": stamps, "y": [float(value) for value in values]})


class TestBounds:
    def test_values_are_moved_to_the_nearest_value_in_the_range(self):
        values = np.array([[-1.5, -3.0, 0.2, 11.0]])
        assert Bounds(lower=0.0, upper=10.0).keep(values, LEVELS).tolist() == [[0.0, 0.0, 0.2, 10.0]]

    def test_edges_of_whole_numbers_are_rounded_outwards_and_points_to_the_nearest(self):
        values = np.array([[1.6, 0.7, 1.4, 2.1]])
        assert Bounds(integer=True).keep(values, LEVELS).tolist() == [[2.0, 0.0, 1.0, 3.0]]

    def test_an_edge_that_is_whole_up_to_rounding_errors_stays(self):
        values = np.array([[3.0, 2.9999998, 3.0, 3.0000002]])
        assert Bounds(integer=True).keep(values, LEVELS).tolist() == [[3.0, 3.0, 3.0, 3.0]]

    @pytest.mark.parametrize(
        ("given", "rule"),
        [
            ({"lower": 5, "upper": 2}, "lower must be less than upper"),
            ({"lower": 0.5, "integer": True}, "integer=True needs whole numbers as bounds"),
            ({"upper": float("inf")}, "upper must be a finite number"),
        ],
    )
    def test_contradictions_are_refused(self, given, rule):
        with pytest.raises(nd.ConfigError, match=rule):
            nd.DataSchema(**given)


class TestTables:
    def test_a_value_outside_is_refused_with_its_series_and_moment(self):
        table = pl.concat([days([0, 1, 2]), days([3, -4, 5, -6], "b")])
        with pytest.raises(nd.DataError, match=r"'b' has -4 at 2024-01-02 \(2 such values.*say lower=None"):
            nd.TimeSeriesDataFrame.from_frame(table, lower=0)
        with pytest.raises(nd.DataError, match=r"'b' has 5 at 2024-01-03.*say upper=None"):
            nd.TimeSeriesDataFrame.from_frame(table, upper=4.5)
        with pytest.raises(nd.DataError, match=r"whole numbers.*'a' has 0.5 at 2024-01-02.*say integer=False"):
            nd.TimeSeriesDataFrame.from_frame(days([1, 0.5]), integer=True)

    def test_a_masked_value_is_no_value(self):
        table = days([1, 2, 3]).with_columns(pl.Series("y", [1.0, None, 3.0]))
        assert nd.TimeSeriesDataFrame.from_frame(table, lower=1).schema.lower == 1

    def test_later_rows_of_a_known_table_are_inputs(self):
        schema = nd.TimeSeriesDataFrame.from_frame(days([1, 2, 3]), lower=0).schema
        assert len(nd.TimeSeriesDataFrame.from_frame(days([1, -2, 3]), schema=schema)) == 3

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ([0, 3, 1], ["assumed: the target is a count", "say integer=True"]),
            ([4, 3, 1], ["whole numbers above 0: say lower=0 and integer=True"]),
            ([0, 0.5, 1], ["no target is negative, and some are 0: say lower=0"]),
            ([0, -1, 1], []),
            ([0.5, 1.5, 1], []),
        ],
    )
    def test_the_report_proposes_a_range(self, values, said):
        lines = nd.TimeSeriesDataFrame.from_frame(days(values)).report().lines()
        found = [line for line in lines if "lower=" in line or "integer=" in line]
        assert len(found) == len(said)
        assert all(part in line for part, line in zip(said, found, strict=True))

    def test_a_given_range_is_not_proposed(self):
        lines = nd.TimeSeriesDataFrame.from_frame(days([0, 3, 1]), lower=None).report().lines()
        assert not [line for line in lines if "lower=" in line or "integer=" in line]


def test_only_the_first_rows_decide_what_a_count_is():
    data = nd.TimeSeriesDataFrame.from_frame(pl.concat([days([0, 3, 1, 0.5]), days([2, 2, -1], "b")]))
    assert range_of(data.store, data.schema, np.array([3, 2])) == Bounds(lower=0.0)
    assert range_of(data.store, data.schema, np.array([4, 2])) is None
    assert range_of(data.store, data.schema, np.array([3, 3])) is None
    assert range_of(data.store, data.schema.replace(lower=None), np.array([3, 2])) is None
