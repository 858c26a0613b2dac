"""NeuralForecast with the methods, arguments and results of neuralforecast 3, on our models and training."""

# ruff: noqa: ARG002, ARG004  (arguments that have nothing to do here are part of the signatures)

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from neuro_divergent.compat.neuralforecast.adapter import PeerModel, as_member
from neuro_divergent.compat.neuralforecast.attributes import FittedAttributes
from neuro_divergent.compat.neuralforecast.errors import NoIntervalsError
from neuro_divergent.compat.neuralforecast.explain import Asked, explainable, explanations, joined, lengthened
from neuro_divergent.compat.neuralforecast.fitting import train
from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.compat.neuralforecast.outputs import checked, forecast_columns, measured
from neuro_divergent.compat.neuralforecast.simulation import check_method
from neuro_divergent.compat.neuralforecast.storing import REGISTERED, Saved, load, restored_models, save
from neuro_divergent.compat.neuralforecast.tables.checks import (
    check_categories,
    check_future,
    check_values,
    needed_future,
)
from neuro_divergent.compat.neuralforecast.tables.clock import NUMBER, Clock
from neuro_divergent.compat.neuralforecast.tables.folds import (
    before,
    check_options,
    historical_frame,
    origins,
    windows_of,
)
from neuro_divergent.compat.neuralforecast.tables.frames import (
    MASK,
    WEIGHT,
    Columns,
    Source,
    Types,
    plain_frame,
    require_columns,
    static_part,
)
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError, DataError, NotFittedError
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.column_names import check_column_names
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import beside
from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast as Ours
from neuro_divergent.forecasting.several.neural_forecast import distinct


class NeuralForecast(FittedAttributes):
    """Several models on one table.

    Args:
        models: those of `neuro_divergent.compat.neuralforecast.models`, or our descriptions.
        freq: the time between two rows, as pandas or polars write it, or a whole number.
        local_scaler_type: how each series is scaled: standard, robust, robust-iqr, minmax or boxcox.
        local_static_scaler_type: accepted, but has no effect: static columns are always standardised.
    """

    def __init__(
        self,
        models: Sequence[Any],
        freq: str | int,
        local_scaler_type: str | SeriesScaler | None = None,
        local_static_scaler_type: str | None = None,
    ) -> None:
        for scaler in (local_scaler_type, local_static_scaler_type):
            if scaler is not None:
                series_scaler(scaler)
        self.models = list(models)
        if not self.models:
            raise ConfigError("NeuralForecast needs at least one model, but got models=[]")
        members = [as_member(model) for model in self.models]
        names = distinct([member.description for member in members])
        self.members = [member.renamed(name) for member, name in zip(members, names, strict=True)]
        self.freq = freq
        self.local_scaler_type = local_scaler_type
        self.local_static_scaler_type = local_static_scaler_type
        self.h = self.members[0].description.h
        self.categorical_vocab_: dict[str, dict[Any, int]] = {}
        """The values of each categorical column, numbered from 1; filled by `fit`."""
        self.forecasters: dict[str, Forecaster] = {}
        """The fitted models by the name of their column."""
        self.prediction_intervals: PredictionIntervals | None = None
        """The settings of the last `fit`."""
        self._source: Source | None = None
        self._clock: Clock | None = None
        self._columns, self._types = Columns(), Types()

    @property
    def models_init(self) -> list[Any]:
        """The models as they were given: a description is not changed by a training."""
        return self.models

    def fit(
        self,
        df: Any = None,
        static_df: Any = None,
        val_size: int | None = 0,
        val_df: Any = None,
        use_init_models: bool = False,
        verbose: bool = False,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        distributed_config: Any = None,
        prediction_intervals: PredictionIntervals | None = None,
    ) -> None:
        """Train every model. A second call continues from the weights unless `use_init_models` is true."""
        if distributed_config is not None:
            raise ConfigError("a training runs in one process, but got distributed_config. Leave it out")
        held_out = int(val_size or 0)
        self._check_validation(held_out, val_df)
        source = self._take(df, static_df, Columns(id_col, time_col, target_col))
        tables = {member.name: source.table(member) for member in self.members}
        validation = None if val_df is None else self._later(plain_frame(val_df, source.columns.id_col)[0], source)
        begin = {} if use_init_models else self.forecasters
        for model in self.models:
            if isinstance(model, PeerModel):
                model.warn()
        self.forecasters = {
            member.name: train(
                member,
                tables[member.name],
                held_out=held_out,
                validation=validation,
                local_scaler=self.local_scaler_type,
                begin=begin.get(member.name),
                intervals=prediction_intervals,
            )
            for member in self.members
        }
        self.prediction_intervals = prediction_intervals
        self._note(source)

    def predict(
        self,
        df: Any = None,
        static_df: Any = None,
        futr_df: Any = None,
        verbose: bool = False,
        engine: Any = None,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        h: int | None = None,
        **data_kwargs: Any,
    ) -> Any:
        """Forecast the steps after every series: after the training data, or after the rows of `df`."""
        quantiles = self._one_quantile(data_kwargs.pop("quantile", None), quantiles)
        self._refuse(engine=engine, **data_kwargs)
        fitted, steps = self._fitted(), self._horizon(h)
        level, quantiles = checked(level, quantiles)
        future = self._future(futr_df, df, static_df, steps)
        frame: pl.DataFrame | None = None
        for member in self.members:
            forecaster = fitted[member.name]
            table, clock = self._table(forecaster, member, df, static_df)
            columns = forecast_columns(forecaster, member.facts.outputs, level, quantiles)
            values = forecaster.forecast_values(table, columns, future=future if member.facts.future else None, h=steps)
            own = forecaster.long_frame(table, columns, values)
            if measured(forecaster, columns) or forecaster.model.joint is not None:
                own = own.with_columns(pl.col(columns.names).cast(pl.Float64))
            frame = own if frame is None else frame.hstack(own.select(columns.names))
        return self._give(frame, table, clock)

    def cross_validation(
        self,
        df: Any = None,
        static_df: Any = None,
        n_windows: int | None = 1,
        step_size: int = 1,
        val_size: int | None = 0,
        test_size: int | None = None,
        use_init_models: bool = False,
        use_fitted: bool = False,
        verbose: bool = False,
        refit: bool | int = False,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        prediction_intervals: PredictionIntervals | None = None,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        h: int | None = None,
        **data_kwargs: Any,
    ) -> Any:
        """Forecast the last windows of every series with models that were trained only on earlier rows.

        The models are trained again: fitted ones may have seen the rows to forecast.
        """
        self._refuse(**data_kwargs)
        steps, held_out = self._horizon(h), int(val_size or 0)
        windows = windows_of(n_windows, test_size, step_size, steps)
        level, quantiles = checked(level, quantiles)
        check_options(prediction_intervals, level, quantiles, refit, use_fitted)
        if use_fitted:
            self._fitted()
        else:
            self._check_validation(held_out, None)
        source = self._take(df, static_df, Columns(id_col, time_col, target_col))
        every = int(refit) if refit else windows
        frame: pl.DataFrame | None = None
        trained: dict[str, Forecaster] = {}
        kept = dict(self.categorical_vocab_)
        for member in self.members:
            table, parts = source.table(member), []
            forecaster = self.forecasters.get(member.name)
            for first in range(0, windows, every):
                last = min(first + every, windows)
                behind = steps + (windows - 1 - first) * step_size
                if not use_fitted:
                    past = before(table, behind)
                    forecaster = train(
                        member,
                        past,
                        held_out=held_out,
                        local_scaler=self.local_scaler_type,
                        intervals=prediction_intervals,
                    )
                assert forecaster is not None
                columns = forecast_columns(forecaster, member.facts.outputs, level, quantiles)
                ahead = [steps + (windows - 1 - number) * step_size for number in range(first, last)]
                parts.append(historical_frame(forecaster, origins(forecaster, table, ahead, steps), columns))
            assert forecaster is not None
            forecaster.data = forecaster.in_own_codes(table)
            trained[member.name] = forecaster
            frame = beside(frame, pl.concat(parts), columns.names)
        self.forecasters = trained
        self._note(source, tested=steps + (windows - 1) * step_size)
        if use_fitted:
            self.categorical_vocab_ = kept
        return self._give(self._sorted(frame), table, source.clock)

    def predict_insample(
        self, step_size: int = 1, level: Sequence[float] | None = None, quantiles: Sequence[float] | None = None
    ) -> Any:
        """Forecasts inside the training data, from every step_size-th row, with the actual values.

        A forecast from before the first row of a series has no input, and is empty.
        """
        fitted = self._fitted()
        level, quantiles = checked(level, quantiles)
        tested = max(getattr(model, "test_size", 0) for model in self.models)
        frame: pl.DataFrame | None = None
        for member in self.members:
            forecaster = fitted[member.name]
            table, model = forecaster.data, forecaster.model
            columns = forecast_columns(forecaster, member.facts.outputs, level, quantiles)
            longest = int(table.store.lengths.max(initial=0))
            every = at_least_one("step_size", step_size)
            ahead = list(range(tested + model.h, longest + 1, every))[::-1]
            own = historical_frame(forecaster, origins(forecaster, table, ahead, model.h), columns)
            frame = beside(frame, own, columns.names)
        return self._give(self._sorted(frame), table, self._clock)

    def simulate(
        self,
        df: Any = None,
        static_df: Any = None,
        futr_df: Any = None,
        n_paths: int = 100,
        quantiles: Any = None,
        seed: int | None = None,
        method: str | None = None,
        **ignored: Any,
    ) -> Any:
        """Sample paths: one row per series, path and step. A Gaussian copula is fitted to the model's own errors."""
        if not self.forecasters:
            raise NotFittedError("you must fit the models before a simulation. Call fit(df) first")
        if not isinstance(n_paths, int) or n_paths < 1:
            raise ConfigError(f"n_paths must be a positive integer, but got n_paths={n_paths!r}")
        check_method(method or "gaussian_copula")
        options: dict[str, Any] = {} if seed is None else {"seed": seed}
        if method == "schaake_shuffle":
            options["method"] = method
        for member in self.members:
            loss = self.forecasters[member.name]
            if not loss.loss.probabilistic and loss.intervals is None:
                raise NoIntervalsError(
                    f"{member.name} forecasts a point, so a simulation needs the errors of fit(..., "
                    "prediction_intervals=PredictionIntervals()), but there are none"
                )
        ours = Ours.from_forecasters(list(self.forecasters.values()))
        future = self._future(futr_df, df, static_df, self.h)
        table, clock = self._table(self.forecasters[self.members[0].name], self.members[0], df, static_df)
        paths = ours.simulate(None if df is None else table, n_paths=n_paths, future=future, **options)
        wide = _polars(paths).with_columns(pl.col([member.name for member in self.members]).cast(pl.Float64))
        return self._give(wide, ours.data if df is None else table, clock)

    def explain(
        self,
        horizons: Sequence[int] | None = None,
        outputs: Sequence[int] | None = (0,),
        series: Sequence[int] | None = None,
        explainer: str = "IntegratedGradients",
        df: Any = None,
        static_df: Any = None,
        futr_df: Any = None,
        h: int | None = None,
        verbose: bool = True,
        engine: Any = None,
        level: Sequence[float] | None = None,
        quantiles: Sequence[float] | None = None,
        **data_kwargs: Any,
    ) -> tuple[Any, dict[str, dict[str, Any]]]:
        """Forecasts, and by model the attributions to its inputs; explain.py lists the shapes.

        Steps beyond the horizon of the models are explained by the window that they are forecast from, whose last
        values are forecasts.
        """
        fitted, steps = self._fitted(), self._horizon(h)
        asked = Asked(steps, horizons, outputs, series, str(explainer))
        members = explainable(self.members, fitted, asked, verbose=verbose)
        kept, self.members = self.members, members
        try:
            told = {member.name: self._explained(member, asked, df, static_df, futr_df, steps) for member in members}
            return self.predict(df, static_df, futr_df, verbose, engine, level, quantiles, h, **data_kwargs), told
        finally:
            self.members = kept

    def _explained(
        self, member: Member, asked: Asked, df: Any, static_df: Any, futr_df: Any, steps: int
    ) -> dict[str, Any]:
        forecaster = self.forecasters[member.name]
        future = self._future(futr_df, df, static_df, steps) if member.facts.future else None
        table, _ = self._table(forecaster, member, df, static_df)
        parts = []
        for first in range(0, steps, self.h):
            if any(first <= step < first + self.h for step in asked.horizons):
                parts.append(explanations(forecaster, table, future, asked.part(first, self.h)))
            if first + self.h < steps:
                table = lengthened(forecaster, table, future)
        return joined(parts)

    def make_future_dataframe(self, df: Any = None, h: int | None = None) -> Any:
        """The id and time of every step to forecast."""
        table, clock = self._first(df)
        return self._give(self._ahead(table, self.h if h is None else h), table, clock)

    def get_missing_future(self, futr_df: Any, df: Any = None, h: int | None = None) -> Any:
        """The rows that are missing in a table of future values."""
        table, clock = self._first(df)
        expected = self._give_stamps(self._ahead(table, self.h if h is None else h), clock)
        have = plain_frame(futr_df, self._columns.id_col)[0].select(expected.columns)
        have = have.with_columns([pl.col(name).cast(kind) for name, kind in expected.schema.items()])
        return self._give(expected.join(have, on=expected.columns, how="anti", maintain_order="left"), table)

    def save(
        self,
        path: str | os.PathLike[str],
        model_index: Sequence[int] | None = None,
        save_dataset: bool = True,
        overwrite: bool = False,
    ) -> None:
        """Write models (all, or those at some positions) as safetensors and JSON; `load` reads them."""
        fitted = self._fitted()
        chosen = range(len(self.members)) if model_index is None else model_index
        members = [self.members[number] for number in chosen]
        told = Saved(members, self.freq, self._columns, self._types, self.categorical_vocab_, self._clock)
        save(told, [fitted[member.name] for member in members], path, context=save_dataset, overwrite=overwrite)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        verbose: bool = False,
        *,
        using: Mapping[str, Any] | None = None,
        trust_remote: bool = False,
        **ignored: Any,
    ) -> NeuralForecast:
        """Read what `save` wrote. Your own losses come from `register_loss`, or by name from `using`."""
        ours, saved = load(path, trust_remote=trust_remote, using=using)
        nf = NeuralForecast(saved.members, saved.freq, local_scaler_type=ours.local_scaler_type)
        nf.forecasters = dict(ours.forecasters)
        nf.models = list(restored_models(saved, list(ours.forecasters.values())))
        nf._columns, nf._types, nf._clock = saved.columns, saved.types, saved.clock
        nf.categorical_vocab_ = saved.vocabulary
        calibration = next(iter(ours.forecasters.values())).intervals
        nf.prediction_intervals = None if calibration is None else calibration.settings
        return nf

    def __repr__(self) -> str:
        return f"NeuralForecast(models=[{', '.join(member.name for member in self.members)}])"

    def _take(self, df: Any, static_df: Any, columns: Columns) -> Source:
        if df is None:
            if self._source is None:
                raise NotFittedError("there is no table yet. Give one: fit(df=...)")
            return self._source
        check_column_names([member.name for member in self.members], DataSchema(**asdict(columns)))
        source = Source.of(df, static_df, columns, self.freq)
        check_values(source)
        check_categories(self.members, source)
        self._source, self._columns, self._types = source, columns, source.types
        return source

    def _later(self, frame: pl.DataFrame, source: Source) -> pl.DataFrame:
        """Validation rows with the stamps after those of the table: as in neuralforecast, only their order matters."""
        table, columns = source.table(self.members[0]), source.columns
        ordered = frame.sort(columns.id_col, columns.time_col, maintain_order=True)
        most = max(ordered.group_by(columns.id_col).len()["len"].to_list(), default=0)
        ahead = self._ahead(table, max(1, most)).with_columns(
            pl.int_range(pl.len()).over(columns.id_col).alias(NUMBER),
            pl.col(columns.id_col).cast(frame.schema[columns.id_col]),
        )
        numbered = ordered.with_columns(pl.int_range(pl.len()).over(columns.id_col).alias(NUMBER)).drop(
            columns.time_col
        )
        return numbered.join(ahead, on=[columns.id_col, NUMBER], how="inner", maintain_order="left").drop(NUMBER)

    def _note(self, source: Source, tested: int = 0) -> None:
        """Give the models their fitted state, and number the values of the categorical columns."""
        self._clock = source.clock
        for model, member in zip(self.models, self.members, strict=True):
            if isinstance(model, PeerModel):
                model.fitted, model.test_size = self.forecasters[member.name], tested
        names = sorted({name for member in self.members for name in member.facts.categorical})
        self.categorical_vocab_ = {name: source.values_of(name) for name in names}

    def _check_validation(self, held_out: int, val_df: Any) -> None:
        if held_out and val_df is not None:
            raise ConfigError(f"give val_size or val_df, one of the two, but got val_size={held_out} and a val_df")
        if held_out < 0 or 0 < held_out < self.h:
            raise ConfigError(f"val_size must be 0 or at least the horizon h={self.h}, but got val_size={held_out}")
        stopping = [member.name for member in self.members if member.config.early_stopping is not None]
        if stopping and not held_out and val_df is None:
            raise ConfigError(
                f"early stopping ({', '.join(stopping)}) needs validation rows, but got none. Set val_size>0 or "
                f"provide a val_df if early stopping is enabled. val_size must be at least h={self.h}"
            )

    def _horizon(self, h: int | None) -> int:
        if h is not None and h < self.h:
            raise ConfigError(f"h must be at least the horizon of the models, {self.h}, but got h={h}")
        return self.h if h is None else h

    def _refuse(self, **arguments: Any) -> None:
        given = [name for name, value in arguments.items() if value is not None]
        if given:
            raise ConfigError(f"tables and models must be in this process, but got {', '.join(given)}. Leave it out")

    def _one_quantile(self, quantile: float | None, quantiles: Any) -> Any:
        """A single quantile, which neuralforecast passes on to models with an implicit quantile loss."""
        if quantile is None or quantiles is not None:
            return quantiles
        implicit = all(member.facts.outputs[0][0].startswith("_ql") for member in self.members)
        return [quantile] if implicit else None

    def _future(self, futr_df: Any, df: Any, static_df: Any, steps: int) -> pl.DataFrame | None:
        """The future columns of the models at the steps to forecast."""
        frame, wanted = needed_future(self.members, futr_df, self._columns.id_col)
        if frame is None:
            return None
        require_columns(frame.columns, (self._columns.id_col, self._columns.time_col), "futr_df")
        table, clock = self._first(df)
        numbers = self._ahead(table, steps)
        expected = self._give_stamps(numbers, clock)
        kept = check_future(frame, expected, wanted)
        if clock is None:
            return kept
        both = numbers.rename({self._columns.time_col: NUMBER}).hstack([expected[self._columns.time_col]])
        joined = kept.join(both, on=[self._columns.id_col, self._columns.time_col], how="inner")
        return joined.with_columns(pl.col(NUMBER).alias(self._columns.time_col)).drop(NUMBER)

    def _table(
        self, forecaster: Forecaster, member: Member, df: Any, static_df: Any = None
    ) -> tuple[TimeSeriesDataFrame, Clock | None]:
        if df is None:
            return forecaster.table(None), self._clock
        frame, library = plain_frame(df, self._columns.id_col)
        frame, clock = self._counted(frame)
        names = member.facts.static
        options: dict[str, Any] = {}
        if names:
            known = None if self._source is None else self._source.static
            static = known if static_df is None else plain_frame(static_df, self._columns.id_col)[0]
            part = static_part(static, names, self._columns.id_col, member.name)
            if set(names) <= set(forecaster.data.schema.static_table):
                options["static"] = part
            else:  # a table that was joined with its validation rows has the statics in its own columns
                frame = frame.drop(names, strict=False).join(part, on=self._columns.id_col, how="left")
        schema = forecaster.data.schema
        for name, used in ((WEIGHT, schema.weight), (MASK, schema.available_mask)):
            if used == name and name not in frame.columns:
                frame = frame.with_columns(pl.lit(1.0).alias(name))
        table = TimeSeriesDataFrame.from_frame(frame, schema=schema, **options)
        table.library = library
        return table, clock

    def _counted(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Clock | None]:
        """A table to forecast after, with counted rows if those of the training table were counted."""
        if self._clock is None:
            return frame, None
        clock = Clock.of(frame, self._columns.id_col, self._columns.time_col, self.freq)
        if clock is None:
            raise DataError(
                "every row must have a time stamp of its own in its series, but some have none or share one"
            )
        return clock.counted(frame), clock

    def _ahead(self, table: TimeSeriesDataFrame, steps: int) -> pl.DataFrame:
        """The id and time of every step to forecast."""
        return pl.DataFrame(
            [
                table.id_column(steps).alias(self._columns.id_col),
                table.future_times(steps).alias(self._columns.time_col),
            ]
        )

    def _first(self, df: Any) -> tuple[TimeSeriesDataFrame, Clock | None]:
        """The ids, times and targets of the table to forecast after."""
        forecaster = self._fitted()[self.members[0].name]
        if df is None:
            return forecaster.table(None), self._clock
        frame, library = plain_frame(df, self._columns.id_col)
        frame, clock = self._counted(frame)
        schema = forecaster.data.schema
        plain = {"id_col": schema.id_col, "time_col": schema.time_col, "target_col": schema.target_col}
        table = TimeSeriesDataFrame.from_frame(frame, freq=forecaster.data.freq, **plain)  # type: ignore[arg-type]
        table.library = library
        return table, clock

    def _fitted(self) -> dict[str, Forecaster]:
        if not self.forecasters:
            raise NotFittedError("the models are not trained yet. Call fit(df) first")
        return self.forecasters

    def _sorted(self, frame: pl.DataFrame | None) -> pl.DataFrame:
        assert frame is not None
        names = self._columns
        frame = frame.sort(names.id_col, "cutoff", names.time_col, maintain_order=True)
        return frame.select(pl.exclude(names.target_col), names.target_col)

    def _give_stamps(self, frame: pl.DataFrame, clock: Clock | None) -> pl.DataFrame:
        return frame if clock is None else clock.told(frame)

    def _give(self, frame: pl.DataFrame | None, table: TimeSeriesDataFrame, clock: Clock | None = None) -> Any:
        assert frame is not None
        return table.as_input_library(self._types.give_back(self._give_stamps(frame, clock), self._columns))


def _polars(frame: Any) -> pl.DataFrame:
    return plain_frame(frame, "")[0]


def register_loss(cls: type, name: str | None = None) -> type:
    """Let `load` make your own loss: the class is called without arguments when a file names it."""
    REGISTERED[name or cls.__qualname__] = cls()
    return cls


def __getattr__(name: str) -> Any:
    """The models, which neuralforecast's `core` also has."""
    from neuro_divergent.compat.neuralforecast import models

    if name == "MODEL_FILENAME_DICT":
        return {model.lower(): getattr(models, model) for model in models.__all__ if model not in ("HINT", "TimeLLM")}
    if name not in models.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(models, name)
