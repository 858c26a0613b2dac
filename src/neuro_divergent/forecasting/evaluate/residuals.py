"""Tests of forecast errors: are they biased, and are they autocorrelated?

An error is actual value minus forecast. Letters: G groups, S series, K lags.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from neuro_divergent.losses.numeric import betainc

Floats = npt.NDArray[np.float64]

SIGNIFICANT = 0.05
"""Below this p-value a finding is significant."""


@dataclass(frozen=True)
class Bias:
    """The mean error of forecasts, and whether it is significant."""

    percent: float
    """100·Σ(forecast - actual) / Σ|actual|; NaN if all actual values are 0."""
    p_value: float | None
    """p-value of a mean error of 0, by a t-test over groups of errors; None for fewer than two groups."""

    @property
    def significant(self) -> bool:
        """Whether the bias is significant."""
        return self.p_value is not None and self.p_value < SIGNIFICANT


def bias_of(errors: Floats, actual: Floats, group: npt.NDArray[np.int64]) -> Bias:
    """The bias of errors that may be correlated within a group, but not between groups. NaN is left out.

    With the sum E_g of the n_g errors of a group and the mean e of all N, the variance of e is estimated by
    G/(G-1)·Σ(E_g - n_g·e)² / N² (a cluster-robust variance), and e divided by its root is compared with Student's t of
    G - 1 degrees of freedom. For groups of one size this is the one-sample t-test of their means.
    """
    seen = np.isfinite(errors)
    values, level = errors[seen], float(np.abs(actual[seen]).sum())
    percent = float(-100 * values.sum() / level) if level > 0 else math.nan
    _, place = np.unique(group[seen], return_inverse=True)
    counts = np.bincount(place)
    if len(counts) < 2:
        return Bias(percent, None)
    centre = float(values.mean())
    spread = np.bincount(place, weights=values) - counts * centre
    groups = len(counts)
    deviation = math.sqrt(groups / (groups - 1) * float(spread @ spread)) / len(values)
    if deviation == 0:
        return Bias(percent, 1.0 if centre == 0 else 0.0)
    return Bias(percent, student_p(centre / deviation, groups - 1))


def student_p(t: float, degrees: int) -> float:
    """Two-sided p-value: the probability that |Student's t| is at least |t|."""
    a, b, x = (torch.tensor(v, dtype=torch.float64) for v in (degrees / 2, 0.5, degrees / (degrees + t * t)))
    return float(betainc(a, b, x))


@dataclass(frozen=True)
class Dependence:
    """The autocorrelation of errors, and whether it is significant."""

    correlation: Floats
    """[K] at lags 1, 2, ..."""
    count: float
    """The effective number of independent errors."""

    @property
    def bound(self) -> float:
        """If errors are independent, 19 of 20 correlations lie within ± this."""
        return 1.96 / math.sqrt(self.count)

    @property
    def outside(self) -> list[int]:
        """The lags whose correlation lies outside the bound."""
        return [lag for lag, value in enumerate(self.correlation, 1) if abs(value) > self.bound]

    @property
    def p_first(self) -> float:
        """p-value of independence, by the first lag alone."""
        return math.erfc(abs(float(self.correlation[0])) * math.sqrt(self.count / 2))

    @property
    def p_box(self) -> float:
        """p-value of independence, by all lags together (Ljung & Box 1978)."""
        return chi_square_p(ljung_box(self.correlation, self.count), len(self.correlation))

    @property
    def significant(self) -> bool:
        """Whether the first lag or all lags together are significant. Each test uses half the level."""
        return min(self.p_first, self.p_box) < SIGNIFICANT / 2


def ljung_box(correlation: Floats, count: float) -> float:
    """Q = n·(n+2)·Σ r_k² / (n-k)."""
    lags = np.arange(1, len(correlation) + 1)
    return float(count * (count + 2) * np.sum(np.square(correlation) / np.maximum(count - lags, 1)))


def chi_square_p(value: float, degrees: int) -> float:
    """p-value: the probability that a chi-square value is at least this large."""
    half = (torch.tensor(degrees / 2, dtype=torch.float64), torch.tensor(value / 2, dtype=torch.float64))
    return float(torch.special.gammaincc(*half))


def dependence_of(series: Sequence[Floats], lags: int) -> Dependence | None:
    """The autocorrelation of several error series, each standardised by its own mean and variance. NaN is left out.

    The sample autocorrelation of independent values is too low by about 1/n, so 1/n is added. Correlated series carry
    less information: with the mean squared correlation c between them, N errors of S series count as
    N / (1 + (S - 1)·c). Returns None if there are too few errors.
    """
    scored = [_standardised(errors) for errors in series if _usable(errors, lags)]
    if not scored or lags < 1:
        return None
    total = math.fsum(float(errors @ errors) for errors in scored)
    products = [
        math.fsum(float(errors[lag:] @ errors[:-lag]) + 1 - lag / len(errors) for errors in scored)
        for lag in range(1, lags + 1)
    ]
    return Dependence(np.array(products) / total, total / (1 + (len(scored) - 1) * _shared(scored)))


def _usable(errors: Floats, lags: int) -> bool:
    return len(errors) > 2 * lags and bool(np.isfinite(errors).any()) and float(np.nanstd(errors)) > 0


def _standardised(errors: Floats) -> Floats:
    """The errors with mean 0 and variance 1: the sum of squares is their number. 0 where an error is missing."""
    return np.asarray(np.nan_to_num((errors - np.nanmean(errors)) / np.nanstd(errors)))


def _shared(series: Sequence[Floats]) -> float:
    """The mean squared correlation of two series, beyond chance. Series are aligned at their ends."""
    pairs = [(one, other) for place, one in enumerate(series) for other in series[:place]]
    squares = []
    for one, other in pairs:
        rows = min(len(one), len(other))
        squares.append((float(one[-rows:] @ other[-rows:]) / rows) ** 2 - 1 / rows)
    return float(np.clip(np.mean(squares), 0.0, 1.0)) if squares else 0.0
