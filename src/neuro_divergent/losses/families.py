"""Distribution families whose parameters are raw network outputs, [..., P]: one distribution per element.

An affine change of units gives raw parameters of the same family. A positive parameter is softplus(raw). To rescale it,
the inverse of softplus gives the new raw value; this is computed with logarithms, so that nothing underflows. Unscaled
outputs are therefore ordinary outputs again: every method accepts them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from neuro_divergent.losses.numeric import (
    betainc,
    invert_continuous,
    invert_discrete,
    normal_draws,
    uniform_draws,
)
from neuro_divergent.losses.stable import inverse_log_softplus, log_softplus, rescale_softplus

Units = Literal["scaled", "original"]


class Family(ABC):
    """Base class of distributions. The last dimension of `raw` has the raw parameters."""

    units: Units = "scaled"
    support: tuple[float, float] = (-math.inf, math.inf)
    """The lowest and the highest value that the distribution can take."""
    outputs: int
    plain: bool = False
    """Whether the network's outputs are the raw parameters in any units: softplus leaves a large mean as it is."""

    def values(self, raw: Tensor, target: Tensor) -> Tensor:
        """The training loss per element: the negative log-likelihood unless a family overrides it."""
        return -self.log_prob(raw, target)

    @abstractmethod
    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """Logarithm of the density or probability."""

    @abstractmethod
    def unscale(self, raw: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Raw parameters of the same distribution in original units."""

    def natural(self, raw: Tensor, size: Tensor | None, floor: float) -> Tensor:
        """Raw parameters, with the network's outputs read in units of `size` and every spread at least `floor` of it.

        A network gives numbers of the size of its window. A spread of size·softplus(raw / size) is of that size too,
        where softplus(raw) would be e⁻³⁰⁰ for a window of hundreds.
        """
        if self.plain:
            return raw
        if size is None:
            return self.lifted(raw, floor)
        scaled = self.lifted(raw / size, floor)
        return self.unscale(scaled, torch.zeros_like(scaled[..., :1]), size.expand_as(scaled[..., :1]))

    def lifted(self, raw: Tensor, floor: float) -> Tensor:  # noqa: ARG002
        """Raw parameters whose spread is larger by `floor`; as they are for a family without a spread."""
        return raw

    @abstractmethod
    def mean(self, raw: Tensor) -> Tensor:
        """The expected value."""

    @abstractmethod
    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """One draw per element."""

    def sample(self, raw: Tensor, number: int, generator: torch.Generator | None) -> Tensor:
        """Independent draws for every element, [..., P] → [number, ...]."""
        return self.draw(raw.expand(number, *raw.shape), generator)

    @abstractmethod
    def quantile(self, raw: Tensor, levels: Tensor) -> Tensor:
        """Values at levels, [..., P] → [..., n]; called with float64 on the CPU, outside any gradient."""


class Invertible(Family):
    """A family with a cdf, whose quantiles are found by inverting it."""

    discrete: bool = False

    @abstractmethod
    def cdf(self, raw: Tensor, value: Tensor) -> Tensor:
        """Probability of at most this value."""

    @abstractmethod
    def bracket(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Two values that contain most of the probability. The search for a quantile starts from them."""

    def quantile(self, raw: Tensor, levels: Tensor) -> Tensor:
        """The values where the cdf reaches the levels, found by a search in blocks of elements."""
        blocks = torch.split(raw.reshape(-1, self.outputs), 1024)
        return torch.cat([self._inverted(block, levels) for block in blocks]).reshape(*raw.shape[:-1], levels.shape[-1])

    def _inverted(self, raw: Tensor, levels: Tensor) -> Tensor:
        rows = raw[..., None, :]
        low, high = (bound[..., None] for bound in self.bracket(raw))
        wide = levels.expand(*low.shape[:-1], levels.shape[-1])
        invert = invert_discrete if self.discrete else invert_continuous
        return invert(lambda x: self.cdf(rows, x), lambda x: self.log_prob(rows, x).exp(), wide, low, high)


class Normal(Invertible):
    """Raw parameters (mean, spread): standard deviation softplus(spread)."""

    outputs = 2

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """The log-density. The standard deviation is at least e⁻³⁰, so that nothing overflows."""
        mean, log_scale = raw[..., 0], scale_of(raw[..., 1])
        z = (value - mean) * torch.exp(-log_scale)
        return -0.5 * z.square() - log_scale - 0.5 * math.log(2 * math.pi)

    def lifted(self, raw: Tensor, floor: float) -> Tensor:
        """A deviation larger by `floor`."""
        return lift(raw, floor, spread=1)

    def unscale(self, raw: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Mean and standard deviation in original units."""
        return affine(raw, location, scale, mean=0, spread=1)

    def mean(self, raw: Tensor) -> Tensor:
        """The first parameter."""
        return raw[..., 0]

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """Mean plus deviation times a standard normal draw."""
        return raw[..., 0] + torch.exp(scale_of(raw[..., 1])) * normal_draws(raw[..., 0], generator)

    def cdf(self, raw: Tensor, value: Tensor) -> Tensor:
        """Φ((value - mean) / deviation)."""
        reached: Tensor = torch.special.ndtr((value - raw[..., 0]) * torch.exp(-scale_of(raw[..., 1])))
        return reached

    def bracket(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Four standard deviations on each side of the mean."""
        width = 4 * torch.exp(scale_of(raw[..., 1]))
        return raw[..., 0] - width, raw[..., 0] + width

    def quantile(self, raw: Tensor, levels: Tensor) -> Tensor:
        """Closed form."""
        standard: Tensor = torch.special.ndtri(levels)
        return raw[..., :1] + torch.exp(scale_of(raw[..., 1:2])) * standard


class StudentT(Invertible):
    """Raw parameters (freedom, mean, spread): 2 + softplus(freedom) degrees of freedom, scale softplus(spread)."""

    outputs = 3

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """The log-density."""
        freedom, mean, log_scale = 2 + F.softplus(raw[..., 0]), raw[..., 1], scale_of(raw[..., 2])
        z = (value - mean) * torch.exp(-log_scale)
        constant = torch.lgamma((freedom + 1) / 2) - torch.lgamma(freedom / 2) - 0.5 * torch.log(math.pi * freedom)
        return constant - log_scale - (freedom + 1) / 2 * torch.log1p(z.square() / freedom)

    def lifted(self, raw: Tensor, floor: float) -> Tensor:
        """A scale larger by `floor`."""
        return lift(raw, floor, spread=2)

    def unscale(self, raw: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Mean and scale in original units; the degrees of freedom stay the same."""
        return affine(raw, location, scale, mean=1, spread=2)

    def mean(self, raw: Tensor) -> Tensor:
        """The second parameter."""
        return raw[..., 1]

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """The polar method of two uniform draws (Bailey 1994). No draw depends on the parameters of another."""
        freedom = 2 + F.softplus(raw[..., 0])
        uniform = uniform_draws(freedom, generator).clamp(min=torch.finfo(freedom.dtype).eps / 4)
        radius = torch.expm1(-2 / freedom * torch.log(uniform))
        turn = torch.cos(2 * math.pi * uniform_draws(freedom, generator))
        return raw[..., 1] + torch.exp(scale_of(raw[..., 2])) * torch.sqrt(freedom * radius) * turn

    def cdf(self, raw: Tensor, value: Tensor) -> Tensor:
        """Through the incomplete beta function."""
        freedom = 2 + F.softplus(raw[..., 0])
        z = (value - raw[..., 1]) * torch.exp(-scale_of(raw[..., 2]))
        half = torch.full_like(freedom, 0.5)
        inner = 0.5 * betainc(half, freedom / 2, z.square() / (freedom + z.square()))
        return 0.5 + torch.sign(z) * inner

    def bracket(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Four scales on each side of the mean."""
        width = 4 * torch.exp(scale_of(raw[..., 2]))
        return raw[..., 1] - width, raw[..., 1] + width


def scale_of(spread: Tensor) -> Tensor:
    """Logarithm of softplus(spread), at least -30."""
    return log_softplus(spread).clamp(min=-30.0)


def affine(raw: Tensor, location: Tensor, scale: Tensor, *, mean: int, spread: int) -> Tensor:
    """Raw parameters in other units: `mean` is scaled and shifted, `spread` is scaled, the others stay the same."""
    parts = list(torch.split(raw, 1, dim=-1))
    parts[mean] = parts[mean] * scale + location
    parts[spread] = rescale_softplus(parts[spread], scale)
    return torch.cat(parts, dim=-1)


def lift(raw: Tensor, floor: float, *, spread: int) -> Tensor:
    """Raw parameters with `floor` added to the softplus of one of them."""
    parts = list(torch.split(raw, 1, dim=-1))
    lowest = torch.full_like(parts[spread], math.log(floor))
    parts[spread] = inverse_log_softplus(torch.logaddexp(log_softplus(parts[spread]), lowest))
    return torch.cat(parts, dim=-1)


class Mixture(Invertible):
    """Mixture of K components of one family. Raw parameters: K logits, then each parameter of K components.

    Without `weighted` there are no logits, and every component has the weight 1/K.
    """

    def __init__(self, component: Invertible, components: int, *, weighted: bool = True) -> None:
        self.component, self.components, self.weighted = component, components, weighted
        self.outputs = components * (int(weighted) + component.outputs)
        self.units, self.discrete, self.support = component.units, component.discrete, component.support
        self.plain = component.plain

    def joint_log_prob(self, raw: Tensor, value: Tensor, seen: Tensor) -> Tensor:
        """[B, C] the log-density of a whole horizon [B, H, C] whose steps come from one and the same component.

        The weight of a component is the mean of its weights at the steps. Steps that are not `seen` do not count.
        """
        logits, rows = self._parts(raw)
        counted = seen.to(raw.dtype)[..., None]
        logs = (self.component.log_prob(rows, value[..., None]) * counted).sum(dim=1)
        return torch.logsumexp(logs + torch.softmax(logits, dim=-1).mean(dim=1).log(), dim=-1)

    def log_prob(self, raw: Tensor, value: Tensor) -> Tensor:
        """Logarithm of the weighted sum of densities, by logsumexp."""
        logits, rows = self._parts(raw)
        return torch.logsumexp(F.log_softmax(logits, dim=-1) + self.component.log_prob(rows, value[..., None]), dim=-1)

    def lifted(self, raw: Tensor, floor: float) -> Tensor:
        """Every component with a spread larger by `floor`."""
        logits, rows = self._parts(raw)
        return self._joined(logits, self.component.lifted(rows, floor))

    def unscale(self, raw: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        """Every component in original units; the mixture weights stay the same."""
        logits, rows = self._parts(raw)
        return self._joined(logits, self.component.unscale(rows, location[..., None], scale[..., None]))

    def mean(self, raw: Tensor) -> Tensor:
        """Weighted mean of the components' means."""
        logits, rows = self._parts(raw)
        return (torch.softmax(logits, dim=-1) * self.component.mean(rows)).sum(dim=-1)

    def draw(self, raw: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw a component, then a value from it."""
        logits, rows = self._parts(raw)
        edges = torch.softmax(logits, dim=-1).cumsum(dim=-1)
        chosen = (uniform_draws(edges[..., :1], generator) > edges).sum(dim=-1).clamp(max=self.components - 1)
        index = chosen[..., None, None].expand(*chosen.shape, 1, self.component.outputs)
        return self.component.draw(torch.gather(rows, -2, index)[..., 0, :], generator)

    def cdf(self, raw: Tensor, value: Tensor) -> Tensor:
        """Weighted mean of the components' cdfs."""
        logits, rows = self._parts(raw)
        return (torch.softmax(logits, dim=-1) * self.component.cdf(rows, value[..., None])).sum(dim=-1)

    def bracket(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """From the lowest to the highest bound of all components."""
        low, high = self.component.bracket(self._parts(raw)[1])
        return low.amin(dim=-1), high.amax(dim=-1)

    def _parts(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        if not self.weighted:
            own = raw.reshape(*raw.shape[:-1], self.component.outputs, self.components)
            return torch.zeros_like(own[..., 0, :]), own.transpose(-1, -2)
        parts = raw.reshape(*raw.shape[:-1], 1 + self.component.outputs, self.components)
        return parts[..., 0, :], parts[..., 1:, :].transpose(-1, -2)

    def _joined(self, logits: Tensor, rows: Tensor) -> Tensor:
        own = rows.transpose(-1, -2).flatten(-2)
        return torch.cat([logits, own], dim=-1) if self.weighted else own
