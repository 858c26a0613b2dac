"""The tables after which several fitted models forecast: their own, or a given one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuro_divergent.data.agreement import check_together, names_of
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.predict.predict_base import PredictBase


def tables_together(members: Sequence[PredictBase], data: Any = None) -> list[TimeSeriesDataFrame]:
    """The table of each model, as it reads the data; without data, its training table.

    They are refused unless all have the same series, with the same ends, in the same units: only then can forecasts be
    joined or averaged.
    """
    tables: list[TimeSeriesDataFrame] = []
    for member in members:
        # Models that read a table in the same way share it.
        alike = (t for t, other in zip(tables, members, strict=False) if other.data.schema == member.data.schema)
        known = None if data is None else next(alike, None)
        tables.append(member.table(data if known is None else known))
    names = names_of([member.model.name for member in members])
    for table, name in zip(tables[1:], names[1:], strict=True):
        check_together(tables[0], table, "ends", (names[0], name))
    return tables
