"""Outliers in the data, and losses that bear them; nothing is scaled, as the defaults have it."""

import numpy as np
from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import GMM, DistributionLoss, HuberLoss, HuberMQLoss, TukeyLoss
from neuralforecast.models import MLP, NBEATS, NHITS
from neuralforecast.utils import AirPassengersPanel

draw = np.random.default_rng(0)
data = AirPassengersPanel[["unique_id", "ds", "y"]].copy()
bad = draw.choice(len(data), 8, replace=False)
data.loc[data.index[bad], "y"] = data["y"].to_numpy()[bad] * 5
small = {"h": 12, "input_size": 24, "max_steps": 12}
losses = {
    "normal": DistributionLoss("Normal", level=[80]),
    "student": DistributionLoss("StudentT", level=[80]),
    "mixture": GMM(n_components=2, level=[80]),
    "huber": HuberLoss(),
    "quantiles": HuberMQLoss(level=[80]),
    "tukey": TukeyLoss(),
}
models = [NHITS(loss=loss, alias=name, mlp_units=3 * [[16, 16]], **small) for name, loss in losses.items()]
models.append(MLP(loss=DistributionLoss("Normal", level=[80]), alias="mlp", hidden_size=16, **small))
models.append(NBEATS(loss=DistributionLoss("Normal", level=[80]), alias="nbeats", mlp_units=3 * [[16, 16]], **small))
nf = NeuralForecast(models=models, freq="ME")
nf.fit(df=data)
forecasts = nf.predict()
assert forecasts.drop(columns=["unique_id", "ds"]).notna().all().all()
assert (forecasts["normal-hi-80"] > forecasts["normal-lo-80"]).all()
