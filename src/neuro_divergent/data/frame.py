"""The old home of `TimeSeriesDataFrame`, kept for one release: use neuro_divergent.data.table."""

from neuro_divergent.data.table import TimeSeriesDataFrame as TimeSeriesDataFrame
