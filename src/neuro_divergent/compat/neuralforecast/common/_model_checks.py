"""Runs a model class on small tables: every loss, and the air passengers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from neuro_divergent.compat.neuralforecast import core
from neuro_divergent.compat.neuralforecast import utils as tables
from neuro_divergent.compat.neuralforecast.losses import pytorch as losses

__all__ = ["check_airpassengers", "check_loss_functions", "check_model"]

_SMALL: dict[str, Any] = {
    "max_steps": 2,
    "val_check_steps": 2,
    "batch_size": 8,
    "windows_batch_size": 8,
    "valid_batch_size": 8,
    "inference_windows_batch_size": 8,
}

_LOSSES: tuple[Callable[[], Any], ...] = (
    losses.MAE, losses.MSE, losses.RMSE, losses.MAPE, losses.SMAPE,
    lambda: losses.MASE(seasonality=7),
    losses.HuberLoss, losses.TukeyLoss,
    lambda: losses.QuantileLoss(q=0.5), lambda: losses.HuberQLoss(q=0.5),
    losses.MQLoss, losses.HuberMQLoss, losses.IQLoss, losses.HuberIQLoss,
    *(lambda name=name: losses.DistributionLoss(name)
      for name in ("Normal", "StudentT", "Poisson", "NegativeBinomial", "Tweedie", "ISQF")),
    *(lambda cls=cls, weighted=weighted: cls(weighted=weighted)
      for cls in (losses.PMM, losses.GMM, losses.NBMM) for weighted in (False, True)),
)  # fmt: skip


def check_model(model_class: type, checks: Sequence[str] = ("losses", "airpassengers")) -> None:
    """Train and forecast with a model class; an error of the model is raised.

    Args:
        model_class: a class of `models`.
        checks: "losses": with every loss that the model accepts; "airpassengers": forecasts and a cross-validation.
    """
    if "losses" in checks:
        check_loss_functions(model_class)
    if "airpassengers" in checks:
        check_airpassengers(model_class)


def check_loss_functions(model_class: type, number_of_series: Sequence[int] = (1, 5)) -> None:
    """Train with every loss on tables of some numbers of series. A loss that the model refuses is left out."""
    for count in number_of_series:
        series = tables.generate_series(count, freq="D", equal_ends=True, min_length=70, max_length=75)
        last = series.groupby("unique_id", observed=True).tail(7)
        train = series.drop(last.index)
        for build in _LOSSES:
            try:
                model = model_class(h=7, input_size=28, loss=build(), **_SMALL, **_for(model_class, count))
            except ValueError:
                continue
            nf = core.NeuralForecast([model], freq="D")
            nf.fit(train, val_size=14)
            nf.predict(futr_df=last)


def check_airpassengers(model_class: type) -> None:
    """Forecast the last year of the air passengers, more steps than were trained, and past windows."""
    panel = tables._air_passengers_panel()
    static = tables._air_passengers_static()
    last = panel.groupby("unique_id").tail(12)

    def fresh() -> core.NeuralForecast:
        return core.NeuralForecast([model_class(h=12, input_size=24, **_SMALL, **_for(model_class, 2))], freq="ME")

    nf = fresh()
    nf.fit(panel.drop(last.index), static_df=static)
    nf.predict(futr_df=last)
    nf.predict(h=15)
    fresh().cross_validation(panel, static_df=static, n_windows=2, step_size=12)


def _for(model_class: type, count: int) -> dict[str, int]:
    return {"n_series": count} if getattr(model_class, "MULTIVARIATE", False) else {}
