"""Columns beside the target: known ahead, historical, static, categorical, weights, availability."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.table import TimeSeriesDataFrame

load = TimeSeriesDataFrame.from_frame
TABLE: dict[str, Any] = {
    "unique_id": ["b", "b", "a", "a"],
    "ds": [0, 1, 0, 1],
    "y": [1.0, 2.0, 3.0, 4.0],
    "price": [10, 11, 12, 13],
    "visits": [5.0, 6.0, 7.0, 8.0],
    "weather": ["sun", "rain", "sun", None],
    "promo": [True, False, True, True],
    "region": ["north", "north", "south", "south"],
    "size": [2.5, 2.5, 1.5, 1.5],
    "w": [1.0, 2.0, 3.0, 4.0],
    "ok": [1, 0, 1, 1],
}


def test_numeric_roles_are_blocks_in_the_order_of_their_names() -> None:
    store = load(TABLE, future=("price", "promo"), historical=("visits",), static=("size",), weight="w").store
    assert store.future is not None
    assert store.future.tolist() == [[12, 1], [13, 1], [10, 1], [11, 0]]
    assert store.future_names == ("price", "promo")
    assert store.historical is not None
    assert store.historical[:, 0].tolist() == [7, 8, 5, 6]
    assert store.static is not None
    assert store.static.tolist() == [[1.5], [2.5]]
    assert store.weight is not None
    assert store.weight.tolist() == [3, 4, 1, 2]


def test_categories_are_coded_from_one_and_unknown_is_zero() -> None:
    data = load(TABLE, historical=("weather",), future=("promo",), categorical=("weather", "promo", "region"))
    store = data.store
    assert store.categories == {"promo": ("false", "true"), "weather": ("rain", "sun"), "region": ("north", "south")}
    assert store.categorical is not None  # known-ahead columns first: promo, weather
    assert store.categorical.tolist() == [[2, 2], [2, 0], [2, 2], [1, 1]]
    assert store.static_categorical is not None
    assert store.static_categorical.tolist() == [[2], [1]]
    assert data.schema.historical_categorical == ("weather",)
    assert data.schema.future_categorical == ("promo",)
    assert data.schema.static_categorical == ("region",)
    assert data.report().unknown_categories == {"weather": 1}


def test_a_categorical_column_without_another_role_is_static_or_known_ahead_and_the_report_says_so() -> None:
    data = load(TABLE, categorical=("region", "weather"))
    assert data.schema.static_categorical == ("region",)
    assert data.schema.future_categorical == ("weather",)
    assert [note for note in data.report().notes if "'region'" in note and "static" in note]
    assert "column 'weather' changes within a series: taken as known ahead (otherwise say historical='weather')" in str(
        data.report()
    )


def test_new_data_is_read_with_the_schema_of_the_old() -> None:
    data = load(TABLE, categorical=("weather", "region"), future=("price",), static=("size",))
    schema = DataSchema.from_json(data.schema.to_json())
    assert schema == data.schema
    fresh = load({**TABLE, "weather": ["snow", "rain", "sun", "sun"], "region": ["west"] * 4}, schema=schema)
    assert fresh.store.categories == data.store.categories
    assert fresh.store.categorical is not None
    assert fresh.store.categorical[:, 0].tolist() == [2, 2, 0, 1]
    assert fresh.store.static_categorical is not None
    assert fresh.store.static_categorical.tolist() == [[0], [0]]
    assert fresh.report().unknown_categories == {"weather": 1, "region": 4}
    assert load(data.to_polars(), schema=schema).fingerprint == data.fingerprint


def test_a_static_table_is_aligned_by_id() -> None:
    static = pl.DataFrame({"unique_id": ["c", "b", "a"], "floor": [0, 2, 1], "brand": ["z", "x", "y"]})
    data = load(TABLE, static=static, categorical=("brand",))
    assert data.store.static is not None
    assert data.store.static.tolist() == [[1], [2]]
    assert data.store.static_names == ("floor",)
    assert data.store.static_categorical is not None
    assert data.to_polars()["brand"].to_list() == ["y", "y", "x", "x"]
    assert [note for note in data.report().notes if "1 rows of the static table" in note]
    again = load(TABLE, schema=data.schema, static=static)
    assert again.fingerprint == data.fingerprint
    assert load(data.to_polars(), schema=data.schema).fingerprint == data.fingerprint


@pytest.mark.parametrize(
    ("static", "message"),
    [
        ({"unique_id": ["a"], "f": [1]}, "none for 'b'"),
        ({"unique_id": ["a", "a", "b"], "f": [1, 2, 3]}, "several for 'a'"),
        ({"name": ["a"], "f": [1]}, "'unique_id'"),
        ({"unique_id": [1, 2], "f": [1, 2]}, "type"),
        ({"unique_id": ["a", "b"], "f": ["x", "y"]}, "categorical="),
        ({"unique_id": ["a", "b"], "f": [1.0, None]}, "series 'b' of the static table"),
        (("price",), "changes at series 'a', row 3"),
    ],
)
def test_static_data_that_does_not_fit_is_refused(static: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(TABLE, static=static)


def test_unavailable_rows_are_masked_and_counted() -> None:
    data = load(TABLE, available_mask="ok")
    assert data.store.mask is not None
    assert data.store.mask.tolist() == [True, True, True, False]
    assert data.report().unavailable == 1
    with pytest.raises(DataError, match=r"'w' .available_mask. must hold 0 and 1"):
        load(TABLE, available_mask="w")


def test_weights_must_be_there_and_not_negative() -> None:
    with pytest.raises(DataError, match=r"'w' .weight.*series 'b', row 1"):
        load({**TABLE, "w": [1.0, -1.0, 1.0, 1.0]}, weight="w")


def test_empty_cells_of_other_columns_are_refused_or_filled_and_counted() -> None:
    table = {"ds": [0, 1, 2], "y": [1.0, 2.0, 3.0], "x": [1.0, None, 3.0]}
    with pytest.raises(DataError, match=r"column 'x' .*1 empty ones.*series 'y', row 1.*missing_exogenous"):
        load(table, future=("x",))
    data = load(table, future=("x",), missing_exogenous="linear")
    assert data.store.future is not None
    assert data.store.future[:, 0].tolist() == [1, 2, 3]
    assert data.report().exogenous_filled == {"x": 1}
    with pytest.raises(DataError, match="nothing to fill"):
        load({**table, "x": [None, 2.0, 3.0]}, future=("x",), missing_exogenous="forward")


def test_rows_added_for_gaps_repeat_other_columns_and_are_counted() -> None:
    table = {"ds": [0, 2, 3], "y": [1.0, 2.0, 3.0], "x": [5.0, 6.0, 7.0], "c": ["p", "q", "q"]}
    data = load(table, future=("x", "c"), categorical=("c",), freq=1)
    assert data.store.future is not None
    assert data.store.future[:, 0].tolist() == [5, 5, 6, 7]
    assert data.store.categorical is not None
    assert data.store.categorical[:, 0].tolist() == [1, 1, 2, 2]
    assert data.report().exogenous_filled == {"x": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"future": ("price",), "historical": ("price",)}, "one role"),
        ({"future": ("y",)}, "one role"),
        ({"categorical": ("ds",)}, "cannot be categorical"),
        ({"min_length": 0}, "min_length"),
        ({"gaps": "magic"}, "gaps"),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(TABLE, **options)


def test_unknown_columns_are_answered_with_the_closest() -> None:
    with pytest.raises(DataError, match="Did you mean 'price'"):
        load(TABLE, future=("prize",))


def test_columns_without_a_role_are_named_in_the_report() -> None:
    assert load({"ds": [0, 1], "y": [1.0, 2.0], "note": ["x", "y"]}).report().ignored_columns == ("note",)


def test_text_in_a_numeric_role_points_to_categorical() -> None:
    with pytest.raises(DataError, match="categorical='weather' as well"):
        load(TABLE, future=("weather",))


def test_double_precision_reaches_every_block() -> None:
    store = load(TABLE, future=("price",), historical=("visits",), static=("size",), weight="w", dtype="float64").store
    for block in (store.y, store.future, store.historical, store.static, store.weight):
        assert block is not None
        assert block.dtype == np.float64


def test_future_values_are_found_for_every_step_in_any_order() -> None:
    data = load(TABLE, future=("price", "promo"), categorical=("promo",))
    ahead = {
        "unique_id": ["b", "a", "a", "b", "z", "a"],
        "ds": [3, 3, 2, 2, 2, 1],
        "price": [1, 2, 3, 4, 5, 6],
        "promo": [True, False, True, None, True, True],
    }
    future, categorical = data.future_values(ahead, 2)
    assert future is not None
    assert future[:, :, 0].tolist() == [[3, 2], [4, 1]]  # a then b, steps 2 and 3
    assert categorical is not None
    assert categorical[:, :, 0].tolist() == [[2, 1], [0, 2]]  # false is 1, true is 2, empty is 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ds": [2, 3, 2, 4]}, r"none for series 'b' at 3 \(1 rows"),
        ({"ds": [2, 2, 2, 3]}, r"several, such as row 1 of series 'a'"),
        ({"price": [1, None, 3, 4]}, "'price' must be known.*row 1"),
        ({"unique_id": [1, 1, 2, 2]}, "text ids"),
        ({"ds": ["2024-01-01"] * 4}, "same kind as the data"),
    ],
)
def test_future_values_that_lack_are_named(change: dict[str, Any], message: str) -> None:
    ahead = {"unique_id": ["a", "a", "b", "b"], "ds": [2, 3, 2, 3], "price": [1, 2, 3, 4]} | change
    with pytest.raises(DataError, match=message):
        load(TABLE, future=("price",)).future_values(ahead, 2)


def test_a_static_column_must_not_have_the_name_of_another_role() -> None:
    """Found by the fuzz corpus: the static table named its series in what the data calls its time."""
    frame = {"kind": ["a"], "unique_id": [1], "y": [1.0]}
    static = {"unique_id": ["s"], "size": [1]}
    with pytest.raises(DataError, match="'unique_id' of the static table is also a column of the data"):
        TimeSeriesDataFrame.from_frame(frame, id_col="kind", time_col="unique_id", static=static)


def test_a_decimal_category_has_one_code_in_every_table() -> None:
    data = load({"ds": [0, 1, 2, 3], "y": [1.0] * 4, "kind": [1.0, 1.5, 2.0, None]}, future="kind", categorical="kind")
    assert data.schema.categories == {"kind": ("1", "1.5", "2")}
    for later in ([2.0, 1.0], [2, 1], ["2", "1"]):  # values as decimals, as whole numbers, as text
        codes = data.future_values({"ds": [4, 5], "kind": later}, 2).categorical
        assert codes is not None
        assert codes[0, :, 0].tolist() == [3, 1]


def test_whole_decimals_are_found_in_the_categories_of_earlier_versions() -> None:
    data = load({"ds": [0, 1], "y": [1.0, 2.0], "kind": [1.0, 1.5]}, future="kind", categorical="kind")
    kept = data.schema.replace(categories={"kind": ("1.0", "1.5", "2.0")})
    codes = load({"ds": [0, 1], "y": [1.0, 2.0], "kind": [2.0, 1.0]}, schema=kept).store.categorical
    assert codes is not None
    assert codes[:, 0].tolist() == [3, 1]


def test_a_future_table_with_a_time_zone_is_refused_for_data_without_one() -> None:
    data = load({"ds": ["2024-01-01T00:00", "2024-01-01T01:00"], "y": [1.0, 2.0], "price": [1, 2]}, future="price")
    with pytest.raises(DataError, match="must have no time zone, as in the data, but got"):
        data.future_values({"ds": ["2024-01-01T03:00+01:00"], "price": [3]}, 1)


def test_the_mean_of_duplicates_leaves_unavailable_rows_out() -> None:
    table = {"ds": [0, 0, 1, 1], "y": [100.0, 2.0, 5.0, 6.0], "ok": [0, 1, 0, 0]}
    store = load(table, duplicates="mean", available_mask="ok").store
    assert store.y.tolist() == [2.0, 0.0]
    assert store.mask is not None
    assert store.mask.tolist() == [True, False]


@pytest.mark.parametrize("gaps", ["zero", "mask"])
def test_rows_added_for_a_gap_are_no_targets_so_they_weigh_nothing(gaps: Any) -> None:
    table = {"ds": [0, 1, 3], "y": [1.0, 2.0, 4.0], "w": [2.0, 3.0, 4.0]}
    weight = load(table, freq=1, weight="w", gaps=gaps).store.weight
    assert weight is not None
    assert weight.tolist() == [2.0, 3.0, 0.0, 4.0]


def test_all_columns_that_lack_are_named_at_once() -> None:
    frame = pl.DataFrame({"Timestamp": [1, 2, 3], "Sold": [1.0, 2.0, 3.0], "Shop": ["a", "a", "a"]})
    with pytest.raises(DataError, match="2 answers") as raised:
        TimeSeriesDataFrame.from_frame(frame)
    assert "time_col='Timestamp'" in str(raised.value)
    assert "target_col='Sold'" in str(raised.value)
    assert [one.field for one in raised.value.advice] == ["data.time_col", "data.target_col"]
