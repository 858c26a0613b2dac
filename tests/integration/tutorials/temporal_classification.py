"""Zeros and ones: the probability of a one, and the class."""

import numpy as np
import pandas as pd
import torch
from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import Accuracy, DistributionLoss
from neuralforecast.models import MLP, NHITS

times = pd.date_range("2020-01-01", periods=120, freq="D")
frames = [
    pd.DataFrame({"unique_id": f"pixel{i}", "ds": times, "y": (np.arange(120) % 7 < 3 + i % 2).astype(float)})
    for i in range(3)
]
data = pd.concat(frames, ignore_index=True)
shared = {
    "h": 7,
    "input_size": 14,
    "loss": DistributionLoss(distribution="Bernoulli", level=[80, 90], return_params=False),
    "valid_loss": Accuracy(),
    "max_steps": 30,
    "val_check_steps": 10,
    "early_stop_patience_steps": 3,
}
models = [MLP(hidden_size=16, **shared), NHITS(mlp_units=3 * [[16, 16]], **shared)]
nf = NeuralForecast(models=models, freq="D")
forecasts = nf.cross_validation(df=data, val_size=14, n_windows=1)
for name in ("MLP", "NHITS"):
    assert forecasts[name].between(0, 1).all()
    assert set(np.unique(forecasts[f"{name}-median"])) <= {0.0, 1.0}
actual = torch.tensor(forecasts["y"].to_numpy())
assert float(Accuracy()(actual, actual, y_insample=None)) == 1.0
