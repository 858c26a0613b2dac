"""Distribution families in the data's own units: counts, Bernoulli, and Tweedie (zeros and positive values)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from neuro_divergent.core import seeding
from neuro_divergent.losses.families import Family, Invertible, Units
from neuro_divergent.losses.numeric import betainc, gamma_draws, uniform_draws
from neuro_divergent.losses.probability_levels import interpolate
from neuro_divergent.losses.stable import inverse_log_softplus, inverse_softplus, log_softplus


class Positive(Family):
    """Base of families with a positive mean, softplus(first raw parameter), computed in the data's own units.

    Negative targets are refused before the training. A masked target may have any value; the formulas take it as 0.
    """

    units: Units = "original"
    support = (0.0, math.inf)

    def unscale(self, raw: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Raw parameters whose mean is scale·softplus(raw + s), with s such that raw = 0 gives the window's location.

        If the location is not positive, s is 0.
        """
        ratio = location / scale
        start = inverse_softplus(torch.where(ratio > 0, ratio.clamp(min=0.01), math.log(2)))
        log_mean = log_softplus(raw[..., :1] + start) + torch.log(scale)
        return torch.cat([inverse_log_softplus(log_mean), raw[..., 1:]], dim=-1)

    def mean(self, raw: Tensor) -> Tensor:
        """The mean, above 0."""
        return torch.exp(self._log_mean(raw))

    def _log_mean(self, raw: Tensor) -> Tensor:
        return log_softplus(raw[..., 0])


class Count(Positive, Invertible):
    """Base of families of whole numbers from 0."""

    discrete = True

    def bracket(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """A little more than four standard deviations on each side of the mean; at least -1, below every count."""
        mean, width = self.mean(raw), 4 * torch.sqrt(self._variance(raw)) + 8
        return (mean - width).clamp(min=-1), mean + width

    def _variance(self, raw: Tensor) -> Tensor:
        return self.mean(raw)


class Poisson(Count):
    """Raw parameter (rate): mean softplus(rate)."""

    outputs = 1
    plain = True

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """The log-probability; the gamma function extends it to fractional values."""
        value = value.clamp(min=0)
        log_mean = self._log_mean(raw)
        return value * log_mean - torch.exp(log_mean) - torch.lgamma(value + 1)

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """A Poisson draw."""
        return torch.poisson(self.mean(raw), generator=generator)

    def cdf(self, raw: Tensor, value: Tensor) -> Tensor:
        """The upper regularised incomplete gamma function."""
        reached: Tensor = torch.special.gammaincc(value + 1, self.mean(raw))
        return reached


class NegativeBinomial(Count):
    """Raw parameters (rate, dispersion): mean m = softplus(rate), variance m + a·m² with a = softplus(dispersion) + ε.

    ε is 1e-4.
    """

    outputs = 2

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """The log-probability; the gamma function extends it to fractional values."""
        value = value.clamp(min=0)
        count = 1 / self._dispersion(raw)
        logit = self._log_mean(raw) - torch.log(count)
        ways = torch.lgamma(value + count) - torch.lgamma(count) - torch.lgamma(value + 1)
        return ways + value * F.logsigmoid(logit) + count * F.logsigmoid(-logit)

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """A Poisson draw whose rate is a gamma draw."""
        dispersion = self._dispersion(raw)
        rate = gamma_draws(1 / dispersion, generator) * dispersion * self.mean(raw)
        return torch.poisson(rate, generator=generator)

    def cdf(self, raw: Tensor, value: Tensor) -> Tensor:
        """Through the incomplete beta function."""
        dispersion = self._dispersion(raw)
        return betainc(1 / dispersion, value + 1, 1 / (1 + dispersion * self.mean(raw)))

    def _dispersion(self, raw: Tensor) -> Tensor:
        return F.softplus(raw[..., 1]) + 1e-4

    def _variance(self, raw: Tensor) -> Tensor:
        mean = self.mean(raw)
        return mean + self._dispersion(raw) * mean.square()


class Bernoulli(Family):
    """Raw parameter (logit): probability of 1 is sigmoid(logit). Targets lie between 0 and 1."""

    units: Units = "original"
    support = (0.0, 1.0)
    outputs = 1
    plain = True

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """The negative binary cross entropy."""
        return -F.binary_cross_entropy_with_logits(raw[..., 0], value.clamp(0, 1), reduction="none")

    def unscale(self, raw: Tensor, location: Tensor, scale: Tensor) -> Tensor:  # noqa: ARG002
        """Shifted logits: raw = 0 gives the window's share of ones, unless that share is 0 or 1."""
        share = torch.where((location > 0) & (location < 1), location, 0.5)
        return raw + torch.logit(share)

    def mean(self, raw: Tensor) -> Tensor:
        """The probability of 1."""
        return torch.sigmoid(raw[..., 0])

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """0 or 1."""
        return (uniform_draws(raw[..., 0], generator) < self.mean(raw)).to(raw.dtype)

    def quantile(self, raw: Tensor, levels: Tensor) -> Tensor:
        """1 where the level exceeds the probability of 0."""
        return (levels > torch.sigmoid(-raw)).to(raw.dtype)


class Tweedie(Positive):
    """Raw parameter (rate): mean m = softplus(rate), variance m^rho, 1 < rho < 2: zeros and gamma-like values.

    The training value is the part of the negative log-likelihood that depends on the mean, with dispersion 1:
    m^(2 - rho) / (2 - rho) + y·m^(1 - rho) / (rho - 1). Draws are sums of a Poisson number of gamma draws, and
    quantiles come from draws under a fixed seed.
    """

    outputs = 1
    plain = True

    def __init__(self, rho: float, num_samples: int) -> None:
        self.rho, self.num_samples = rho, num_samples

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """The log-likelihood without the terms that do not depend on the mean."""
        log_mean = self._log_mean(raw).clamp(min=-60.0)
        gain = value.clamp(min=0) * torch.exp((1 - self.rho) * log_mean) / (1 - self.rho)
        return gain - torch.exp((2 - self.rho) * log_mean) / (2 - self.rho)

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """A compound Poisson-gamma draw."""
        mean = self.mean(raw)
        number = torch.poisson(mean ** (2 - self.rho) / (2 - self.rho), generator=generator)
        shape = number * (2 - self.rho) / (self.rho - 1)
        return gamma_draws(shape, generator) * (self.rho - 1) * mean ** (self.rho - 1)

    def quantile(self, raw: Tensor, levels: Tensor) -> Tensor:
        """Order statistics of draws; computed in blocks of elements."""
        generator = seeding.torch_generator(0, "quantiles of draws")
        known = [(i + 0.5) / self.num_samples for i in range(self.num_samples)]
        flat = raw.reshape(-1, self.outputs)
        blocks = []
        for block in torch.split(flat, max(1, 2_000_000 // self.num_samples)):
            draws = self.draw(block.expand(self.num_samples, *block.shape), generator)
            blocks.append(interpolate(draws.sort(dim=0).values.movedim(0, -1), known, levels))
        return torch.cat(blocks).reshape(*raw.shape[:-1], levels.shape[-1])
