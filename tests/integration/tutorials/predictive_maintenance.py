"""Remaining useful life of machines from their sensors, whose own past is hidden from the model."""

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import HuberLoss
from neuralforecast.models import MLP, NBEATSx

draw = np.random.default_rng(1)
frames = []
for unit in range(4):
    life = int(draw.integers(60, 80))
    wear = np.arange(life) / life
    sensors = {f"s_{i}": wear**i + draw.normal(0, 0.02, life) for i in (1, 2)}
    frames.append(pd.DataFrame({"unique_id": unit, "ds": np.arange(life), "y": np.arange(life)[::-1] * 1.0} | sensors))
data = pd.concat(frames, ignore_index=True)
shared = {
    "h": 1,
    "input_size": 12,
    "max_steps": 60,
    "loss": HuberLoss(),
    "scaler_type": "robust",
    "futr_exog_list": ["s_1", "s_2"],
    "exclude_insample_y": True,
    "random_seed": 1,
}
models = [
    NBEATSx(stack_types=["identity"], n_blocks=[1], mlp_units=[[16, 16]], **shared),
    MLP(hidden_size=16, **shared),
]
nf = NeuralForecast(models=models, freq=1)
nf.fit(df=data)
future = nf.make_future_dataframe()
future["s_1"], future["s_2"] = 1.0, 1.0
assert len(nf.predict(futr_df=future)) == 4
insample = nf.predict_insample(step_size=1)
assert {"NBEATSx", "MLP", "y"} <= set(insample.columns)
