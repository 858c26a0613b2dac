"""The old module of `TimeSeriesDataFrame`, kept for one release. Use neuro_divergent.data.table."""

from neuro_divergent.data.table import TimeSeriesDataFrame as TimeSeriesDataFrame
