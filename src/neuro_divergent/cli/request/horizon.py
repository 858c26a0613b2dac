"""Horizon and lookback window that fit a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuro_divergent.core.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from neuro_divergent.data.table import TimeSeriesDataFrame


def lookback(table: TimeSeriesDataFrame, h: int, rows: npt.NDArray[np.int64]) -> int:
    """Four horizons, or two seasons of the training rows if that is more. Less if the series are too short."""
    import numpy as np

    from neuro_divergent.forecasting.evaluate.seasonal_naive import season_of

    wanted = max(4 * h, 2 * season_of(table.store, rows), 8)
    longest = int(np.max(table.store.lengths))
    # A fifth is held out for validation. Training rows and held-out rows each need one horizon.
    fits = int(0.8 * longest) - 2 * h
    return max(1, min(wanted, max(fits, h)))


def check_horizon(table: TimeSeriesDataFrame, h: int) -> None:
    """Refuse a horizon that is too long for every series, and propose one that fits."""
    longest = int(table.store.lengths.max())
    if longest < 2 * h + 2:
        raise DataError(
            f"a horizon of {h} steps needs series of at least {2 * h + 2} rows, but the longest has {longest}. "
            f"Ask for fewer steps: --h {max(1, longest // 4)} would fit"
        )
