"""Several fitted models for serving: their predictors, whose forecasts come in one frame."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Self

from neuro_divergent.forecasting.predict.ahead import checked_horizon
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.predictor import Predictor
from neuro_divergent.losses.base import Point
from neuro_divergent.losses.probability_levels import Levels


class Predictors:
    """The predictors of several models: `NeuralForecast.predictor()` and `Ensemble.predictor()` make one.

    It has the weights (shared with the fitted models, not copied) and the last rows of every series, and may be called
    from several threads at once.

    >>> import neuro_divergent as nd
    >>> config = nd.TrainingConfig(max_steps=1, progress=False, validation_split=None)
    >>> models = [nd.DLinear(h=12, input_size=24), nd.NLinear(h=12, input_size=36)]
    >>> nf = nd.NeuralForecast(models).fit(nd.samples.air_passengers(), config)
    >>> predictor = nf.predictor()
    >>> predictor.predict().equals(nf.predict())
    True
    """

    def __init__(self, fitted: Sequence[Forecaster], forecast: Callable[..., Any], h: int) -> None:
        self.members: tuple[Predictor, ...] = tuple(one.predictor() for one in fitted)
        """The predictor of each model, for `predict_array`. `observe` replaces them; do not call theirs."""
        self.h = h
        """The horizon: the shortest one of the models."""
        self._forecast = forecast
        self._observing = Lock()

    def predict(
        self,
        frame: Any = None,
        *,
        future: Any = None,
        level: Levels = None,
        quantiles: Levels = None,
        h: int | None = None,
        point: Point | None = None,
    ) -> Any:
        """Forecast the steps after the end of every series; return one frame of the input's library.

        The numbers, columns and types are those of `predict` of the `NeuralForecast` or `Ensemble`.

        Args:
            frame: rows of known or other series; None forecasts after the context.
            future: a table with the columns known ahead for every step of the horizon.
            level: prediction intervals in percent.
            quantiles: probability levels between 0 and 1.
            h: how many steps; None for the horizon.
            point: "mean" or "median" as the point forecast; None for the choice of each loss.
        """
        return self._forecast(self.members, frame, future, level, quantiles, checked_horizon(h, self.h), point)

    def observe(self, rows: Any) -> Self:
        """Add new rows to the context of every model; see `Predictor.observe`.

        A call adds its rows to all models, or to none if one of them refuses the rows. Forecasts in other threads see
        all models before or after the call.
        """
        with self._observing:
            self.members = tuple(copy.copy(member).observe(rows) for member in self.members)
        return self

    def make_future_dataframe(self, frame: Any = None, h: int | None = None) -> Any:
        """The id and time of every step to forecast: a table of future values needs a row for each."""
        return self.members[0].make_future_dataframe(frame, checked_horizon(h, self.h))

    @property
    def num_bytes(self) -> int:
        """Bytes of memory of all models; see `Predictor.num_bytes`."""
        return sum(member.num_bytes for member in self.members)

    def __repr__(self) -> str:
        names = ", ".join(member.model.name for member in self.members)
        return f"Predictors({names}: h={self.h}, {self.num_bytes / 1e6:.1f} MB)"
