"""Rows that count more, and steps that count more."""

import numpy as np
from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import MAE, MSE
from neuralforecast.models import MLP
from neuralforecast.utils import AirPassengersPanel

plain = AirPassengersPanel[["unique_id", "ds", "y"]]
weighted = plain.assign(sample_weight=np.where(plain["ds"] >= "1957", 5.0, 0.0))
small = {"h": 6, "input_size": 12, "max_steps": 20, "hidden_size": 8, "random_seed": 3}


def forecast(data, loss):
    nf = NeuralForecast(models=[MLP(loss=loss, **small)], freq="ME")
    nf.fit(df=data)
    after = nf.predict()
    assert np.allclose(nf.predict(df=plain)["MLP"], after["MLP"], rtol=1e-4), "weights are not needed to forecast"
    return after["MLP"].to_numpy()


even, recent = forecast(plain, MAE()), forecast(weighted, MAE())
near = forecast(plain, MSE(horizon_weight=np.array([1.0, 1, 1, 0, 0, 0])))
assert not np.allclose(even, recent)
assert np.isfinite(near).all()
try:
    forecast(plain.assign(sample_weight=-1.0), MAE())
    raise AssertionError("weights are at least 0")
except ValueError:
    pass
