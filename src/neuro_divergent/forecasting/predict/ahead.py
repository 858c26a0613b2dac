"""Forecasts of the steps after the end of a table: their columns known ahead, and horizons of any length.

Letters: S series, H the model's horizon, K columns of the forecast.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import DataError
from neuro_divergent.data.features.features import reach
from neuro_divergent.data.read.files import take_over
from neuro_divergent.data.read.future_values import FutureValues, future_stamps
from neuro_divergent.data.read.keys import with_joined_keys
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.fills import FILLED
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.data.windows.windows import Windows
from neuro_divergent.distributed.spread import spread
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.network.output_columns import Columns

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.predict_base import PredictBase

log = logging.getLogger(__name__)

SERIES_PER_BATCH = 4096


def forecast(
    forecaster: PredictBase, table: TimeSeriesDataFrame, columns: Columns, *, future: Any = None, h: int | None = None
) -> npt.NDArray[np.float64]:
    """[S, h, K] the columns for the h steps after every series. Beyond the model's horizon, forecasts are fed back."""
    steps = checked_horizon(h, forecaster.model.h)
    check_series(forecaster, table)
    check_ends(forecaster, table.store)
    store = forecaster.prepared(table)
    ahead = known_ahead(table, store, future, max(steps, forecaster.model.h), given=steps)
    values = from_store(forecaster, store, columns, ahead, steps)
    scaling = forecaster._scaling(table)
    return values if scaling is None else scaling.original(values, table)


def from_store(
    forecaster: PredictBase, store: SeriesStore, columns: Columns, ahead: FutureValues, steps: int
) -> npt.NDArray[np.float64]:
    """[S, steps, K] forecasts after the end of a store that has only the model's columns."""
    own = forecaster.model.h
    if steps <= own:
        first = FutureValues(_block(ahead.future, 0, own), _block(ahead.categorical, 0, own))
        return direct(forecaster, store, columns, first)[:, :steps]
    return _recursive(forecaster, store, columns, ahead, steps)


def direct(
    forecaster: PredictBase, store: SeriesStore, columns: Columns, ahead: FutureValues
) -> npt.NDArray[np.float64]:
    """[S, H, K] one pass of the network."""
    if len(store.ids) <= SERIES_PER_BATCH and _plain(forecaster, store):
        return forecaster.outputs(_plain_batch(store, forecaster.model.input_size), columns)[:, :, 0]
    windows = forecaster.windows(store)
    numbers = np.arange(len(store.ids))
    if forecaster.model.capabilities.multivariate:
        batch = windows.forecast_batch(numbers, ahead.future, ahead.categorical)
        return np.asarray(forecaster.outputs(batch, columns)[0].transpose(1, 0, 2))

    def part(number: int) -> npt.NDArray[np.float64]:
        some = slice(number * SERIES_PER_BATCH, (number + 1) * SERIES_PER_BATCH)
        batch = windows.forecast_batch(numbers[some], *(None if one is None else one[some] for one in ahead))
        return forecaster.outputs(batch, columns)[:, :, 0]

    parts = spread(-(-len(numbers) // SERIES_PER_BATCH), part)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _plain(forecaster: PredictBase, store: SeriesStore) -> bool:
    """Whether windows contain only complete targets of one series each."""
    blocks = (store.mask, store.future, store.historical, store.static, store.categorical, store.static_categorical)
    if forecaster.model.capabilities.multivariate or any(block is not None for block in blocks):
        return False
    return bool((store.lengths >= forecaster.model.input_size).all())


def _plain_batch(store: SeriesStore, lookback: int) -> Batch:
    """The last window of every series, cut by a fast path for stores without other columns and gaps."""
    y = store.y[store.offsets[1:, None] + np.arange(-lookback, 0)]
    series, time = torch.arange(len(store.ids)), torch.from_numpy(store.lengths)
    return Batch(torch.from_numpy(y).unsqueeze(-1), series=series, time=time)


def _recursive(
    forecaster: PredictBase, store: SeriesStore, columns: Columns, ahead: FutureValues, steps: int
) -> npt.NDArray[np.float64]:
    own, name = forecaster.model.h, forecaster.model.name
    if store.historical is not None or _hidden_codes(forecaster, store):
        known = ", ".join((*store.historical_names, *_hidden_codes(forecaster, store)))
        raise DataError(
            f"forecasts beyond the model's h={own} are fed back, which needs columns that are known ahead, but "
            f"{known} are known only for the past (h={steps}). Train with h={steps}, or without them"
        )
    forecaster.warn_once(
        "recursive", f"{name} was trained for h={own}: steps {own + 1} to {steps} are extrapolated by feeding its "
        f"point forecasts back. The intervals add the errors of the steps before. Train with h={steps} to learn them"
    )  # fmt: skip
    store = tail(store, forecaster.model.input_size)
    carried, (least, most) = np.zeros((len(store.ids), len(columns.names))), forecaster.loss.support
    parts: list[npt.NDArray[np.float64]] = []
    for first in range(0, steps, own):
        block = FutureValues(_block(ahead.future, first, own), _block(ahead.categorical, first, own))
        values, carried = widened(direct(forecaster, store, columns, block), columns.levels, carried)
        parts.append(np.clip(values, least, most) if first else values)
        if first + own < steps:
            store = tail(extended(store, values[:, :, 0], block), forecaster.model.input_size)
    return np.concatenate(parts, axis=1)[:, :steps]


def widened(
    values: npt.NDArray[np.float64], levels: Sequence[float | None], carried: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Forecasts [S, H, K] of one block with the errors of the blocks before, and the errors at its last step [S, K].

    A quantile lies at a distance d from the point forecast. The distance c of the last step before the block is added
    like an independent error, √(d² + c²). This is right for a random walk, and too wide for a series that soon returns
    to its mean. An interval is never narrower than at the step before the block.
    """
    side = np.array([0.0 if level is None else np.sign(level - 0.5) for level in levels])
    distance = (values - values[:, :, :1]) * side
    before = carried[:, None, :]
    added = np.where(before > 0, np.hypot(np.maximum(distance, 0.0), before), distance)
    result = np.where(side == 0, values, values[:, :, :1] + side * added)
    return result, np.maximum(added[:, -1] * np.abs(side), 0.0)


def _block(part: npt.NDArray[Any] | None, first: int, width: int) -> npt.NDArray[Any] | None:
    """The columns of one pass. If the last pass is longer than the request, its last step is repeated."""
    if part is None:
        return None
    rows = np.minimum(np.arange(first, first + width), part.shape[1] - 1)
    return np.asarray(part[:, rows])


def _hidden_codes(forecaster: PredictBase, store: SeriesStore) -> tuple[str, ...]:
    return tuple(name for name in forecaster.data.schema.historical_categorical if name in store.categories)


def extended(store: SeriesStore, y: npt.NDArray[np.floating], ahead: FutureValues) -> SeriesStore:
    """A store with m more rows at the end of every series, [S, m]."""
    count, added = len(store.ids), y.shape[1]
    ends = np.repeat(store.offsets[1:], added)

    def joined(block: npt.NDArray[Any] | None, more: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        if block is None:
            return None
        return np.asarray(np.insert(block, ends, more.reshape(count * added, *block.shape[1:]), axis=0))

    seen = np.ones((count, added), dtype=bool)
    changes: dict[str, Any] = {"y": joined(store.y, y), "mask": joined(store.mask, seen)}
    for name in FILLED:  # a forecast counts as an observed value
        codes = getattr(store, name)
        if codes is not None:
            changes[name] = joined(codes, np.zeros((count * added, *codes.shape[1:]), np.int8))
    if store.future is not None and ahead.future is not None:
        changes["future"] = joined(store.future, ahead.future)
    if store.categorical is not None and ahead.categorical is not None:
        changes["categorical"] = joined(store.categorical, ahead.categorical)
    offsets = store.offsets + added * np.arange(count + 1)
    return store.replace(offsets=offsets, weight=None, **changes)


def tail(store: SeriesStore, rows: int) -> SeriesStore:
    """The last rows of every series."""
    from neuro_divergent.data.read.series_checks import cut_rows

    begin = np.maximum(store.offsets[1:] - rows, store.offsets[:-1])
    return cut_rows(store, np.arange(len(store.ids)), begin, store.offsets[1:])


def known_ahead(
    table: TimeSeriesDataFrame, store: SeriesStore, future: Any, steps: int, *, given: int | None = None
) -> FutureValues:
    """The columns known ahead that the model takes: numbers [S, steps, F] and codes [S, steps, K].

    With `given`, a table of only that many steps is enough; its last step is repeated.
    """
    if store.future is None and store.categorical is None:
        return FutureValues(None, None)
    values = table.future_values(future, steps, given=given)
    codes = None
    if store.categorical is not None:
        # Columns that are known only for the past have code 0 in the horizon. They come after those known ahead.
        codes = np.zeros((table.n_series, steps, store.categorical.shape[1]), dtype=np.int32)
        if values.categorical is not None:
            codes[..., : values.categorical.shape[2]] = values.categorical
    return FutureValues(None if store.future is None else values.future, codes)


def columns_of(model: Model, store: SeriesStore) -> tuple[Any, ...]:
    """The columns of a store that a model takes, and the categories of each code."""
    taken = taken_columns(model, store)
    codes = [None if block is None else block.shape[1] for block in (taken.categorical, taken.static_categorical)]
    categories = [(name, tuple(values)) for name, values in taken.categories.items()]
    return taken.future_names, taken.historical_names, taken.static_names, codes, categories


def knows_more(model: Model, store: SeriesStore, known: SeriesStore) -> bool:
    """Whether a store has the columns that a model takes, all categories that it knows, and more categories."""
    (*columns, categories), (*wanted, fewer) = columns_of(model, store), columns_of(model, known)
    there = dict(categories)
    return (
        columns == wanted
        and list(there) == [name for name, _ in fewer]
        and all(set(values) <= set(there[name]) for name, values in fewer)
    )


def check_series(forecaster: PredictBase, table: TimeSeriesDataFrame) -> None:
    """Refuse other series than in the training of a multivariate model."""
    if not forecaster.model.capabilities.multivariate or table is forecaster.data:
        return
    trained, given = forecaster.data.ids.tolist(), table.ids.tolist()
    if trained != given:
        odd = sorted({str(name) for name in set(trained) ^ set(given)})
        raise DataError(
            f"{forecaster.model.kind} is multivariate and forecasts exactly the {len(trained)} series of its training, "
            f"but the data differs in: {', '.join(odd[:6])}. Give the same series, or use a univariate model"
        )


def check_ends(forecaster: PredictBase, store: SeriesStore) -> None:
    """Refuse series that end at different times, for a model with one forecast origin for all series."""
    if not forecaster.model.capabilities.multivariate:
        return
    ends = grid_shifts(store) + store.lengths
    behind = int(ends.max(initial=0) - ends.min(initial=ends.max(initial=0)))
    if behind:
        raise DataError(
            f"{forecaster.model.kind} has one forecast origin for all series, but series "
            f"{store.ids[int(np.argmin(ends))]!s} ends {behind} steps before the last one. Cut the others there, "
            "or give it rows without a value up to the end of the others"
        )


def context_rows(model: Model, schema: DataSchema) -> int:
    """How many last rows of a series a saved model keeps as its context."""
    back = reach(schema.features)
    # Lags are computed again when rows are added: the rows that they refer to must be there, for each of the windows.
    return model.input_size + (back + model.h - 1 if back else 0)


def checked_horizon(h: int | None, default: int) -> int:
    """A number of steps of at least 1."""
    return default if h is None else at_least_one("h", h)


def future_frame(table: TimeSeriesDataFrame, h: int) -> pl.DataFrame:
    """The id and time of the h steps after every series."""
    ids = [] if table.schema.id_type == "none" else [ids_column(table, h)]
    store, schema = table.store, table.schema
    if store.time_zone is None and schema.time_type in ("datetime[us]", "int64"):
        # The same as `future_times`, without the conversions that these types do not need.
        times = pl.Series(schema.time_col, table.horizon_times(h))
    else:
        times = table.future_times(h)
    return pl.DataFrame([*ids, times])


def ids_column(table: TimeSeriesDataFrame, count: int) -> pl.Series:
    """The ids, each repeated `count` times."""
    if table.n_series == 1:
        return pl.Series(table.schema.id_col, [table.ids[0].item()] * count)
    return table.id_column(count)


def asked_ahead(forecaster: PredictBase) -> list[str]:
    """The columns of the table whose future values `predict` needs; empty if the model takes none."""
    store, schema = forecaster.data.store, forecaster.data.schema
    taken = taken_columns(forecaster.model, store)
    if taken.future is None and taken.categorical is None:
        return []
    names = (*schema.future, *schema.future_categorical)
    return [name for name in names if name in store.future_names or name in store.categories]


def missing_future(table: TimeSeriesDataFrame, future: Any, h: int) -> pl.DataFrame:
    """The rows of `future_frame` that a table of future values does not have."""
    schema = table.schema
    needed = future_frame(table, h)
    given = with_joined_keys(take_over(future)[0], schema)[0].collect()
    keys = [schema.time_col] if schema.id_type == "none" else [schema.id_col, schema.time_col]
    absent = [name for name in keys if name not in given.columns]
    if absent:
        raise DataError(
            f"the future table must have the columns {', '.join(keys)}, but got none named {', '.join(absent)}"
        )
    if not len(given):
        return needed
    codes = np.zeros(len(given)) if schema.id_type == "none" else given[schema.id_col].rank("dense").to_numpy()
    stamps = future_stamps(given, codes, schema)
    ticks = stamps.ticks if stamps.unit == "i" else stamps.times().astype("datetime64[us]").astype(np.int64)
    wanted = table.horizon_times(h).astype(np.int64)
    left, right = pl.DataFrame({"ticks": wanted}), pl.DataFrame({"ticks": ticks})
    if schema.id_type != "none":
        left = left.with_columns(needed[schema.id_col].cast(pl.String).alias("id"))
        right = right.with_columns(given[schema.id_col].cast(pl.String).alias("id"))
    rows = left.with_row_index("row").join(right, on=[name for name in left.columns if name != "row"], how="anti")
    return needed[rows["row"].sort()]


def forecast_windows(forecaster: PredictBase, store: SeriesStore) -> Windows:
    """The windows of a store from which a model forecasts. Short series are padded."""
    model = forecaster.model
    return Windows(
        store,
        lookback=model.input_size,
        horizon=model.h,
        short="pad",
        multivariate=model.capabilities.multivariate,
        historical_categorical=_hidden_codes(forecaster, store),
    )
