"""Augmentation: training windows changed at random, the same way for the same (seed, step).

Each step draws which windows it changes (`probability`) and how. Whatever changes the level, the size or the time of
the target's past changes the horizon along with it, so that the window still tells one story. Nothing is ever changed
in place, because batches may be views of the stored series; a batch without a changed window is returned as it is.

Letters: B windows, L lookback, H horizon, C channels, K knots.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.core.seeding import key, numpy_generator, torch_generator

Probability = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
OpenShare = Annotated[float, Field(gt=0, lt=1)]


class Augmentation(Description):
    """Base of all augmentations."""

    family: ClassVar[str] = "augmentation"

    probability: Probability = 0.5
    """Chance of each window to be changed."""

    def apply(self, batch: Batch, seed: int, step: int) -> Batch:
        """The batch with some windows changed; a pure function of the batch, the seed and the step."""
        generator = torch_generator(seed, f"augmentation.{self.kind}", step)
        chosen = torch.rand(batch.size, generator=generator) < self.probability
        if not bool(chosen.any()):
            return batch
        return self._change(batch, chosen.to(batch.y.device), generator)

    @abstractmethod
    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        """Change the windows where `chosen` [B] is true."""


class Jitter(Augmentation):
    """Adds independent normal noise to the observed past; horizon, masks and all other columns stay."""

    sigma: Positive = 0.03
    """Standard deviation of the noise, as a share of each window's own standard deviation."""

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        noise = _normal(batch.y.shape, batch.y, generator) * self.sigma * _spread(batch)
        return batch._replace(y=_keep(batch.y + noise, batch.y, chosen, batch.mask))


class Scaling(Augmentation):
    """Multiplies past and horizon of a window by one number near 1; masks and all other columns stay."""

    sigma: Positive = 0.1
    """Standard deviation of the number's logarithm, so that it is always positive."""

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        factor = (_normal((batch.size, 1, 1), batch.y, generator) * self.sigma).exp()
        return _multiply(batch, factor, factor, chosen)


class MagnitudeWarp(Augmentation):
    """Multiplies past and horizon by one smooth curve around 1; masks and all other columns stay."""

    sigma: Positive = 0.2
    """Standard deviation of the curve's logarithm at its knots."""
    knots: Annotated[int, Field(ge=2, le=1000)] = 4
    """How many knots the curve has, evenly spaced over past and horizon."""

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        L, H = batch.y.shape[1], _horizon(batch)
        knots = _normal((batch.size, 1, self.knots), batch.y, generator) * self.sigma
        curve = _smooth(knots, L + H).exp().transpose(1, 2)
        return _multiply(batch, curve[:, :L], curve[:, L:], chosen)


class WindowSlice(Augmentation):
    """Cuts one stretch out of past and horizon together and spreads it over both: the same story, a little slower.

    Target, masks, future and categorical columns are read at the same stretched steps; historical columns too, and
    hold their last value where those steps lie in the horizon. Static columns stay.
    """

    share: OpenShare = 0.9
    """Length of the stretch as a share of past and horizon."""

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        last = batch.y.shape[1] + _horizon(batch) - 1
        first = torch.rand(batch.size, 1, generator=generator) * (1 - self.share) * last
        return _resample(batch, first + torch.linspace(0, self.share * last, last + 1), chosen)


class WindowWarp(Augmentation):
    """Speeds one stretch of past and horizon up or slows it down, and fits the result into the window again.

    Target, masks, future and categorical columns are read at the same warped steps; historical columns too, and hold
    their last value where those steps lie in the horizon. Static columns stay.
    """

    share: OpenShare = 0.1
    """Length of the stretch as a share of past and horizon."""
    scales: Annotated[Several[Positive], Field(min_length=1)] = default((0.5, 2.0))
    """How many times as long the stretch becomes; one of them is drawn for each window."""

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        last = batch.y.shape[1] + _horizon(batch) - 1
        stretch = self.share * last
        first = torch.rand(batch.size, 1, generator=generator) * (last - stretch)
        scale = torch.tensor(self.scales)[torch.randint(len(self.scales), (batch.size, 1), generator=generator)]
        warped = torch.linspace(0, 1, last + 1) * (last - stretch + stretch * scale)
        inside = ((warped - first) / scale).clamp(0, stretch)
        after = (warped - first - stretch * scale).clamp(min=0)
        return _resample(batch, warped.minimum(first) + inside + after, chosen)


class Mixup(Augmentation):
    """Mixes each chosen window with another of the batch: weight · window + (1 - weight) · other.

    Past, horizon, sample weights, and historical, future and static columns are mixed alike. A value counts as
    observed only where both were. Categorical columns and the window's own number and time stay those of the
    window, which weighs at least a half. The other window's target is brought to this one's level and spread first,
    because a mix with a series a thousand times larger would only be that series.
    """

    alpha: Positive = 0.2
    """Both parameters of the Beta distribution of the weight; the larger half of it is used."""

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        weight = _beta(self.alpha, batch.size, generator).to(batch.y)
        weight = torch.where(chosen, weight.maximum(1 - weight), torch.ones_like(weight))
        other = torch.randperm(batch.size, generator=generator).to(batch.y.device)
        if batch.target is not None:
            batch = _with_mixed_target(batch, weight, other)
        static = None if batch.static is None else _mix(batch.static, batch.static[other], weight)
        future = None if batch.future is None else _mix(batch.future, batch.future[other], weight)
        historical = None if batch.historical is None else _mix(batch.historical, batch.historical[other], weight)
        y, mask = _mix(batch.y, _matched(batch, batch.y, other), weight), batch.mask
        if mask is not None:
            both = mask & (mask[other] | _over(weight == 1, mask))
            y, mask = torch.where(both, y, torch.zeros_like(y)), both
        return batch._replace(y=y, mask=mask, static=static, future=future, historical=historical)


class Masking(Augmentation):
    """Hides some steps of the past: their mask becomes false and their value 0; everything else stays.

    The last step of the lookback is never hidden, so that a window always has something to start from.
    """

    share: OpenShare = 0.1
    """Chance of each step to be hidden."""

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:
        hidden = torch.rand(batch.y.shape, generator=generator).to(batch.y.device) < self.share
        hidden[:, -1] = False
        hidden &= _over(chosen, hidden)
        mask = ~hidden if batch.mask is None else batch.mask & ~hidden
        return batch._replace(y=torch.where(hidden, torch.zeros_like(batch.y), batch.y), mask=mask)


class Compose(Augmentation):
    """Several augmentations, one after the other; `probability` is the chance of a batch to be changed at all."""

    steps: Annotated[Several[Augmentation], Field(min_length=1)]
    """What to apply, in order."""
    probability: Probability = 1.0
    """Chance of a batch to be changed at all; which windows, each step decides by its own probability."""

    def apply(self, batch: Batch, seed: int, step: int) -> Batch:
        """The batch after all steps; equal steps at different places draw differently."""
        draw = torch.rand((), generator=torch_generator(seed, "augmentation.Compose", step))
        if not bool(draw < self.probability):
            return batch
        for place, augmentation in enumerate(self.steps):
            batch = augmentation.apply(batch, key(seed, "augmentation.place", place), step)
        return batch

    def _change(self, batch: Batch, chosen: Tensor, generator: torch.Generator) -> Batch:  # noqa: ARG002
        raise ConfigError("Compose changes batches by its steps. Call apply")


def _normal(shape: tuple[int, ...] | torch.Size, like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator).to(like)


def _beta(alpha: float, size: int, generator: torch.Generator) -> Tensor:
    """[B] draws of Beta(alpha, alpha); torch's own Beta takes no generator."""
    drawn = numpy_generator(generator.initial_seed(), "augmentation.beta").beta(alpha, alpha, size)
    return torch.from_numpy(drawn)


def _over(vector: Tensor, like: Tensor) -> Tensor:
    """[B] as [B, 1, ...] against `like`."""
    return vector.reshape(-1, *(1 for _ in range(like.dim() - 1)))


def _keep(changed: Tensor, original: Tensor, chosen: Tensor, mask: Tensor | None = None) -> Tensor:
    """The changed values of chosen windows where they were observed, the original ones elsewhere."""
    where = _over(chosen, original)
    return torch.where(where if mask is None else where & mask, changed, original)


def _horizon(batch: Batch) -> int:
    return 0 if batch.target is None else batch.target.shape[1]


def _level(batch: Batch) -> Tensor:
    """[B, 1, C] mean of the observed past."""
    if batch.mask is None:
        return batch.y.mean(1, keepdim=True)
    return (batch.y * batch.mask).sum(1, keepdim=True) / batch.mask.sum(1, keepdim=True).clamp(min=1)


def _spread(batch: Batch) -> Tensor:
    """[B, 1, C] standard deviation of the observed past; 0 where it is constant."""
    centred = batch.y - _level(batch)
    centred = centred if batch.mask is None else centred * batch.mask
    reach = centred.abs().amax(1, keepdim=True)
    share = centred / torch.where(reach > 0, reach, torch.ones_like(reach))
    if batch.mask is None:
        return reach * share.square().mean(1, keepdim=True).sqrt()
    return reach * (share.square().sum(1, keepdim=True) / batch.mask.sum(1, keepdim=True).clamp(min=1)).sqrt()


def _multiply(batch: Batch, past: Tensor, horizon: Tensor, chosen: Tensor) -> Batch:
    target = batch.target
    if target is not None:
        target = _keep(target * horizon, target, chosen)
    return batch._replace(y=_keep(batch.y * past, batch.y, chosen), target=target)


def _smooth(knots: Tensor, steps: int) -> Tensor:
    """[B, 1, K] knots as a smooth curve [B, 1, steps] through them (Catmull and Rom's cubic)."""
    K = knots.shape[2]
    padded = torch.cat([2 * knots[..., :1] - knots[..., 1:2], knots, 2 * knots[..., -1:] - knots[..., -2:-1]], dim=2)
    position = torch.linspace(0, K - 1, steps, device=knots.device, dtype=knots.dtype)
    index = position.floor().clamp(max=K - 2).long()
    t = position - index
    before, left, right, after = (padded[..., index + shift] for shift in range(4))
    slope_left, slope_right = (right - before) / 2, (after - left) / 2
    cubic = 2 * left - 2 * right + slope_left + slope_right
    square = -3 * left + 3 * right - 2 * slope_left - slope_right
    return ((cubic * t + square) * t + slope_left) * t + left


def _resample(batch: Batch, steps: Tensor, chosen: Tensor) -> Batch:
    """Past and horizon read at fractional steps [B, L+H]: numbers by straight lines, masks and codes at the nearest.

    A value between an observed and a missing step is the observed one if that is nearer, and missing otherwise.
    """
    L, last = batch.y.shape[1], batch.y.shape[1] + _horizon(batch) - 1
    steps = steps.to(batch.y).clamp(0, last)
    nearest = steps.round().long()
    y, mask = _joined(batch)
    changed = _lines(y, steps)
    if mask is not None:
        seen = _at(mask, nearest)
        whole = _at(mask, steps.floor().long()) & _at(mask, steps.ceil().long())
        changed = torch.where(whole, changed, torch.where(seen, _at(y, nearest), 0.0))
        mask = _keep(seen, mask, chosen)
    y = _keep(changed, y, chosen)

    def read(values: Tensor | None, at: Callable[[Tensor], Tensor]) -> Tensor | None:
        return None if values is None else _keep(at(values), values, chosen)

    return batch._replace(
        y=y[:, :L],
        mask=None if mask is None else mask[:, :L],
        target=None if batch.target is None else y[:, L:],
        target_mask=None if mask is None or batch.target is None else mask[:, L:],
        historical=read(batch.historical, lambda values: _lines(values, steps[:, :L].clamp(max=L - 1))),
        future=read(batch.future, lambda values: _lines(values, steps)),
        categorical=read(batch.categorical, lambda codes: _at(codes, nearest)),
        weight=read(batch.weight, lambda values: _at(values, nearest[:, L:].clamp(min=L) - L)),
    )


def _joined(batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Past and horizon as one: values [B, L+H, C], and their mask where either has one."""
    if batch.target is None:
        return batch.y, batch.mask
    y = torch.cat([batch.y, batch.target], dim=1)
    if batch.mask is None and batch.target_mask is None:
        return y, None
    past = torch.ones_like(batch.y, dtype=torch.bool) if batch.mask is None else batch.mask
    future = torch.ones_like(batch.target, dtype=torch.bool) if batch.target_mask is None else batch.target_mask
    return y, torch.cat([past, future], dim=1)


def _lines(values: Tensor, steps: Tensor) -> Tensor:
    left = steps.floor()
    part = _over_steps(steps - left, values)
    return torch.lerp(_at(values, left.long()), _at(values, steps.ceil().long()), part.to(values))


def _over_steps(steps: Tensor, values: Tensor) -> Tensor:
    """[B, L] as [B, L, 1, ...] against `values`."""
    return steps.reshape(*steps.shape, *(1 for _ in range(values.dim() - 2)))


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(1, _over_steps(index, values).expand(-1, -1, *values.shape[2:]))


def _mix(values: Tensor, others: Tensor, weight: Tensor) -> Tensor:
    # lerp from the window to the other keeps an unchosen window (weight 1) bit for bit.
    return torch.lerp(values, others, (1 - _over(weight, values)).to(values))


def _matched(batch: Batch, values: Tensor, other: Tensor) -> Tensor:
    """Other windows' values at this window's level and spread."""
    level, spread = _level(batch), _spread(batch)
    # A constant window has no shape to mix in: only its level, which is then this window's own.
    usable = spread[other] > 1e-6 * (level[other].abs() + spread[other])
    shape = (values[other] - level[other]) / torch.where(usable, spread[other], torch.ones_like(spread))
    return torch.where(usable, shape * spread, 0.0) + level


def _with_mixed_target(batch: Batch, weight: Tensor, other: Tensor) -> Batch:
    assert batch.target is not None
    target = _mix(batch.target, _matched(batch, batch.target, other), weight)
    importance = None if batch.weight is None else _mix(batch.weight, batch.weight[other], weight)
    counts = batch.target_mask
    if counts is not None:
        counts = counts & (counts[other] | _over(weight == 1, counts))
        target = torch.where(counts, target, torch.zeros_like(target))
    return batch._replace(target=target, weight=importance, target_mask=counts)
