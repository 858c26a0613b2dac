"""neuralforecast's losses: the same names and arguments, each with one of our losses behind it.

Your own loss is a subclass with a `__call__(y, y_hat, mask=None, ...)` that returns the weighted mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_divergent import losses as ours
from neuro_divergent.compat.neuralforecast.losses.base import (
    BasePointLoss,
    Described,
    Outputs,
    quantile_outputs,
)
from neuro_divergent.compat.neuralforecast.losses.custom import FractionMAPE, FractionSMAPE, ReducedLoss
from neuro_divergent.compat.neuralforecast.losses.levels import Levelled, Likelihood, Mixture
from neuro_divergent.core.errors import ConfigError, UnknownNameError
from neuro_divergent.core.registry import closest
from neuro_divergent.losses import Loss


class MAE(Described):
    """Mean absolute error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(ours.MAE(), horizon_weight)


class MSE(Described):
    """Mean squared error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(ours.MSE(), horizon_weight)


class RMSE(Described):
    """Root of the mean squared error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(ours.RMSE(), horizon_weight)


class MAPE(Described):
    """Mean absolute percentage error as a fraction; a target of 0 counts as no error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(FractionMAPE(), horizon_weight)


class SMAPE(Described):
    """Symmetric mean absolute percentage error as a fraction, 0 to 2."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(FractionSMAPE(), horizon_weight)


class MASE(Described):
    """Mean absolute error relative to that of the seasonal naive forecast."""

    def __init__(self, seasonality: int, horizon_weight: Any = None) -> None:
        super().__init__(ours.MASE(seasonality=seasonality), horizon_weight)


class relMSE(Described):  # noqa: N801  (their spelling)
    """Mean squared error relative to the naive one, which is measured on each window: y_train is not needed."""

    def __init__(self, y_train: Any = None, horizon_weight: Any = None) -> None:  # noqa: ARG002
        super().__init__(ours.RelativeMSE(), horizon_weight)


class FreDF(Described):
    """Errors in time and frequency."""

    def __init__(self, alpha: float = 0.5, horizon_weight: Any = None) -> None:
        super().__init__(ours.FreDF(alpha=alpha), horizon_weight)


class HuberLoss(Described):
    """Squared near 0, absolute beyond delta."""

    def __init__(self, delta: float = 1.0, horizon_weight: Any = None) -> None:
        super().__init__(ours.Huber(delta=delta), horizon_weight)


class TukeyLoss(Described):
    """Errors beyond c are outliers. Windows are already scaled, so `normalize` has no effect."""

    def __init__(self, c: float = 4.685, normalize: bool = True) -> None:  # noqa: ARG002
        super().__init__(ours.Tukey(c=c))


class QuantileLoss(Described):
    """One quantile."""

    def __init__(self, q: float, horizon_weight: Any = None) -> None:
        super().__init__(ours.Quantile(q=q), horizon_weight)
        self.q = q
        self.output_names = [f"_ql{q}"]

    def outputs(self) -> Outputs:
        """The quantile is the forecast."""
        return ((f"_ql{self.q}", None),)


class HuberQLoss(QuantileLoss):
    """One quantile, its corner rounded."""

    def __init__(self, q: float, delta: float = 1.0, horizon_weight: Any = None) -> None:
        super().__init__(q, horizon_weight)
        self.description = ours.HuberQuantile(q=q, delta=delta)


class MQLoss(Levelled):
    """Several quantiles."""

    def __init__(self, level: Any = (80, 90), quantiles: Any = None, horizon_weight: Any = None) -> None:
        super().__init__(ours.MQLoss, level, quantiles, horizon_weight)


class HuberMQLoss(Levelled):
    """Several quantiles, their corners rounded."""

    def __init__(
        self, level: Any = (80, 90), quantiles: Any = None, delta: float = 1.0, horizon_weight: Any = None
    ) -> None:
        super().__init__(ours.HuberMQLoss, level, quantiles, horizon_weight, delta=delta)


class sCRPS(MQLoss):  # noqa: N801  (their spelling)
    """For validation: the mean quantile loss. On a given set, the scaled score is a fixed multiple of it."""


class DistributionLoss(Likelihood):
    """Likelihood of a distribution. With `return_params` the forecast has its parameters as columns."""

    def __init__(
        self,
        distribution: str,
        level: Any = (80, 90),
        quantiles: Any = None,
        num_samples: int = 1000,
        return_params: bool = False,
        horizon_weight: Any = None,
        **distribution_kwargs: Any,
    ) -> None:
        fields = {"distribution": distribution, "num_samples": num_samples} | distribution_kwargs
        super().__init__(ours.DistributionLoss, level, quantiles, horizon_weight, **fields)
        self.distribution, self.num_samples = distribution, num_samples
        self._return_params(return_params)


class PMM(Mixture):
    """Mixture of Poisson distributions."""

    build = ours.PoissonMixture

    def __init__(self, n_components: int = 10, **arguments: Any) -> None:
        super().__init__(n_components, **arguments)


class GMM(Mixture):
    """Mixture of normal distributions."""

    build = ours.NormalMixture


class NBMM(Mixture):
    """Mixture of negative binomial distributions."""

    build = ours.NegativeBinomialMixture


class IQLoss(Described):
    """Any quantile: the level is an input of the network. Levels are drawn uniformly: concentrations are refused."""

    def __init__(
        self,
        cos_embedding_dim: int = 64,
        concentration0: float = 1.0,
        concentration1: float = 1.0,
        horizon_weight: Any = None,
    ) -> None:
        _even(concentration0, concentration1)
        super().__init__(ours.ImplicitQuantile(frequencies=cos_embedding_dim), horizon_weight)
        self.update_quantile([0.5])

    def update_quantile(self, q: Sequence[float] = (0.5,)) -> None:
        """The quantile that a forecast gives if none is requested."""
        self.q = float(q[0])
        self.updated = [self.q]
        self.output_names = [f"_ql{self.q}"]

    def outputs(self) -> Outputs:
        """The quantile."""
        return ((f"_ql{self.q}", self.q),)


class HuberIQLoss(IQLoss):
    """Any quantile, the corner rounded."""

    def __init__(
        self,
        cos_embedding_dim: int = 64,
        concentration0: float = 1.0,
        concentration1: float = 1.0,
        delta: float = 1.0,
        horizon_weight: Any = None,
    ) -> None:
        super().__init__(cos_embedding_dim, concentration0, concentration1, horizon_weight)
        self.description = ours.HuberImplicitQuantile(frequencies=cos_embedding_dim, delta=delta)


class Accuracy(BasePointLoss):
    """Share of forecasts that are the actual class, for evaluation: it has no gradient.

    As `valid_loss` it is replaced by the training loss: the share changes in jumps, and larger is better.
    """

    def __call__(
        self,
        y: Tensor,
        y_hat: Tensor,
        y_insample: Tensor | None = None,  # noqa: ARG002
        mask: Tensor | None = None,
    ) -> Tensor:
        """The weighted share."""
        weights = torch.ones_like(y_hat) if mask is None else mask.to(y_hat.dtype)
        return ((y == y_hat).to(y_hat.dtype) * weights).mean()


def _even(*concentrations: float) -> None:
    if any(value != 1.0 for value in concentrations):
        raise ConfigError(f"levels are drawn uniformly, so concentrations must be 1.0, but got {concentrations}")


def as_peer_loss(loss: Any) -> BasePointLoss:
    """The loss for any accepted value: None is MAE, a class is its default, our losses and functions are wrapped."""
    if loss is None:
        return MAE()
    if isinstance(loss, str):
        return _by_name(loss)
    if isinstance(loss, type) and issubclass(loss, BasePointLoss):
        return loss()
    if isinstance(loss, BasePointLoss):
        return loss
    if isinstance(loss, Loss):
        wrapped = Described(loss)
        if loss.probabilistic:
            endings = quantile_outputs(loss.levels)
            wrapped.outputs = lambda: endings  # type: ignore[method-assign]
        return wrapped
    if callable(loss):
        own = BasePointLoss()
        own.describe = lambda: ReducedLoss(function=loss)  # type: ignore[method-assign]
        return own
    raise ConfigError(f"loss must be a loss such as MAE(), but got {loss!r}")


def _by_name(name: str) -> BasePointLoss:
    if name not in __all__:
        near = closest(name, __all__) or __all__
        raise UnknownNameError(f"there is no loss named {name!r}; did you mean {' or '.join(near)}?")
    found: BasePointLoss = globals()[name]()
    return found


def as_loss(loss: Any) -> Loss:
    """Our loss behind one of theirs."""
    return as_peer_loss(loss).describe()


__all__ = [
    "GMM",
    "MAE",
    "MAPE",
    "MASE",
    "MSE",
    "NBMM",
    "PMM",
    "RMSE",
    "SMAPE",
    "Accuracy",
    "BasePointLoss",
    "DistributionLoss",
    "FreDF",
    "HuberIQLoss",
    "HuberLoss",
    "HuberMQLoss",
    "HuberQLoss",
    "IQLoss",
    "MQLoss",
    "QuantileLoss",
    "TukeyLoss",
    "relMSE",
    "sCRPS",
]
