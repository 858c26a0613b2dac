"""Several models on one table: trained with one call, their forecasts in one frame."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import polars as pl
import torch

from neuro_divergent.core.errors import ConfigError, NotFittedError, UnknownNameError
from neuro_divergent.core.executors.workers import workers_for
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.cross_validation import Configs, CrossValidation, configs_of, cross_validation
from neuro_divergent.forecasting.evaluate.scores import Evaluation, evaluate, insample
from neuro_divergent.forecasting.fit.resume_many import Source, beginnings, fit_each, results
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.column_names import check_column_names
from neuro_divergent.forecasting.predict.ahead import checked_horizon
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import beside
from neuro_divergent.forecasting.predict.predict_base import PredictBase
from neuro_divergent.forecasting.several.predictors import Predictors
from neuro_divergent.forecasting.several.tables import tables_together
from neuro_divergent.losses.base import Point
from neuro_divergent.training.runs.checkpoint_store import inside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.forecasting.predict.explain import Explanation
    from neuro_divergent.forecasting.storage.save_load import ReadOptions
    from neuro_divergent.losses.probability_levels import Levels
    from neuro_divergent.training.config.training_config import TrainingConfig


class NeuralForecast:
    """Models that are trained on one table and return one frame of forecasts, with one or several columns per model.

    Args:
        models: descriptions. Two of one name get a number at the end (NHITS, NHITS1, NHITS2).
        freq: the time between two rows; None infers it from the data.
        local_scaler_type: scale each series by its own training rows: standard, robust, robust-iqr, minmax or boxcox,
            or your own `SeriesScaler`.
    """

    def __init__(
        self,
        models: Sequence[Model] | Model,
        freq: str | int | None = None,
        *,
        local_scaler_type: str | SeriesScaler | type[SeriesScaler] | None = None,
    ) -> None:
        given = [models] if isinstance(models, Model) else list(models)
        if not given:
            raise ConfigError("NeuralForecast needs at least one model, but got models=[]")
        for model in given:
            if not isinstance(model, Model):
                raise ConfigError(
                    f"models must be descriptions such as NHITS(h=..., input_size=...), but got {model!r}"
                )
        if local_scaler_type is not None:
            series_scaler(local_scaler_type)
        if isinstance(local_scaler_type, type):
            local_scaler_type = local_scaler_type.name
        self.models = tuple(distinct(given))
        self.freq = freq
        self.local_scaler_type = local_scaler_type
        self.forecasters: dict[str, Forecaster] = {}
        """The fitted models by name; empty before `fit`."""

    @classmethod
    def from_forecasters(cls, forecasters: Sequence[Forecaster]) -> Self:
        """A NeuralForecast of several fitted models."""
        local = forecasters[0].local
        self = cls(
            [forecaster.model for forecaster in forecasters],
            forecasters[0].data.freq,
            local_scaler_type=None if local is None else local.how,
        )
        for forecaster in forecasters:
            check_column_names([model.name for model in self.models], forecaster.data.schema)
        for model, forecaster in zip(self.models, forecasters, strict=True):
            forecaster.model = model
            self.forecasters[model.name] = forecaster
        return self

    @property
    def fitted(self) -> bool:
        """Whether the models are trained."""
        return bool(self.forecasters)

    @property
    def data(self) -> TimeSeriesDataFrame:
        """The training table, or its end."""
        return max(self._fitted().values(), key=lambda forecaster: forecaster.model.input_size).data

    def table(self, data: Any = None) -> TimeSeriesDataFrame:
        """The data read with the schema of the training; None for the training data."""
        return max(self._fitted().values(), key=lambda forecaster: forecaster.model.input_size).table(data)

    @property
    def h(self) -> int:
        """The horizon of one frame: the shortest one of the models."""
        return min(model.h for model in self.models)

    def fit(
        self,
        data: Any = None,
        config: Configs = None,
        *,
        validation: Any = None,
        prediction_intervals: PredictionIntervals | None = None,
        short: str = "error",
        resume: Source = None,
        resume_with: Mapping[str, Any] | None = None,
        n_jobs: int = 1,
        executor: Any = None,
        **columns: Any,
    ) -> Self:
        """Train every model on a table.

        Args:
            data: a TimeSeriesDataFrame, or any frame that `from_frame` takes.
            config: how to train, for all models or by name; None trains with their recipes. If several models share a
                directory, each has a folder with its name in it.
            validation: later rows of the same series to validate on, instead of the last part of `data`; rows that are
                not after the training rows of their series are refused.
            prediction_intervals: how point forecasts get intervals; the models are trained a second time for that.
            short: what to do with series too short for a model: refuse, leave out, or pad them.
            resume: "auto" resumes each model in its own directory; a path resumes each model in its folder there. A
                finished model returns its result, an interrupted one continues, one without a checkpoint starts. A
                model that cannot be resumed is refused before anything is trained.
            resume_with: fields of the configuration to change on resume, for all models ({"max_epochs": 50}) or by name
                ({"NHITS": {"max_epochs": 50}}).
            n_jobs: processes of this machine that train at the same time, -1 for one per core. They share the threads
                of this one.
            executor: where the models are trained instead: anything with the interface of `concurrent.futures`, such
                as `nd.RayExecutor()` or dask's `client.get_executor()`.
            columns: arguments of `from_frame` when `data` is a plain frame.
        """
        if data is None:
            given = ", but got df: write fit(df)" if "df" in columns else ", but got none"
            raise ConfigError(f"fit takes the table as its first argument, data{given}")
        table = self._read(data, columns)
        check_column_names([model.name for model in self.models], table.schema)
        configs = _in_own_directories(configs_of([model.name for model in self.models], config))
        options: dict[str, Any] = {"prediction_intervals": prediction_intervals, "local_scaler": self.local_scaler_type}
        options |= {"validation": validation, "short": short}
        begun = beginnings(configs, resume, resume_with)
        options["workers"] = workers_for(executor, n_jobs, threads=torch.get_num_threads(), most=len(self.models))
        fitted = results(fit_each([(model, table, begun[model.name]) for model in self.models], **options))
        self.forecasters = {model.name: forecaster for model, forecaster in zip(self.models, fitted, strict=True)}
        return self

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
        """Forecast the steps after every series with every model; return one frame. See `Forecaster.predict`.

        All models must have the requested levels: a model that forecasts a point without intervals is refused.
        """
        fitted = list(self._fitted().values())
        return side_by_side(fitted, data, future, level, quantiles, checked_horizon(h, self.h), point)

    def predictor(self) -> Predictors:
        """A small copy of all models for serving, which may be called from several threads; see `Predictors`."""
        return Predictors(list(self._fitted().values()), side_by_side, self.h)

    def predict_insample(self, step_size: int = 1, *, level: Levels = None, quantiles: Levels = None) -> Any:
        """Forecasts of the training data itself by every model; see `Forecaster.predict_insample`."""
        if len({model.h for model in self.models}) > 1:
            raise ConfigError(
                "in-sample forecasts of several models need the same horizon. Use one model at a time: nf['NHITS']"
            )
        frame: pl.DataFrame | None = None
        for forecaster in self._fitted().values():
            asked = forecaster.columns(level, quantiles)
            own = insample(forecaster, forecaster.data, step_size, asked)
            frame = beside(frame, own, asked.names)
        return self.data.as_input_library(frame if frame is not None else pl.DataFrame())

    def cross_validation(self, data: Any = None, config: Configs = None, **options: Any) -> CrossValidation:
        """Train every model on earlier parts of a table and forecast the later ones; see `cross_validation`.

        The fitted models are not used and not changed: they were trained on the rows that are forecast. Without
        `config`, fitted models are trained as in `fit`, others by their recipes.
        """
        if config is None and self.forecasters:
            config = {name: forecaster.config for name, forecaster in self.forecasters.items()}
        columns = {name: options.pop(name) for name in list(options) if name in LOAD_OPTIONS}
        table = self.data if data is None else self._read(data, columns)
        options = {"local_scaler": self.local_scaler_type} | options
        return cross_validation(self.models, table, config=config, **options)

    def evaluate(self, data: Any, **options: Any) -> Evaluation:
        """Score every model on a table it was not trained on, beside seasonal naive; see `evaluate`."""
        return evaluate(list(self._fitted().values()), self.table(data), **options)

    def update(self, data: Any, config: TrainingConfig | None = None) -> Self:
        """Continue training every model on newer rows; see `Forecaster.update`."""
        for forecaster in self._fitted().values():
            forecaster.update(data, config)
        return self

    def simulate(self, data: Any = None, *, n_paths: int = 100, future: Any = None, **options: Any) -> Any:
        """Sample paths of every model in one frame; see `Forecaster.simulate`."""
        from neuro_divergent.forecasting.predict.sample_paths import simulate

        frame: pl.DataFrame | None = None
        fitted = list(self._fitted().values())
        for forecaster, table in zip(fitted, tables_together(fitted, data), strict=True):
            own = simulate(forecaster, table, n_paths=n_paths, future=future, h=self.h, **options)
            frame = own if frame is None else frame.hstack([own[forecaster.model.name]])
        return table.as_input_library(frame if frame is not None else pl.DataFrame())

    def explain(self, data: Any = None, *, future: Any = None, **options: Any) -> dict[str, Explanation]:
        """The attributions of the forecasts of every model; see `Forecaster.explain`."""
        return {name: item.explain(data, future=future, **options) for name, item in self._fitted().items()}

    def make_future_dataframe(self, data: Any = None, h: int | None = None) -> Any:
        """The id and time of every step to forecast."""
        return self._longest().make_future_dataframe(data, h)

    def get_missing_future(self, future: Any, data: Any = None, h: int | None = None) -> Any:
        """The rows that are missing in a table of future values; empty if it is complete."""
        return self._longest().get_missing_future(future, data, h)

    def save(self, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False) -> None:
        """Write every model as a directory of safetensors and JSON; `load` reads them all.

        Args:
            path: the directory to create.
            context: save the last rows of each series, so that `predict()` works after loading.
            overwrite: replace the directory if it exists.
        """
        from neuro_divergent.forecasting.storage.several import save_many

        facts = {"kind": "NeuralForecast", "models": [model.name for model in self.models]}
        save_many(list(self._fitted().values()), facts, path, context=context, overwrite=overwrite)

    @staticmethod
    def load(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> NeuralForecast:
        """Read a NeuralForecast that `save` wrote; see `load`. A directory with something else is refused."""
        from neuro_divergent.forecasting.storage.save_load import load_one

        return load_one(path, NeuralForecast, **options)

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        series: int = 4,
        level: Levels = None,
        future: Any = None,
    ) -> Figure:
        """Draw the last rows of some series with the forecasts of every model; see `Forecaster.plot`."""
        from neuro_divergent.forecasting.plots import forecasters_figure
        from neuro_divergent.plotting import save

        return save(forecasters_figure(list(self._fitted().values()), series, level, future), path)

    def __getitem__(self, name: str) -> Forecaster:
        """A fitted model by name."""
        fitted = self._fitted()
        if name not in fitted:
            raise UnknownNameError(f"there is no model named {name!r}; known are: {', '.join(fitted)}")
        return fitted[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.forecasters)

    def __len__(self) -> int:
        return len(self.models)

    def __repr__(self) -> str:
        state = f"fitted on {self.data.n_series:,} series" if self.fitted else "not fitted"
        return f"NeuralForecast({', '.join(model.name for model in self.models)}; {state})"

    def _read(self, data: Any, columns: Mapping[str, Any]) -> TimeSeriesDataFrame:
        given = dict(columns)
        if self.freq is not None and not isinstance(data, TimeSeriesDataFrame) and "schema" not in given:
            given = {"freq": self.freq} | given
        return TimeSeriesDataFrame.from_frame(data, **given)

    def _fitted(self) -> dict[str, Forecaster]:
        if not self.forecasters:
            raise NotFittedError("the models are not trained yet. Call fit(data) first")
        return self.forecasters

    def _longest(self) -> Forecaster:
        return max(self._fitted().values(), key=lambda forecaster: forecaster.model.h)


def side_by_side(
    members: Sequence[PredictBase],
    data: Any,
    future: Any,
    level: Levels,
    quantiles: Levels,
    steps: int,
    point: Point | None,
) -> Any:
    """The forecasts of several models in one frame, the columns of each beside those of the one before."""
    frame: pl.DataFrame | None = None
    for member, table in zip(members, tables_together(members, data), strict=True):
        asked = member.columns(level, quantiles, point)
        own = member.long_frame(table, asked, member.forecast_values(table, asked, future=future, h=steps))
        frame = own if frame is None else frame.hstack(own.select(asked.names))
    return table.as_input_library(frame if frame is not None else pl.DataFrame())


LOAD_OPTIONS = frozenset(
    {
        "id_col", "time_col", "target_col", "time_zone", "time_format", "wide", "static", "future", "historical",
        "categorical", "features", "weight", "available_mask", "duplicates", "gaps", "missing", "missing_exogenous",
        "infinities", "constant", "all_missing", "min_length", "dtype", "freq", "schema",
        "lower", "upper", "integer",
    }
)  # fmt: skip
"""Arguments of `from_frame` that a call may have beside its own."""


def distinct(models: Sequence[Model]) -> list[Model]:
    """The models with unique names: the second and third of one name get 1 and 2 at the end."""
    taken = {model.name for model in models}
    seen: Counter[str] = Counter()
    result = []
    for model in models:
        name, number = model.name, seen[model.name]
        seen[name] += 1
        if number and f"{name}{number}" in taken:
            raise ConfigError(f"models need unique names, but two are named {name}{number}. Give alias=...")
        result.append(model.replace(alias=f"{name}{number}") if number else model)
    check_column_names([model.name for model in result])
    return result


@overload
def train_from_csv(
    path: str | os.PathLike[str], target: str, models: Model, config: Configs = None, **options: Any
) -> Forecaster: ...
@overload
def train_from_csv(
    path: str | os.PathLike[str], target: str, models: Sequence[Model], config: Configs = None, **options: Any
) -> NeuralForecast: ...
def train_from_csv(
    path: str | os.PathLike[str],
    target: str,
    models: Model | Sequence[Model],
    config: Configs = None,
    *,
    prediction_intervals: PredictionIntervals | None = None,
    resume: Source = None,
    resume_with: Mapping[str, Any] | None = None,
    **options: Any,
) -> NeuralForecast | Forecaster:
    """Read a CSV file and train on it; return a Forecaster for one model, a NeuralForecast for several.

    Args:
        path: the file.
        target: name of the column to forecast.
        models: one description or several.
        config: how to train; None trains with the recipes.
        prediction_intervals: how point forecasts get intervals.
        resume: "auto" or a path resumes earlier trainings; see `NeuralForecast.fit`.
        resume_with: fields of the configuration to change on resume.
        options: as in `TimeSeriesDataFrame.from_csv`: id_col, time_col, freq, ...
    """
    table = TimeSeriesDataFrame.from_csv(path, target_col=target, **options)
    how = {"prediction_intervals": prediction_intervals, "resume": resume, "resume_with": resume_with}
    return _trained(table, models, config, how)


@overload
def train_from_parquet(
    path: str | os.PathLike[str], target: str, models: Model, config: Configs = None, **options: Any
) -> Forecaster: ...
@overload
def train_from_parquet(
    path: str | os.PathLike[str], target: str, models: Sequence[Model], config: Configs = None, **options: Any
) -> NeuralForecast: ...
def train_from_parquet(
    path: str | os.PathLike[str],
    target: str,
    models: Model | Sequence[Model],
    config: Configs = None,
    *,
    prediction_intervals: PredictionIntervals | None = None,
    resume: Source = None,
    resume_with: Mapping[str, Any] | None = None,
    **options: Any,
) -> NeuralForecast | Forecaster:
    """Read Parquet files and train on them; see `train_from_csv`."""
    table = TimeSeriesDataFrame.from_parquet(path, target_col=target, **options)
    how = {"prediction_intervals": prediction_intervals, "resume": resume, "resume_with": resume_with}
    return _trained(table, models, config, how)


def _trained(
    table: TimeSeriesDataFrame, models: Model | Sequence[Model], config: Configs, how: Mapping[str, Any]
) -> NeuralForecast | Forecaster:
    many = NeuralForecast([models] if isinstance(models, Model) else models)
    many.fit(table, config, **how)
    return next(iter(many.forecasters.values())) if isinstance(models, Model) else many


def _in_own_directories(configs: Mapping[str, TrainingConfig]) -> dict[str, TrainingConfig]:
    """The configurations with unique directories: models that share one get folders in it."""
    places = Counter(str(config.checkpoints.directory) for config in configs.values() if config.checkpoints is not None)

    def own(name: str, config: TrainingConfig) -> TrainingConfig:
        settings = config.checkpoints
        if settings is None or places[str(settings.directory)] == 1:
            return config
        return config.replace(checkpoints=settings.replace(directory=inside(settings, name)))

    return {name: own(name, config) for name, config in configs.items()}


def from_saved(forecasters: list[Forecaster], _: Mapping[str, Any]) -> NeuralForecast:
    """The NeuralForecast that `NeuralForecast.save` wrote."""
    return NeuralForecast.from_forecasters(forecasters)
