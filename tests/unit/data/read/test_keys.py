"""Series that several columns name: joined inside, given back as the columns that came in."""

from __future__ import annotations

from datetime import date, timedelta

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuro_divergent as nd
from neuro_divergent.data.read.keys import with_joined_id, with_parts
from neuro_divergent.data.schema.schema import DataSchema

DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(30)]
PANEL = pl.DataFrame(
    [
        {"store": store, "item": item, "ds": day, "y": float(store + number), "price": 1.0 + number % 2}
        for store in (1, 2)
        for item in ("a/b", "c")
        for number, day in enumerate(DAYS)
    ]
)
FAST = nd.TrainingConfig(max_steps=2)
KEYS = ["store", "item"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text("/%2F5a", max_size=6), st.integers(-5, 5)), min_size=1, unique=True))
def test_any_parts_come_back(rows: list[tuple[str, int]]) -> None:
    frame = pl.DataFrame(rows, schema=["a", "b"], orient="row")
    lazy, schema = with_joined_id(frame.lazy(), DataSchema(id_col=["a", "b"]))
    joined = lazy.collect()
    assert joined["a/b"].n_unique() == len(rows)
    assert with_parts(joined.select("a/b"), schema).equals(frame)


def test_forecasts_scores_and_folds_have_the_parts() -> None:
    table = nd.TimeSeriesDataFrame.from_frame(PANEL, id_col=KEYS, future="price")
    assert table.n_series == 4
    assert table.to_polars().select(PANEL.columns).equals(PANEL.with_columns(pl.col("y", "price").cast(pl.Float32)))
    fitted = nd.DLinear(h=3, input_size=6).fit(table, FAST)
    ahead = fitted.make_future_dataframe().with_columns(price=pl.lit(1.0))
    assert ahead.columns == ["store", "item", "ds", "price"]
    assert fitted.get_missing_future(ahead[1:]).rows() == [(1, "a/b", date(2024, 1, 31))]
    forecast = fitted.predict(future=ahead)
    assert forecast.columns == ["store", "item", "ds", "DLinear"]
    assert forecast.schema["store"] == pl.Int64
    assert forecast["item"].unique().sort().to_list() == ["a/b", "c"]
    assert fitted.predict(PANEL, future=ahead).equals(forecast)
    assert {"store", "item"} <= {*fitted.evaluate(PANEL).frame.columns}
    assert {"store", "item"} <= {*fitted.cross_validation(PANEL, n_windows=1).frame.columns}


def test_pandas_gets_the_parts_and_update_knows_the_series(tmp_path) -> None:
    frame = PANEL.drop("price").to_pandas()
    fitted = nd.DLinear(h=2, input_size=4).fit(frame, FAST, id_col=KEYS)
    forecast = fitted.predict()
    assert isinstance(forecast, pd.DataFrame)
    assert list(forecast.columns) == ["store", "item", "ds", "DLinear"]
    fitted.save(tmp_path / "model")
    again = nd.load(tmp_path / "model").predict()
    assert list(again.columns) == list(forecast.columns)
    newer = pd.DataFrame({"store": [1], "item": ["c"], "ds": [date(2024, 1, 31)], "y": [5.0]})
    updated = fitted.update(newer)
    assert updated.data.n_series == 4


def test_a_part_may_be_static_or_categorical() -> None:
    table = nd.TimeSeriesDataFrame.from_frame(PANEL, id_col=KEYS, categorical=["item"], static=["store"])
    assert table.schema.static_categorical == ("item",)
    assert table.store.static_names == ("store",)
    columns = table.to_polars().columns
    assert columns.count("store") == columns.count("item") == 1
    nd.DLinear(h=2, input_size=4)
    fitted = nd.MLP(h=2, input_size=4, hidden_size=4).fit(table, FAST)
    assert fitted.predict().columns[:2] == KEYS


def test_a_static_table_is_named_by_the_same_parts() -> None:
    facts = PANEL.select(KEYS).unique().with_columns(size=pl.col("store") * 10.0)
    table = nd.TimeSeriesDataFrame.from_frame(PANEL, id_col=KEYS, static=facts)
    assert table.store.static[:, 0].tolist() == [10.0, 10.0, 20.0, 20.0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"id_col": ["store", "shelf"]}, "none named 'shelf'"),
        ({"id_col": ["store", "store"]}, "different columns"),
        ({"id_col": []}, "a list of different columns"),
        ({"id_col": ["store", "price"]}, "must hold text or whole numbers to name series"),
        ({"id_col": ["store", "item"], "future": ["item"]}, "'item' has another role as well"),
    ],
)
def test_keys_that_cannot_be_are_refused(options, said) -> None:
    with pytest.raises(nd.NeuroDivergentError, match=said):
        nd.TimeSeriesDataFrame.from_frame(PANEL, **options)


def test_a_static_table_may_name_a_part_of_the_key() -> None:
    facts = pl.DataFrame({"store": PANEL["store"].unique().sort(), "size": [10.0, 20.0]})
    table = nd.TimeSeriesDataFrame.from_frame(PANEL, id_col=KEYS, static=facts)
    assert table.store.static[:, 0].tolist() == [10.0, 10.0, 20.0, 20.0]
    assert "names 'store' only" in str(table.report())
    with pytest.raises(nd.DataError, match="must have a row for every store, but got none for"):
        nd.TimeSeriesDataFrame.from_frame(PANEL, id_col=KEYS, static=facts.head(1))
    with pytest.raises(nd.DataError, match="has one row for each of them, but got several for"):
        nd.TimeSeriesDataFrame.from_frame(PANEL, id_col=KEYS, static=pl.concat([facts, facts]))


def test_the_key_of_a_file_is_known_before_its_static_table(tmp_path) -> None:
    PANEL.write_csv(tmp_path / "sold.csv")
    facts = pl.DataFrame({"store": PANEL["store"].unique().sort(), "size": [10.0, 20.0]})
    table = nd.TimeSeriesDataFrame.from_csv(tmp_path / "sold.csv", static=facts)
    assert table.schema.id_parts == tuple(KEYS)
    assert table.store.static[:, 0].tolist() == [10.0, 10.0, 20.0, 20.0]
