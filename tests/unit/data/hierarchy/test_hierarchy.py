"""Hierarchies: what is read as a summing matrix, and tables summed over their keys."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.hierarchy.hierarchy import Hierarchy

S = np.array([[1, 1], [1, 0], [0, 1]])


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (S, None),
        (S.tolist(), None),
        ({"t": [1, 1], "a": [1, 0], "b": [0, 1]}, ("t", "a", "b")),
        (pd.DataFrame(S, index=["t", "a", "b"], columns=["a", "b"]), ("t", "a", "b")),
        (pd.DataFrame({"unique_id": ["t", "a", "b"], "a": [1, 1, 0], "b": [1, 0, 1]}), ("t", "a", "b")),
        (pl.DataFrame({"unique_id": ["t", "a", "b"], "a": [1, 1, 0], "b": [1, 0, 1]}), ("t", "a", "b")),
    ],
)
def test_a_matrix_a_frame_and_a_dict_are_the_same_hierarchy(given, ids):
    found = Hierarchy.read(given)
    assert found.ids == ids
    assert found.bottom == (1, 2)
    assert (found.matrix == S).all()


def test_bottom_rows_are_found_wherever_they_stand():
    found = Hierarchy.read([[0, 1], [1, 1], [1, 0]])
    assert found.bottom == (2, 0)


def test_a_parent_with_one_child_is_not_taken_for_it_where_columns_have_names():
    frame = pl.DataFrame(
        {"unique_id": ["child", "other", "parent", "total"], "child": [1, 0, 1, 1], "other": [0, 1, 0, 1]}
    )
    found = Hierarchy.read(frame)
    assert [found.ids[row] for row in found.bottom] == ["child", "other"]


def test_weights_come_back_from_json():
    found = Hierarchy.read({"net": [1, -0.5], "in": [1, 0], "out": [0, 1]})
    again = Hierarchy.from_json(found.to_json())
    assert again == found
    assert again.matrix.tolist() == [[1, -0.5], [1, 0], [0, 1]]
    assert json.loads(found.to_json())["weights"] == [[1.0, -0.5], [1.0], [1.0]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[1, 1], [1, 0]], "every bottom series needs a row with a single 1 in S"),
        ([[1, 0, 0], [0, 1, 0]], "one row for each series"),
        ([1, 2], "one row for each series"),
        ([[0, 0], [1, 0], [0, 1]], "only zeros for 'row 0'"),
        ([[np.nan, 1], [1, 0], [0, 1]], "finite"),
        ("total", "matrix of numbers"),
    ],
)
def test_what_is_no_summing_matrix_is_refused(given, said):
    with pytest.raises(nd.ConfigError, match=said):
        Hierarchy.read(given)


def test_other_series_are_named():
    family = Hierarchy.read({"t": [1, 1], "a": [1, 0], "b": [0, 1]})
    with pytest.raises(nd.DataError, match=r"the data lacks 'b' and S has no row for 'x', 'y'"):
        family.positions(np.array(["a", "t", "x", "y"]))
    assert family.positions(np.array(["a", "b", "t"])).tolist() == [2, 0, 1]
    with pytest.raises(nd.DataError, match=r"S has 3 rows.* the data has 2 series: 'a', 'b'"):
        Hierarchy.read(S).positions(np.array(["a", "b"]))


def sales() -> pl.DataFrame:
    """Two states, three shops, three days: the numbers are their own check."""
    return pl.DataFrame(
        {
            "state": ["N", "N", "S"] * 3,
            "shop": ["1", "2", "1"] * 3,
            "ds": [1, 1, 1, 2, 2, 2, 3, 3, 3],
            "y": [1.0, 2.0, 4.0, 10.0, 20.0, 40.0, 100.0, 200.0, 400.0],
            "price": [1.0, 3.0, 5.0] * 3,
        }
    )


LEVELS = [[], ["state"], ["state", "shop"]]


def series(frame: pl.DataFrame, name: str) -> list[float | None]:
    return frame.filter(pl.col("unique_id") == name).sort("ds")["y"].to_list()


def test_a_table_is_summed_level_by_level():
    found = nd.aggregate(sales(), LEVELS, columns={"price": "mean"})
    assert found.hierarchy.ids == ("N", "N/1", "N/2", "S", "S/1", "Total")
    assert found.hierarchy.matrix.tolist() == [[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 1, 1]]
    assert found.hierarchy.levels == {"Total": ("Total",), "state": ("N", "S"), "state/shop": ("N/1", "N/2", "S/1")}
    assert [found.hierarchy.ids[row] for row in found.hierarchy.bottom] == ["N/1", "N/2", "S/1"]
    assert series(found.data, "Total") == [7.0, 70.0, 700.0]
    assert series(found.data, "N") == [3.0, 30.0, 300.0]
    assert found.data.filter(pl.col("unique_id") == "N")["price"].to_list() == [2.0, 2.0, 2.0]


def test_groups_that_cross_each_other():
    found = nd.aggregate(sales(), [["shop"], ["state"], ["state", "shop"]], separator="-")
    assert series(found.data, "1") == [5.0, 50.0, 500.0]
    assert found.hierarchy.matrix[found.hierarchy.ids.index("1")].tolist() == [1, 0, 1]


def test_the_frame_comes_back_in_its_library():
    frame = sales().to_pandas()
    assert isinstance(nd.aggregate(frame, LEVELS).data, pd.DataFrame)
    assert isinstance(nd.aggregate(sales().to_dict(as_series=False), LEVELS).data, dict)
    assert nd.aggregate(sales().to_arrow(), LEVELS).data.num_rows == 18


def test_a_child_that_begins_late_is_not_missing_but_a_gap_is():
    """Shop N/2 begins on day 2: N is N/1 alone before. Without its day 2, N and Total are unknown on day 2."""
    late = sales().filter(~((pl.col("shop") == "2") & (pl.col("ds") == 1)))
    assert series(nd.aggregate(late, LEVELS).data, "N") == [1.0, 30.0, 300.0]
    gap = sales().filter(~((pl.col("shop") == "2") & (pl.col("ds") == 2)))
    found = nd.aggregate(gap, LEVELS).data
    assert series(found, "N") == [3.0, None, 300.0]
    assert series(found, "Total") == [7.0, None, 700.0]
    assert series(found, "S") == [4.0, 40.0, 400.0]
    null = sales().with_columns(pl.when(pl.col("y") == 20.0).then(None).otherwise("y").alias("y"))
    assert series(nd.aggregate(null, LEVELS).data, "Total") == [7.0, None, 700.0]


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ([], "needs levels"),
        ([[]], "needs levels"),
        ([["shop"], ["state"]], "must have all keys, but 'shop'"),
        ([["state"], ["state"]], "have the same keys"),
        ([["state"], ["state", "town"]], "must have the columns 'town'"),
    ],
)
def test_levels_that_make_no_hierarchy_are_refused(levels, said):
    with pytest.raises(nd.NeuroDivergentError, match=said):
        nd.aggregate(sales(), levels)


def test_two_levels_may_not_share_a_name():
    twice = sales().with_columns(pl.lit("N").alias("shop"))
    with pytest.raises(nd.DataError, match="'N' is on two levels"):
        nd.aggregate(twice, [["shop"], ["state"], ["state", "shop"]])
    with pytest.raises(nd.DataError, match="key 'shop' is missing"):
        nd.aggregate(sales().with_columns(pl.lit(None, pl.String).alias("shop")), LEVELS)


def test_first_and_last_are_meant_in_the_order_of_the_table():
    """A hundred shops of one state; the state's first price is that of the first shop, also where that has a gap."""
    names = [f"{number:03d}" for number in range(99, -1, -1)]
    rows = pl.DataFrame({"state": ["N"] * 100, "shop": names, "y": [1.0] * 100, "price": [float(n) for n in names]})
    table = pl.concat([rows.with_columns(ds=pl.lit(day)) for day in range(3)])
    table = table.filter(~((pl.col("shop") == "000") & (pl.col("ds") == 1)))
    for how, expected in (("first", [99.0, 99.0, 99.0]), ("last", [0.0, 1.0, 0.0])):
        found = nd.aggregate(table, [["state"], ["state", "shop"]], columns={"price": how}).data
        assert found.filter(pl.col("unique_id") == "N").sort("ds")["price"].to_list() == expected


@pytest.mark.parametrize(
    ("price", "how", "expected"),
    [
        ([1.0, 2.0, 3.0], "last", {"N": 3.0, "N/A": 3.0, "N/B": 2.0}),
        ([1.0, 2.0, 3.0], "first", {"N": 1.0, "N/A": 1.0, "N/B": 2.0}),
        ([None, 2.0, 3.0], "first", {"N": 2.0, "N/A": 3.0, "N/B": 2.0}),
        ([float("nan"), 2.0, 3.0], "first", {"N": 2.0, "N/A": 3.0, "N/B": 2.0}),
        ([1.0, 5.0, 3.0], "mean", {"N": 3.0, "N/A": 2.0, "N/B": 5.0}),
        ([1.0, float("nan"), 3.0], "max", {"N": 3.0, "N/A": 3.0, "N/B": None}),
        (["a", None, "c"], "last", {"N": "c", "N/A": "c", "N/B": None}),
    ],
)
def test_a_parent_is_made_of_the_rows_of_the_table(price, how, expected):
    """Two rows of shop A at one time, with B between them: by hand from the three rows, not from A and B."""
    rows = {"state": ["N"] * 3, "shop": ["A", "B", "A"], "ds": [1, 1, 1], "y": [1.0, 2.0, 4.0], "price": price}
    found = nd.aggregate(pl.DataFrame(rows), [["state"], ["state", "shop"]], columns={"price": how}).data
    assert dict(zip(found["unique_id"], found["price"], strict=True)) == expected
    assert dict(zip(found["unique_id"], found["y"], strict=True)) == {"N": 7.0, "N/A": 5.0, "N/B": 2.0}


def test_a_gap_is_found_beside_rows_of_the_same_time():
    """Three rows of A over three days, two of them on the first: the second day is missing all the same."""
    rows = {"state": ["N"] * 6, "shop": list("AAABBB"), "ds": [1, 1, 3, 1, 2, 3], "y": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}
    found = nd.aggregate(pl.DataFrame(rows), [["state"], ["state", "shop"]]).data
    assert series(found, "N/A") == [3.0, None, 4.0]
    assert series(found, "N") == [11.0, None, 36.0]


@pytest.mark.parametrize("name", ["rows", "first", "last", "moment"])
def test_a_key_may_have_any_name(name):
    gap = sales().filter(~((pl.col("shop") == "2") & (pl.col("ds") == 2))).rename({"shop": name})
    found = nd.aggregate(gap, [["state"], ["state", name]]).data
    assert series(found, "N/2") == [2.0, None, 200.0]
