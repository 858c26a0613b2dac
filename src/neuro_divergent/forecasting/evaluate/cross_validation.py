"""Cross-validation over time: train on the past, forecast what follows, move on.

The models of a fold are trained on a table that ends before the test rows of the fold, so that no later row can leak.
Each forecast is made from a table that was cut at its forecast origin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.executors.workers import workers_for
from neuro_divergent.data.scaling.per_series import SeriesScaler
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.grid import grid_shifts
from neuro_divergent.forecasting.evaluate.fold_job import (
    FoldForecasts,
    Plan,
    fold_config,
    joined,
    part_of,
    run_job,
    seen_in,
)
from neuro_divergent.forecasting.evaluate.fold_processes import run_jobs
from neuro_divergent.forecasting.evaluate.folds import Fold, TimeSeriesSplit, user_folds
from neuro_divergent.forecasting.evaluate.leaderboard import Leaderboard, leaderboard
from neuro_divergent.forecasting.evaluate.scores import (
    Aggregate,
    Evaluation,
    HistoricalForecasts,
    Truth,
    by_column,
    check_aggregate,
    check_names,
    overall_figures,
    scored,
    truth_of,
)
from neuro_divergent.forecasting.evaluate.seasonal_naive import season_of
from neuro_divergent.forecasting.fit.fit import check_arguments
from neuro_divergent.forecasting.fit.fit_many import fit_members
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.column_names import check_column_names, check_figure_names
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses.probability_levels import Levels, level_tuple
from neuro_divergent.metrics.base import AnyMetric, Metric, canonical
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.stacked.train_many import Stacked, check_choice, refusal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Configs = TrainingConfig | Mapping[str, TrainingConfig] | None


MOST_ROWS = 1 << 22
"""Trainings that run together keep the rows of all their folds in memory. Up to this many rows that is no problem."""


@dataclass(frozen=True, kw_only=True)
class CrossValidation:
    """Forecasts and scores of every fold. Frames have the type of the input (polars, pandas, ...)."""

    frame: Any
    """The forecasts: id, time, cutoff (the last row seen), actual value, a column per model and level."""
    scores: Any
    """One row per model and metric: mean and standard deviation over the folds."""
    by_fold: Any
    """One row per model, metric and fold."""
    evaluation: Evaluation = field(repr=False)
    """Scores over all folds together, per series and per step ahead."""
    table: pl.DataFrame = field(repr=False)
    """`scores` as a polars frame."""
    folds_table: pl.DataFrame = field(repr=False)
    """`by_fold` as a polars frame."""
    folds: tuple[Fold, ...] = field(repr=False)
    data: TimeSeriesDataFrame = field(repr=False)
    """The whole table."""
    truth: Truth = field(repr=False)
    """The actual values at every forecast origin."""
    hindcasts: dict[str, HistoricalForecasts] = field(repr=False)
    """The forecasts as arrays, by model."""
    fold_of: Ints = field(repr=False)
    """For each forecast origin, the position of its fold in `folds`."""
    forecasters: dict[str, Forecaster] = field(repr=False, default_factory=dict)
    """The models of the last training; empty if the folds ran in worker processes."""
    score: Callable[[AnyMetric], pl.DataFrame] = field(repr=False)
    """Function that scores every fold by another metric: model, metric, fold, value."""

    def mean(self, metric: str, model: str | None = None) -> float:
        """The mean of a metric over the folds: cv.mean("mae"). A metric that is not in `scores` is computed now.

        Args:
            metric: its name, in lower or upper case.
            model: the name of the model; None if there is only one (with several, name one, or see `leaderboard`).
        """
        return float(self._values(metric, model).mean())  # type: ignore[arg-type]

    def std(self, metric: str, model: str | None = None) -> float:
        """The standard deviation of a metric over the folds (n - 1 in the divisor; 0 for one fold): cv.std("mape")."""
        values = self._values(metric, model)
        return 0.0 if len(values) < 2 else float(values.std())  # type: ignore[arg-type]

    def _values(self, metric: str, model: str | None) -> pl.Series:
        """The values of a metric in all folds."""
        if model is None:
            if len(self.hindcasts) > 1:
                raise ConfigError(
                    f"with several models ({', '.join(self.hindcasts)}) name one, cv.mean({metric!r}, "
                    f"{next(iter(self.hindcasts))!r}), or see cv.leaderboard({metric!r})"
                )
            model = next(iter(self.hindcasts))
        metric = metric if metric in self.table["metric"] else canonical(metric)
        known = self.folds_table if metric in self.table["metric"] else self.score(metric)
        found = known.filter((pl.col("model") == model) & (pl.col("metric") == metric))
        if not len(found):
            names = ", ".join(dict.fromkeys(known["model"]))
            raise ConfigError(f"there is no {metric} of {model!r}. Known models are: {names}")
        return found["value"]

    def leaderboard(self, by: str | None = None) -> Leaderboard:
        """The models in one table, best first, with the naive forecast among them.

        Args:
            by: the metric that decides the order; None for the first one.
        """
        first = str(self.table["metric"][0])
        by = first if by is None else by if by in self.table["metric"] else canonical(by)
        table = self.table
        if by not in table["metric"]:
            table = pl.concat([_summed(self.score(by)), table])
        return leaderboard(table, by)

    def plot(self, path: str | os.PathLike[str] | None = None, *, series: int = 4) -> Figure:
        """Draw some series with the forecasts of every fold. The figure is also written to `path`, if given."""
        from neuro_divergent.forecasting.plots import folds_figure
        from neuro_divergent.plotting import save

        return save(folds_figure(self, series), path)

    def __repr__(self) -> str:
        count = len(self.folds)
        return f"CrossValidation({count} fold{'' if count == 1 else 's'})\n{self.leaderboard()}"

    def _repr_html_(self) -> str:
        return self.leaderboard()._repr_html_()


def cross_validation(
    models: Model | Sequence[Model],
    data: Any,
    config: Configs = None,
    *,
    splitter: Any = None,
    n_windows: int | None = None,
    step_size: int | None = None,
    refit: bool | int = False,
    level: Levels = None,
    quantiles: Levels = None,
    metrics: Sequence[AnyMetric] | None = None,
    prediction_intervals: PredictionIntervals | None = None,
    h: int | None = None,
    n_jobs: int = 1,
    executor: Any = None,
    season: int | None = None,
    short: str = "error",
    local_scaler: str | SeriesScaler | None = None,
    stacked: Stacked = "auto",
    aggregate: Aggregate = "pooled",
    **columns: Any,
) -> CrossValidation:
    """Forecast several test parts of a table with models that were trained only on earlier rows, and score them.

    Args:
        models: a description of a model, or several with different names.
        data: a TimeSeriesDataFrame, or any frame that `from_frame` takes.
        config: how to train, for all models or by name; None trains with their recipes.
        splitter: a TimeSeriesSplit, or anything that yields pairs of training and test positions (an object with a
            split method, a function of the number of steps, a list of pairs). If it has an argument named dates, it
            gets the time stamp of every position, and may yield masks such as `dates < cut`.
        n_windows: instead of a splitter: this many horizons at the end of the table. Series with time stamps are cut at
            the same times, others each at its own end.
        step_size: with n_windows, the number of rows from one window to the next; None for h.
        refit: train for every fold (True), for every k-th fold, or only for the first one (False).
        level: central intervals in percent.
        quantiles: probabilities between 0 and 1.
        metrics: names of metrics, or your own metrics as in `evaluate`; None for the common ones.
        prediction_intervals: how point forecasts get intervals, calibrated on the end of each training part.
        h: steps of each forecast; None for the models' horizon. A longer test part is forecast h steps at a time.
        n_jobs: processes of this machine that work on folds at the same time, -1 for one per core; folds that share a
            model are one job. The processes share the threads of this one.
        executor: where the folds are trained instead: anything with the interface of `concurrent.futures`, such as
            `nd.RayExecutor()` or dask's `client.get_executor()`.
        season: season length of the naive forecast; None infers it.
        short: what to do with series that are too short to train on: refuse, leave out, or pad them.
        local_scaler: how each series is scaled before the models see it; None does not scale.
        stacked: whether the trainings of a small model for all folds run together as one computation, with n_jobs=1;
            see `fit_many`. Folds in other processes are never stacked.
        aggregate: how the metrics of a fold summarise its series, "pooled" or "mean"; see `evaluate`.
        columns: arguments of `from_frame` when `data` is a plain frame.
    """
    models = [models] if isinstance(models, Model) else list(models)
    check_arguments(columns, TimeSeriesSplit, PredictionIntervals)
    if "min_length" in columns:
        columns["short"] = short
    table = TimeSeriesDataFrame.from_frame(data, **columns)
    names = [model.name for model in models]
    if not models or len(set(names)) != len(names):
        raise ConfigError(f"cross-validation compares models with different names (alias=...), but got {names}")
    check_column_names(names, table.schema)
    check_aggregate(aggregate)
    check_figure_names(table.schema, check_names(metrics))
    plan = Plan(
        models=tuple(models), configs=configs_of(names, config), level=None if level is None else level_tuple(level),
        quantiles=None if quantiles is None else level_tuple(quantiles), intervals=prediction_intervals,
        h=h, short=short, local_scaler=local_scaler,
    )  # fmt: skip
    together = any(model.together for model in models)
    folds = _folds(table, splitter, n_windows, step_size, plan.steps, together)
    jobs = _jobs(folds, refit)
    last: dict[str, Forecaster] = {}
    workers = workers_for(executor, n_jobs, threads=torch.get_num_threads(), most=len(jobs))
    if workers is None:
        parts = []
        known = _fitted_together(plan, table, jobs, stacked)
        for number, job in enumerate(jobs):
            done, last = run_job(plan, table, job, {name: fitted[number] for name, fitted in known.items()})
            parts += done
    else:
        parts = run_jobs(plan, table, jobs, workers)
    return _result(table, parts, metrics, season, last, aggregate)


def configs_of(names: Sequence[str], config: Configs) -> dict[str, TrainingConfig]:
    """The configuration of each model."""
    if config is None or isinstance(config, TrainingConfig):
        return {name: config or TrainingConfig() for name in names}
    unknown = sorted(set(config) - set(names))
    if unknown:
        raise ConfigError(f"configurations are given by model name ({', '.join(names)}), but got {', '.join(unknown)}")
    return {name: config.get(name, TrainingConfig()) for name in names}


def _folds(
    table: TimeSeriesDataFrame, splitter: Any, n_windows: int | None, step_size: int | None, h: int, together: bool
) -> list[Fold]:
    if splitter is not None and (n_windows is not None or step_size is not None):
        raise ConfigError("give a splitter, or n_windows and step_size, but not both")
    if splitter is None:
        align: Literal["auto", "date"] = "date" if together else "auto"
        windows = 1 if n_windows is None else at_least_one("n_windows", n_windows)
        distance = h if step_size is None else at_least_one("step_size", step_size)
        splitter = TimeSeriesSplit(n_splits=windows, test_size=h, step_size=distance, align=align)
    if not isinstance(splitter, TimeSeriesSplit):
        return user_folds(splitter, table)
    if together and splitter.splits_series:
        raise ConfigError("a multivariate model sees all series at once, so they cannot be split: use series_splits=1")
    if (
        together
        and splitter.align == "series"
        and len(set((grid_shifts(table.store) + table.store.lengths).tolist())) > 1
    ):
        raise ConfigError("a multivariate model has one forecast origin for all series: use align='date'")
    return splitter.folds(table, h)


def _jobs(folds: list[Fold], refit: bool | int) -> list[list[Fold]]:
    """Groups of folds that share one training, per group of series. The training uses the first fold of a group."""
    every = (1 if refit else len(folds)) if isinstance(refit, bool) else refit
    if not isinstance(every, int) or every < 1:
        raise ConfigError(f"refit must be True, False or a number of folds of at least 1, but got refit={refit!r}")
    jobs: dict[tuple[int, int], list[Fold]] = {}
    for fold in folds:
        jobs.setdefault((fold.group, fold.number // every), []).append(fold)
    return list(jobs.values())


def _fitted_together(
    plan: Plan, table: TimeSeriesDataFrame, jobs: Sequence[Sequence[Fold]], stacked: Stacked
) -> dict[str, list[Forecaster]]:
    """By name, the forecasters of all jobs, for models whose trainings run together. Other models are left out."""
    check_choice(stacked)
    reason = _obstacle(plan, table, jobs)
    if stacked is True and reason is not None:
        raise refusal(reason)
    if stacked is False or reason is not None:
        return {}
    tables = [part_of(table, *job[0].train) for job in jobs]
    found = {}
    for model in plan.models:
        wanted = [(model, past, fold_config(plan, model)) for past in tables]
        found[model.name] = fit_members(wanted, stacked=stacked, short=plan.short)
    return found


def _obstacle(plan: Plan, table: TimeSeriesDataFrame, jobs: Sequence[Sequence[Fold]]) -> str | None:
    if len(jobs) == 1:
        return "there is only one training (refit=True trains for every fold)"
    if plan.intervals is not None or plan.local_scaler is not None:
        return "prediction_intervals and local_scaler prepare each training separately"
    if len(jobs) * len(table.store.y) > MOST_ROWS:
        return f"{len(jobs)} copies of {len(table.store.y)} rows would be in memory at once"
    return None


def _result(
    table: TimeSeriesDataFrame,
    parts: list[FoldForecasts],
    names: Sequence[AnyMetric] | None,
    season: int | None,
    last: dict[str, Forecaster],
    aggregate: Aggregate,
) -> CrossValidation:
    oldest = parts[0].fold
    if season is None:
        season = season_of(part_of(table, *oldest.train).store)
    truths = [_truth(part, season) for part in parts]
    by_fold = _by_fold(parts, truths, check_names(names), names is not None, aggregate)
    scores = _summed(by_fold)
    origins, found = joined(parts)
    whole = Truth(
        origins=origins, season=season,
        actual=np.concatenate([truth.actual for truth in truths]),
        naive=np.concatenate([truth.naive for truth in truths]),
    )  # fmt: skip
    frame = origins.frame(by_column(found), np.concatenate([_inside(part) for part in parts]))
    keys = [name for name in (table.schema.id_col, "cutoff", table.schema.time_col) if name in frame.columns]
    give = table.as_input_library
    return CrossValidation(
        frame=give(frame.sort(keys, maintain_order=True)), scores=give(scores), by_fold=give(by_fold), table=scores,
        evaluation=scored(whole, found, names, aggregate), folds=tuple(part.fold for part in parts), forecasters=last,
        data=table, truth=whole, hindcasts=found, folds_table=by_fold,
        fold_of=np.repeat(np.arange(len(parts)), [len(part.origins) for part in parts]),
        score=lambda metric: _by_fold(parts, truths, check_names([metric]), True, aggregate),
    )  # fmt: skip


def _summed(by_fold: pl.DataFrame) -> pl.DataFrame:
    """Mean and standard deviation over the folds of every model and metric."""
    return by_fold.group_by("model", "metric", maintain_order=True).agg(
        pl.col("value").mean().alias("mean"), pl.col("value").std().fill_null(0.0).alias("deviation")
    )


def _inside(part: FoldForecasts) -> npt.NDArray[np.bool_]:
    """[N, steps] which steps lie in the test part of their fold."""
    return np.asarray(part.origins.rows() < part.fold.test[1][part.origins.series][:, None])


def _truth(part: FoldForecasts, season: int) -> Truth:
    truth = truth_of(part.origins, season=season, seen=seen_in(part.origins, part.fold))
    truth.actual[~_inside(part)] = np.nan
    return truth


def _by_fold(
    parts: list[FoldForecasts],
    truths: list[Truth],
    wanted: Mapping[str, Metric | None],
    given: bool,
    aggregate: Aggregate,
) -> pl.DataFrame:
    rows = []
    for part, truth in zip(parts, truths, strict=True):
        place = {"fold": part.fold.number, "group": part.fold.group}
        for name, item in truth.with_naive(part.found).items():
            found = overall_figures(truth, item, wanted, given, aggregate)
            rows += [{"model": name, "metric": key} | place | {"value": float(value)} for key, value in found.items()]
    by_fold = pl.DataFrame(rows).sort("fold", "group", maintain_order=True)
    return by_fold if len(by_fold["group"].unique()) > 1 else by_fold.drop("group")
