"""The result of learning curves: points with their spread, a verdict in words, and a figure."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING

from neuro_divergent.core.config import Description
from neuro_divergent.diagnostics.frames import frame_of

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

GAP = 1.25
"""A model overfits if its error on later rows, relative to the naive forecast's there, is more than this many times its
error on training rows, relative to the naive forecast's on those."""
LEARNED = 0.95
"""A model underfits if its error on its own training rows is not below this share of the naive forecast's."""
STILL_FALLING = 0.05
"""Training is too short if the training loss fell by more than this share in the last fifth of the epochs."""
WORTH_MORE = 0.03
"""More data is worth it if twice as many rows would lower the error by at least this share."""


class CurveFit(Description):
    """One training: a share of the data, a fold, a seed."""

    size: float
    """Share of the training rows of the fold."""
    fold: int
    """Number of the fold, in time order."""
    seed: int
    """Seed of the training."""
    rows: int
    """How many rows the training had, of all series."""
    train: float
    """Error on training rows."""
    train_naive: float
    """Error of the seasonal naive forecast on the same rows."""
    validation: float
    """Error on the rows after the training rows."""
    validation_naive: float
    """Error of the seasonal naive forecast on the same rows."""
    epoch_train_loss: tuple[float, ...] = ()
    """Training loss of each epoch."""
    epoch_validation_loss: tuple[float, ...] = ()
    """Validation loss of each validated epoch; empty if the configuration holds no rows out."""


class CurvePoint(Description):
    """The mean and the spread over folds and seeds for one share of the data."""

    size: float
    """Share of the training rows."""
    rows: float
    """Mean number of rows."""
    train: float
    """Mean error on training rows."""
    train_spread: float
    """Its standard deviation over folds and seeds."""
    validation: float
    """Mean error on later rows."""
    validation_spread: float
    """Its standard deviation over folds and seeds."""
    naive: float
    """Mean error of the seasonal naive forecast on the later rows."""
    fits: int
    """How many trainings there were."""


class LearningCurveResult(Description):
    """Errors against the share of data."""

    model: str
    """The name of the model."""
    scoring: str
    """The metric."""
    fits: tuple[CurveFit, ...]
    """Every training."""

    @property
    def points(self) -> list[CurvePoint]:
        """Mean and spread for each share, the smallest first."""
        return [_point(size, [item for item in self.fits if item.size == size]) for size in self._sizes]

    @property
    def _sizes(self) -> list[float]:
        return sorted({item.size for item in self.fits})

    @property
    def _largest(self) -> list[CurveFit]:
        return [item for item in self.fits if item.size == self._sizes[-1]]

    def to_polars(self) -> pl.DataFrame:
        """One row per training, without the epochs."""
        return frame_of(self.fits, without=("epoch_train_loss", "epoch_validation_loss"))

    @property
    def gap(self) -> float:
        """Error on later rows divided by that on training rows, each relative to the naive forecast; the largest share.

        It is the geometric mean over folds and seeds. About 1 is a model that generalises.
        """
        return math.exp(_mean(self._log_gaps)) if self._log_gaps else math.nan

    @property
    def _log_gaps(self) -> list[float]:
        pairs = [
            (_relative(i.validation, i.validation_naive), _relative(i.train, i.train_naive)) for i in self._largest
        ]
        return [math.log(held / own) for held, own in pairs if held > 0 and own > 0]

    @property
    def learned(self) -> float:
        """Error on training rows divided by the naive forecast's, with the largest share; 1 learned nothing."""
        return _mean([_relative(item.train, item.train_naive) for item in self._largest])

    @property
    def gain_of_doubling(self) -> float:
        """By how much twice as many rows would lower the error, if the last half of the curve went on."""
        points = [point for point in self.points if point.validation > 0]
        half = points[-max(2, (len(points) + 1) // 2) :]
        if len(half) < 2:
            return 0.0
        x, y = [math.log2(point.rows) for point in half], [math.log(point.validation) for point in half]
        centre, spread = mean(x), sum((value - mean(x)) ** 2 for value in x)
        slope = sum((a - centre) * b for a, b in zip(x, y, strict=True)) / spread if spread > 0 else 0.0
        return 1.0 - math.exp(slope)

    @property
    def stopped_early(self) -> bool:
        """Whether the training loss still fell clearly at the end, and no validation rows rose meanwhile."""
        falls = [_fall(item.epoch_train_loss) for item in self._largest if len(item.epoch_train_loss) >= 5]
        held = [_fall(item.epoch_validation_loss) for item in self._largest if len(item.epoch_validation_loss) >= 5]
        return bool(falls) and mean(falls) > STILL_FALLING and (not held or mean(held) > 0)

    def is_overfitting(self) -> bool:
        """Whether later rows are forecast clearly worse than training rows, beyond the spread of folds and seeds."""
        gaps = self._log_gaps
        return bool(gaps) and _mean(gaps) - _error(gaps) > math.log(GAP)

    def is_underfitting(self) -> bool:
        """Whether the training rows themselves are forecast no better than by the naive forecast, or training ended
        while its loss still fell and the model is not better than the naive forecast on later rows."""
        shares = [_relative(item.train, item.train_naive) for item in self._largest]
        held = [_relative(item.validation, item.validation_naive) for item in self._largest]
        short = self.stopped_early and _mean(held) > LEARNED
        return (bool(shares) and _mean(shares) - _error(shares) > LEARNED) or short

    @property
    def verdict(self) -> str:
        """What the curves say, and what to do."""
        found = []
        if self.is_overfitting():
            found.append(
                f"{self.model} overfits: relative to the naive forecast, its error on later rows is {self.gap:.2f} "
                "times that on training rows. Try a smaller network, dropout, weight decay, early stopping or more "
                "series."
            )
        if self.is_underfitting():
            advice = "train longer" if self.stopped_early else "a larger network, a longer input_size or a higher rate"
            found.append(
                f"{self.model} underfits: on its own training rows its error is {self.learned:.2f} times the naive "
                f"forecast's. Try {advice}; if nothing helps, the data may have no more to learn."
            )
        if not found:
            found.append(
                f"{self.model} fits well: its errors on training and later rows agree within their spread "
                f"(ratio {self.gap:.2f})."
            )
        gain = self.gain_of_doubling
        if gain >= WORTH_MORE:
            found.append(f"More data helps: twice as many rows would lower the {self.scoring} by about {gain:.0%}.")
        else:
            found.append("More rows of the same series would hardly help.")
        return " ".join(found)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A figure of the errors against the share of data, and of the losses against epochs."""
        from neuro_divergent.diagnostics.plots import learning_figure
        from neuro_divergent.plotting import save

        return save(learning_figure(self), path)

    def __str__(self) -> str:
        head = f"{'share':>6}{'rows':>10}{'train':>20}{'later rows':>20}{'naive':>10}"
        lines = [
            f"{p.size:>6.0%}{p.rows:>10,.0f}{f'{p.train:.4g} ± {p.train_spread:.2g}':>20}"
            f"{f'{p.validation:.4g} ± {p.validation_spread:.2g}':>20}{p.naive:>10.4g}"
            for p in self.points
        ]
        return "\n".join([f"{self.scoring} of {self.model}", head, *lines, self.verdict])


def _point(size: float, fits: Sequence[CurveFit]) -> CurvePoint:
    train, held = [item.train for item in fits], [item.validation for item in fits]
    return CurvePoint(
        size=size,
        rows=mean(item.rows for item in fits),
        train=_mean(train),
        train_spread=_spread(train),
        validation=_mean(held),
        validation_spread=_spread(held),
        naive=_mean([item.validation_naive for item in fits]),
        fits=len(fits),
    )


def _relative(value: float, naive: float) -> float:
    """The error divided by the naive forecast's; the error itself if that is 0 or unknown."""
    return value / naive if naive > 0 else value


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _mean(values: Sequence[float]) -> float:
    return mean(_known(values)) if _known(values) else math.nan


def _spread(values: Sequence[float]) -> float:
    return stdev(_known(values)) if len(_known(values)) > 1 else 0.0


def _error(values: Sequence[float]) -> float:
    """The standard error of the mean."""
    return _spread(values) / math.sqrt(max(1, len(_known(values))))


def _fall(losses: Sequence[float]) -> float:
    """By which share the loss fell in the last fifth of the epochs."""
    before = losses[-1 - max(1, len(losses) // 5)]
    return (before - losses[-1]) / abs(before) if before else 0.0
