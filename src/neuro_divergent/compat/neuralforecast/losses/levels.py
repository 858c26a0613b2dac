"""Losses with levels or quantiles: of several outputs, of a distribution, and of a mixture."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from neuro_divergent import losses as ours
from neuro_divergent.compat.neuralforecast.losses.base import (
    POINT,
    BasePointLoss,
    Described,
    Outputs,
    level_outputs,
    quantile_outputs,
)
from neuro_divergent.compat.neuralforecast.losses.parameters import parameter_names
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import Loss
from neuro_divergent.losses.distribution import Distributional


def _once(values: Any, what: str) -> Any:
    """Values without those that are repeated, to twelve digits; a warning names them."""
    if values is None:
        return None
    found = {round(float(value), 12): value for value in reversed(list(values))}
    if len(found) == len(list(values)):
        return values
    warnings.warn(f"Duplicate {what} are left out: got {len(list(values))}, {len(found)} of them different.",
                  UserWarning, stacklevel=4)  # fmt: skip
    return [found[key] for key in sorted(found)]


class Levelled(Described):
    """Losses with levels or quantiles."""

    with_point: ClassVar[bool] = False
    """Whether the forecast has a column for the mean before those of the levels."""

    def __init__(
        self, build: Callable[..., Loss], level: Any, quantiles: Any, horizon_weight: Any = None, **fields: Any
    ) -> None:
        level, quantiles = _once(level, "levels"), _once(quantiles, "quantiles")
        asked = {"quantiles": tuple(quantiles)} if quantiles is not None else {"level": tuple(level)}
        super().__init__(build(**asked, **fields), horizon_weight)
        own = quantile_outputs(quantiles) if quantiles is not None else level_outputs(level)
        self._outputs = (POINT if self.with_point else ()) + own
        self.output_names = [ending for ending, _ in self._outputs]
        self.quantiles = nn.Parameter(torch.tensor([share for _, share in own]), requires_grad=False)
        self.is_distribution_output = self.with_point

    def outputs(self) -> Outputs:
        """The requested levels or quantiles."""
        return self._outputs


class Likelihood(Levelled):
    """Losses of a distribution, which can also be computed from its parameters."""

    with_point = True
    return_params = False
    param_names: list[str]

    def _return_params(self, asked: bool) -> None:
        """Note whether the forecast has the parameters of the distribution as its last columns."""
        self.return_params = asked
        self.param_names = list(parameter_names(self.description)) if asked else []
        self.output_names = self.output_names + self.param_names

    def scale_decouple(self, output: Any, loc: Tensor | None = None, scale: Tensor | None = None) -> tuple[Tensor, ...]:
        """The raw parameters of the distribution in the units of the target, from those of scaled windows.

        Args:
            output: the raw parameters, each [B, H, 1].
            loc: the location of each window, [B, 1, 1]; None for 0.
            scale: the scale of each window; None for 1.
        """
        raw = torch.stack([part.squeeze(-1) for part in output], dim=-1)
        place = torch.zeros_like(raw[..., :1]) if loc is None else loc.expand_as(raw[..., :1])
        width = torch.ones_like(raw[..., :1]) if scale is None else scale.expand_as(raw[..., :1])
        natural = self._loss.unscale(self._loss.natural(raw, None), place, width)
        return tuple(natural.unsqueeze(-2).unbind(-1))

    def update_quantile(self, q: Sequence[float] | None = None) -> None:
        """Forecast other quantiles; the training does not change."""
        self.updated = q
        own = quantile_outputs(sorted({*(q or ()), 0.5}))
        self._outputs = POINT + own
        self.output_names = [ending for ending, _ in self._outputs] + self.return_params * self.param_names
        self.quantiles = nn.Parameter(torch.tensor([share for _, share in own]), requires_grad=False)

    @property
    def _loss(self) -> Distributional:
        assert isinstance(self.description, Distributional)
        return self.description

    def __call__(self, y: Tensor, distr_args: Any, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """The weighted mean of the negative log-likelihood; distr_args as `scale_decouple` gives them."""
        raw = torch.stack([part.squeeze(-1) for part in distr_args], dim=-1).unsqueeze(-2)
        weights = self._compute_weights(y, mask)
        return (self._loss.values(raw, y) * weights).sum() / weights.sum().clamp(min=1e-12)

    def describe(self) -> Loss:
        """Our loss, weighted by step if needed."""
        if type(self).__call__ is not Likelihood.__call__:
            return BasePointLoss.describe(self)
        if self.horizon_weight is None:
            return self.description
        return ours.Weighted(loss=self.description, by="horizon", weights=tuple(self.horizon_weight.tolist()))


class Mixture(Likelihood):
    """Mixtures of one kind of distribution."""

    build: ClassVar[Callable[..., Loss]]

    def __init__(
        self,
        n_components: int = 1,
        level: Any = (80, 90),
        quantiles: Any = None,
        num_samples: int = 1000,
        return_params: bool = False,
        batch_correlation: bool = False,
        horizon_correlation: bool = False,
        weighted: bool = False,
    ) -> None:
        if batch_correlation:
            raise ConfigError(
                f"{type(self).__name__} is the likelihood of each window by itself, so that it does not depend on the "
                "other windows of a batch, but got batch_correlation=True. Use horizon_correlation=True"
            )
        super().__init__(
            type(self).build, level, quantiles, components=n_components, num_samples=num_samples, weighted=weighted,
            horizon_correlation=horizon_correlation,
        )  # fmt: skip
        self.n_components, self.num_samples, self.weighted = n_components, num_samples, weighted
        self.batch_correlation, self.horizon_correlation = batch_correlation, horizon_correlation
        self._return_params(return_params)
