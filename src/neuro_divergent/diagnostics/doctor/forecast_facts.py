"""Facts about the forecasts of held-out rows, beside the seasonal naive forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neuro_divergent.diagnostics.doctor.evidence import ForecastFacts
from neuro_divergent.forecasting.evaluate.held_out import HeldOut, forecasts_between
from neuro_divergent.forecasting.fit.training_rows import selection_rows

if TYPE_CHECKING:
    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.predict.forecaster import Forecaster


def forecast_facts(fitted: Forecaster, table: TimeSeriesDataFrame, held: HeldOut | None = None) -> ForecastFacts | None:
    """The errors of the rows of a table that the model was not trained on; None if there are no such rows.

    `held` are the forecasts of these rows, if they were made before.
    """
    held = held or forecasts_between(fitted, table, selection_rows(fitted, table), table.store.lengths)
    if held is None:
        return None
    truth = held.truth
    own, naive = np.abs(held.errors), np.abs(truth.actual - truth.naive)
    both = np.isfinite(own) & np.isfinite(naive)
    if not both.any():
        return None
    own, naive = np.where(both, own, 0.0), np.where(both, naive, 0.0)
    ids = table.ids.tolist()
    numbers = np.unique(truth.series)
    by_series = {
        str(ids[number]): float(own[truth.series == number].sum() / max(naive[truth.series == number].sum(), 1e-12))
        for number in numbers.tolist()
        if naive[truth.series == number].sum() > 0
    }
    return ForecastFacts(
        mae=float(own.sum() / both.sum()),
        naive=float(naive.sum() / both.sum()),
        by_step=(own.sum(0) / np.maximum(naive.sum(0), 1e-12)).tolist(),
        by_series=by_series,
        origins=len(truth.series),
        coverage=[(found.level / 100, found.percent / 100, found.values) for found in held.evaluation.coverage],
    )
