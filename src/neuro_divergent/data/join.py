"""Tables that belong together: later rows of known series, and two tables as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from neuro_divergent.core.errors import DataError
from neuro_divergent.data.table import TimeSeriesDataFrame


def later_rows(table: TimeSeriesDataFrame, rows: Any, *, new_series: bool = False) -> TimeSeriesDataFrame:
    """Read rows that extend `table`, with its schema.

    Whole-series checks (min_length, constant, all_missing) are skipped. Series that the table had to drop are dropped
    here too, unless new series are welcome.
    """
    if isinstance(rows, TimeSeriesDataFrame):
        later = rows
    else:
        schema = table.schema.replace(min_length=None, constant="keep", all_missing="keep")
        later = TimeSeriesDataFrame.from_frame(rows, schema=schema)
    dropped = set() if new_series else set(table.report().dropped_series) & set(later.ids.tolist())
    return later.select(name for name in later.ids.tolist() if name not in dropped) if dropped else later


def joined(table: TimeSeriesDataFrame, validation: TimeSeriesDataFrame) -> tuple[TimeSeriesDataFrame, np.ndarray]:
    """Training and validation rows as one table, and how many rows of each series are training rows."""
    unknown = sorted(set(validation.ids.tolist()) - set(table.ids.tolist()))
    if unknown:
        raise DataError(f"validation must hold later rows of the training series, but has new ones: {unknown[:5]}")
    both = pl.concat([table.to_polars(), validation.to_polars()], how="vertical_relaxed")
    return read_again(both, table), table.store.lengths


def read_again(rows: pl.DataFrame, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """Rows of tables that were read already as one table like one of them.

    They were repaired when they were read: what is still empty was masked, and no policy is asked a second time.
    """
    done: dict[str, Any] = {"missing": "mask", "constant": "keep", "all_missing": "keep", "min_length": None}
    whole = TimeSeriesDataFrame.from_frame(rows, schema=table.schema.replace(**done))
    whole.schema = whole.schema.replace(**{name: getattr(table.schema, name) for name in done})
    whole.library = table.library
    return whole
