"""Future, historical and static columns in two models."""

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import NHITS, BiTCN
from neuralforecast.tsdataset import TimeSeriesDataset
from neuralforecast.utils import AirPassengersPanel, AirPassengersStatic, augment_calendar_df

panel, calendar = augment_calendar_df(AirPassengersPanel.reset_index(drop=True), freq="M")
columns = {"futr_exog_list": ["trend", *calendar], "hist_exog_list": ["y_[lag12]", "trend"]}
columns["stat_exog_list"] = ["airline1"]
models = [
    NHITS(h=12, input_size=24, max_steps=2, mlp_units=3 * [[8, 8]], scaler_type="robust", **columns),
    BiTCN(h=12, input_size=24, max_steps=2, hidden_size=4, scaler_type=None, **columns),
    NHITS(h=12, input_size=24, max_steps=2, mlp_units=3 * [[8, 8]], alias="blind", exclude_insample_y=True, **columns),
]
nf = NeuralForecast(models=models, freq="ME")
nf.fit(df=panel, static_df=AirPassengersStatic, val_size=12)
future = nf.make_future_dataframe()
assert len(nf.get_missing_future(future.iloc[1:])) == 1
future["trend"] = np.arange(len(future))
future, _ = augment_calendar_df(future, freq="M")
forecasts = nf.predict(futr_df=future)
assert list(forecasts.columns) == ["unique_id", "ds", "NHITS", "BiTCN", "blind"]
assert forecasts[["NHITS", "BiTCN", "blind"]].notna().all().all()
assert (models[0].futr_exog_size, models[0].hist_exog_size, models[0].stat_exog_size) == (2, 2, 1)
assert len(nf.models[0].train_trajectories) == 2

# One model on a dataset, without a NeuralForecast.
dataset, uids, last_dates, times = TimeSeriesDataset.from_df(AirPassengersPanel[["unique_id", "ds", "y"]])
model = NHITS(h=12, input_size=24, max_steps=0, mlp_units=3 * [[8, 8]])
model.fit(dataset=dataset)
assert model.predict(dataset=dataset).shape == (24, 1)
assert isinstance(uids, pd.Series)
assert len(times) == len(dataset.temporal)
