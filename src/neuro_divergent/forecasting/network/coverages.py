"""Which central intervals of a loss are measured on held-out rows.

Letters: C coverages.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neuro_divergent.losses import Loss, MQLoss, Weighted

Floats = npt.NDArray[np.float64]

ANY_COVERAGE = (0.5, 0.8, 0.9, 0.95, 0.99)
"""The coverages that are measured for a loss with all quantiles."""


def coverages_of(loss: Loss) -> Floats:
    """[C] the central coverages, ascending, that are measured; empty if the levels of the loss have no pairs."""
    inner = loss
    while isinstance(inner, Weighted):
        inner = inner.loss
    paired = _paired(inner.levels)
    return np.array(sorted(paired if isinstance(inner, MQLoss) else paired | {*ANY_COVERAGE}))


def checked_coverages(loss: Loss) -> set[float]:
    """The coverages whose deviation decides: those that the loss was trained for, or all that are measured."""
    return _paired(loss.levels) or {*coverages_of(loss).tolist()}


def _paired(levels: tuple[float, ...]) -> set[float]:
    """The central coverages whose two edges are among the levels."""
    lower = [level for level in levels if level < 0.5 and any(abs(1 - level - other) < 1e-6 for other in levels)]
    return {round(1 - 2 * level, 8) for level in lower}
