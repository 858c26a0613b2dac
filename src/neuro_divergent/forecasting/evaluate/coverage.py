"""Coverage of prediction intervals: how many actual values lie inside, and a sentence that reports it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neuro_divergent.forecasting.network.output_columns import Columns

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class IntervalCoverage:
    """The measured coverage of one interval of one model."""

    model: str
    level: float
    """The share of actual values that the interval should contain, in percent."""
    inside: int
    """How many actual values were inside."""
    values: int
    """How many actual values there were."""
    width: float
    """Mean width of the interval, in units of the data."""

    @property
    def percent(self) -> float:
        """The share of actual values that were inside, in percent."""
        return 100 * self.inside / self.values

    def sentence(self, what: str = "held-out values") -> str:
        """The measured coverage as a sentence.

        >>> IntervalCoverage(model="MLP", level=80.0, inside=182, values=240, width=3.1).sentence()
        '80 % interval: 76 % of 240 held-out values inside'
        """
        return f"{self.level:g} % interval: {self.percent:.0f} % of {self.values:,} {what} inside"


def measured_coverage(model: str, actual: Floats, columns: Columns, values: Floats) -> list[IntervalCoverage]:
    """The coverage of every interval of a model, the widest first; empty for a point forecast.

    Args:
        model: the name of the model.
        actual: [N, H] NaN where the value is missing.
        columns: names and probability levels of the columns of the forecasts.
        values: [N, H, K] the forecasts.
    """
    at = {round(level, 9): place for place, level in enumerate(columns.levels) if level is not None}
    seen = np.isfinite(actual)
    count = int(seen.sum())
    found = []
    for share in sorted(share for share in at if share < 0.5):
        upper = at.get(round(1 - share, 9))
        if upper is None or not count:
            continue
        low, high = values[:, :, at[share]], values[:, :, upper]
        inside = int(((actual >= low) & (actual <= high))[seen].sum())
        width = float(np.mean((high - low)[seen]))
        level = round(100 - 200 * share, 6)
        found.append(IntervalCoverage(model=model, level=level, inside=inside, values=count, width=width))
    return found
