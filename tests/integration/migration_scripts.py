"""What users of neuralforecast write, as short scripts that run with either package: the prefix is the only difference.

Each script takes a function that gives a module of the package by its name behind the prefix, and gives back frames by
label. Networks are tiny and trained for a few steps: what is compared is the shape of the answers.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Modules = Callable[[str], Any]
Frames = dict[str, pd.DataFrame]

H = 12
TINY = {"h": H, "input_size": 24, "max_steps": 5, "batch_size": 4, "windows_batch_size": 16}
NARROW = {"mlp_units": 3 * [[8, 8]]}


def modules(prefix: str) -> Modules:
    """Modules behind an import prefix."""
    return lambda name: importlib.import_module(f"{prefix}.{name}")


def quick_start(package: Modules) -> Frames:
    """The first page: two models, one series, fit and predict; then twelve months for training and test."""
    core, models, utils = (package(name) for name in ("core", "models", "utils"))
    data = utils.AirPassengersDF
    train, test = data[data["ds"] <= "1959-12-31"], data[data["ds"] > "1959-12-31"]
    nf = core.NeuralForecast(
        models=[
            models.LSTM(h=H, input_size=24, max_steps=5, encoder_hidden_size=8, decoder_hidden_size=8),
            models.NHITS(**TINY, **NARROW, n_freq_downsample=[2, 1, 1]),
        ],
        freq="ME",
    )
    nf.fit(df=train)
    forecasts = nf.predict()
    return {"predict": forecasts, "merged": test.merge(forecasts, how="left", on=["unique_id", "ds"])}


def exogenous(package: Modules) -> Frames:
    """Columns known ahead, columns of the past and columns of a series, with validation and a frame of the future."""
    core, models, losses, utils = (package(name) for name in ("core", "models", "losses.pytorch", "utils"))
    data, static = utils.AirPassengersPanel, utils.AirPassengersStatic
    train = data[data["ds"] < data["ds"].to_numpy()[-H]].reset_index(drop=True)
    future = data[data["ds"] >= data["ds"].to_numpy()[-H]].drop(columns="y").reset_index(drop=True)
    lists = {"futr_exog_list": ["trend"], "hist_exog_list": ["y_[lag12]"], "stat_exog_list": ["airline1"]}
    nf = core.NeuralForecast(
        models=[
            models.NHITS(**TINY, **NARROW, **lists, scaler_type="robust"),
            models.TFT(h=H, input_size=24, max_steps=3, hidden_size=8, n_head=2, loss=losses.MAE(), **lists),
            models.NBEATS(**TINY, **NARROW),
        ],
        freq="ME",
    )
    nf.fit(df=train, static_df=static, val_size=H)
    incomplete = future[future["unique_id"] == "Airline1"]
    return {
        "predict": nf.predict(futr_df=future),
        "make_future": nf.make_future_dataframe(),
        "missing_future": nf.get_missing_future(futr_df=incomplete),
    }


def probabilistic(package: Modules) -> Frames:
    """Quantile losses, distributions, conformal intervals; levels asked of the loss or of predict."""
    core, models, losses, utils = (package(name) for name in ("core", "models", "losses.pytorch", "utils"))
    data = utils.AirPassengersPanel[["unique_id", "ds", "y"]]
    nf = core.NeuralForecast(
        models=[
            models.NHITS(**TINY, **NARROW, loss=losses.MQLoss(level=[80, 90]), alias="levels"),
            models.MLP(**TINY, hidden_size=8, loss=losses.MQLoss(quantiles=[0.1, 0.25, 0.5]), alias="quantiles"),
            models.MLP(
                **TINY, hidden_size=8, loss=losses.DistributionLoss("Normal", level=[90]), alias="normal",
                scaler_type="standard",
            ),
            models.MLP(**TINY, hidden_size=8, loss=losses.QuantileLoss(0.9), alias="one"),
        ],
        freq="ME",
    )  # fmt: skip
    nf.fit(data)
    conformal = core.NeuralForecast(models=[models.NHITS(**TINY, **NARROW)], freq="ME")
    conformal.fit(data, prediction_intervals=utils.PredictionIntervals(n_windows=3))
    learned = core.NeuralForecast(models=[models.MLP(**TINY, hidden_size=8, loss=losses.MQLoss(level=[90]))], freq="ME")
    learned.fit(data)
    drawn = core.NeuralForecast(
        models=[models.MLP(**TINY, hidden_size=8, loss=losses.DistributionLoss("StudentT"), scaler_type="robust")],
        freq="ME",
    )
    drawn.fit(data)
    implicit = core.NeuralForecast(models=[models.MLP(**TINY, hidden_size=8, loss=losses.IQLoss())], freq="ME")
    implicit.fit(data)
    return {  # in this order: levels asked of predict stay with a distribution in neuralforecast
        "predict": nf.predict(),
        "distribution": drawn.predict(),
        "conformal": conformal.predict(),
        "conformal_level": conformal.predict(level=[80, 90]),
        "conformal_quantiles": conformal.predict(quantiles=[0.1, 0.5, 0.9]),
        "implicit": implicit.predict(),
        "distribution_level": drawn.predict(level=[70]),
        "distribution_quantiles": drawn.predict(quantiles=[0.2, 0.5]),
    }


def cross_validation(package: Modules) -> Frames:
    """Several windows, with one training and with one for each, and the forecasts inside the training data."""
    core, models, losses, utils = (package(name) for name in ("core", "models", "losses.pytorch", "utils"))
    data = utils.AirPassengersPanel[["unique_id", "ds", "y"]]
    several = [
        models.NHITS(**TINY, **NARROW),
        models.MLP(**TINY, hidden_size=8, loss=losses.MQLoss(level=[80])),
    ]
    nf = core.NeuralForecast(models=several, freq="ME")
    frames = {
        "no_refit": nf.cross_validation(df=data, val_size=H, n_windows=3, step_size=4),
        "test_size": nf.cross_validation(df=data, n_windows=None, test_size=24, step_size=H),
    }
    again = core.NeuralForecast(models=[models.NHITS(**TINY, **NARROW)], freq="ME")
    frames["refit"] = again.cross_validation(df=data, n_windows=2, step_size=H, refit=True)
    again.fit(data)
    frames["insample"] = again.predict_insample(step_size=H)
    return frames


def save_load(package: Modules) -> Frames:
    """Save, load, predict; then predict other rows with the loaded models."""
    core, models, utils = (package(name) for name in ("core", "models", "utils"))
    data = utils.AirPassengersPanel[["unique_id", "ds", "y"]]
    nf = core.NeuralForecast(models=[models.NHITS(**TINY, **NARROW), models.NHITS(**TINY, **NARROW)], freq="ME")
    nf.fit(df=data)
    before = nf.predict()
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "saved")
        nf.save(path=place, model_index=None, overwrite=True, save_dataset=True)
        loaded = core.NeuralForecast.load(path=place)
        after = loaded.predict()
        nf.save(path=os.path.join(folder, "one"), model_index=[0], save_dataset=False)
        bare = core.NeuralForecast.load(path=os.path.join(folder, "one")).predict(df=data.groupby("unique_id").head(60))
    np.testing.assert_allclose(before["NHITS"].to_numpy(), after["NHITS"].to_numpy(), rtol=1e-5)
    return {"before": before, "after": after, "without_dataset": bare}


def transfer(package: Modules) -> Frames:
    """Fit on one panel with whole-number times, forecast another one, then go on training on it."""
    core, models = (package(name) for name in ("core", "models"))
    source, target = panel(["a", "b", "c"], 60), panel(["x", "y"], 48)
    nf = core.NeuralForecast(models=[models.NHITS(**TINY, **NARROW)], freq=1)
    nf.fit(df=source)
    frames = {"source": nf.predict(), "zero_shot": nf.predict(df=target)}
    nf.fit(df=target, use_init_models=False)
    frames["fine_tuned"] = nf.predict()
    return frames


def custom_loss(package: Modules) -> Frames:
    """A loss of one's own: the base class, and a subclass of a given one."""
    core, models, losses, utils = (package(name) for name in ("core", "models", "losses.pytorch", "utils"))

    class Asymmetric(losses.BasePointLoss):  # type: ignore[misc]
        """Forecasts that are too low count twice."""

        def __init__(self, horizon_weight: Any = None) -> None:
            super().__init__(horizon_weight=horizon_weight, outputsize_multiplier=1, output_names=[""])

        def __call__(self, y: Any, y_hat: Any, y_insample: Any = None, mask: Any = None) -> Any:
            """The weighted mean."""
            error = y - y_hat
            values = error.abs() * (1.0 + (error > 0).to(error.dtype))
            weights = self._compute_weights(y=y, mask=mask)
            return (values * weights).sum() / weights.sum()

    nf = core.NeuralForecast(models=[models.MLP(**TINY, hidden_size=8, loss=Asymmetric())], freq="ME")
    nf.fit(df=utils.AirPassengersPanel[["unique_id", "ds", "y"]])
    return {"predict": nf.predict()}


def panel(ids: list[str], rows: int) -> pd.DataFrame:
    """Seasonal series with whole-number times."""
    time = np.arange(rows)
    return pd.concat(
        pd.DataFrame({"unique_id": name, "ds": time, "y": 10.0 * number + np.sin(time * np.pi / 6)})
        for number, name in enumerate(ids)
    ).reset_index(drop=True)


AUTO = {"input_size": 24, "max_steps": 4, "val_check_steps": 2, "batch_size": 4}


def auto_ray(package: Modules) -> Frames:
    """Automatic models with domains of Ray: a dictionary as the configuration, the results as a frame."""
    core, auto, losses, utils = (package(name) for name in ("core", "auto", "losses.pytorch", "utils"))
    tune, data = domains(package), utils.AirPassengersPanel[["unique_id", "ds", "y"]]
    shared = AUTO | {"learning_rate": tune.loguniform(1e-3, 1e-2), "random_seed": tune.randint(1, 20)}
    narrow = {"encoder_hidden_size": tune.choice([4, 8]), "decoder_hidden_size": 8}
    settings: dict[str, Any] = {"h": H, "num_samples": 2, "backend": "ray"}
    nf = core.NeuralForecast(
        models=[
            auto.AutoNHITS(
                **settings, config=shared | NARROW | {"n_freq_downsample": tune.choice([[2, 1, 1], [4, 2, 1]])}
            ),
            auto.AutoMLP(
                **settings, config=shared | {"hidden_size": tune.choice([4, 8])}, loss=losses.MQLoss(level=[80])
            ),
            auto.AutoLSTM(**settings, config=shared | narrow, alias="recurrent"),
            auto.AutoTFT(
                **settings, config=shared | {"hidden_size": 8, "n_head": tune.choice([2, 4])}, refit_with_val=True
            ),
        ],
        freq="ME",
    )
    nf.fit(data, val_size=H)
    told = nf.models[0].results.get_dataframe()
    best = nf.models[1].results.get_best_result().config
    return {
        "predict": nf.predict(),
        "results": told[["loss", "train_loss", "config/max_steps", "config/learning_rate"]],
        "best": pd.DataFrame({"hidden_size": [best["hidden_size"] in (4, 8)], "steps": [best["max_steps"]]}),
        "model": pd.DataFrame({"name": [type(one.model).__name__ for one in nf.models]}),
    }


def auto_optuna(package: Modules) -> Frames:
    """Automatic models with functions of a trial: predict, folds, save and load."""
    core, auto, utils = (package(name) for name in ("core", "auto", "utils"))
    data = utils.AirPassengersPanel[["unique_id", "ds", "y"]]

    def shared(trial: Any) -> dict[str, Any]:
        return AUTO | {"learning_rate": trial.suggest_float("learning_rate", 1e-3, 1e-2, log=True)}

    def nhits(trial: Any) -> dict[str, Any]:
        pools = trial.suggest_categorical("n_pool_kernel_size", ([2, 2, 1], [1, 1, 1]))
        return shared(trial) | NARROW | {"n_freq_downsample": [2, 1, 1], "n_pool_kernel_size": pools}

    def mlp(trial: Any) -> dict[str, Any]:
        return shared(trial) | {"hidden_size": trial.suggest_int("hidden_size", 4, 8)}

    def lstm(trial: Any) -> dict[str, Any]:
        return shared(trial) | {"encoder_hidden_size": trial.suggest_categorical("size", [4, 8])}

    def tft(trial: Any) -> dict[str, Any]:
        return shared(trial) | {"hidden_size": 8, "n_head": trial.suggest_categorical("n_head", [2, 4])}

    settings: dict[str, Any] = {"h": H, "num_samples": 2, "backend": "optuna"}
    nf = core.NeuralForecast(
        models=[
            auto.AutoNHITS(**settings, config=nhits),
            auto.AutoMLP(**settings, config=mlp),
            auto.AutoLSTM(**settings, config=lstm),
            auto.AutoTFT(**settings, config=tft, alias="attention"),
        ],
        freq="ME",
    )
    folds = nf.cross_validation(data, n_windows=2, step_size=H)
    nf.fit(data, val_size=H)
    with tempfile.TemporaryDirectory() as place:
        nf.save(os.path.join(place, "models"), overwrite=True)
        again = core.NeuralForecast.load(os.path.join(place, "models"))
    forecasts = nf.predict()
    return {
        "cross_validation": folds,
        "predict": forecasts,
        "loaded": again.predict()[list(forecasts.columns)],  # the peer loads models in the order of their names
        "results": nf.models[0].results.trials_dataframe()[["number", "value", "state"]],
        "parameters": pd.DataFrame({"name": sorted(nf.models[1].results.best_params)}),
    }


def domains(package: Modules) -> Any:
    """Ray's tune, or ours under the prefix."""
    ours = package("core").__name__.startswith("neuro_divergent")
    return importlib.import_module("neuro_divergent.compat.ray.tune" if ours else "ray.tune")


def misuse(package: Modules) -> dict[str, Callable[[], Any]]:
    """Calls that are wrong, by what is wrong with them."""
    core, models, utils = (package(name) for name in ("core", "models", "utils"))
    data = utils.AirPassengersPanel[["unique_id", "ds", "y"]]
    fitted: dict[str, Any] = {}

    def forecaster(**arguments: Any) -> Any:
        return core.NeuralForecast(models=[models.MLP(**TINY | {"hidden_size": 8} | arguments)], freq="ME")

    def trained(**arguments: Any) -> Any:
        if "nf" not in fitted:
            fitted["nf"] = forecaster(futr_exog_list=["trend"])
            fitted["nf"].fit(utils.AirPassengersPanel)
        return fitted["nf"]

    future = utils.AirPassengersPanel.groupby("unique_id").tail(H).drop(columns="y")
    return {
        "predict before fit": lambda: forecaster().predict(df=data),
        "predict before fit, no data": lambda: forecaster().predict(),
        "insample before fit": lambda: forecaster().predict_insample(),
        "val_size below h": lambda: forecaster().fit(data, val_size=3),
        "early stopping without validation": lambda: forecaster(early_stop_patience_steps=2).fit(data),
        "missing future frame": lambda: trained().predict(),
        "missing future column": lambda: trained().predict(futr_df=future.drop(columns="trend")),
        "missing future rows": lambda: trained().predict(futr_df=future),
        "level and quantiles": lambda: trained().predict(futr_df=future, level=[80], quantiles=[0.5]),
        "horizon below h": lambda: trained().predict(futr_df=future, h=2),
        "missing target": lambda: forecaster().fit(data.drop(columns="y")),
        "missing exogenous column": lambda: forecaster(futr_exog_list=["absent"]).fit(data),
        "max_epochs": lambda: forecaster(max_epochs=3),
        "windows and test size": lambda: forecaster().cross_validation(data, n_windows=2, test_size=24),
        "neither windows nor test size": lambda: forecaster().cross_validation(data, n_windows=None),
        "intervals without refit": lambda: forecaster().cross_validation(
            data, prediction_intervals=utils.PredictionIntervals(), level=[80]
        ),
        "unknown local scaler": lambda: core.NeuralForecast(
            [models.MLP(**TINY, hidden_size=8)], freq="ME", local_scaler_type="strange"
        ),
        "future columns for a model without": lambda: models.NBEATS(**TINY, futr_exog_list=["trend"]),
        "unknown monitor": lambda: forecaster(early_stop_patience_steps=2, val_monitor="strange"),
        "unknown interval method": lambda: utils.PredictionIntervals(method="strange"),
        "no conformal windows": lambda: utils.PredictionIntervals(n_windows=1),
    }


SCRIPTS: dict[str, Callable[[Modules], Frames]] = {
    function.__name__: function
    for function in (
        *(quick_start, exogenous, probabilistic, cross_validation, save_load, transfer, custom_loss),
        *(auto_ray, auto_optuna),
    )
}


def described(frame: Any) -> dict[str, Any]:
    """What is compared: columns with their types, and a hash over the keys of every row."""
    keys = [name for name in ("unique_id", "ds", "cutoff") if name in frame.columns]
    lines = ["|".join(plain(value) for value in row) for row in frame[keys].itertuples(index=False)]
    return {
        "columns": {name: kind(frame[name].dtype) for name in frame.columns},
        "rows": len(frame),
        "first": lines[0] if lines else None,
        "last": lines[-1] if lines else None,
        "keys": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "index": type(frame.index).__name__,
    }


def plain(value: Any) -> str:
    """One way to write an id or a time."""
    return value.isoformat() if isinstance(value, pd.Timestamp) else str(value)


def kind(dtype: Any) -> str:
    """The type of a column, without what depends on the version of pandas."""
    name = str(dtype)
    if name in ("object", "str", "string"):
        return "text"
    return "datetime" if name.startswith("datetime64") else name


def raised(call: Callable[[], Any]) -> list[str]:
    """The classes of the exception that a call raises, the nearest first; none when it passes."""
    try:
        call()
    except Exception as error:  # whatever the package raises is the answer
        return [cls.__name__ for cls in type(error).__mro__ if issubclass(cls, Exception)]
    return []
