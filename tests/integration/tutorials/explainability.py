"""What a forecast rests on, by three explainers; a distribution is left out with a warning."""

import warnings

import numpy as np
from neuralforecast import NeuralForecast
from neuralforecast.common.enums import ExplainerEnum
from neuralforecast.losses.pytorch import MAE, DistributionLoss, MQLoss
from neuralforecast.models import MLP, TSMixerx
from neuralforecast.utils import AirPassengersPanel, AirPassengersStatic

columns = {"futr_exog_list": ["trend"], "hist_exog_list": ["y_[lag12]"], "stat_exog_list": ["airline1"]}
small = {"h": 3, "input_size": 6, "max_steps": 2}
models = [
    MLP(hidden_size=8, loss=MAE(), **small, **columns),
    MLP(hidden_size=8, loss=MQLoss(level=[80]), alias="quantiles", **small, **columns),
    MLP(hidden_size=8, loss=DistributionLoss("Normal", level=[80]), alias="normal", **small, **columns),
    TSMixerx(n_series=2, ff_dim=4, n_block=1, revin=False, **small, **columns),
]
nf = NeuralForecast(models=models, freq="ME")
nf.fit(df=AirPassengersPanel, static_df=AirPassengersStatic)
future = nf.make_future_dataframe()
future["trend"] = np.arange(len(future))
for explainer in (ExplainerEnum.IntegratedGradients.value, ExplainerEnum.InputXGradient.value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecasts, told = nf.explain(
            static_df=AirPassengersStatic, futr_df=future, explainer=explainer, horizons=[0, 2], outputs=[0]
        )
    assert "normal" not in told
    one, all_series = told["MLP"], told["TSMixerx"]
    assert tuple(one["insample"].shape) == (2, 2, 1, 1, 6, 2)
    assert tuple(one["futr_exog"].shape) == (2, 2, 1, 1, 1, 9)
    assert tuple(one["hist_exog"].shape) == (2, 2, 1, 1, 1, 6)
    assert tuple(one["stat_exog"].shape) == (2, 2, 1, 1, 1)
    assert tuple(all_series["insample"].shape) == (1, 2, 2, 1, 6, 2, 2)
    assert tuple(all_series["hist_exog"].shape) == (1, 2, 2, 1, 1, 6, 2)
    assert "quantiles" in told

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    forecasts, told = nf.explain(static_df=AirPassengersStatic, futr_df=future, outputs=[0])
parts = told["MLP"]
total = parts["baseline_predictions"].clone()
for name, dims in {"insample": (-1, -2), "futr_exog": (-1, -2), "hist_exog": (-1, -2), "stat_exog": (-1,)}.items():
    total += parts[name].sum(dim=dims)
point = forecasts["MLP"].to_numpy().reshape(2, 3)
assert np.allclose(total[:, :, 0, 0].numpy(), point, rtol=0.02, atol=2.0), "attributions add up to the forecast"
