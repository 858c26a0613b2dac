"""neuralforecast's losses: the same names and arguments, each with one of our losses behind it.

Your own loss is a subclass with a `__call__(y, y_hat, mask=None, ...)` that returns the weighted mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from neuro_divergent import losses as ours
from neuro_divergent.compat.neuralforecast.losses.custom import FractionMAPE, FractionSMAPE, ReducedLoss
from neuro_divergent.compat.neuralforecast.losses.parameters import parameter_names
from neuro_divergent.core.errors import ConfigError, UnknownNameError
from neuro_divergent.core.registry import closest
from neuro_divergent.losses import Loss
from neuro_divergent.losses.distribution import Distributional

Outputs = tuple[tuple[str, float | None], ...]
"""Suffixes of a forecast's columns, and the probability of each (None for the point)."""

POINT: Outputs = (("", None),)


class BasePointLoss(nn.Module):
    """Base class of losses; your own loss overrides `__call__`.

    Args:
        horizon_weight: the weight of each step ahead; None for equal weights.
        outputsize_multiplier: number of outputs of the network per step.
        output_names: suffixes of the forecast's columns.
    """

    def __new__(cls, *positional: Any, **named: Any) -> Self:
        """Note what the loss is made from: the file of a model has only that."""
        loss = super().__new__(cls)
        loss.__dict__["constructed_with"] = (positional, named)
        return loss

    def __init__(
        self,
        horizon_weight: Any = None,
        outputsize_multiplier: int | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if horizon_weight is not None:
            horizon_weight = torch.as_tensor(horizon_weight, dtype=torch.get_default_dtype()).flatten()
        self.horizon_weight: Tensor | None = horizon_weight
        self.outputsize_multiplier = outputsize_multiplier or 1
        self.output_names = list(output_names or [""])
        self.is_distribution_output = False

    def _compute_weights(self, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weights of y's shape: the mask, times those of the steps ahead."""
        weights = torch.ones_like(y) if mask is None else mask.to(y.dtype)
        if self.horizon_weight is None:
            return weights
        if len(self.horizon_weight) != y.shape[1]:
            raise ConfigError(
                f"horizon_weight must have one weight per step, {y.shape[1]}, but got {len(self.horizon_weight)}"
            )
        steps: Tensor = self.horizon_weight.to(y).reshape(1, -1, *[1] * (y.ndim - 2))
        return weights * steps

    def describe(self) -> Loss:
        """Our loss for this object, which is called on whole batches."""
        return ReducedLoss(function=self, number_of_outputs=self.outputsize_multiplier)

    def outputs(self) -> Outputs:
        """The columns of a forecast."""
        return tuple((ending, None) for ending in self.output_names[:1])


class _Described(BasePointLoss):
    """A loss with a counterpart here: `description` names it."""

    description: Loss

    def __init__(self, description: Loss, horizon_weight: Any = None) -> None:
        super().__init__(horizon_weight, description.outputs)
        self.description = description

    def __call__(
        self, y: Tensor, y_hat: Tensor, mask: Tensor | None = None, y_insample: Tensor | None = None
    ) -> Tensor:
        """The weighted mean of a batch: y [B, H, C], y_hat the same (with several outputs one more dimension)."""
        from neuro_divergent.core.batch import Batch

        output = y_hat.unsqueeze(-1) if self.description.outputs == 1 else y_hat.reshape(*y.shape, -1)
        context = None if y_insample is None else Batch(y_insample)
        weights = self._compute_weights(y, mask)
        values = self.description.values(output, y, context)
        return self.description.finish((values * weights).sum() / weights.sum().clamp(min=1e-12))

    def describe(self) -> Loss:
        """Our loss, weighted by step if needed; a subclass with its own formula is called instead."""
        if type(self).__call__ is not _Described.__call__:
            return super().describe()
        if self.horizon_weight is None:
            return self.description
        return ours.Weighted(loss=self.description, by="horizon", weights=tuple(self.horizon_weight.tolist()))


class MAE(_Described):
    """Mean absolute error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(ours.MAE(), horizon_weight)


class MSE(_Described):
    """Mean squared error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(ours.MSE(), horizon_weight)


class RMSE(_Described):
    """Root of the mean squared error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(ours.RMSE(), horizon_weight)


class MAPE(_Described):
    """Mean absolute percentage error as a fraction; a target of 0 counts as no error."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(FractionMAPE(), horizon_weight)


class SMAPE(_Described):
    """Symmetric mean absolute percentage error as a fraction, 0 to 2."""

    def __init__(self, horizon_weight: Any = None) -> None:
        super().__init__(FractionSMAPE(), horizon_weight)


class MASE(_Described):
    """Mean absolute error relative to that of the seasonal naive forecast."""

    def __init__(self, seasonality: int, horizon_weight: Any = None) -> None:
        super().__init__(ours.MASE(seasonality=seasonality), horizon_weight)


class relMSE(_Described):  # noqa: N801  (their spelling)
    """Mean squared error relative to the naive one, which is measured on each window: y_train is not needed."""

    def __init__(self, y_train: Any = None, horizon_weight: Any = None) -> None:  # noqa: ARG002
        super().__init__(ours.RelativeMSE(), horizon_weight)


class FreDF(_Described):
    """Errors in time and frequency."""

    def __init__(self, alpha: float = 0.5, horizon_weight: Any = None) -> None:
        super().__init__(ours.FreDF(alpha=alpha), horizon_weight)


class HuberLoss(_Described):
    """Squared near 0, absolute beyond delta."""

    def __init__(self, delta: float = 1.0, horizon_weight: Any = None) -> None:
        super().__init__(ours.Huber(delta=delta), horizon_weight)


class TukeyLoss(_Described):
    """Errors beyond c are outliers. Windows are already scaled, so `normalize` has no effect."""

    def __init__(self, c: float = 4.685, normalize: bool = True) -> None:  # noqa: ARG002
        super().__init__(ours.Tukey(c=c))


class QuantileLoss(_Described):
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


def level_outputs(level: Sequence[float], *, median: bool = True) -> Outputs:
    """Columns of central intervals: the median, then the bounds in increasing order."""
    bounds = sorted(
        [((50 - item / 2) / 100, f"-lo-{item}") for item in level]
        + [((50 + item / 2) / 100, f"-hi-{item}") for item in level]
    )
    middle: Outputs = (("-median", 0.5),) if median else ()
    return middle + tuple((ending, round(share, 12)) for share, ending in bounds)


def quantile_outputs(quantiles: Sequence[float]) -> Outputs:
    """Columns of quantiles, named after the central interval that each bounds."""

    def ending(share: float) -> str:
        if abs(share - 0.5) < 1e-9:
            return "-median"
        side = "lo" if share < 0.5 else "hi"
        return f"-{side}-{round(abs(100 - 200 * share), 2)}"

    return tuple((ending(float(share)), float(share)) for share in quantiles)


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


class _Levelled(_Described):
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


class _Likelihood(_Levelled):
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
        if type(self).__call__ is not _Likelihood.__call__:
            return BasePointLoss.describe(self)
        if self.horizon_weight is None:
            return self.description
        return ours.Weighted(loss=self.description, by="horizon", weights=tuple(self.horizon_weight.tolist()))


class MQLoss(_Levelled):
    """Several quantiles."""

    def __init__(self, level: Any = (80, 90), quantiles: Any = None, horizon_weight: Any = None) -> None:
        super().__init__(ours.MQLoss, level, quantiles, horizon_weight)


class HuberMQLoss(_Levelled):
    """Several quantiles, their corners rounded."""

    def __init__(
        self, level: Any = (80, 90), quantiles: Any = None, delta: float = 1.0, horizon_weight: Any = None
    ) -> None:
        super().__init__(ours.HuberMQLoss, level, quantiles, horizon_weight, delta=delta)


class sCRPS(MQLoss):  # noqa: N801  (their spelling)
    """For validation: the mean quantile loss. On a given set, the scaled score is a fixed multiple of it."""


class DistributionLoss(_Likelihood):
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


class _Mixture(_Likelihood):
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


class PMM(_Mixture):
    """Mixture of Poisson distributions."""

    build = ours.PoissonMixture

    def __init__(self, n_components: int = 10, **arguments: Any) -> None:
        super().__init__(n_components, **arguments)


class GMM(_Mixture):
    """Mixture of normal distributions."""

    build = ours.NormalMixture


class NBMM(_Mixture):
    """Mixture of negative binomial distributions."""

    build = ours.NegativeBinomialMixture


class IQLoss(_Described):
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
        wrapped = _Described(loss)
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
