"""Losses that forecast a distribution. They are trained on its likelihood; CRPS and ISQF on the CRPS."""

# ruff: noqa: ARG002  (every loss has the same signature, whatever its formula needs)

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor

from neuro_divergent.core import registry
from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.losses.base import Point, check_shapes
from neuro_divergent.losses.counts import Bernoulli, NegativeBinomial, Poisson, Tweedie
from neuro_divergent.losses.families import Family, Invertible, Mixture, Normal, StudentT, Units, scale_of
from neuro_divergent.losses.probability_levels import Levelled, uncrossed
from neuro_divergent.losses.spline import SplineQuantile

DistributionName = Literal["Normal", "StudentT", "Poisson", "NegativeBinomial", "Bernoulli", "Tweedie", "ISQF"]

_OTHER_NAMES = {"gaussian": "Normal", "studentst": "StudentT", "negbinomial": "NegativeBinomial"}


def _our_name(value: Any) -> Any:
    """The name of a distribution as it is spelt here; "Gaussian" is the normal one, and case does not matter."""
    known = {registry.normalise(name): name for name in get_args(DistributionName)} | _OTHER_NAMES
    return known.get(registry.normalise(value), value) if isinstance(value, str) else value


class Distributional(Levelled):
    """Base of losses that forecast a distribution. The point forecast is its mean, or with point="median" its median.

    Location-scale families are computed on scaled windows. Counts are computed in original units, where an output of 0
    means the window's location, so that training starts near the data.
    """

    family = "loss"  # repeated, so that this base class is not registered

    own_point: ClassVar[Point] = "mean"

    floor: float = Field(default=1e-4, ge=0, lt=1)
    """The smallest spread of a forecast, as a share of the window's spread; of its size (the root of its mean square)
    where windows are not scaled, whose outputs are then read in units of that size. With 0 the network's outputs are
    the parameters as they are, and a spread may become so small that the likelihood overflows."""

    @property
    @abstractmethod
    def distribution_family(self) -> Family:
        """The family behind the raw outputs."""

    @property
    def units(self) -> Units:  # type: ignore[override]  # a constant of the class elsewhere, of the family here
        """Scaled, or original for counts."""
        return self.distribution_family.units

    @property
    def support(self) -> tuple[float, float]:
        """The range of values that the distribution can take."""
        return self.distribution_family.support

    @property
    def outputs(self) -> int:
        """The number of raw parameters."""
        return self.distribution_family.outputs

    @property
    def probabilistic(self) -> bool:
        """A distribution has every quantile."""
        return True

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced negative log-likelihoods (CRPS for the spline quantile function)."""
        check_shapes(output, target, self.outputs)
        return self.distribution_family.values(output, target)

    def natural(self, output: Tensor, size: Tensor | None) -> Tensor:
        """Raw parameters in units of the window, the spread above its floor."""
        return self.distribution_family.natural(output, size, self.floor) if self.floor else output

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Raw parameters of the distribution in original units. Every method accepts them like network outputs."""
        return self.distribution_family.unscale(output, location, scale)

    def mean(self, output: Tensor) -> Tensor:
        """The mean."""
        return self.distribution_family.mean(output)

    def median(self, output: Tensor) -> Tensor:
        """The quantile at level one half."""
        return self.quantiles(output, output.new_tensor([0.5]))[..., 0]

    @torch.no_grad()
    def quantiles(self, output: Tensor, levels: Tensor) -> Tensor:
        """Quantiles, computed in float64: exact, but from draws for Tweedie."""
        asked = levels.detach().to("cpu", torch.float64)
        found = self.distribution_family.quantile(output.detach().to("cpu", torch.float64), asked)
        return uncrossed(found.to(output.device, output.dtype), levels)

    @torch.no_grad()
    def sample(self, output: Tensor, number: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent draws for every element, computed in float64 on the generator's device."""
        device = torch.device("cpu") if generator is None else generator.device
        raw = output.detach().to(device, torch.float64)
        return self.distribution_family.sample(raw, number, generator).to(output.device, output.dtype)


class DistributionLoss(Distributional):
    """Negative log-likelihood of a distribution, one per target value (for ISQF its CRPS, as in the paper)."""

    distribution: Takes[
        Annotated[DistributionName, BeforeValidator(_our_name)], DistributionName | Literal["Gaussian"]
    ] = default("Normal")
    """Normal (or "Gaussian"), StudentT (heavy tails), Poisson or NegativeBinomial (counts), Bernoulli (0 or 1), Tweedie
    (zeros and positive values), or ISQF (a free quantile function with exponential tails). Counts and Tweedie need
    targets of at least 0, Bernoulli needs targets between 0 and 1; `fit` refuses a table with other targets."""

    num_samples: int = Field(default=1000, ge=1)
    """Number of draws for quantiles without a closed form (Tweedie), and the default number of sample paths."""

    rho: float | None = Field(default=None, gt=1, lt=2)
    """Tweedie only: the variance is mean^rho; 1.5 when None."""

    num_pieces: int | None = Field(default=None, ge=1)
    """ISQF only: number of linear pieces between two levels; 5 when None."""

    @model_validator(mode="after")
    def _fields_of_the_distribution(self) -> Self:
        if self.rho is not None and self.distribution != "Tweedie":
            raise ConfigError(f"rho belongs to the Tweedie distribution, but got distribution={self.distribution!r}")
        if self.num_pieces is not None and self.distribution != "ISQF":
            raise ConfigError(f"num_pieces belongs to ISQF, but got distribution={self.distribution!r}")
        if self.distribution == "ISQF" and len(self.levels) < 2:
            raise ConfigError(f"ISQF needs at least 2 quantiles as its knots, but got {self.levels}")
        return self

    @property
    def distribution_family(self) -> Family:
        """The family behind the raw outputs."""
        if self.distribution == "ISQF":
            return _spline(self.levels, self.num_pieces or 5)
        if self.distribution == "Tweedie":
            return Tweedie(self.rho or 1.5, self.num_samples)
        return _INVERTIBLE.get(self.distribution, _BERNOULLI)


_BERNOULLI = Bernoulli()
_INVERTIBLE: dict[str, Invertible] = {
    "Normal": Normal(),
    "StudentT": StudentT(),
    "Poisson": Poisson(),
    "NegativeBinomial": NegativeBinomial(),
}


@lru_cache(maxsize=64)
def _spline(knots: tuple[float, ...], pieces: int) -> SplineQuantile:
    return SplineQuantile(knots, pieces)


class _MixtureLoss(Distributional):
    components: int = Field(default=3, ge=1)
    """Number of mixture components. Each horizon step has its own parameters."""

    num_samples: int = Field(default=1000, ge=1)
    """The default number of sample paths."""

    weighted: bool = True
    """Whether the network gives the weights of the components; without it they are equal."""

    horizon_correlation: bool = False
    """Whether all steps of a window come from the same component: the likelihood is that of the whole horizon.
    Quantiles and draws of a step are not changed by it."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced negative log-likelihoods; with `horizon_correlation` equal shares of that of the horizon."""
        if not self.horizon_correlation:
            return super().values(output, target, context)
        check_shapes(output, target, self.outputs)
        family = self.distribution_family
        assert isinstance(family, Mixture)
        seen = torch.ones_like(target, dtype=torch.bool)
        if context is not None and context.target_mask is not None:
            seen = context.target_mask.bool().expand_as(target)
        steps = seen.sum(dim=1).clamp(min=1)
        return (-family.joint_log_prob(output, target, seen) / steps).unsqueeze(1).expand(target.shape)


class NormalMixture(_MixtureLoss):
    """Negative log-likelihood of a mixture of normal distributions."""

    @property
    def distribution_family(self) -> Family:
        """The mixture behind the raw outputs."""
        return _mixture("Normal", self.components, self.weighted)


class PoissonMixture(_MixtureLoss):
    """Negative log-likelihood of a mixture of Poisson distributions."""

    @property
    def distribution_family(self) -> Family:
        """The mixture behind the raw outputs."""
        return _mixture("Poisson", self.components, self.weighted)


class NegativeBinomialMixture(_MixtureLoss):
    """Negative log-likelihood of a mixture of negative binomial distributions."""

    @property
    def distribution_family(self) -> Family:
        """The mixture behind the raw outputs."""
        return _mixture("NegativeBinomial", self.components, self.weighted)


@lru_cache(maxsize=64)
def _mixture(name: Literal["Normal", "Poisson", "NegativeBinomial"], components: int, weighted: bool) -> Mixture:
    return Mixture(_INVERTIBLE[name], components, weighted=weighted)


class CRPS(Distributional):
    """Continuous ranked probability score of a normal forecast: σ·(z·(2Φ(z) - 1) + 2φ(z) - 1/√π), z = (y - μ)/σ.

    It is the probabilistic form of MAE, in the data's units, and less sensitive to outliers than the likelihood. For a
    score without the normal assumption use DistributionLoss(distribution="ISQF") or MQLoss.
    """

    @property
    def distribution_family(self) -> Family:
        """The normal family."""
        return _INVERTIBLE["Normal"]

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        """Unreduced scores, closed form (Gneiting & Raftery 2007)."""
        check_shapes(output, target, self.outputs)
        scale = torch.exp(scale_of(output[..., 1]))
        error = target - output[..., 0]
        z = error / scale
        density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
        below: Tensor = torch.special.ndtr(z)
        return error * (2 * below - 1) + scale * (2 * density - 1 / math.sqrt(math.pi))


GMM = NormalMixture
PMM = PoissonMixture
NBMM = NegativeBinomialMixture


def as_written(loss: Any) -> Any:
    """A loss in a file, as it was meant: distributions without a floor took the network's outputs as they were."""
    if not isinstance(loss, dict) or not isinstance(loss.get("kind"), str):
        return loss
    if "loss" in loss:
        return loss | {"loss": as_written(loss["loss"])}
    cls = registry.find("loss", loss["kind"])
    return {"floor": 0.0} | loss if cls is not None and issubclass(cls, Distributional) else loss
