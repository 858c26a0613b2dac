"""HINT: any model on a hierarchy of series, with forecasts reconciled so that children sum to their parents."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from torch import nn

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.hierarchy.hierarchy import Hierarchy
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Capabilities, LagsField, Model
from neuro_divergent.forecasting.predict.error_factors import learn_factors, with_factors
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.reconciliation import Reconciliation, reconciliation
from neuro_divergent.training.config.training_config import TrainingConfig

log = logging.getLogger(__name__)

_SHARED = ("h", "input_size", "scaler", "anchor", "sees_target")


class _OfTheModel:
    """Descriptor: an instance has the capabilities of its inner model; the class has all capabilities."""

    def __get__(self, instance: HINT | None, owner: type[HINT]) -> Capabilities:
        return _ANY if instance is None else instance.model.capabilities


_ANY = Capabilities(future=True, historical=True, static=True, categorical=True)


class HINT(Model):
    """A model trained on all series of a hierarchy. Its forecasts are reconciled (made coherent) in original units.

    The network is that of the inner model, trained in the same way. Point forecasts are projected. With a probabilistic
    loss, samples from the forecasts of all series are projected one by one, and quantiles are computed from the
    coherent samples. The paper samples from one mixture for all series. Here any probabilistic loss works, and samples
    of different series are correlated as their errors were at the end of the training data.

    `forward`, `explain` and exported programs read single windows: they return forecasts before the reconciliation.
    """

    capabilities: ClassVar[Capabilities] = _OfTheModel()  # type: ignore[assignment]  # a constant elsewhere
    paper: ClassVar[str] = (
        "Olivares, Luo, Challu, La Vattiata, Mergenthaler & Dubrawski (2023), "
        "HINT: Hierarchical mixture networks for coherent probabilistic forecasting"
    )

    h: Annotated[int, Field(ge=1)] = 0
    """Number of steps to forecast; by default that of the model."""
    input_size: Annotated[int, Field(ge=1)] = 0
    """Number of past steps that the network reads; by default that of the model."""
    model: Model
    """The model that makes the base forecasts. Its h, input_size, scaler, anchor and sees_target are HINT's: give them
    to either."""
    S: Annotated[Hierarchy, BeforeValidator(Hierarchy.read)]
    """The hierarchy: the one that `nd.aggregate` returns, a summing matrix whose rows are in the sorted order of the
    series' names, or a frame or dict with the names of the rows."""
    reconciliation: Literal["BottomUp", "MinTraceOLS", "MinTraceWLS", "Identity"] = "MinTraceWLS"
    """BottomUp sums the bottom forecasts. MinTraceOLS finds the nearest coherent forecasts. MinTraceWLS does the same
    with the row sum of S as the variance of each series (structural scaling). Identity changes nothing."""
    samples: Annotated[int, Field(ge=1)] = 1000
    """Number of coherent samples for quantiles and intervals."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: Any) -> Any:
        """Copy the fields that HINT and its model share from one to the other."""
        if not isinstance(fields, Mapping):
            return fields
        inner = fields.get("model")
        if isinstance(inner, str):
            inner = {"kind": inner}
        if isinstance(inner, Mapping):
            inner = Model.from_dict({name: fields[name] for name in _SHARED if name in fields} | dict(inner))
        if not isinstance(inner, Model):
            return fields
        return {name: getattr(inner, name) for name in _SHARED} | dict(fields) | {"model": inner}

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if isinstance(self.model, HINT):
            raise ConfigError("model must be another model than HINT, but got model=HINT(...)")
        for name in _SHARED:
            own, inner = getattr(self, name), getattr(self.model, name)
            if own != inner:
                raise ConfigError(
                    f"HINT forecasts with the model in it, so {name} must be the model's, but got {name}={own!r} and "
                    f"model.{name}={inner!r}. Set it in one of them"
                )
        return self

    @classmethod
    def examples(cls) -> tuple[HINT, ...]:
        """Small descriptions for the conformance matrix: one series at a time, and all at once."""
        from neuro_divergent.models.nhits import NHITS
        from neuro_divergent.models.tsmixer import TSMixer

        family = {"series-0": [1, 1], "series-1": [1, 0], "series-2": [0, 1]}
        small = NHITS(h=4, input_size=12, hidden_sizes=(32, 32))
        return cls(model=small, S=family), cls(model=TSMixer(h=4, input_size=12, hidden_size=16, dropout=0.1), S=family)

    @cached_property
    def joint(self) -> Reconciliation | None:
        """The reconciliation of the forecasts of all series; None for Identity."""
        return reconciliation(self.S, self.reconciliation, self.samples)

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network of the model, with a buffer for the correlations of the series' errors."""
        return with_factors(self.model.build(spec), len(self.S.rows))

    def recipe(self, windows: int) -> TrainingConfig:
        """Return the training recipe of the model."""
        return self.model.recipe(windows)

    def replace(self, **fields: Any) -> Self:
        """Return a copy with some fields changed. Fields that HINT and its model share are changed in both."""
        model = fields.get("model", self.model)
        shared = {name: fields[name] for name in _SHARED if name in fields}
        if isinstance(model, Model):
            model = model.replace(**shared) if shared else model
            fields |= {name: getattr(model, name) for name in _SHARED} | {"model": model}
        return super().replace(**fields)

    @property
    def lags_read(self) -> LagsField:
        """Lags of the target that the model reads."""
        return self.model.lags_read

    @property
    def feeds_back(self) -> bool:
        """Whether the model reads its own forecasts."""
        return self.model.feeds_back

    def lags_of(self, seasons: tuple[int, ...], windows: int) -> tuple[int, ...]:
        """The lags of the model in data with these seasons and so many training windows."""
        return self.model.lags_of(seasons, windows)

    def calendar_read(self, freq: str) -> tuple[str, ...]:
        """Columns of the calendar that the model reads."""
        return self.model.calendar_read(freq)

    def decided(self, lags: tuple[int, ...]) -> Self:
        """The same with these lags of the model, and no columns of the calendar beside the table's."""
        return self.replace(model=self.model.decided(lags))

    def check_table(self, table: TimeSeriesDataFrame) -> None:
        """Check that the table has exactly the series of S."""
        order = self.S.positions(table.ids)
        wrong = "" if self.joint is None else self.joint.other_order(table, order)
        if wrong:  # no error: series that were scaled one by one do not sum up here, but do so in original units
            log.warning(wrong)

    def after_fit(self, fitted: Forecaster) -> None:
        """Estimate the correlations of the series' errors."""
        learn_factors(self._unreconciled(fitted), self.S.positions(fitted.data.ids))

    def _unreconciled(self, fitted: Forecaster) -> Forecaster:
        """The same weights without the reconciliation."""
        return Forecaster(
            model=self.replace(reconciliation="Identity"),
            config=fitted.config,
            module=fitted.module,
            data=fitted.data,
            history=fitted.history,
            anchor=fitted.anchor,
        )
