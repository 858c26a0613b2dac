"""Forecasts of windows that are given as arrays: no frame, no ids, no time stamps.

Letters: B windows, L lookback, H horizon, C channels (the series of a multivariate model), K columns of the forecast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import DataError
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.ahead import SERIES_PER_BATCH

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.predict_base import PredictBase

Floats = npt.NDArray[np.float64]

NO_NAME = "\0-"
"""The id of a window without a name. A table cannot have it: ids with a zero byte are refused."""


def forecast_arrays(
    base: PredictBase, x: Any, columns: Columns, blocks: dict[str, Any], ids: Any = None
) -> npt.NDArray[Any]:
    """[B, H, C, K] forecasts of windows x. `blocks` are further arrays by the name of their field in `Batch`."""
    y, mask = _target(base, x)
    given = {name: _block(base, name, array, len(y)) for name, array in blocks.items()}
    names = _names(base, ids, len(y))
    parts = []
    for first in range(0, len(y), SERIES_PER_BATCH):
        some = slice(first, first + SERIES_PER_BATCH)
        seen = None if mask is None else mask[some]
        ahead = {name: None if block is None else block[some] for name, block in given.items()}
        parts.append(_forecast(base, y[some], seen, columns, ahead, names[some]))
    return np.concatenate(parts) if len(parts) != 1 else parts[0]


def _forecast(
    base: PredictBase,
    y: npt.NDArray[Any],
    mask: npt.NDArray[np.bool_] | None,
    columns: Columns,
    blocks: dict[str, Tensor | None],
    names: npt.NDArray[np.generic],
) -> Floats:
    """Each channel of each window is a series of L rows: scaled before the network, with intervals after it."""
    count, lookback, channels = y.shape
    table = _as_table(base, y, mask, names)
    if base.local is not None:
        scaled = base.local.scaled_store(table).y
        y = scaled.reshape(count, channels, lookback).transpose(0, 2, 1)
    series = torch.arange(count if not base.model.capabilities.multivariate else channels)
    batch = Batch(
        y=_by_channel(torch.from_numpy(y)),
        mask=None if mask is None else _by_channel(torch.from_numpy(mask)),
        series=series,
        time=torch.full((count,), lookback),
        **blocks,
    )
    values = base.outputs(batch, base.network_columns(columns))
    flat = values.transpose(0, 2, 1, 3).reshape(count * channels, *values.shape[1::2])
    if base.local is not None:
        flat = base.local.original(flat, table)
    flat = base.finished(flat, table, columns)
    return flat.reshape(count, channels, *flat.shape[1:]).transpose(0, 2, 1, 3)


def _as_table(
    base: PredictBase, y: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None, names: npt.NDArray[np.generic]
) -> TimeSeriesDataFrame:
    count, lookback, channels = y.shape
    rows = count * channels
    store = SeriesStore(
        ids=names.reshape(rows),
        offsets=np.arange(0, rows * lookback + 1, lookback),
        y=y.transpose(0, 2, 1).reshape(-1),
        mask=None if mask is None else mask.transpose(0, 2, 1).reshape(-1),
        start=np.zeros(rows, dtype=np.int64),
        freq="1i",
    )
    return TimeSeriesDataFrame(store, base.data.schema, DataReport())


def _target(base: PredictBase, x: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """[B, L, C] values, 0 where missing, and the mask of observed values; None if all are observed."""
    many, lookback = base.model.capabilities.multivariate, base.model.input_size
    array = _numbers("x", x)
    wanted = (lookback, base.module.spec.series) if many else (lookback,)
    if array.ndim != 1 + len(wanted) or array.shape[1:] != wanted or not len(array):
        raise DataError(
            f"x must be windows of shape [B, {', '.join(map(str, wanted))}], but got {list(array.shape)}. Give the "
            f"last {lookback} values {'of every series' if many else 'of each series'}, the oldest first; NaN for a "
            "missing value"
        )
    with np.errstate(over="ignore"):
        y = array.astype(base.data.schema.dtype)
    y = y if many else y[:, :, None]
    if np.isfinite(y).all():
        return y, None
    if np.isinf(y).any():
        raise DataError("x must be finite numbers, or NaN for missing values, but got an infinite one")
    mask = ~np.isnan(y)
    return np.where(mask, y, 0).astype(y.dtype), mask


def _block(base: PredictBase, name: str, array: Any, count: int) -> Tensor | None:
    """One block of further columns in the shape that the network needs; None if it takes none."""
    spec, many = base.module.spec, base.model.capabilities.multivariate
    widths = {"future": spec.future, "historical": spec.historical, "static": spec.static}
    width = widths.get(name, len(spec.categories))
    steps = {"static": (), "historical": (spec.lookback,)}.get(name, (spec.lookback + spec.horizon,))
    shape = (count, *steps, *((spec.series,) if many else ()), width)
    if array is None:
        if width:
            raise DataError(
                f"the model takes {width} {name} column{'s' * (width > 1)}, so {name}= must be an array of shape "
                f"{list(shape)}, but got none"
            )
        return None
    found = _numbers(name, array)
    if not width or found.shape != shape:
        rule = f"an array of shape {list(shape)}" if width else "left out, because the model takes no such columns"
        raise DataError(f"{name}= must be {rule}, but got {list(found.shape)}")
    if name == "categorical":
        codes = torch.from_numpy(_codes(found, spec.categories))
        return _by_channel(codes) if many else codes
    if not np.isfinite(found).all():
        raise DataError(f"{name}= must be finite numbers, but got one that is not")
    numbers = torch.from_numpy(found.astype(base.data.schema.dtype))
    return _by_channel(numbers) if many and name != "static" else numbers


def _by_channel(tensor: Tensor) -> Tensor:
    """[B, T, C, ...] in the memory layout of windows from a table: in other layouts, sums are rounded differently."""
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def _codes(found: npt.NDArray[Any], sizes: tuple[int, ...]) -> npt.NDArray[np.int64]:
    codes = found.astype(np.int64)
    if (codes != found).any() or (codes < 0).any() or (codes >= np.array(sizes)).any():
        raise DataError(
            f"categorical= must be codes, whole numbers from 0 (unknown) to below {list(sizes)} in each column, but "
            "got another one"
        )
    return codes


def _names(base: PredictBase, ids: Any, count: int) -> npt.NDArray[np.generic]:
    """[B, C] the name of the series of each window."""
    if base.model.capabilities.multivariate:
        if ids is not None:
            raise DataError(
                f"ids= is for univariate models, but {base.model.kind} sees all of its series at once. Leave it out: "
                "the channels of x are the training series, sorted by name"
            )
        return np.broadcast_to(base.data.ids, (count, base.data.n_series))
    if ids is None:
        return np.full((count, 1), NO_NAME)
    names = np.asarray(ids)
    if names.shape != (count,):
        raise DataError(f"ids= must name each of the {count} windows, but got the shape {list(names.shape)}")
    return names[:, None]


def _numbers(name: str, array: Any) -> npt.NDArray[Any]:
    if isinstance(array, Tensor):
        array = array.detach().cpu()
        found = (array.float() if array.dtype == torch.bfloat16 else array).numpy()  # numpy has no bfloat16
    else:
        try:
            found = np.asarray(array)
        except ValueError as error:
            raise DataError(f"{name} must be an array of numbers, but its rows have different lengths") from error
    if found.dtype.kind not in "fiub":
        raise DataError(f"{name} must be an array of numbers, but got {found.dtype}")
    return np.where(array.mask, np.nan, found) if isinstance(array, np.ma.MaskedArray) else found
