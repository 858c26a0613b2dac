"""The columns of a forecast, with the names of neuralforecast."""

from __future__ import annotations

from collections.abc import Sequence

from neuro_divergent.compat.neuralforecast.errors import NoIntervalsError
from neuro_divergent.compat.neuralforecast.losses.base import POINT, Outputs, level_outputs
from neuro_divergent.compat.neuralforecast.losses.parameters import with_parameters
from neuro_divergent.compat.neuralforecast.members import Facts
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses import HuberImplicitQuantile, ImplicitQuantile, Loss, MQLoss, Weighted
from neuro_divergent.losses.probability_levels import check_percentages

Asked = Sequence[float] | None


def checked(level: Asked, quantiles: Asked) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Levels or quantiles, sorted; not both, and inside their ranges."""
    if level is not None and quantiles is not None:
        raise ConfigError(f"give level or quantiles, but not both, but got {level=} and {quantiles=}")
    check_percentages(level or ())
    for share in quantiles or ():
        if not 0 < share < 1:
            raise ConfigError(f"quantiles must be between 0 and 1, but got quantiles={share!r}. Use level= for percent")
    return (
        None if level is None else tuple(sorted(set(level))),
        None if quantiles is None else tuple(sorted(set(quantiles))),
    )


def forecast_columns(forecaster: Forecaster, facts: Facts, level: Asked, quantiles: Asked) -> Columns:
    """The columns of a model's forecast, with the parameters of its distribution if they are wanted."""
    columns = _level_columns(forecaster, facts.outputs, level, quantiles)
    if not facts.parameters:
        return columns
    if forecaster.local is not None or forecaster.model.joint is not None:
        raise ConfigError(
            "parameters of a distribution are those of the network, but local_scaler_type or HINT change its forecasts "
            "afterwards. Leave out return_params=True"
        )
    return with_parameters(columns, forecaster.model.name, forecaster.loss)


def _level_columns(forecaster: Forecaster, own: Outputs, level: Asked, quantiles: Asked) -> Columns:
    """The columns of points and levels.

    A quantile loss has the columns that it was trained on, whatever is requested. A distribution has the mean and the
    requested columns, an implicit quantile loss only the requested ones, and a point forecast needs measured intervals.
    """
    loss = _inner(forecaster.loss)
    if (level is None and quantiles is None) or isinstance(loss, MQLoss):
        return _named(forecaster, own)
    point = () if isinstance(loss, ImplicitQuantile | HuberImplicitQuantile) else POINT
    if not loss.probabilistic and forecaster.intervals is None:
        raise NoIntervalsError(
            f"{forecaster.model.name} was trained with {loss.kind}, which forecasts a point, but levels were "
            "requested. Train with MQLoss or DistributionLoss, or fit(..., prediction_intervals=PredictionIntervals())"
        )
    if level is not None:
        return _named(forecaster, point + level_outputs(level, median=False))
    mark = "_ql" if loss.probabilistic else "-ql"
    return _named(forecaster, point + tuple((f"{mark}{share}", float(share)) for share in quantiles or ()))


def measured(forecaster: Forecaster, columns: Columns) -> bool:
    """Whether the columns come from measured errors, which neuralforecast gives in double precision."""
    return not forecaster.loss.probabilistic and len(columns.names) > 1


def _inner(loss: Loss) -> Loss:
    return loss.loss if isinstance(loss, Weighted) else loss


def _named(forecaster: Forecaster, outputs: Outputs) -> Columns:
    name = forecaster.model.name
    return Columns(tuple(f"{name}{ending}" for ending, _ in outputs), tuple(share for _, share in outputs))
