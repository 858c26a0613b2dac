"""Series in a Parquet file each, one directory per series."""

import tempfile
from pathlib import Path

from neuralforecast import NeuralForecast
from neuralforecast.models import NHITS
from neuralforecast.utils import AirPassengersPanel, AirPassengersStatic

with tempfile.TemporaryDirectory() as folder:
    AirPassengersPanel.to_parquet(folder, partition_cols=["unique_id"], index=False)
    files = sorted(str(path) for path in Path(folder).iterdir())
    model = NHITS(
        h=12,
        input_size=24,
        max_steps=2,
        mlp_units=3 * [[8, 8]],
        futr_exog_list=["trend"],
        stat_exog_list=["airline1"],
        scaler_type="robust",
    )
    nf = NeuralForecast(models=[model], freq="ME")
    nf.fit(df=files, static_df=AirPassengersStatic, val_size=12)
    last = AirPassengersPanel.groupby("unique_id").tail(12)
    past = AirPassengersPanel.drop(last.index)
    forecasts = nf.predict(df=past, futr_df=last.drop(columns="y"), static_df=AirPassengersStatic)
    assert len(forecasts) == 24
    try:
        nf.fit(df=[1, 2])
        raise AssertionError("a list of numbers is no list of files")
    except ValueError:
        pass
