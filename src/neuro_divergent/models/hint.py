"""HINT: any model on a hierarchy of series, its forecasts reconciled so that children sum to their parents."""

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
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.predict.error_factors import learn_factors, with_factors
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.reconciliation import Reconciliation, reconciliation
from neuro_divergent.training.config.training_config import TrainingConfig

log = logging.getLogger(__name__)

_SHARED = ("h", "input_size", "scaler", "anchor", "sees_target")


class _OfTheModel:
    """The capabilities of a description are those of the model in it; the class itself can have any."""

    def __get__(self, instance: HINT | None, owner: type[HINT]) -> Capabilities:
        return _ANY if instance is None else instance.model.capabilities


_ANY = Capabilities(future=True, historical=True, static=True, categorical=True)


class HINT(Model):
    """A model trained on all series of a hierarchy, whose forecasts are then made coherent in the data's own units.

    The network is the model's, trained as the model alone would be. Point forecasts are projected; with a loss that
    gives probabilities, draws from the forecasts of all series are projected one by one, and the quantiles are those of
    the coherent draws. The paper's draws are of one mixture for all series; here any loss will do, and the draws of
    different series go together as their errors at the end of the training data did.

    `forward`, `explain` and exported programs see single windows: they give what the network says before it is
    reconciled.
    """

    capabilities: ClassVar[Capabilities] = _OfTheModel()  # type: ignore[assignment]  # a constant elsewhere
    paper: ClassVar[str] = (
        "Olivares, Luo, Challu, La Vattiata, Mergenthaler & Dubrawski (2023), "
        "HINT: Hierarchical mixture networks for coherent probabilistic forecasting"
    )

    h: Annotated[int, Field(ge=1)] = 0
    """How many steps ahead are forecast; the model's unless given."""
    input_size: Annotated[int, Field(ge=1)] = 0
    """How many past steps the network sees; the model's unless given."""
    model: Model
    """The model that makes the base forecasts. Its h, input_size, scaler, anchor and sees_target are HINT's: give them
    to either."""
    S: Annotated[Hierarchy, BeforeValidator(Hierarchy.read)]
    """Which series are sums of which: what `nd.aggregate` gives, a summing matrix with its rows in the sorted order of
    the series' names, or a frame or dict that names the rows."""
    reconciliation: Literal["BottomUp", "MinTraceOLS", "MinTraceWLS", "Identity"] = "MinTraceWLS"
    """BottomUp sums the bottom forecasts. MinTraceOLS finds the nearest coherent forecasts; MinTraceWLS too, but gives
    each series the row sum of S as its variance (structural scaling). Identity changes nothing."""
    samples: Annotated[int, Field(ge=1)] = 1000
    """How many coherent draws stand behind quantiles and intervals."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: Any) -> Any:
        """What HINT and its model share may be given to either."""
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
            raise ConfigError("HINT reconciles the forecasts of another model, but got model=HINT(...)")
        for name in _SHARED:
            own, inner = getattr(self, name), getattr(self.model, name)
            if own != inner:
                raise ConfigError(
                    f"HINT forecasts with the model in it, so {name} must be the model's, but got {name}={own!r} and "
                    f"model.{name}={inner!r}. Give it to one of them"
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
        """What is done to the forecasts of all series together."""
        return reconciliation(self.S, self.reconciliation, self.samples)

    def build(self, spec: InputSpec) -> nn.Module:
        """The network of the model, with room for how the errors of the series go together."""
        return with_factors(self.model.build(spec), len(self.S.rows))

    def recipe(self, windows: int) -> TrainingConfig:
        """The model's."""
        return self.model.recipe(windows)

    def replace(self, **fields: Any) -> Self:
        """A copy with some fields changed; what HINT and its model share is changed in both."""
        model = fields.get("model", self.model)
        shared = {name: fields[name] for name in _SHARED if name in fields}
        if isinstance(model, Model):
            model = model.replace(**shared) if shared else model
            fields |= {name: getattr(model, name) for name in _SHARED} | {"model": model}
        return super().replace(**fields)

    def check_table(self, table: TimeSeriesDataFrame) -> None:
        """The table must have just the series of S."""
        order = self.S.positions(table.ids)
        wrong = "" if self.joint is None else self.joint.other_order(table, order)
        if wrong:  # no error yet: series that were scaled one by one do not sum up here, but they will again
            log.warning(wrong)

    def after_fit(self, fitted: Forecaster) -> None:
        """Learn how the errors of the series go together."""
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
