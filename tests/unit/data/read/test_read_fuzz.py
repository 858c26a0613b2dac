"""Broken files and tables: whatever they hold, only errors of our own tree may come out, and what loads is sound."""

from __future__ import annotations

import io
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from neuro_divergent.core.errors import NeuroDivergentError
from neuro_divergent.data.table import TimeSeriesDataFrame

CASES, BATCH = 2400, 200
STRESS_CASES = 100_000
Random = np.random.Generator

WEIRD_TEXT = ["", " ", "NA", "nan", "inf", "-inf", "1e39", "1e400", "-1e-50", "abc", "1,5", "0x1F", "é", "\u202e", "🎈"]
WEIRD_TEXT += ["2024-02-30", "2024-13-01", "2024-01-01T25:00", "31.12.2024", "1/2/24", "2024-01-01T00:00+02:00"]
WEIRD_TEXT += [
    "2024-01-01T00:00:00Z",
    "9999999999999999999",
    "-1",
    "None",
    "null",
    "true",
    '"',
    "'",
    ";",
    "a,b",
    "0000-00-00",
]
FREQS = [None, None, None, "1d", "h", "MS", "ME", "W-SUN", "B", "15min", "1i", 1, "QS", "1y", "nonsense", "", "0d", -3]


def base_table(random: Random) -> pl.DataFrame:
    """A sound long table of a few short series."""
    lengths = random.integers(1, 7, size=int(random.integers(1, 4)))
    step = [timedelta(days=1), timedelta(hours=1), timedelta(days=7), timedelta(minutes=15)][random.integers(4)]
    rows = [(f"s{s}", datetime(2024, 1, 1) + step * t) for s, length in enumerate(lengths) for t in range(length)]
    table = pl.DataFrame(rows, schema=["unique_id", "ds"], orient="row")
    count = len(rows)
    return table.with_columns(
        pl.Series("y", random.normal(size=count)),
        pl.Series("price", random.normal(size=count)),
        pl.Series("kind", random.choice(["a", "b", "c"], size=count)),
        pl.Series("w", random.random(size=count)),
        pl.Series("ok", random.integers(0, 2, size=count)),
    )


def options(random: Random) -> dict[str, Any]:
    """Arguments that often fit the base table, and sometimes do not."""
    chosen: dict[str, Any] = {}
    boldness = random.random()

    def maybe(name: str, values: list[Any], share: float = 0.2) -> None:
        if random.random() < share * boldness:
            chosen[name] = values[random.integers(len(values))]

    maybe("freq", FREQS, 0.4)
    maybe("future", [("price",), ("price", "kind"), ("absent",), "price", ("y",)])
    maybe("historical", [("w",), ("kind",), ("price",)])
    maybe("categorical", [("kind",), ("kind", "price"), ("absent",), ("ds",)], 0.3)
    maybe("static", [("kind",), ("price",), pl.DataFrame({"unique_id": ["s0", "s1", "s2"], "size": [1, 2, 3]})])
    maybe(
        "static",
        [{"unique_id": ["s0", "s0"], "size": [1, 2]}, {"size": [1]}, 7, {"unique_id": [0], "size": ["x"]}],
        0.1,
    )
    maybe("weight", ["w", "y", "absent"])
    maybe("available_mask", ["ok", "w"])
    maybe("duplicates", ["last", "mean", "first"])
    for name in ("gaps", "missing"):
        maybe(name, ["mask", "error", "forward", "backward", "linear", "mean", "zero", "magic"])
    maybe("missing_exogenous", ["forward", "linear", "mean", "zero", "backward"])
    maybe("infinities", ["mask"])
    maybe("constant", ["drop", "error"], 0.05)
    maybe("all_missing", ["drop", "error"], 0.05)
    maybe("min_length", [1, 3, 6, 0, "x"], 0.1)
    maybe("short", ["drop", "pad"], 0.2)
    maybe("dtype", ["float64", "float16"], 0.1)
    maybe("time_zone", ["Europe/Berlin", "UTC", "Mars/Olympus", "America/Sao_Paulo"], 0.1)
    maybe("time_format", ["%d.%m.%Y", "%Y-%m-%d", "%q", ""], 0.05)
    maybe("wide", [True], 0.1)
    maybe("id_col", ["unique_id", "kind", "ds", "absent"], 0.1)
    maybe("time_col", ["ds", "price", "unique_id", "ok"], 0.1)
    maybe("target_col", ["y", "price", "kind", "ds"], 0.1)
    maybe("unheard_of", [1], 0.02)
    return chosen


def strange_column(random: Random, n: int) -> Any:
    """A column of any type, with any values."""
    start = date(2024, 1, 1)
    makers = [
        lambda: pl.Series(random.choice([0.0, 1.5, np.nan, np.inf, -np.inf, 1e39, 1e-50, 1e308], size=n)),
        lambda: pl.Series(random.choice(WEIRD_TEXT, size=n).tolist()),
        lambda: pl.Series([None] * n),
        lambda: pl.Series([None] * n, dtype=pl.Float64),
        lambda: pl.Series([[1, 2]] * n),
        lambda: pl.Series([{"a": 1}] * n),
        lambda: pl.Series([b"\xff\x00"] * n),
        lambda: pl.Series([Decimal("1.50")] * n),
        lambda: pl.Series(random.integers(0, 2, size=n).astype(bool)),
        lambda: pl.Series([timedelta(days=1)] * n),
        lambda: pl.Series([datetime(2024, 1, 1).time()] * n),
        lambda: pl.Series(random.integers(-(2**62), 2**62, size=n)),
        lambda: pl.Series(random.integers(0, 2**63, size=n).astype(np.uint64) * 2),
        lambda: pl.Series(random.integers(-5, 5, size=n).astype(np.int8)),
        lambda: pl.Series([start + timedelta(days=int(d)) for d in random.integers(-700_000, 2_900_000, size=n)]),
        lambda: pl.Series([start + timedelta(days=int(d)) for d in random.integers(0, 4, size=n)]),
        lambda: pl.Series(random.integers(-(2**62), 2**62, size=n)).cast(pl.Datetime("ms")),
        lambda: pl.Series(random.integers(-(2**62), 2**62, size=n)).cast(pl.Datetime("us")),
        lambda: pl.Series(random.integers(0, 2**60, size=n)).cast(pl.Datetime("ns")),
        lambda: pl.Series(random.integers(-(2**31), 2**31 - 1, size=n).astype(np.int32)).cast(pl.Date),
        lambda: pl.Series(random.integers(0, 9, size=n) * 3_600_000_000).cast(pl.Datetime("us", "Europe/Berlin")),
        lambda: pl.Series(random.choice(["x", "y", "\0", "z" * 2000], size=n).tolist()),
        lambda: pl.Series(random.choice(["x", "y"], size=n).tolist()).cast(pl.Categorical),
        lambda: pl.Series([object()] * n, dtype=pl.Object),
        lambda: pl.Series(random.normal(size=n).astype(str).tolist()),
    ]
    return makers[random.integers(len(makers))]()


def break_table(random: Random) -> Any:
    """A table with a few columns replaced, removed, renamed, shuffled, emptied; in any library."""
    table = base_table(random)
    for _ in range(int(random.integers(0, 3))):
        action = random.integers(7)
        name = table.columns[random.integers(table.width)] if table.width else ""
        if action <= 2 and table.width:
            table = table.with_columns(strange_column(random, len(table)).alias(name))
        elif action == 3 and table.width:
            table = table.drop(name)
        elif action == 4:
            table = table.sample(fraction=1.0, shuffle=True, seed=int(random.integers(1000)))
        elif action == 5:
            table = table.head(int(random.integers(0, 4)))
        elif table.width:
            table = pl.concat([table, table.head(int(random.integers(0, 3)))], rechunk=False)
    return convert(random, table)


def convert(random: Random, table: pl.DataFrame) -> Any:
    objects = any(kind == pl.Object for kind in table.dtypes)
    beyond = any(
        kind.is_temporal() and int(column.to_physical().cast(pl.Float64).abs().max() or 0) > limit
        for column, kind in zip(table, table.dtypes, strict=True)
        for limit in [700_000 if kind == pl.Date else 2**55]
    )
    library = 0 if beyond else random.integers(6)  # other libraries cannot even hold such dates
    if library == 1 and not objects:
        return table.lazy()
    if library == 2 and not objects:
        return pd.DataFrame(
            {name: pd.Series(column.to_list(), dtype=object) for name, column in table.to_dict().items()}
        )
    if library == 3 and not objects:
        return table.to_arrow()
    if library == 4:
        return {name: column.to_list() for name, column in table.to_dict().items()}
    if library == 5 and random.random() < 0.3:
        return [None, 3, "text", [1, 2], {"ds": [1, 2], "y": [1]}, {"ds": 3}, np.zeros((3, 3)), {}][random.integers(8)]
    return table


def break_csv(random: Random) -> bytes:
    """The bytes of a CSV file with a few wounds."""
    table = base_table(random)
    if random.random() < 0.3:
        name = table.columns[random.integers(table.width)]
        table = table.with_columns(pl.Series(name, random.choice(WEIRD_TEXT, size=len(table)).tolist()))
    data = bytearray(table.write_csv().encode())
    for _ in range(int(random.integers(0, 3))):
        wound = random.integers(13)
        at = int(random.integers(len(data) + 1))
        if wound == 0:
            data = data[:at]
        elif wound == 1 and data:
            data[at % len(data)] = int(random.integers(256))
        elif wound == 2:
            data[at:at] = bytes(random.choice(list(b',;"\n\r\t\0 x9-\xff\xc3'), size=3).astype(np.uint8).tobytes())
        elif wound == 3:
            del data[at : at + int(random.integers(1, 30))]
        elif wound == 4:
            data = bytearray(b"\xef\xbb\xbf" + bytes(data))
        elif wound == 5:
            data = bytearray(bytes(data).decode("latin-1").encode("utf-16"))
        elif wound == 6:
            data = bytearray(bytes(data).split(b"\n", 1)[-1])
        elif wound == 7:
            data = bytearray(bytes(data).replace(b",", b";"))
        elif wound == 8:
            data = bytearray(bytes(data).replace(b"price", b"y"))
        elif wound == 9:
            data = bytearray(bytes(data).replace(b"\n", b"\r\n"))
        elif wound == 10:
            data += b"only,two\n"
        elif wound == 11:
            data += bytes(data[:at])
        else:
            data += random.choice(WEIRD_TEXT).encode()
    return bytes(data)


def break_parquet(random: Random) -> bytes:
    """The bytes of a Parquet file, whole, cut or with a few bytes changed."""
    table = base_table(random)
    if random.random() < 0.5:
        table = table.with_columns(strange_column(random, len(table)).alias("y"))
    if any(kind == pl.Object for kind in table.dtypes):
        table = base_table(random)
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    data = bytearray(buffer.getvalue())
    for _ in range(int(random.integers(0, 4))):
        at = int(random.integers(len(data)))
        if random.random() < 0.3:
            data = data[: at + 1]
        else:
            data[at] = int(random.integers(256))
    return bytes(data)


def check_sound(data: TimeSeriesDataFrame) -> None:
    """What every store promises."""
    store = data.store
    assert store.offsets[0] == 0
    assert store.offsets[-1] == len(store.y)
    assert (store.lengths > 0).all()
    assert np.isfinite(store.y).all()
    assert list(store.ids) == sorted(store.ids)
    for block in (store.future, store.historical, store.weight, store.static):
        assert block is None or np.isfinite(block).all()
    if store.mask is not None:
        assert not store.mask.all()
        filled = np.zeros(len(store.y), dtype=bool) if store.fills is None else store.fills > 0
        assert (store.y[~store.mask & ~filled] == 0).all()
        assert not (store.mask & filled).any()
    assert len(data.to_polars()) == len(data) == data.report().rows_stored
    assert len(data.future_times(2)) == 2 * data.n_series
    assert repr(data)
    assert str(data.report())


def check_message(message: str, table: bool) -> None:
    """A sentence, and for tables never the panic of a library that we could have avoided."""
    assert len(message) > 20
    assert not (table and ("assertion failed" in message or "unwrap" in message or "panick" in message)), message


def attempt(seed: int, folder: Path) -> bool:
    """Load one broken thing; whether it loaded."""
    random = np.random.default_rng(seed)
    chosen = options(random)
    which = random.random()
    try:
        if which < 0.35:
            path = folder / "broken.csv"
            path.write_bytes(break_csv(random))
            separator = ";" if random.random() < 0.1 else ","
            data = TimeSeriesDataFrame.from_csv(path, separator=separator, **chosen)
        elif which < 0.5:
            path = folder / "broken.parquet"
            path.write_bytes(break_parquet(random))
            data = TimeSeriesDataFrame.from_parquet(path, **chosen)
        else:
            data = TimeSeriesDataFrame.from_frame(break_table(random), **chosen)
    except NeuroDivergentError as error:
        check_message(str(error), table=which >= 0.5)
        return False
    check_sound(data)
    return True


@pytest.mark.parametrize("batch", range(CASES // BATCH))
def test_broken_data_raises_only_our_errors(batch: int, tmp_path: Path) -> None:
    loaded = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        try:
            loaded += attempt(seed, tmp_path)
        except BaseException as error:
            error.add_note(f"fuzz seed {seed}")
            raise
    assert 0 < loaded < BATCH


@pytest.mark.stress
def test_a_hundred_thousand_broken_tables(tmp_path: Path) -> None:
    for seed in range(10_000, 10_000 + STRESS_CASES):
        try:
            attempt(seed, tmp_path)
        except BaseException as error:
            error.add_note(f"fuzz seed {seed}")
            raise
