"""Sample paths of whole horizons."""

from neuralforecast import NeuralForecast
from neuralforecast.losses.pytorch import MAE, DistributionLoss, MQLoss
from neuralforecast.models import MLP
from neuralforecast.utils import DEFAULT_QUANTILE_GRID, AirPassengersPanel, PredictionIntervals

small = {"h": 6, "input_size": 12, "max_steps": 3, "hidden_size": 8, "scaler_type": "robust"}
models = [
    MLP(loss=MQLoss(quantiles=DEFAULT_QUANTILE_GRID), alias="quantiles", **small),
    MLP(loss=DistributionLoss("StudentT", level=[80]), alias="student", **small),
    MLP(loss=MAE(), alias="conformal", **small),
]
nf = NeuralForecast(models=models, freq="ME")
nf.fit(df=AirPassengersPanel[["unique_id", "ds", "y"]], prediction_intervals=PredictionIntervals(n_windows=3))
for method in ("gaussian_copula", "schaake_shuffle"):
    paths = nf.simulate(n_paths=8, seed=1, method=method)
    assert list(paths.columns) == ["unique_id", "ds", "sample_id", "quantiles", "student", "conformal"]
    assert len(paths) == 2 * 6 * 8
    assert paths.notna().all().all()
    again = nf.simulate(n_paths=8, seed=1, method=method)
    assert paths["quantiles"].equals(again["quantiles"])
try:
    nf.simulate(method="guess")
    raise AssertionError("there is no method of that name")
except ValueError:
    pass
