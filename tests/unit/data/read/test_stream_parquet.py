"""Parquet to a store on disk, piece by piece: the same store as the one that is made in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.errors import ConfigError, DataError, DataFileError
from neuro_divergent.data.read import stream_parquet as store_create
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame


def table(lengths: list[int] | None = None) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    parts = []
    for number, length in enumerate(lengths or [50, 7, 120]):
        start = np.datetime64("2024-03-30T00:00", "us") + np.timedelta64(3 * number, "h")
        parts.append(
            pl.DataFrame(
                {
                    "unique_id": [f"s{number}"] * length,
                    "ds": start + np.arange(length) * np.timedelta64(1, "h"),
                    "y": rng.normal(size=length),
                    "price": rng.normal(size=length),
                    "stock": rng.integers(0, 9, length),
                    "event": rng.choice(["none", "sale", "fair"], length),
                    "importance": rng.random(length),
                }
            )
        )
    return pl.concat(parts)


COLUMNS: dict[str, Any] = {
    "future": ("price",),
    "historical": ("stock",),
    "categorical": ("event",),
    "weight": "importance",
}


def same(first: SeriesStore, second: SeriesStore) -> None:
    assert set(first.arrays()) == set(second.arrays())
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, getattr(second, name), err_msg=name)
        assert array.dtype.kind == getattr(second, name).dtype.kind
    assert first.fingerprint() == second.fingerprint()


@settings(max_examples=15, deadline=None)
@given(
    piece=st.integers(25, 200), seed=st.integers(0, 99), drop=st.sampled_from([0.0, 0.0, 0.2]), files=st.integers(1, 4)
)
def test_any_order_of_rows_and_any_piece_gives_the_store_of_the_frame(
    tmp_path_factory: pytest.TempPathFactory, piece: int, seed: int, drop: float, files: int
) -> None:
    folder = tmp_path_factory.mktemp("create")
    rng = np.random.default_rng(seed)
    data = table()
    keep = rng.random(len(data)) >= drop
    data = data.filter(pl.Series(keep))
    if seed % 3:
        data = data[rng.permutation(len(data))] if seed % 3 == 1 else data.sort("ds")
    (folder / "in").mkdir()
    for number in range(files):
        begin, end = number * len(data) // files, (number + 1) * len(data) // files
        data[begin:end].write_parquet(folder / "in" / f"{number}.parquet", row_group_size=17)
    whole = store_create.PIECE
    try:
        store_create.PIECE = piece
        made = SeriesStore.create(folder / "store", folder / "in", freq="1h", **COLUMNS)
    finally:
        store_create.PIECE = whole
    roles = {"future": ["price", "event"], "historical": ["stock"], "categorical": ["event"], "weight": "importance"}
    frame = TimeSeriesDataFrame.from_frame(data, freq="1h", **roles)
    same(made, frame.store)


def test_the_frequency_is_found(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "a.parquet")
    assert SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet").freq == "1h"


def test_missing_targets_are_masked(tmp_path: Path) -> None:
    data = table([6]).with_columns(y=pl.Series([1.0, None, 3.0, float("nan"), 5.0, 6.0]))
    data.write_parquet(tmp_path / "a.parquet")
    store = SeriesStore.create(tmp_path / "s", tmp_path / "*.parquet")
    assert store.mask is not None
    assert store.mask.tolist() == [True, False, True, False, True, True]
    assert store.y.tolist() == [1, 0, 3, 0, 5, 6]


def test_a_complete_table_has_no_mask_and_leaves_no_helper_files(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "a.parquet")
    assert SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet").mask is None
    names = {path.name for path in (tmp_path / "s").iterdir()}
    assert names == {"store.json", "y.npy", "ids.npy", "offsets.npy", "start.npy"}


def test_gaps_carry_the_last_known_values(tmp_path: Path) -> None:
    table([5])[[0, 1, 4]].write_parquet(tmp_path / "a.parquet")
    full = table([5])
    store = SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet", freq="1h", future=("price",))
    assert store.mask is not None
    assert store.mask.tolist() == [True, True, False, False, True]
    expected = full["price"].to_numpy()[[0, 1, 1, 1, 4]].astype(np.float32)
    np.testing.assert_array_equal(store.future[:, 0], expected)  # type: ignore[index]
    with pytest.raises(DataError, match="3 rows would become 5 in steps of '1h'"):
        SeriesStore.create(tmp_path / "t", tmp_path / "a.parquet", freq="1h", gaps="error")
    assert not (tmp_path / "t").exists()


def test_integer_ids_and_times_in_double_precision(tmp_path: Path) -> None:
    data = pl.DataFrame({"shop": [7, 7, 3, 3], "week": [1, 2, 5, 6], "sales": [0.1, 0.2, 0.3, 0.4]})
    data.write_parquet(tmp_path / "a.parquet")
    store = SeriesStore.create(
        tmp_path / "s", tmp_path / "a.parquet", id_col="shop", time_col="week", target_col="sales", dtype="float64"
    )
    assert store.ids.tolist() == [3, 7]
    assert store.start.tolist() == [5, 1]
    assert store.y.tolist() == [0.3, 0.4, 0.1, 0.2]
    assert store.freq == "1i"


def refused(tmp_path: Path, data: pl.DataFrame, message: str, **options: Any) -> None:
    data.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=message):
        SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_bad_tables_are_refused_by_name(tmp_path: Path) -> None:
    data = table([10, 10])
    refused(tmp_path, pl.concat([data, data[3:4]]), "series 's0' has 2024-03-30T03:00:00.000000 twice", freq="1h")
    refused(tmp_path, pl.concat([data[:5], data[4:]]), "series 's0' has 2024-03-30T04:00:00.000000 twice", freq="1h")
    late = data.with_columns(
        ds=pl.when(pl.int_range(pl.len()) == 4).then(pl.col("ds").dt.offset_by("7m")).otherwise("ds")
    )
    refused(tmp_path, late, "series 's0' has 2024-03-30T04:07:00.000000 in row 4", freq="1h")
    refused(tmp_path, data, "would become", freq="1us")
    refused(tmp_path, data, "which do not fit freq='1i'", freq="1i")
    refused(tmp_path, data.drop("y"), "lacks y")
    refused(tmp_path, data[:0], "a table needs rows")
    hole = data.with_columns(price=pl.when(pl.int_range(pl.len()) == 12).then(None).otherwise("price"))
    refused(tmp_path, hole, "column 'price' must have a value in every row, but row 12", future=("price",))
    infinite = data.with_columns(y=pl.when(pl.int_range(pl.len()) == 12).then(float("inf")).otherwise("y"))
    refused(tmp_path, infinite, "column 'y' must be finite, but got inf at row 12")
    negative = data.with_columns(importance=pl.lit(-1.0))
    refused(tmp_path, negative, "weights of at least 0, but row 0", weight="importance")
    nameless = data.with_columns(unique_id=pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise("unique_id"))
    refused(tmp_path, nameless, "but row 3 is empty")


def test_a_duplicate_in_another_piece_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = table([10, 10])
    monkeypatch.setattr(store_create, "PIECE", 5)
    refused(tmp_path, pl.concat([data, data[3:4]]), "series 's0' has 2024-03-30T03:00:00.000000 twice", freq="1h")


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    table().write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match="a column has one role"):
        SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet", future=("y",))
    with pytest.raises(ConfigError, match="dtype must be"):
        SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet", dtype="float16")
    with pytest.raises(ConfigError, match="gaps must be"):
        SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet", gaps="what")
    with pytest.raises(DataFileError):
        SeriesStore.create(tmp_path / "s", tmp_path / "none.parquet")


def test_decimal_categories_have_the_codes_of_the_frame(tmp_path: Path) -> None:
    data = table([6]).with_columns(kind=pl.Series([1.0, 1.5, 2.0, float("nan"), None, 1.0]))
    data.write_parquet(tmp_path / "a.parquet")
    store = SeriesStore.create(tmp_path / "s", tmp_path / "a.parquet", categorical=("kind",))
    frame = TimeSeriesDataFrame.from_frame(data, future=("kind",), categorical=("kind",))
    assert store.categories == frame.store.categories == {"kind": ("1", "1.5", "2")}
    assert store.categorical is not None
    assert frame.store.categorical is not None
    assert store.categorical[:, 0].tolist() == frame.store.categorical[:, 0].tolist() == [1, 2, 3, 0, 0, 1]
