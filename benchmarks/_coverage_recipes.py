"""Coverage of the intervals of quantile losses and distributions after a fit, as it is and without the correction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import neuro_divergent as nd
from neuro_divergent.forecasting.network.output_columns import named_columns
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.predict.quantile_calibration import CoverageCheck

LEVELS = (80.0, 95.0)
WITHIN = 5.0
SERIES = 500
"""Series of M5, evenly spaced."""
LEAST_ROWS = 200


@dataclass(frozen=True)
class Case:
    """A table, the sizes of a forecast, and how many horizons at the end of the table are hidden and scored."""

    name: str
    table: pl.DataFrame
    h: int
    input_size: int
    windows: int = 1
    options: tuple[tuple[str, Any], ...] = ()


def cases(folder: Path) -> Iterator[Case]:
    """The five sets. Of GEFCom the last year, of vic_elec the last 15 months, so that a run is short."""

    def read(name: str) -> pl.DataFrame:
        return pl.read_parquet(folder / f"{name}.parquet").select("unique_id", "ds", "y")

    m5 = some_series(pl.concat([read("m5_tail_train"), read("m5_tail_test")]), SERIES)
    yield Case("M5", m5, 28, 56)
    yield Case("vic_elec", read("vic_elec_30min").tail(48 * 460), 48, 336, 60)
    yield Case("GEFCom", read("gefcom2012_load_hourly").group_by("unique_id").tail(24 * 400), 24, 168, 28)
    hourly = pl.concat([read("m4_hourly_train"), read("m4_hourly_test")])
    yield Case("M4 hourly", some_series(hourly, 100), 48, 168)
    yield Case("tourism", read("australia_tourism_quarterly"), 8, 16)


def some_series(table: pl.DataFrame, count: int) -> pl.DataFrame:
    """Evenly spaced series of a table, of those with at least LEAST_ROWS rows."""
    ids = table.group_by("unique_id").len().filter(pl.col("len") >= LEAST_ROWS)["unique_id"].sort()
    chosen = ids[np.linspace(0, len(ids) - 1, count).round().astype(int).tolist()]
    return table.filter(pl.col("unique_id").is_in(chosen.implode()))


def models(case: Case) -> dict[str, tuple[Any, Any]]:
    """Name → model and loss."""
    sizes: dict[str, Any] = {"h": case.h, "input_size": case.input_size}
    quantiles = nd.MQLoss(level=list(LEVELS))
    return {
        "NHITS, MQLoss": (nd.NHITS(**sizes), quantiles),
        "MLP, MQLoss": (nd.MLP(**sizes), quantiles),
        "NHITS, StudentT": (nd.NHITS(**sizes), nd.DistributionLoss(distribution="StudentT", level=LEVELS)),
        "DeepAR": (nd.DeepAR(**sizes), nd.DistributionLoss(distribution=drawn(case), level=LEVELS)),
    }


def drawn(case: Case) -> str:
    """The distribution of DeepAR: counts for counts."""
    return "NegativeBinomial" if case.name == "M5" else "StudentT"


@dataclass(frozen=True)
class Found:
    """What was measured on the hidden rows."""

    case: str
    model: str
    checks: tuple[CoverageCheck, ...]
    """With the default."""
    plain: tuple[CoverageCheck, ...]
    """Without the correction."""
    corrected: bool
    negative: float
    """Share of forecast values, edges included, below 0, in percent."""
    seconds: float


def measure(case: Case, name: str, *, validation: bool) -> Found:
    """Fit with the recipe and score the hidden horizons; or those before them."""
    model, loss = models(case)[name]
    data = nd.TimeSeriesDataFrame.from_frame(case.table)
    hidden = case.windows * case.h
    data = data.drop_last(hidden) if validation else data
    begin = time.process_time()
    config = nd.TrainingConfig(loss=loss, progress=False)
    fitted = model.fit(data.drop_last(hidden), config)
    columns = named_columns(fitted.model.name, LEVELS, ())
    first = data.store.lengths - hidden
    origins = Origins.windows(data, first, steps=case.h, step_size=case.h)
    actual = origins.actual()
    both = [origins.forecasts(one, columns) for one in (fitted, fitted._without(calibration=True))]
    checks = [coverage(actual, values) for values in both]
    negative = float(100 * np.mean(both[0] < 0))
    spent = time.process_time() - begin
    return Found(case.name, name, checks[0], checks[1], fitted.calibration is not None, negative, spent)


def coverage(actual: np.ndarray, values: np.ndarray) -> tuple[CoverageCheck, ...]:
    """The coverage of every level."""
    seen, found = np.isfinite(actual), []
    for place, level in enumerate(LEVELS):
        low, high = values[:, :, 1 + 2 * place], values[:, :, 2 + 2 * place]
        inside = float(100 * ((low <= actual) & (actual <= high))[seen].mean())
        between = float(100 * ((low < actual) & (actual < high))[seen].mean())
        found.append(CoverageCheck(level=level, values=int(seen.sum()), inside=inside, between=between))
    return tuple(found)
