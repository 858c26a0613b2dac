"""A pandas frame of forecasts is what polars' own conversion gives: types, index and values."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.predict.output_frame import output_frame, polars_frame

HOURS = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024", periods=9, freq="h"), "y": np.arange(9.0)})
FRAMES = {
    "us": HOURS,
    "ns": HOURS.assign(ds=HOURS["ds"].dt.as_unit("ns")),
    "ms": HOURS.assign(ds=HOURS["ds"].dt.as_unit("ms")),
    "half a millisecond": HOURS.assign(ds=HOURS["ds"] + pd.Timedelta(500, "us")),
    "zone": HOURS.assign(ds=HOURS["ds"].dt.tz_localize("Europe/Berlin")),
    "whole times": HOURS.assign(ds=range(9)),
    "small whole times": HOURS.assign(ds=np.arange(9, dtype=np.int16)),
    "dates": HOURS.assign(ds=[day.date() for day in pd.date_range("2024", periods=9)]),
    "whole ids": HOURS.assign(unique_id=3),
    "no ids": HOURS.drop(columns="unique_id"),
    "two series": pd.concat([HOURS, HOURS.assign(unique_id="ü")]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_the_frame_is_that_of_polars(frame, dtype):
    table = nd.TimeSeriesDataFrame.from_frame(frame)
    values = np.arange(table.n_series * 4 * 2, dtype=np.float64).reshape(-1, 4, 2) / 3
    expected = polars_frame(table, ("M", "M-lo-80"), values.reshape(-1, 2).astype(dtype), 4).to_pandas()
    found = output_frame(table, ("M", "M-lo-80"), values, dtype)
    pd.testing.assert_frame_equal(
        found, expected, check_index_type="exact", check_column_type="exact", check_exact=True
    )
    assert type(found.index) is type(expected.index)
    found.loc[0, "M"] = 99.0  # it can be written to
    assert found.loc[0, "M"] == 99.0


def test_times_that_the_type_does_not_have_are_not_turned_into_others():
    late = HOURS.assign(ds=pd.date_range("2262-04-11 15:00", periods=9, freq="h", unit="ns"))
    with pytest.raises(pl.exceptions.PolarsError, match="2262-04-12"):
        output_frame(nd.TimeSeriesDataFrame.from_frame(late), ("M",), np.zeros((1, 4, 1)), np.float32)
