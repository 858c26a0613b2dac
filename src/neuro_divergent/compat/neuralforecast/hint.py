"""HINT with the arguments of neuralforecast: another model, a summing matrix and the name of a method."""

from __future__ import annotations

from typing import Any

from neuro_divergent.compat.neuralforecast.adapter import MODELS_MODULE, Arguments, PeerModel
from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.models import HINT as OURS


class HINT(PeerModel):
    """A model whose forecasts of a hierarchy are made coherent; any loss works, not only distributions.

    Args:
        h: the horizon, which must be the model's.
        S: the summing matrix, its rows in the sorted order of the series' names, or a frame that names them.
        model: a model of `neuro_divergent.compat.neuralforecast.models`.
        reconciliation: BottomUp, MinTraceOLS, MinTraceWLS or Identity.
        alias: name of the forecast's column.
    """

    def __init__(self, h: int, S: Any, model: PeerModel, reconciliation: str, alias: str | None = None) -> None:
        if not isinstance(model, PeerModel):
            raise ConfigError(f"HINT takes a model such as NHITS(h=..., input_size=...), but got model={model!r}")
        if model.h != h:
            raise ConfigError(f"HINT forecasts with its model, so h must be the model's {model.h}, but got h={h}")
        self.h, self.S, self.model, self.reconciliation, self.alias = h, S, model, reconciliation, alias
        self.input_size, self.loss = model.input_size, model.__dict__["loss"]
        draws = getattr(getattr(self.loss, "description", None), "num_samples", None)
        samples = {} if draws is None else {"samples": draws}
        self.description = OURS(
            model=model.description, S=S, reconciliation=reconciliation, alias=alias, **samples
        )  # fmt: skip
        self.member = Member(self.description, model.member.config, model.member.facts)

    @property
    def hparams(self) -> Arguments:
        """The arguments with their values."""
        return Arguments({name: self.__dict__[name] for name in ("h", "S", "model", "reconciliation", "alias")})


HINT.__module__ = MODELS_MODULE
