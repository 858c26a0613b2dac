"""NeuralForecast with the methods, arguments and results of neuralforecast 3, on our models and training."""

# ruff: noqa: ARG002, ARG004  (arguments that have nothing to do here are part of the signatures)

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from neuro_divergent.compat.neuralforecast.adapter import PeerModel, as_member, restored
from neuro_divergent.compat.neuralforecast.explain import Asked, explainable, explanations
from neuro_divergent.compat.neuralforecast.fitting import train
from neuro_divergent.compat.neuralforecast.folds import before, check_options, historical_frame, origins, windows_of
from neuro_divergent.compat.neuralforecast.frames import (
    WEIGHT,
    Columns,
    Source,
    Types,
    plain_frame,
    require_columns,
    static_part,
    use_empty,
)
from neuro_divergent.compat.neuralforecast.members import Facts, Member
from neuro_divergent.compat.neuralforecast.outputs import checked, forecast_columns, measured
from neuro_divergent.compat.neuralforecast.simulation import VALID_SIMULATION_METHODS
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError, CorruptFileError, DataError, NotFittedError
from neuro_divergent.core.runs.names import INDEX_DOCUMENT
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.column_names import check_column_names
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import beside
from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast as Ours
from neuro_divergent.forecasting.several.neural_forecast import distinct
from neuro_divergent.forecasting.storage.several import read_index, save_many

REGISTERED: dict[str, Callable[..., Any]] = {}
"""The user's losses and functions by name: files contain only the name."""


class NeuralForecast:
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
        self._source: Source | None = None
        self._columns, self._types = Columns(), Types()

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
        validation = None if val_df is None else plain_frame(val_df, id_col)[0]
        begin = {} if use_init_models else self.forecasters
        self.forecasters = {
            member.name: train(
                member,
                source.table(member),
                held_out=held_out,
                validation=validation,
                local_scaler=self.local_scaler_type,
                begin=begin.get(member.name),
                intervals=prediction_intervals,
            )
            for member in self.members
        }
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
        self._refuse(engine=engine, **data_kwargs)
        fitted, steps = self._fitted(), self._horizon(h)
        level, quantiles = checked(level, quantiles)
        future = self._future(futr_df)
        frame: pl.DataFrame | None = None
        for member in self.members:
            forecaster = fitted[member.name]
            table = self._table(forecaster, member, df, static_df)
            columns = forecast_columns(forecaster, member.facts.outputs, level, quantiles)
            values = forecaster.forecast_values(table, columns, future=future if member.facts.future else None, h=steps)
            own = forecaster.long_frame(table, columns, values)
            if measured(forecaster, columns) or forecaster.model.joint is not None:
                own = own.with_columns(pl.col(columns.names).cast(pl.Float64))
            frame = own if frame is None else frame.hstack(own.select(columns.names))
        return self._give(frame, table)

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
        self._note(source)
        return self._give(self._sorted(frame), table)

    def predict_insample(
        self, step_size: int = 1, level: Sequence[float] | None = None, quantiles: Sequence[float] | None = None
    ) -> Any:
        """Forecasts inside the training data, from every step_size-th row, with the actual values.

        A forecast from before the first row of a series has no input, and is empty.
        """
        fitted = self._fitted()
        level, quantiles = checked(level, quantiles)
        frame: pl.DataFrame | None = None
        for member in self.members:
            forecaster = fitted[member.name]
            table, model = forecaster.data, forecaster.model
            columns = forecast_columns(forecaster, member.facts.outputs, level, quantiles)
            longest = int(table.store.lengths.max(initial=0))
            ahead = list(range(model.h, longest + 1, at_least_one("step_size", step_size)))[::-1]
            own = historical_frame(forecaster, origins(forecaster, table, ahead, model.h), columns)
            frame = beside(frame, own, columns.names)
        return self._give(self._sorted(frame), table)

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
        if method not in (None, *sorted(VALID_SIMULATION_METHODS)):
            raise ConfigError(
                f"method must be one of {', '.join(sorted(VALID_SIMULATION_METHODS))}, but got method={method!r}"
            )
        fitted = self._fitted()
        options: dict[str, Any] = {} if seed is None else {"seed": seed}
        if method == "schaake_shuffle":
            options["method"] = method
        ours = Ours.from_forecasters(list(fitted.values()))
        data = None if df is None else self._table(next(iter(fitted.values())), self.members[0], df, static_df)
        paths = ours.simulate(data, n_paths=n_paths, future=self._future(futr_df), **options)
        wide = _polars(paths).with_columns(pl.col([member.name for member in self.members]).cast(pl.Float64))
        return self._give(wide, ours.data if data is None else data)

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
        """Forecasts, and by model the attributions to its inputs; explain.py lists the shapes."""
        if h not in (None, self.h):
            raise ConfigError(f"h must be the horizon of the models, {self.h}, but got h={h}")
        fitted, future = self._fitted(), self._future(futr_df)
        asked = Asked(self.h, horizons, outputs, series, str(explainer))
        members = explainable(self.members, fitted, asked, verbose=verbose)
        told = {
            member.name: explanations(
                fitted[member.name],
                self._table(fitted[member.name], member, df, static_df),
                future if member.facts.future else None,
                asked,
            )
            for member in members
        }
        kept, self.members = self.members, members
        try:
            return self.predict(df, static_df, futr_df, verbose, engine, level, quantiles, **data_kwargs), told
        finally:
            self.members = kept

    def make_future_dataframe(self, df: Any = None, h: int | None = None) -> Any:
        """The id and time of every step to forecast."""
        forecaster, table = self._first(df)
        ours = forecaster.make_future_dataframe(table, self.h if h is None else h)
        return self._give(_polars(ours), table)

    def get_missing_future(self, futr_df: Any, df: Any = None, h: int | None = None) -> Any:
        """The rows that are missing in a table of future values."""
        forecaster, table = self._first(df)
        ours = forecaster.get_missing_future(
            plain_frame(futr_df, self._columns.id_col)[0], table, self.h if h is None else h
        )
        return self._give(_polars(ours), table)

    def save(
        self,
        path: str | os.PathLike[str],
        model_index: Sequence[int] | None = None,
        save_dataset: bool = True,
        overwrite: bool = False,
    ) -> None:
        """Write models (all, or those at some positions) as safetensors and JSON; `load` reads them."""
        fitted = self._fitted()
        chosen = list(range(len(self.members))) if model_index is None else list(model_index)
        members = [self.members[number] for number in chosen]
        facts = {
            "kind": "NeuralForecast",
            "models": [member.name for member in members],
            "neuralforecast": {
                "members": [member.facts.to_dict() for member in members],
                "freq": self.freq,
                "columns": asdict(self._columns),
                "types": asdict(self._types),
            },
        }
        use_empty(path)
        trained = [fitted[member.name] for member in members]
        save_many(trained, facts, path, context=save_dataset, overwrite=overwrite)

    @staticmethod
    def load(
        path: str | os.PathLike[str], verbose: bool = False, *, using: Mapping[str, Any] | None = None, **ignored: Any
    ) -> NeuralForecast:
        """Read what `save` wrote. Your own losses come from `register_loss`, or by name from `using`."""
        from neuro_divergent.forecasting.storage.save_load import load

        ours = load(path, using=REGISTERED | dict(using or {}))
        if not isinstance(ours, Ours):
            raise ConfigError(f"{path} is a {type(ours).__name__}. Read it with neuro_divergent.load")
        index, _ = read_index(path)
        facts = index.get("neuralforecast")
        if facts is None:
            raise ConfigError(f"{path} was saved by neuro_divergent.NeuralForecast. Read it with neuro_divergent.load")
        try:
            return _restored(ours, facts)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(f"{path}: {INDEX_DOCUMENT} has a missing or wrong entry: {error!r}") from error

    def __repr__(self) -> str:
        return f"NeuralForecast(models=[{', '.join(member.name for member in self.members)}])"

    def _take(self, df: Any, static_df: Any, columns: Columns) -> Source:
        if df is None:
            if self._source is None:
                raise NotFittedError("there is no table yet. Give one: fit(df=...)")
            return self._source
        check_column_names([member.name for member in self.members], DataSchema(**asdict(columns)))
        source = Source.of(df, static_df, columns, self.freq)
        self._source, self._columns, self._types = source, columns, source.types
        return source

    def _note(self, source: Source) -> None:
        """Give the models their fitted state, and number the values of the categorical columns."""
        for model, member in zip(self.models, self.members, strict=True):
            if isinstance(model, PeerModel):
                model.fitted = self.forecasters[member.name]
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
                f"early stopping needs validation rows, but got val_size=0 and no val_df (early_stop_patience_steps of "
                f"{', '.join(stopping)}). Set val_size to at least h={self.h}"
            )

    def _horizon(self, h: int | None) -> int:
        if h is not None and h < self.h:
            raise ConfigError(f"h must be at least the horizon of the models, {self.h}, but got h={h}")
        return self.h if h is None else h

    def _refuse(self, **arguments: Any) -> None:
        given = [name for name, value in arguments.items() if value is not None]
        if given:
            raise ConfigError(f"tables and models must be in this process, but got {', '.join(given)}. Leave it out")

    def _future(self, futr_df: Any) -> pl.DataFrame | None:
        wanted = sorted({name for member in self.members for name in member.facts.future})
        if not wanted:
            return None
        if futr_df is None:
            raise DataError(
                f"the models need the future columns {', '.join(wanted)}, but got no futr_df. Give futr_df=..."
            )
        frame, _ = plain_frame(futr_df, self._columns.id_col)
        require_columns(frame.columns, (self._columns.id_col, self._columns.time_col, *wanted), "futr_df")
        return frame

    def _table(self, forecaster: Forecaster, member: Member, df: Any, static_df: Any = None) -> TimeSeriesDataFrame:
        if df is None:
            return forecaster.table(None)
        frame, library = plain_frame(df, self._columns.id_col)
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
        if forecaster.data.schema.weight == WEIGHT and WEIGHT not in frame.columns:  # it matters only in training
            frame = frame.with_columns(pl.lit(1.0).alias(WEIGHT))
        table = TimeSeriesDataFrame.from_frame(frame, schema=forecaster.data.schema, **options)
        table.library = library
        return table

    def _first(self, df: Any) -> tuple[Forecaster, TimeSeriesDataFrame]:
        member = self.members[0]
        forecaster = self._fitted()[member.name]
        if df is None:
            return forecaster, forecaster.table(None)
        frame, library = plain_frame(df, self._columns.id_col)
        schema = forecaster.data.schema
        plain = {"id_col": schema.id_col, "time_col": schema.time_col, "target_col": schema.target_col}
        table = TimeSeriesDataFrame.from_frame(frame, freq=forecaster.data.freq, **plain)  # type: ignore[arg-type]
        table.library = library
        return forecaster, table

    def _fitted(self) -> dict[str, Forecaster]:
        if not self.forecasters:
            raise NotFittedError("the models are not trained yet. Call fit(df) first")
        return self.forecasters

    def _sorted(self, frame: pl.DataFrame | None) -> pl.DataFrame:
        assert frame is not None
        names = self._columns
        frame = frame.sort(names.id_col, "cutoff", names.time_col, maintain_order=True)
        return frame.select(pl.exclude(names.target_col), names.target_col)

    def _give(self, frame: pl.DataFrame | None, table: TimeSeriesDataFrame) -> Any:
        assert frame is not None
        return table.as_input_library(self._types.give_back(frame, self._columns))


def _restored(ours: Ours, facts: Mapping[str, Any]) -> NeuralForecast:
    """The adapter of models that were read from files."""
    from neuro_divergent.compat.neuralforecast import models

    forecasters = ours.forecasters
    members = [
        Member(forecaster.model, forecaster.config, Facts.from_dict(own))
        for forecaster, own in zip(forecasters.values(), facts["members"], strict=True)
    ]
    nf = NeuralForecast(members, facts["freq"], local_scaler_type=ours.local_scaler_type)
    nf.forecasters = dict(forecasters)
    classes = [getattr(models, member.description.kind, PeerModel) for member in members]
    nf.models = [
        restored(cls, member, fitted)
        for cls, member, fitted in zip(classes, members, forecasters.values(), strict=True)
    ]
    nf._columns, nf._types = Columns(**facts["columns"]), Types(**facts["types"])
    return nf


def _polars(frame: Any) -> pl.DataFrame:
    return plain_frame(frame, "")[0]


def register_loss(cls: type, name: str | None = None) -> type:
    """Let `load` make your own loss: the class is called without arguments when a file names it."""
    REGISTERED[name or cls.__qualname__] = cls()
    return cls


def __getattr__(name: str) -> Any:
    """The models, which neuralforecast's `core` also has."""
    from neuro_divergent.compat.neuralforecast import models

    if name not in models.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(models, name)
