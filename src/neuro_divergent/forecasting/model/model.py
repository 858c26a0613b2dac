"""The base class of model descriptions: what all models share, and what each one declares."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack, get_args, overload

from pydantic import Field, model_validator
from torch import nn

from neuro_divergent.core import registry
from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import Advice, ConfigError, NotFittedError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.data.schema.schema import LoadOptions
from neuro_divergent.forecasting.model.recipes import ModelFamily, recipe_for
from neuro_divergent.training.config import misplaced
from neuro_divergent.training.config.training_config import TrainingConfig

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from neuro_divergent.data.table import TimeSeriesDataFrame
    from neuro_divergent.forecasting.network.parameters import ParameterCount
    from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.predict.reconciliation import Reconciliation
    from neuro_divergent.search.space.search_space import SearchSpace


class FitOptions(LoadOptions, total=False):
    """The keyword arguments of `Model.fit`: its own, and those of `TimeSeriesDataFrame.from_frame`."""

    validation: Any
    prediction_intervals: PredictionIntervals | None
    resume: str | os.PathLike[str] | None
    resume_with: Mapping[str, Any] | None


LagsField = Literal["auto"] | tuple[Annotated[int, Field(ge=1)], ...] | None
AnchorField = Literal["last", "seasonal", "auto"] | tuple[Annotated[int, Field(ge=1)], ...] | None


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The kinds of input that a model takes, and what its network can do."""

    multivariate: bool = False
    """One network sees all series at once, instead of one series at a time."""
    future: bool = False
    """Takes columns that are known ahead."""
    historical: bool = False
    """Takes columns that are known only for the past."""
    static: bool = False
    """Takes one value per series."""
    categorical: bool = False
    """Takes categorical columns."""
    recursive: bool = False
    """Can feed its own forecasts back as input, one step at a time."""


_OF_THE_FITTED = frozenset(
    {
        "predict", "predict_insample", "predictor", "save", "save_weights", "load_weights", "plot", "evaluate",
        "cross_validation", "update", "fine_tune", "calibrate", "simulate", "explain", "forward", "history", "network",
        "module", "architecture", "export", "gradient_report",
    }
)  # fmt: skip
"""What a newcomer looks for on a description, but only a fitted model has."""


class Model(Description):
    """An immutable description of a forecaster. `fit` trains it; `build` makes its network."""

    family: ClassVar[str] = "model"
    group: ClassVar[ModelFamily] = "other"
    """The family whose training recipe is used."""
    capabilities: ClassVar[Capabilities] = Capabilities()
    paper: ClassVar[str] = ""
    """Where the model was published."""
    before: ClassVar[Mapping[str, Any]] = {}
    """The value of a field in saved models and checkpoints that are older than the field, if it is not the default."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        if cls.group not in get_args(ModelFamily):
            raise ConfigError(
                f"the group of a model must be one of {', '.join(get_args(ModelFamily))}, because it selects the "
                f"training recipe, but {cls.__name__} has group={cls.group!r}"
            )
        super().__pydantic_init_subclass__(**options)

    h: Annotated[int, Field(ge=1)]
    """The horizon: how many steps ahead are forecast."""
    input_size: Annotated[int, Field(ge=1)]
    """The lookback window: how many past steps the network sees."""
    alias: str | None = None
    """Name of the forecast's column; None for the name of the model."""
    scaler: WindowScalerName = "standard"
    """How each window is scaled before the network sees it."""
    anchor: Takes[AnchorField, Literal["last", "seasonal", "auto"] | Sequence[int] | None] = default(None)
    """The naive forecast that the network corrects: none, the last value, the season, or season lengths. "auto" takes
    the seasons that the data shows, else the last value, and none if the network does not see the target."""
    sees_target: bool = True
    """Whether the network sees the past of the target. With False it forecasts from the columns alone; the past of the
    target only scales the window."""

    @model_validator(mode="after")
    def _anchor_of_what_is_seen(self) -> Self:
        if not self.sees_target and self.anchor not in (None, "auto"):
            raise ConfigError(
                f"an anchor is a naive forecast from the target's past, which sees_target=False hides, but got "
                f"anchor={self.anchor!r}. Set anchor=None"
            )
        return self

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            if name not in _OF_THE_FITTED:
                return super().__getattr__(name)
            other = ", or nd.cross_validation(model, data)" if name == "cross_validation" else ""
            call = f"fitted.{name}" if name in ("history", "network", "module") else f"fitted.{name}(...)"
            raise NotFittedError(
                f"{self.kind} describes a model; only a fitted model has {name}. fit does not change the description, "
                f"it returns the fitted model: fitted = model.fit(data), then {call}{other}"
            )

    @classmethod
    def elsewhere(cls, name: str, value: Any) -> tuple[str, Sequence[Advice]] | None:
        """Where a setting belongs that is not a field of a model: in the TrainingConfig, or in the call of fit."""
        return misplaced.answer(name, value, "model", cls.model_fields, TrainingConfig.model_fields)

    @classmethod
    def from_saved(cls, data: Mapping[str, Any], *, using: Mapping[str, Callable[..., Any]] | None = None) -> Self:
        """Read the description of a saved model or checkpoint. A field that it lacks has its value in `before`."""
        return cls.from_dict(_completed(data), using=using)

    @abstractmethod
    def build(self, spec: InputSpec) -> nn.Module:
        """The network for these sizes: forward(batch) -> [B, H, C, Q]."""

    @property
    def name(self) -> str:
        """Name of the forecast's column."""
        return self.alias or self.kind

    @property
    def joint(self) -> Reconciliation | None:
        """How the forecasts of all series are reconciled; None if each series is independent."""
        return None

    @property
    def together(self) -> bool:
        """True if all series share one forecast origin: the model is multivariate, or its forecasts are reconciled."""
        return self.capabilities.multivariate or self.joint is not None

    @property
    def lags_read(self) -> LagsField:
        """Lags of the target that the network reads beside each step: "auto" for the seasons of the data; or None."""
        return None

    @property
    def feeds_back(self) -> bool:
        """Whether the network reads its own forecasts as values. Then it forecasts no difference to an anchor."""
        return bool(getattr(self, "recursive", False))

    def lags_of(self, seasons: tuple[int, ...], windows: int) -> tuple[int, ...]:  # noqa: ARG002
        """The lags that lags="auto" stands for, in data with these seasons and so many training windows."""
        return seasons

    def calendar_read(self, freq: str) -> tuple[str, ...]:  # noqa: ARG002
        """Columns of the calendar that the network reads in a table of this frequency, beside the table's own."""
        return ()

    def decided(self, lags: tuple[int, ...]) -> Self:  # noqa: ARG002
        """The same model with these lags, if it reads any, and with no columns of the calendar beside the table's."""
        return self

    def recipe(self, windows: int) -> TrainingConfig:
        """The recommended training for this many windows."""
        return recipe_for(self.group, windows)

    @overload
    def fit(
        self, data: pl.DataFrame | pl.LazyFrame, config: TrainingConfig | None = None, **options: Unpack[FitOptions]
    ) -> Forecaster[pl.DataFrame]: ...
    @overload
    def fit(
        self, data: pd.DataFrame, config: TrainingConfig | None = None, **options: Unpack[FitOptions]
    ) -> Forecaster[pd.DataFrame]: ...
    @overload
    def fit(  # type: ignore[overload-cannot-match]  # where pandas has no types
        self, data: Any, config: TrainingConfig | None = None, **options: Unpack[FitOptions]
    ) -> Forecaster[Any]: ...
    def fit(
        self,
        data: Any,
        config: TrainingConfig | None = None,
        *,
        validation: Any = None,
        short: Literal["error", "drop", "pad"] = "error",
        prediction_intervals: PredictionIntervals | None = None,
        resume: str | os.PathLike[str] | None = None,
        resume_with: Mapping[str, Any] | None = None,
        **columns: Any,
    ) -> Forecaster[Any]:
        """Train the model on a table and return the fitted forecaster.

        Args:
            data: a TimeSeriesDataFrame, or any frame that `TimeSeriesDataFrame.from_frame` takes.
            config: how to train; None trains with the model's recipe.
            validation: later rows of the same series to validate on, instead of the last part of `data`; rows that are
                not after the training rows of their series are refused.
            short: what to do with series shorter than input_size + h: refuse, leave out, or pad them.
            prediction_intervals: how a point forecast gets intervals. The model is trained a second time, without the
                last windows, to measure its errors on them.
            resume: "auto" resumes from the newest checkpoint of the run's directory, or starts if there is none; a path
                resumes from that run or checkpoint.
            resume_with: fields of the configuration to change on resume, such as {"max_epochs": 50}.
            columns: arguments of `from_frame` (freq, id_col, ...) when `data` is a plain frame.
        """
        from neuro_divergent.forecasting.fit.fit import fit

        return fit(
            self,
            data,
            config,
            validation=validation,
            short=short,
            prediction_intervals=prediction_intervals,
            resume=resume,
            resume_with=resume_with,
            **columns,
        )

    def num_parameters(self, data: Any = None, config: TrainingConfig | None = None, **columns: Any) -> ParameterCount:
        """The number of parameters of the network: total, trainable and frozen. Nothing is trained.

        Args:
            data: the table to train on, which decides the number of columns and series, or an InputSpec with these
                sizes. None is for a univariate model without further columns.
            config: how to train: its loss decides the number of outputs, its `freeze` decides what is frozen.
            columns: arguments of `from_frame` when `data` is a plain frame.
        """
        from neuro_divergent.forecasting.fit.parameters import num_parameters

        return num_parameters(self, data, config, **columns)

    def search_space(self, config: TrainingConfig | None = None) -> SearchSpace:
        """The default search space of this model: what to vary, and over which values.

        Its own fields lie in it, so a search can begin with them. `space.add(...)` adds a dimension.
        """
        from neuro_divergent.search.space.default_spaces import default_space

        return default_space(self, config)

    def check_table(self, table: TimeSeriesDataFrame) -> None:
        """Refuse a table that this model cannot be trained on. `fit` calls it before the training."""

    def after_fit(self, fitted: Forecaster) -> None:
        """Learn what needs the final weights, such as the correlation of errors between series."""


def _completed(data: Any) -> Any:
    """Plain data of a description, and of the models inside it, with the fields that are newer than the file."""
    if not isinstance(data, Mapping):
        return data
    inside = {key: _completed(value) for key, value in data.items()}
    kind = data.get("kind")
    known = registry.find("model", kind) if isinstance(kind, str) else None
    return inside if known is None else dict(known.before) | inside


def learns_after_fit(model: Model) -> bool:
    """Whether a model learns something from the table after the last step of a training."""
    return type(model).after_fit is not Model.after_fit
