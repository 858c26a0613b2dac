"""The thresholds of all checks.

They were set on one half of the data sets (benchmarks/_doctor_cases.py, TUNED_ON) and are reported on the other half.
"""

from __future__ import annotations

PROGRESS = 0.75
"""A rate is wrong if the run has made less than this share of the progress that is known to be possible ..."""
MORE_PROGRESS = 0.25
"""... and a few steps of another kind make this much more of it."""
FINISHED = 0.75
"""A training ended too early if it made less than this share of the possible progress."""
MORE_ON_PLATEAU = 0.08
"""A few more steps at the first rate make this much more of the possible progress after the rate has fallen."""
LESS_NOISE = 0.92
"""Loss after more steps with large batches over that with the run's own batches."""
OVERFIT_APART = 1.05
"""Validation loss over the lowest one, if the training loss is less than half of it."""
OVERFIT_RISE = 1.15
"""Validation loss of the returned weights over the lowest validation loss."""
OVERFIT_HISTORY = 1.5
"""Last validation loss over the lowest one, where the best weights were restored."""
UNDERFIT = 1.15
"""Error of the network over that of a linear regression on the same windows."""
DEAD = 0.6
"""Share of units of a layer that never react."""
VANISHED = 1e-4
"""Smallest over largest gradient of the weight matrices, at the start and at the end."""
EXPLODED = 20.0
"""Median gradient norm of 20 steps."""
SPIKE = 1e3
"""Largest gradient norm over the median."""
TOP_SHARE = 0.8
"""Share of the loss of a twentieth of the series."""
UNSCALED = 20.0
"""Size of the values that the network reads."""
SHIFT = 2.0
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
