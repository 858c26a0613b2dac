"""Coherent forecasts of a hierarchy: base forecasts are adjusted so that children sum to their parents.

With S the summing matrix and W the assumed variances of the base errors, the reconciled forecast is
S·(SᵀW⁻¹S)⁻¹·SᵀW⁻¹·ŷ: the nearest coherent one in the metric of W⁻¹ (Wickramasuriya, Athanasopoulos & Hyndman 2019).

Letters: n series, a aggregates, b bottom series, H steps, K columns, N draws, G grid of probabilities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuro_divergent.core.errors import Advice, ConfigError, DataError
from neuro_divergent.core.seeding import numpy_generator
from neuro_divergent.data.hierarchy.hierarchy import Hierarchy
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.schema.load_report import listing
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.error_factors import FACTORS, mixed
from neuro_divergent.losses import Loss

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.predict_base import PredictBase

Floats = npt.NDArray[np.float64]
Method = Literal["BottomUp", "MinTraceOLS", "MinTraceWLS"]

LATELY = 8
"""Rows at the end of each series in which the data are compared with S."""

WRONG = 0.2
"""A series that differs from the sum of its parts by more than this share is another series."""


class Projection:
    """Base forecasts [n, ...] in the order of S's rows → coherent ones.

    Args:
        hierarchy: S.
        method: "BottomUp" sums the bottom forecasts; "MinTraceOLS" gives every base forecast the same variance;
            "MinTraceWLS" gives it the row sum of S, as if all bottom series had equal and independent errors.
    """

    def __init__(self, hierarchy: Hierarchy, method: Method) -> None:
        row, column, value = hierarchy.entries
        self.bottom = torch.tensor(hierarchy.bottom)
        n, b = len(hierarchy.rows), len(hierarchy.bottom)
        self.S = _sparse(row, column, value, (n, b))
        self._solver: Tensor | None = None
        above = np.setdiff1d(np.arange(n), np.array(hierarchy.bottom))
        if method == "BottomUp" or not len(above):
            return
        self.above = torch.from_numpy(above)
        chosen = np.isin(row, above)
        self.A = _sparse(np.searchsorted(above, row[chosen]), column[chosen], value[chosen], (len(above), b))
        # Structural variances count how many series are summed; a difference of two series counts like a sum.
        of_above = np.ones(len(above))
        if method == "MinTraceWLS":
            of_above = np.bincount(row, weights=np.abs(value), minlength=n)[above]
        # A bottom row has only itself, so bottom variances are 1 either way. Solving for the misfit of the aggregates
        # needs only a matrix of their size: Sᵀ W⁻¹ S would have the size of the bottom.
        self._solver = torch.linalg.cholesky(_crossed(self.A) + torch.diag(torch.from_numpy(of_above)))

    def __call__(self, values: Floats, bounds: Bounds | None = None) -> Floats:
        """Coherent forecasts of the same shape.

        The bottom forecasts are moved into the bounds before they are summed, so that the result is coherent (the
        heuristic "set negative to zero" of Di Fonzo & Girolimetto 2023, for lower=0).
        """
        base = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).flatten(1)
        low = base[self.bottom]
        if self._solver is not None:
            misfit = base[self.above] - torch.sparse.mm(self.A, low)
            low = low + torch.sparse.mm(self.A.t(), torch.cholesky_solve(misfit, self._solver))
        if bounds is not None:
            low = torch.from_numpy(bounds.draws(low.numpy()))
        result: Floats = torch.sparse.mm(self.S, low).reshape(values.shape).numpy()
        return result


def _sparse(row: npt.NDArray[Any], column: npt.NDArray[Any], value: Floats, shape: tuple[int, int]) -> Tensor:
    places = torch.from_numpy(np.stack([row, column]))
    return torch.sparse_coo_tensor(places, torch.from_numpy(value), shape, check_invariants=False).coalesce()


def _crossed(A: Tensor) -> Tensor:
    """[a, a] A·Aᵀ, some columns at a time: the whole of Aᵀ would be large."""
    size = 1024
    numbers = [torch.arange(first, min(first + size, A.shape[0])) for first in range(0, A.shape[0], size)]
    return torch.cat([torch.sparse.mm(A, A.index_select(0, some).to_dense().t()) for some in numbers], dim=1)


class Reconciliation:
    """Reconciles the forecasts of all series of a table.

    Args:
        hierarchy: which series are sums of which.
        method: see `Projection`.
        samples: number of draws from which quantiles are computed.
    """

    def __init__(self, hierarchy: Hierarchy, method: Method, samples: int) -> None:
        self.hierarchy, self.samples = hierarchy, samples
        self.projection = Projection(hierarchy, method)

    def possible(self, bounds: Bounds | None, *, given: bool) -> Bounds | None:
        """The range of the bottom forecasts, if sums of them stay inside, too; else refused, or None if not `given`."""
        if bounds is None:
            return None
        weights = [weight for row in self.hierarchy.weights or () for weight in row]
        good = bounds.lower in (None, 0) and bounds.upper is None and min(weights, default=1.0) >= 0
        if good and not (bounds.integer and any(weight != round(weight) for weight in weights)):
            return bounds
        if not given and not bounds.integer and bounds.upper is None:
            return None
        raise ConfigError(
            "forecasts of a hierarchy are sums, which stay in the target's range only for lower=0 (and integer=True) "
            f"with whole weights of at least 0, but got {bounds.sentence()}. Leave the range out: lower=None",
            advice=[Advice("data.lower", None)],
        )

    def network_columns(self, columns: Columns, loss: Loss) -> Columns:
        """What the network must compute: the point, and the whole distribution if quantiles are requested."""
        from neuro_divergent.forecasting.predict.sample_paths import probabilities

        if not columns.probabilities:
            return columns
        grid = probabilities(loss)
        name = columns.names[0]
        return Columns((name, *(f"{name}_ql{share:g}" for share in grid)), (None, *grid), columns.shows)

    def finished(self, forecaster: PredictBase, values: Floats, table: TimeSeriesDataFrame, columns: Columns) -> Floats:
        """[S, H, K] coherent points and quantiles of reconciled draws, from the values of `network_columns`."""
        order = self.order(table)
        coherent = self.placed(self.projection(values[order, :, 0], forecaster.bounds), order)[:, :, None]
        if values.shape[2] == 1:
            return coherent
        grid = np.array(self.network_columns(columns, forecaster.loss).probabilities)
        draws = self.draws(forecaster, (self.samples,), forecaster.seed)
        asked = np.array(columns.probabilities)
        found = self._quantiles(values[order, :, 1:], grid, asked, draws, forecaster.bounds)
        placed = self.placed(found, order)
        parts = {level: placed[:, :, number] for number, level in enumerate(columns.probabilities)}
        return np.stack([coherent[:, :, 0] if level is None else parts[level] for level in columns.levels], axis=2)

    def draws(self, forecaster: PredictBase, shape: tuple[int, ...], seed: int) -> Floats:
        """[n, ...] standard normal draws, correlated like the errors of the series."""
        generator = numpy_generator(seed, "reconciliation")
        own, common = (generator.standard_normal((count, *shape)) for count in (len(self.hierarchy.rows), FACTORS))
        return mixed(forecaster.network, own, common)

    def paths(self, paths: Floats, table: TimeSeriesDataFrame, bounds: Bounds | None = None) -> Floats:
        """[S, N, H] sample paths, made coherent over all series."""
        order = self.order(table)
        return self.placed(self.projection(paths[order], bounds), order)

    def order(self, table: TimeSeriesDataFrame) -> npt.NDArray[np.int64]:
        """[n] the position of each row of S in the table. Its series must be those of S and end at the same time."""
        order = self.hierarchy.positions(table.ids)
        ends = grid_shifts(table.store) + table.store.lengths
        early = table.ids[ends < ends.max()]
        if len(early):
            raise DataError(
                "forecasts of a hierarchy are sums at the same time, so all series must end together, but these end "
                f"earlier: {listing(early.tolist())}. Extend them (with zeros if they have ended)"
            )
        wrong = self.other_order(table, order)
        if wrong:
            raise DataError(wrong)
        return order

    def other_order(self, table: TimeSeriesDataFrame, order: npt.NDArray[np.int64]) -> str:
        """The error text if unnamed rows seem to be in another order: most sums do not match the data. Else empty."""
        if self.hierarchy.ids is not None:
            return ""
        wrong = np.flatnonzero(misfits(self.hierarchy, table, order) > WRONG)
        if 2 * len(wrong) <= len(self.hierarchy.rows) - len(self.hierarchy.bottom):
            return ""
        return (
            "the rows of S must be in the sorted order of the series' names, but the data does not match: "
            f"{listing(table.ids[order[wrong]].tolist())} is not the sum in its row. Name the rows of S (a frame or a "
            "dict), or sort them"
        )

    def _quantiles(self, values: Floats, grid: Floats, asked: Floats, draws: Floats, bounds: Bounds | None) -> Floats:
        """[n, H, levels] of reconciled draws. Only the draws of one step are in memory at a time."""
        right, share = located(grid, draws)
        steps = [
            np.quantile(self.projection(drawn(values[:, step], right, share), bounds), asked, axis=1)
            for step in range(values.shape[1])
        ]
        return np.stack(steps).transpose(2, 0, 1)

    def placed(self, values: Floats, order: npt.NDArray[np.int64]) -> Floats:
        """Values in the order of S's rows → in the order of the table."""
        result = np.empty_like(values)
        result[order] = values
        return result


def misfits(hierarchy: Hierarchy, table: TimeSeriesDataFrame, order: npt.NDArray[np.int64]) -> Floats:
    """[n] how far each series differed lately from the sum in its row, relative to the summed values."""
    store = table.store
    rows = min(LATELY, int(store.lengths.min()))
    last = store.offsets[1:][order, None] + np.arange(-rows, 0)
    y = np.asarray(store.y[last], dtype=np.float64)
    if store.mask is not None:
        y = y[:, store.mask[last].all(axis=0)]
    row, column, value = hierarchy.entries
    parts = value[:, None] * y[np.array(hierarchy.bottom)][column]
    sums, size = np.zeros_like(y), np.zeros_like(y)
    np.add.at(sums, row, parts)
    np.add.at(size, row, np.abs(parts))
    total = size.sum(axis=1)
    result: Floats = np.divide(np.abs(sums - y).sum(axis=1), total, out=np.zeros(len(y)), where=total > 0)
    return result


def located(grid: Floats, normal: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """The right neighbour of normal scores [n, N] in a grid [G] of probabilities, and the position between the two."""
    if len(grid) == 1:
        return np.zeros(normal.shape, dtype=np.int64), np.zeros_like(normal)
    scores: Floats = torch.special.ndtri(torch.from_numpy(grid)).numpy()
    right = np.clip(np.searchsorted(scores, normal), 1, len(grid) - 1)
    return right, (normal - scores[right - 1]) / (scores[right] - scores[right - 1])


def drawn(quantiles: Floats, right: npt.NDArray[np.int64], share: Floats) -> Floats:
    """[n, N] the values of located normal scores, in distributions given by quantiles [n, G].

    Between two quantiles, and beyond the outermost, a value is linear in the normal score: exact for normal forecasts.
    """
    low = np.take_along_axis(quantiles, np.maximum(right - 1, 0), axis=1)
    high = np.take_along_axis(quantiles, right, axis=1)
    return np.asarray(low + share * (high - low))


def reconciliation(hierarchy: Hierarchy, method: str, samples: int) -> Reconciliation | None:
    """The reconciliation of a method; None for "Identity", which does not change forecasts."""
    if method == "Identity":
        return None
    if method not in ("BottomUp", "MinTraceOLS", "MinTraceWLS"):
        raise ConfigError(f"reconciliation must be BottomUp, MinTraceOLS, MinTraceWLS or Identity, but got {method!r}")
    return Reconciliation(hierarchy, method, samples)  # type: ignore[arg-type]  # just checked
