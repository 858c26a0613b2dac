"""What an AutoForecaster found: an ensemble with its intervals, a leaderboard, and the reasons in words."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import numpy.typing as npt

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, CorruptFileError
from neuro_divergent.forecasting.evaluate.coverage import IntervalCoverage
from neuro_divergent.forecasting.evaluate.scores import Evaluation
from neuro_divergent.forecasting.network.output_columns import Columns, named_columns, point_column
from neuro_divergent.forecasting.predict.conformal import Calibration, mean_change
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.predict_base import PredictBase
from neuro_divergent.forecasting.several.ensemble import Ensemble
from neuro_divergent.forecasting.storage.several import save_many
from neuro_divergent.losses.base import Point
from neuro_divergent.losses.probability_levels import Levels, level_tuple
from neuro_divergent.plotting import save
from neuro_divergent.search.auto.board import AutoLeaderboard, Row
from neuro_divergent.search.auto.naive import is_naive, mean_of, naive_forecaster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.storage.save_load import ReadOptions
    from neuro_divergent.training.config.training_config import TrainingConfig

Floats = npt.NDArray[np.float64]

NAME = "AutoForecaster"
KIND = "AutoResult"


class AutoResult(Ensemble):
    """The fitted ensemble of an `AutoForecaster`, with its leaderboard and the reasons for the choice.

    It forecasts, saves, loads and serves like any ensemble, and has calibrated intervals.

    Args:
        members: the chosen models, trained on all rows as far as the time allowed.
        weights: of the members.
        leaderboard: every model that was tried.
        reasons: why the members were chosen, in sentences.
        facts: the metric, the time, and the number of held-out windows, as plain data.
        interval_errors: the errors of the ensemble on held-out windows; None if the members have quantiles of their
            own, or if there are no intervals.
        coverage: how many values of the last windows were inside the intervals.
    """

    def __init__(
        self,
        members: Sequence[Forecaster],
        *,
        weights: Sequence[float],
        leaderboard: AutoLeaderboard,
        reasons: Sequence[str] = (),
        facts: Mapping[str, Any] | None = None,
        interval_errors: Calibration | None = None,
        coverage: Sequence[IntervalCoverage] = (),
    ) -> None:
        super().__init__(members, weights=weights, name=NAME)
        self.leaderboard = leaderboard
        self.reasons = tuple(reasons)
        self.facts = dict(facts or {})
        self.interval_errors = interval_errors
        self.coverage = tuple(coverage)

    @property
    def levels(self) -> tuple[float, ...]:
        """The intervals in percent that were asked for; empty if the result has none."""
        has = self.interval_errors is not None or self._probabilistic
        return tuple(self.facts.get("level", ())) if has else ()

    @property
    def _probabilistic(self) -> bool:
        return self.interval_errors is None and all(member.loss.probabilistic for member in self.members)

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
        """The combined forecast as a frame, with conformal intervals around it."""
        if self._probabilistic:
            return super()._forecast(members, data, future, level, quantiles, steps, point)
        table, columns, values = self._with_intervals(members, data, future, level, quantiles, steps, point)
        return table.as_input_library(members[0].long_frame(table, columns, values))

    def _with_intervals(
        self,
        members: Sequence[PredictBase],
        data: Any,
        future: Any,
        level: Levels,
        quantiles: Levels,
        steps: int,
        point: Point | None,
    ) -> tuple[TimeSeriesDataFrame, Columns, Floats]:
        asked = [point_column(member.model.name) for member in members]
        if point is not None:
            asked = [replace(one, shows=point) for one in asked]
        table, _, values = self._values(members, asked, data, future, steps)
        columns = named_columns(self.name, level_tuple(level) or (), level_tuple(quantiles) or ())
        rows = np.arange(table.n_series)
        return table, columns, self._around(values, table, columns, rows, table.store.lengths)

    def _around(
        self,
        values: Floats,
        table: TimeSeriesDataFrame,
        columns: Columns,
        series: npt.NDArray[np.int64],
        until: npt.NDArray[np.int64],
    ) -> Floats:
        """[N, H, K] intervals around point forecasts [N, H, 1], in the range of the target."""
        if not columns.probabilities:
            return values
        if self.interval_errors is None:
            raise ConfigError(
                "intervals come from errors on held-out windows, but this AutoForecaster has none: it was fitted with "
                "intervals=None, or the series were too short. Leave level and quantiles out"
            )
        scale = mean_change(table.store, series, until)
        found = self.interval_errors.around(values[:, :, 0], table.ids[series], scale, columns)
        bounds = self.members[0].bounds
        same = bounds is not None and all(member.bounds == bounds for member in self.members)
        return bounds.keep(found, columns.levels) if same and bounds is not None else found

    def evaluate(self, data: Any, **options: Any) -> Evaluation:
        """Score forecasts of later rows, beside those of the members and the seasonal naive one; see `nd.evaluate`.

        Args:
            data: a table whose last rows were not in the table of `fit`, with the lookback before them.
            options: metrics, level, n_windows, step_size, h, season and aggregate, as for `Forecaster.evaluate`.
        """
        from neuro_divergent.search.auto.evaluation import evaluate

        return evaluate(self, data, **options)

    def update(self, data: Any, config: TrainingConfig | None = None) -> Self:
        """Train every member on newer rows, from its present weights; later forecasts follow the new rows.

        All members are updated, or none if one of them refuses the rows. The weights of the ensemble, its intervals
        and the leaderboard stay.
        """
        known = [copy.copy(member) for member in self.members]
        trained = [one for one in known if not is_naive(one)]
        for one in trained:
            one.update(data, config)
        if len(trained) < len(known):
            table = self._joined(data) if not trained else max(trained, key=lambda one: one.model.input_size).data
            known = [_naive_after(one, table) if is_naive(one) else one for one in known]
        self.members = tuple(known)
        return self

    def _joined(self, data: Any) -> TimeSeriesDataFrame:
        from neuro_divergent.data.join import joined_tables, later_rows

        return joined_tables(self.data, later_rows(self.data, data, new_series=True))

    def plot(
        self, path: str | os.PathLike[str] | None = None, *, series: int = 4, level: Levels = None, future: Any = None
    ) -> Figure:
        """Draw the last rows of some series with the forecast and its intervals; also to `path`, if given."""
        from neuro_divergent.search.auto.evaluation import figure

        return save(figure(self, series, self.levels if level is None else level, future), path)

    def report(self, path: str | os.PathLike[str], *, source: str = "") -> Path:
        """Write an HTML report: why the forecast was chosen, the leaderboard, the forecasts. It needs no network.

        Args:
            path: the file.
            source: where the data came from.
        """
        from neuro_divergent.report.auto import auto_report

        place = Path(path)
        files.make_directories(place.parent)
        auto_report(self, source=source).save(place)
        return place

    def save(self, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False) -> None:
        """Write the members, the weights, the intervals and the leaderboard; `nd.load` reads them."""
        save_result(self, path, context=context, overwrite=overwrite)

    @staticmethod
    def load(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> AutoResult:
        """Read a result that `save` wrote. A directory with something else is refused."""
        from neuro_divergent.forecasting.storage.save_load import load_one

        return load_one(path, AutoResult, **options)

    def __repr__(self) -> str:
        parts = [f"{weight:.2f} {member.model.name}" for weight, member in zip(self.weights, self.members, strict=True)]
        return f"AutoResult({' + '.join(parts)})\n" + "\n".join(self.reasons)


def _naive_after(fitted: Forecaster, table: TimeSeriesDataFrame) -> Forecaster:
    """The naive forecast after the rows of another table."""
    mean = mean_of(fitted.model, fitted.anchor)
    found = naive_forecaster(table, fitted.model.h, fitted.anchor[0], fitted.loss, fitted.seed, mean)
    found.calibration = fitted.calibration
    return found


def save_result(result: AutoResult, path: str | os.PathLike[str], *, context: bool, overwrite: bool) -> None:
    """Write a result; see `AutoResult.save`."""
    errors = result.interval_errors
    facts: dict[str, Any] = {
        "kind": KIND,
        "name": result.name,
        "weights": result.weights.tolist(),
        "metric": result.leaderboard.metric,
        "leaderboard": result.leaderboard.to_dicts(),
        "reasons": list(result.reasons),
        "facts": result.facts,
        "coverage": [asdict(one) for one in result.coverage],
        "intervals": None if errors is None else errors.facts(),
    }
    arrays = None if errors is None else errors.to_arrays()
    save_many(result.members, facts, path, context=context, overwrite=overwrite, arrays=arrays)


def from_saved(forecasters: Sequence[Forecaster], facts: Mapping[str, Any]) -> AutoResult:
    """The result that `save_result` wrote."""
    reasons = facts["reasons"]
    if not all(isinstance(one, str) for one in reasons):
        raise CorruptFileError("the reasons of an AutoResult must be sentences, but the file has something else")
    intervals = facts["intervals"]
    return AutoResult(
        forecasters,
        weights=facts["weights"],
        leaderboard=AutoLeaderboard([Row(**row) for row in facts["leaderboard"]], str(facts["metric"])),
        reasons=reasons,
        facts=facts["facts"],
        interval_errors=None if intervals is None else Calibration.from_parts(intervals, facts["arrays"]),
        coverage=[IntervalCoverage(**one) for one in facts["coverage"]],
    )
