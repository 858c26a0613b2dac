"""Combines several fitted models into one forecast: mean, median, or weights chosen by validation.

Letters: M members, S series, H steps, N windows, K columns of the forecast.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from neuro_divergent import metrics
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.agreement import differ
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit_many import fit_many
from neuro_divergent.forecasting.fit.training_rows import selection_rows, trained_rows, unseen_from
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.column_names import check_column_names
from neuro_divergent.forecasting.network.output_columns import Columns, point_column
from neuro_divergent.forecasting.predict.ahead import checked_horizon, columns_of
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.predict.kept import KeptForecasts, unseen_forecasts
from neuro_divergent.forecasting.predict.predict_base import PredictBase
from neuro_divergent.forecasting.several.predictors import Predictors
from neuro_divergent.forecasting.several.tables import tables_together
from neuro_divergent.losses.base import Point
from neuro_divergent.losses.probability_levels import Levels, level_tuple
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.stacked.train_many import Stacked

if TYPE_CHECKING:
    from neuro_divergent.forecasting.storage.save_load import ReadOptions

Floats = npt.NDArray[np.float64]
Combination = Literal["mean", "median", "weighted", "greedy"]


class Ensemble:
    """Fitted models whose forecasts are combined, quantile by quantile.

    Args:
        members: at least one forecaster. Horizons may differ; the shortest is used.
        weights: [M] the weight of each member; None for equal weights.
        method: "mean" (weighted if there are weights) or "median".
        name: the name of the forecast's column.
    """

    def __init__(
        self,
        members: Sequence[Forecaster],
        *,
        weights: Sequence[float] | None = None,
        method: str = "mean",
        name: str = "Ensemble",
    ) -> None:
        if not members:
            raise ConfigError("an ensemble needs at least one fitted model, but got none")
        for member in members:
            if not isinstance(member, Forecaster):
                raise ConfigError(
                    "members of an ensemble must be fitted models, such as model.fit(data) returns, but got "
                    f"{type(member).__name__}"
                )
        if method not in ("mean", "median"):
            raise ConfigError(f"method must be 'mean' or 'median', but got method={method!r}")
        if method == "median" and weights is not None:
            raise ConfigError("weights need method='mean', but got method='median'")
        equal = np.full(len(members), 1.0 / len(members))
        given = equal if weights is None else np.asarray(weights, dtype=np.float64)
        if given.shape != equal.shape or not np.isfinite(given).all() or given.min() < 0 or given.sum() <= 0:
            raise ConfigError(
                f"weights must be one number of at least 0 for each of {len(members)} members, but got {weights}"
            )
        freqs = {member.data.freq for member in members}
        if len(freqs) > 1:
            raise ConfigError(f"members of an ensemble must have one frequency, but were trained on {sorted(freqs)}")
        for member in members:
            check_column_names([name], member.data.schema)
        self.members = tuple(members)
        self.weights = given / given.sum()
        self.method, self.name = method, name

    @property
    def h(self) -> int:
        """The horizon: the shortest one of the members."""
        return min(member.model.h for member in self.members)

    @property
    def data(self) -> TimeSeriesDataFrame:
        """The table that the member with the longest lookback was trained on."""
        return max(self.members, key=lambda member: member.model.input_size).data

    def predict(
        self,
        data: Any = None,
        *,
        future: Any = None,
        level: Levels = None,
        quantiles: Levels = None,
        h: int | None = None,
        point: Point | None = None,
    ) -> Any:
        """Return the combined forecast as a frame; see `Forecaster.predict`.

        Without data, every member forecasts after its own table. The tables must have the same series with the same
        ends. Members whose intervals were corrected are combined with their corrections; the combination is not
        corrected again. If all members have one range of the target, the combination is in it.
        """
        return self._forecast(self.members, data, future, level, quantiles, checked_horizon(h, self.h), point)

    def predictor(self) -> Predictors:
        """A small copy for serving, which may be called from several threads; see `Predictors`."""
        return Predictors(self.members, self._forecast, self.h)

    def _forecast(
        self,
        members: Sequence[PredictBase],
        data: Any,
        future: Any,
        level: Levels,
        quantiles: Levels,
        steps: int,
        point: Point | None,
    ) -> Any:
        """The combined forecast of the members, or of their predictors."""
        asked = [member.columns(level_tuple(level), level_tuple(quantiles), point) for member in members]
        table, columns, combined = self._values(members, asked, data, future, steps)
        return table.as_input_library(members[0].long_frame(table, columns, combined))

    def _values(
        self, members: Sequence[PredictBase], asked: Sequence[Columns], data: Any, future: Any, steps: int
    ) -> tuple[TimeSeriesDataFrame, Columns, Floats]:
        """The table, the columns, and the combined forecast [S, H, K] of the columns asked of each member."""
        tables = tables_together(members, data)
        values = np.stack(
            [
                member.forecast_values(table, columns, future=future, h=steps)
                for member, table, columns in zip(members, tables, asked, strict=True)
            ]
        )
        own = members[0].model.name
        columns = Columns(tuple(self.name + name.removeprefix(own) for name in asked[0].names), asked[0].levels)
        combined, bounds = self.combined(values), members[0].bounds
        if bounds is not None and all(member.bounds == bounds for member in members):
            combined = bounds.keep(combined, columns.levels)  # a mean of whole numbers may be none
        return tables[0], columns, combined

    def combined(self, values: Floats) -> Floats:
        """[M, ...] → [...]. Quantiles that are combined one by one stay in order."""
        if self.method == "median":
            return np.asarray(np.median(values, axis=0))
        return np.asarray(np.tensordot(self.weights, values, axes=1))

    def save(self, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False) -> None:
        """Write every member and the weights; `load` reads the ensemble."""
        from neuro_divergent.forecasting.storage.several import save_many

        facts: dict[str, Any] = {"kind": "Ensemble", "method": self.method, "name": self.name}
        facts["weights"] = self.weights.tolist() if self.method == "mean" else None
        save_many(self.members, facts, path, context=context, overwrite=overwrite)

    @staticmethod
    def load(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Ensemble:
        """Read an ensemble that `save` wrote; see `load`. A directory with something else is refused."""
        from neuro_divergent.forecasting.storage.save_load import load_one

        return load_one(path, Ensemble, **options)

    def __repr__(self) -> str:
        parts = [f"{weight:.2f} {member.model.name}" for weight, member in zip(self.weights, self.members, strict=True)]
        return f"Ensemble({self.method} of {', '.join(parts)})"


def from_saved(forecasters: Sequence[Forecaster], facts: Mapping[str, Any]) -> Ensemble:
    """The ensemble that `Ensemble.save` wrote."""
    return Ensemble(forecasters, weights=facts["weights"], method=facts["method"], name=facts["name"])


def ensemble(
    members: Sequence[Forecaster],
    method: Combination = "mean",
    *,
    validation: Any = None,
    metric: str = "mae",
    rounds: int = 25,
    name: str = "Ensemble",
) -> Ensemble:
    """Combine fitted models and return the ensemble.

    Args:
        members: the models, trained on the same kind of table.
        method: "mean"; "median"; "weighted": by the inverse of the validation error; "greedy": add members one at a
            time, with repetition, each time the one that lowers the validation error of the mean most (Caruana et al.
            2004).
        validation: a table whose end the models were not trained on; None uses the training data. Only rows after the
            last training row of every member count. Refitted members have kept the held-out forecasts of their
            selection runs, also in a file: with None those are used.
        metric: mae, mse, rmse, mape or smape.
        rounds: how many times the greedy method adds a member.
        name: the name of the forecast's column.
    """
    if method in ("mean", "median"):
        return Ensemble(members, method=method, name=name)
    if metric not in ("mae", "mse", "rmse", "mape", "smape"):
        raise ConfigError(f"metric must be mae, mse, rmse, mape or smape, but got metric={metric!r}")
    if method not in ("weighted", "greedy"):
        raise ConfigError(f"method must be mean, median, weighted or greedy, but got method={method!r}")
    equal = Ensemble(members, name=name)  # refuses members that cannot be combined
    forecasts, truth = validation_forecasts(equal.members, validation)
    score = metrics.METRICS[metric]
    if method == "weighted":
        errors = np.array([float(score(truth, values)) for values in forecasts])
        weights = 1.0 / np.maximum(errors, 1e-12 * max(float(errors.max()), 1e-300))
    else:
        weights = greedy_weights(forecasts, lambda mean: float(score(truth, mean)), rounds)
    return Ensemble(members, weights=weights.tolist(), name=name)


def greedy_weights(forecasts: Floats, score: Any, rounds: int) -> Floats:
    """[M] how often each member was chosen, up to the round with the lowest error.

    >>> greedy_weights(np.array([[0.0], [2.0], [9.0]]), lambda mean: abs(float(mean[0]) - 1.0), 4).tolist()
    [1.0, 1.0, 0.0]
    """
    counts, total = np.zeros(len(forecasts)), np.zeros_like(forecasts[0])
    best, chosen = np.inf, counts.copy()
    for size in range(1, rounds + 1):
        errors = [score((total + values) / size) for values in forecasts]
        winner = int(np.argmin(errors))
        counts[winner] += 1
        total = total + forecasts[winner]
        if errors[winner] < best - 1e-15:
            best, chosen = errors[winner], counts.copy()
    return chosen


def validation_forecasts(members: Sequence[Forecaster], validation: Any = None) -> tuple[Floats, Floats]:
    """[M, N, H] forecasts of windows that no member was trained on, and the actual values, [N, H]."""
    h = min(member.model.h for member in members)
    if validation is None and all(member.kept is not None for member in members):
        return _kept_in_common([member.kept for member in members if member.kept is not None], h)
    longest = max(members, key=lambda member: member.model.input_size)
    table = longest.table(validation)
    if validation is None and any(
        (selection_rows(member, member.data) >= member.data.store.lengths).all() for member in members
    ):
        raise ConfigError(
            "weights need rows that no member was trained on, but some members held out no rows, or were saved, which "
            "keeps only the last rows. Give validation=..."
        )
    # A forecast needs as many rows of lookback as in the training, so that every member gets its full input.
    first = np.maximum(unseen_from(members, table), np.minimum(table.store.lengths, longest.model.input_size))
    together = any(member.model.together for member in members)
    origins = Origins.windows(table, first, steps=h, step_size=max(1, h // 2), together=together)
    for member in members:
        if member.kept is not None:  # of rows that its refit has seen, only the kept forecasts count
            later = origins.time >= trained_rows(member, table)[origins.series]
            origins = origins.where(later | (member.kept.find(origins) >= 0))
    if not len(origins):
        raise DataError(
            f"weights need a window of {h} steps that no member was trained on, after {longest.model.input_size} rows "
            "of lookback, but no series has one. Give a longer validation=..."
        )
    truth = origins.actual()
    return np.stack([_points(origins, truth, member, validation) for member in members]), truth


def _points(origins: Origins, truth: Floats, member: Forecaster, validation: Any) -> Floats:
    """[N, H] the forecasts of a member, which may take columns that the table of the origins does not have."""
    if columns_of(member.model, origins.table.store) == columns_of(member.model, member.data.store):
        return _member_points(origins, member)
    own = origins.on(member.table(validation), member.model.input_size)
    odd = differ(truth, own.actual())
    if odd is not None:
        number, step = (int(part) for part in np.argwhere(odd)[0])
        raise DataError(
            f"members of an ensemble must forecast the same target in the same unit, but series "
            f"{origins.table.ids[origins.series[number]].item()!r} has {truth[number, step]:g} in one table and "
            f"{own.actual()[number, step]:g} in that of {member.model.name}. Train all on one table"
        )
    return _member_points(own, member)


def _member_points(origins: Origins, member: Forecaster) -> Floats:
    """[N, H] the point forecasts of a member, by weights that had not seen the rows."""
    column = point_column(member.model.name)
    return unseen_forecasts(member, origins, column, trained_rows(member, origins.table))[:, :, 0]


def _kept_in_common(kept: Sequence[KeptForecasts], h: int) -> tuple[Floats, Floats]:
    """[M, N, H] the held-out forecasts that the selection runs of all members kept, and the actual values, [N, H]."""
    common = sorted(set.intersection(*(set(one.places) for one in kept)), key=str)
    if not common:
        raise ConfigError(
            "weights of refitted members come from the held-out forecasts of their selection runs, but no forecast of "
            "all members begins at the same time. Train them on one table with one validation_split, or give "
            "validation=..."
        )
    places = [[one.places[key] for key in common] for one in kept]
    forecasts = [np.asarray(one.values[rows, :h, 0], np.float64) for one, rows in zip(kept, places, strict=True)]
    truths = [np.asarray(one.actual[rows, :h], np.float64) for one, rows in zip(kept, places, strict=True)]
    for other in truths[1:]:
        if differ(truths[0], other) is not None:
            raise DataError(
                "members of an ensemble must forecast the same target in the same unit, but the actual values that "
                "they kept differ. Train all on one table"
            )
    return np.stack(forecasts), truths[0]


def seed_ensemble(
    model: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    seeds: int | Sequence[int] = 5,
    method: Combination = "mean",
    stacked: Stacked = "auto",
    n_jobs: int = 1,
    executor: Any = None,
    **options: Any,
) -> Ensemble:
    """Train one model with several seeds and return the ensemble. Small models train as one computation.

    Args:
        model: the description.
        data: as in `Model.fit`.
        config: how to train; its seed and the following ones are used.
        seeds: the number of seeds, or a list of them.
        method: how the members are combined; see `ensemble`.
        stacked: whether the seeds are trained as one computation; see `fit_many`.
        n_jobs: processes of this machine that train at the same time; see `fit_many`.
        executor: where the seeds are trained instead; see `fit_many`.
        options: further arguments of `Model.fit`.
    """
    config = config or TrainingConfig()
    numbers = list(range(config.seed, config.seed + seeds)) if isinstance(seeds, int) else list(seeds)
    if not numbers:
        raise ConfigError(f"an ensemble of seeds needs at least one, but got seeds={seeds!r}")
    where: dict[str, Any] = {"n_jobs": n_jobs, "executor": executor}
    members = fit_many(model, data, config, seeds=numbers, stacked=stacked, **where, **options)
    return ensemble(members, method, name=model.name)
