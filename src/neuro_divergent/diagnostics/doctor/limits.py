"""The thresholds of all checks.

They were set on one half of the data sets (benchmarks/_doctor_cases.py, TUNED_ON) and are reported on the other half.
"""

from __future__ import annotations

BETTER_RATE = 0.8
"""Another rate is better if a few steps at it reach this share of the loss of the whole run."""
FALLS_ON = 0.9
"""A training ended too early if a few more steps at its highest rate bring the loss to this share."""
OVERFIT_RISE = 1.15
"""Validation loss of the returned weights over the lowest validation loss."""
OVERFIT_HISTORY = 1.5
"""Last validation loss over the lowest one, where the best weights were restored."""
UNDERFIT = 1.25
"""Error of the network over that of a linear regression on the same windows."""
FLAT = 0.01
"""A training loss is flat if the second half of the run lowers it by less than this share."""
DEAD = 0.6
"""Share of units of a layer that never react."""
VANISHED = 1e-4
"""Smallest over largest gradient of the weight matrices, at the start and at the end."""
EXPLODED = 1e3
"""Gradient norm · weight norm / loss at the start."""
SPIKE = 1e3
"""Largest gradient norm over the median."""
TOP_SHARE = 0.8
"""Share of the loss of a twentieth of the series."""
UNSCALED = 20.0
"""Size of the values that the network reads."""
SHIFT = 2.5
"""Change of level in the held-out rows over the largest in the training rows."""
LEAK = 0.97
"""Correlation of the changes of a column with those of the target."""
NAIVE = 1.05
"""Error over that of the seasonal naive forecast."""
STEP_NAIVE = 1.3
"""The same for one step ahead, over the median step."""
SERIES_NAIVE = 1.5
"""The same for one series."""
LEARNED = 0.25
"""Improvement of one step ahead over the median improvement."""
COVERAGE = 0.12
"""Difference between the nominal and the observed share inside an interval."""
DUPLICATED = 0.2
"""Share of repeated windows."""
FEW_STEPS = 150
"""Optimizer steps of a short training."""
ZEROS = 0.05
"""Share of zeros with which a percentage error has no meaning."""
