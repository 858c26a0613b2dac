"""NeuralForecast with the methods, arguments and results of neuralforecast 3, on our models and training."""

# ruff: noqa: ARG002, ARG004  (arguments that have nothing to do here are part of the signatures)

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from neuro_divergent.compat.neuralforecast.adapter import PeerModel, as_member
from neuro_divergent.compat.neuralforecast.common._base_auto import BaseAuto
from neuro_divergent.compat.neuralforecast.errors import NoIntervalsError
from neuro_divergent.compat.neuralforecast.explain import Asked, explainable, explanations, joined, lengthened
from neuro_divergent.compat.neuralforecast.fitting import train
from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.compat.neuralforecast.outputs import checked, forecast_columns, measured
from neuro_divergent.compat.neuralforecast.simulation import check_method
from neuro_divergent.compat.neuralforecast.single.registered import CLASSES, REGISTERED
from neuro_divergent.compat.neuralforecast.storing import (
    Saved,
    load,
    plain_arguments,
    restored_models,
    save,
)
from neuro_divergent.compat.neuralforecast.tables.clock import Clock
from neuro_divergent.compat.neuralforecast.tables.folds import (
    before,
    check_options,
    historical_frame,
    origins,
    windows_of,
)
from neuro_divergent.compat.neuralforecast.tables.frames import (
    Columns,
    Source,
    Types,
    plain_frame,
)
from neuro_divergent.compat.neuralforecast.tables.methods import TableMethods
from neuro_divergent.compat.neuralforecast.tables.requests import RequestChecks
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError, NotFittedError
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import beside
from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast as Ours
from neuro_divergent.forecasting.several.neural_forecast import distinct


class NeuralForecast(TableMethods, RequestChecks):
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
        validation = None if val_df is None else self._later(plain_frame(val_df, source.columns.id_col)[0], source)
        rows = [self._chosen(number, source, held_out, validation) for number in range(len(self.models))]
        tables = {member.name: source.table(member) for member in self.members}
        begin = {} if use_init_models else self.forecasters
        for model in self.models:
            if isinstance(model, PeerModel):
                model.warn()
        self.forecasters = {
            member.name: train(
                member,
                tables[member.name],
                held_out=held,
                validation=validation,
                local_scaler=self.local_scaler_type,
                begin=None if isinstance(model, BaseAuto) else begin.get(member.name),
                intervals=prediction_intervals,
            )
            for model, member, held in zip(self.models, self.members, rows, strict=True)
        }
        for model, member in zip(self.models, self.members, strict=True):
            if isinstance(model, BaseAuto) and model.model is not None:
                model.model.fitted = self.forecasters[member.name]
        self.prediction_intervals = prediction_intervals
        self._note(source)

    def _chosen(self, number: int, source: Source, held_out: int, validation: Any = None, *, behind: int = 0) -> int:
        """Let a model search for its arguments, if it is one that does. Returns the rows that its training holds out.

        Args:
            number: its position.
            source: the rows.
            held_out: rows of each series for validation.
            validation: later rows for validation instead.
            behind: rows at the end of each series that it must not see.
        """
        auto = self.models[number]
        if not isinstance(auto, BaseAuto):
            return held_out

        def fitted(member: Member, rows: int) -> Forecaster:
            table = source.table(member)
            return train(
                member, before(table, behind) if behind else table, held_out=0 if validation is not None else rows,
                validation=validation, local_scaler=self.local_scaler_type,
            )  # fmt: skip

        name = self.members[number].name
        model, rows = auto.choose(fitted, held_out)
        self.members[number] = model.member.renamed(model.member.description.replace(alias=name))
        return 0 if validation is not None else rows

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
        future = self._future(futr_df, df, steps)
        frame: pl.DataFrame | None = None
        for member in self.members:
            forecaster = fitted[member.name]
            table, clock = self._table(forecaster, member, df, static_df)
            columns = forecast_columns(forecaster, member.facts, level, quantiles)
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
        for number in range(len(self.members)):
            parts: list[pl.DataFrame] = []
            forecaster = self.forecasters.get(self.members[number].name)
            for first in range(0, windows, every):
                last = min(first + every, windows)
                behind = steps + (windows - 1 - first) * step_size
                held = 0 if use_fitted else self._chosen(number, source, held_out, behind=behind)
                member = self.members[number]
                table = source.table(member)
                if not use_fitted:
                    past = before(table, behind, needed=not member.facts.untrained)
                    forecaster = train(
                        member,
                        past,
                        held_out=held,
                        local_scaler=self.local_scaler_type,
                        intervals=prediction_intervals,
                    )
                assert forecaster is not None
                columns = forecast_columns(forecaster, member.facts, level, quantiles)
                ahead = [steps + (windows - 1 - place) * step_size for place in range(first, last)]
                parts.append(historical_frame(forecaster, origins(forecaster, table, ahead, steps, 1), columns))
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
            columns = forecast_columns(forecaster, member.facts, level, quantiles)
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
            raise ConfigError(f"the number of paths is a positive integer, but got n_paths={n_paths!r}")
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
        future = self._future(futr_df, df, self.h)
        table, clock = self._table(self.forecasters[self.members[0].name], self.members[0], df, static_df)
        paths = ours.simulate(None if df is None else table, n_paths=n_paths, future=future, **options)
        wide = plain_frame(paths, "")[0].with_columns(pl.col([member.name for member in self.members]).cast(pl.Float64))
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
        future = self._future(futr_df, df, steps) if member.facts.future else None
        table, _ = self._table(forecaster, member, df, static_df)
        parts = []
        for first in range(0, steps, self.h):
            if any(first <= step < first + self.h for step in asked.horizons):
                parts.append(explanations(forecaster, member.facts, table, future, asked.part(first, self.h)))
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
        made = [plain_arguments(self.models[number]) for number in chosen]
        told = Saved(
            members, self.freq, self._columns, self._types, self.categorical_vocab_, self._clock, self._source, made
        )
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
        nf._take_back(saved.source)
        nf._columns, nf._types, nf._clock = saved.columns, saved.types, saved.clock
        nf.categorical_vocab_ = saved.vocabulary
        calibration = next(iter(ours.forecasters.values())).intervals
        nf.prediction_intervals = None if calibration is None else calibration.settings
        return nf

    def __repr__(self) -> str:
        return f"NeuralForecast(models=[{', '.join(member.name for member in self.members)}])"


def register_loss(cls: type, name: str | None = None) -> type:
    """Let `load` make your own loss: the class is called without arguments when a file names it."""
    REGISTERED[name or cls.__qualname__] = cls()
    CLASSES[name or cls.__qualname__] = cls
    return cls


def __getattr__(name: str) -> Any:
    """The models, which neuralforecast's `core` also has."""
    from neuro_divergent.compat.neuralforecast import models

    if name == "MODEL_FILENAME_DICT":
        return {model.lower(): getattr(models, model) for model in models.__all__ if model not in ("HINT", "TimeLLM")}
    if name not in models.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(models, name)
