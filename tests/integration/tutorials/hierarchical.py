"""A total and its parts: coherent probabilistic forecasts."""

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import GMM, sCRPS
from neuralforecast.models import HINT, NHITS
from neuralforecast.utils import AirPassengersPanel

bottom = AirPassengersPanel[["unique_id", "ds", "y"]]
total = bottom.groupby("ds", as_index=False)["y"].sum().assign(unique_id="A-total")
S = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
base = NHITS(
    h=12,
    input_size=24,
    max_steps=3,
    mlp_units=3 * [[8, 8]],
    loss=GMM(n_components=2, level=[80], num_samples=50),
    valid_loss=sCRPS(level=[80]),
    early_stop_patience_steps=2,
    val_check_steps=1,
    scaler_type="robust",
)
nf = NeuralForecast(models=[HINT(h=12, S=S, model=base, reconciliation="BottomUp")], freq="ME")
nf.fit(df=pd.concat([total, bottom], ignore_index=True), val_size=12)
forecasts = nf.predict()
assert list(forecasts.columns[2:]) == ["HINT", "HINT-median", "HINT-lo-80", "HINT-hi-80"]
assert forecasts["HINT"].dtype == np.float64
mean = forecasts.pivot(index="ds", columns="unique_id", values="HINT")
assert np.allclose(mean["A-total"], mean["Airline1"] + mean["Airline2"], rtol=1e-3)
