"""Facts about a training that are written into its run directory: the table, what is scored, and the naive forecast."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.data.time import seasonality
from neuro_divergent.forecasting.fit.problem import identity_of
from neuro_divergent.forecasting.fit.task import ForecastTask, loss_weights, target_weights
from neuro_divergent.forecasting.network.anchor import Anchor
from neuro_divergent.forecasting.network.module import Forecast, ForecastModule
from neuro_divergent.losses.distribution import Distributional
from neuro_divergent.training.state.task import Source, loss_sums

if TYPE_CHECKING:
    from neuro_divergent.forecasting.fit.run import Run

FORECASTING = "forecasting"
"""Key of `TrainState.shared`: the run of a forecaster, for callbacks that need its table."""
MOST_SERIES, MOST_POINTS = 200, 60
"""Series that are described, and points of their small pictures."""


def about_run(run: Run) -> dict[str, Any]:
    """The table, its seasons and gaps, what must be the same to compare scores, and the naive forecast's scores."""
    problem, state, table = run.problem, run.training.state, run.table
    rows = problem.rows
    trained = (np.zeros_like(rows), rows if run.held_out is not None else table.store.lengths)
    seasons = seasonality.detect(problem.store.y, problem.store.offsets, problem.store.mask, table.freq, rows=rows)
    split = identity_of(problem, trained, run.held_out)["data"]["fingerprint"]
    task = run.training.task
    assert isinstance(task, ForecastTask)
    season = naive_season(seasons, problem.model.input_size)
    return {
        "model": problem.model.to_dict(),
        "data": _described(run, seasons),
        "series": [_series(run, number) for number in range(min(table.n_series, MOST_SERIES))],
        "scored": {"rows": split, "h": problem.model.h, "loss": task.validation_loss.to_dict()},
        "naive": {"season": season}
        | (naive_scores(state.module, task, state.validation_source, season) if state.validation_source else {}),
    }


def naive_season(seasons: tuple[int, ...], lookback: int) -> int:
    """The strongest season that a lookback window holds; 1 (the last value) if there is none."""
    return next((season for season in seasons if season <= lookback), 1)


def naive_scores(module: torch.nn.Module, task: ForecastTask, source: Source, season: int) -> dict[str, float]:
    """The validation loss and metrics of the seasonal naive forecast, by the names of an epoch's record.

    A loss of distributions has no value for a single number: then only the metrics are there.
    """
    assert isinstance(module, ForecastModule)
    anchor = Anchor((season,), module.spec.horizon)
    sums: dict[str, Tensor] = {}
    training = module.training
    module.eval()
    with torch.no_grad():
        for step in range(source.steps_per_epoch):
            batch = source.batch(0, step)
            for name, part in _naive_sums(module, task, batch, anchor).items():
                sums[name] = sums[name] + part if name in sums else part
    module.train(training)
    found = {f"validation_{name}": task.result(name, total) for name, total in sums.items()}
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _naive_sums(module: ForecastModule, task: ForecastTask, batch: Batch, anchor: Anchor) -> dict[str, Tensor]:
    assert batch.target is not None
    loss, weights = task.validation_loss, target_weights(batch, task.validation_loss)
    naive = anchor(batch.y, batch.mask)
    sums = {name: metric.sums(naive, batch.target, weights) for name, metric in task.metrics.items()}
    if isinstance(loss, Distributional) or module.head is not None or not module.scaler.affine:
        return sums
    scaled, stats = module.scaler.forward(batch.y, batch.mask)
    outputs = naive.new_zeros((*naive.shape, max(1, loss.outputs)))
    forecast = Forecast(outputs, anchor(scaled, batch.mask), stats)
    if loss.units == "original":
        values = loss.values(module.original(forecast), batch.target, batch)
    else:
        values = loss.values(module.scaled(forecast), module.scaler.transform(batch.target, stats), batch)
    return sums | {"loss": loss_sums(values, loss_weights(batch, loss))}


def _described(run: Run, seasons: tuple[int, ...]) -> dict[str, Any]:
    table, store = run.table, run.table.store
    report, first_last = table.report(), table._span()
    return {
        "fingerprint": table.fingerprint,
        "series": table.n_series,
        "rows": len(table),
        "freq": str(table.freq),
        "columns": {
            "id": table.schema.id_col,
            "time": table.schema.time_col,
            "target": table.schema.target_col,
            "future": list(store.future_names),
            "historical": list(store.historical_names),
            "static": list(store.static_names),
            "categorical": list(store.categories),
        },
        "first": str(first_last[0]),
        "last": str(first_last[1]),
        "seasons": list(seasons),
        "observed": len(table) if store.mask is None else int(np.count_nonzero(store.mask)),
        "held_out": None if run.held_out is None else int((store.lengths - np.asarray(run.held_out[0])).sum()),
        "cutoff": None if run.cutoff is None else str(run.cutoff),
        "report": report.lines(),
    }


def _series(run: Run, number: int) -> dict[str, Any]:
    store = run.table.store
    first, last = int(store.offsets[number]), int(store.offsets[number + 1])
    y = np.asarray(store.y[first:last], dtype=np.float64)
    seen = np.ones(len(y), dtype=bool) if store.mask is None else np.asarray(store.mask[first:last])
    values = y[seen]
    ends = run.table.times(number, 0, 1), run.table.times(number, max(0, len(y) - 1), 1)
    return {
        "id": str(store.ids[number]),
        "rows": len(y),
        "missing": int(len(y) - seen.sum()),
        "longest_gap": longest_gap(seen),
        "first": str(ends[0][0]),
        "last": str(ends[1][0]),
        "mean": _figure(values.mean()) if len(values) else None,
        "low": _figure(values.min()) if len(values) else None,
        "high": _figure(values.max()) if len(values) else None,
        "held_out": None if run.held_out is None else len(y) - int(np.asarray(run.held_out[0])[number]),
        "picture": _picture(y, seen),
    }


def longest_gap(seen: Any) -> int:
    """The largest number of consecutive rows without an observed value.

    >>> longest_gap(np.array([True, False, False, True, False]))
    2
    """
    edges = np.flatnonzero(np.concatenate([[True], seen, [True]]))
    return int(np.diff(edges).max() - 1) if len(edges) > 1 else 0


def _picture(y: Any, seen: Any) -> list[float | None]:
    """At most MOST_POINTS means of consecutive rows; None where no value was observed."""
    edges = np.linspace(0, len(y), min(MOST_POINTS, len(y)) + 1).astype(int)
    pieces = [y[a:b][seen[a:b]] for a, b in pairwise(edges)]
    return [_figure(piece.mean()) if len(piece) else None for piece in pieces]


def _figure(value: Any) -> float | None:
    number = float(value)
    return float(f"{number:.6g}") if math.isfinite(number) else None
