"""The parameters of a distribution as columns of a forecast (return_params=True).

Letters: B windows, H steps, C channels, P parameters, K components.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.losses import Loss, Weighted
from neuro_divergent.losses.counts import Bernoulli, NegativeBinomial, Poisson
from neuro_divergent.losses.distribution import Distributional
from neuro_divergent.losses.families import Family, Mixture, Normal, StudentT

_NAMES: dict[type[Family], tuple[str, ...]] = {
    Bernoulli: ("-logits",),
    Normal: ("-loc", "-scale"),
    Poisson: ("-loc",),
    StudentT: ("-df", "-loc", "-scale"),
    NegativeBinomial: ("-total_count", "-logits"),
}
_OF_COMPONENTS: dict[type[Family], tuple[str, ...]] = {
    Normal: ("-mu", "-std"),
    Poisson: ("-lambda",),
    NegativeBinomial: ("-total_count", "-probs"),
}


def parameter_names(loss: Loss) -> tuple[str, ...]:
    """Endings of the columns of a distribution's parameters; those of a mixture component by component."""
    family = _family(loss)
    if isinstance(family, Mixture):
        own = _OF_COMPONENTS[type(family.component)] + (("-weight",) if family.weighted else ())
        return tuple(f"{name}-{number}" for number in range(1, family.components + 1) for name in own)
    if type(family) not in _NAMES:
        raise ConfigError(
            f"the parameters of {type(family).__name__} have no columns, but got return_params=True. Use level or "
            "quantiles"
        )
    return _NAMES[type(family)]


def parameters(loss: Loss, output: Tensor) -> Tensor:
    """[B, H, C, P] the parameters of outputs in original units, in the order of their names."""
    family = _family(loss)
    if not isinstance(family, Mixture):
        return torch.stack(_of_family(family, output), dim=-1)
    logits, rows = family._parts(output)
    own = _of_family(family.component, rows)
    if isinstance(family.component, NegativeBinomial):
        own[1] = torch.sigmoid(own[1])
    if family.weighted:
        own.append(torch.softmax(logits, dim=-1))
    return torch.stack(own, dim=-1).flatten(-2)


def _of_family(family: Family, raw: Tensor) -> list[Tensor]:
    match family:
        case Normal():
            return [raw[..., 0], F.softplus(raw[..., 1])]
        case StudentT():
            return [2 + F.softplus(raw[..., 0]), raw[..., 1], F.softplus(raw[..., 2])]
        case NegativeBinomial():
            count = 1 / family._dispersion(raw)
            return [count, torch.log(family.mean(raw)) - torch.log(count)]
        case Poisson():
            return [family.mean(raw)]
        case _:
            return [raw[..., 0]]


def _family(loss: Loss) -> Family:
    while isinstance(loss, Weighted):
        loss = loss.loss
    assert isinstance(loss, Distributional)
    return loss.distribution_family


@dataclass(frozen=True)
class WithParameters(Columns):
    """Columns of a forecast whose last ones are the parameters of its distribution."""

    number: int = 0
    """How many parameters there are."""

    def compute(self, module: ForecastModule, batch: Batch) -> Tensor:
        """The columns for a batch, [B, H, C, columns], in original units."""
        others = Columns(self.names[: -self.number], self.levels[: -self.number], self.shows)
        return torch.cat([others.compute(module, batch), parameters(module.loss, module(batch))], dim=-1)


def with_parameters(columns: Columns, name: str, loss: Loss) -> WithParameters:
    """The columns, followed by those of the parameters."""
    endings = parameter_names(loss)
    names = (*columns.names, *(f"{name}{ending}" for ending in endings))
    levels = (*columns.levels, *(None for _ in endings))
    return WithParameters(names, levels, columns.shows, number=len(endings))
