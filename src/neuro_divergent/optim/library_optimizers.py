"""Optimizers that torch does not have, from the pytorch-optimizer package, imported when one is built.

Checked step by step against transcriptions of the papers in the tests; resuming is bit-exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Annotated, Any

import torch
from pydantic import Field, model_validator
from torch import nn

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.optim.optimizers import AdamW, Groups, NotNegative, Optimizer, Positive, Share


def _library(purpose: str) -> ModuleType:
    return require("pytorch_optimizer", extra="optimizers", purpose=purpose)


class LAMB(Optimizer):
    """LAMB (You et al. 2020): Adam steps scaled, tensor by tensor, to the norm of the weights; for large batches.

    The paper's third version: no bias correction, decay inside the update, weight norms counted up to 10.
    """

    weight_decay: NotNegative = 0.01
    """Share of the weights that is added to each update before it is scaled."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Memory of the mean and of the square of the gradients."""
    eps: Positive = 1e-6
    """Keeps the divisions finite."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.Lamb."""
        # Without adam_debias the library divides the rate by 1 - beta1^t although the trust ratio has already fixed the
        # step's length, which makes the first step ten times too long.
        options: dict[str, Any] = {"weight_decouple": False, "adam_debias": True}
        built: torch.optim.Optimizer = _library("LAMB").Lamb(groups, betas=self.betas, eps=self.eps, **options)
        return built


class AdaBound(Optimizer):
    """AdaBound (Luo et al. 2019): Adam whose per-weight rates are squeezed towards one final rate.

    At step t the rates lie in final_rate · [1 - 1 / (gamma t + 1), 1 + 1 / (gamma t)]; the schedule scales the bounds
    with the rate.
    """

    final_rate: Positive = 0.1
    """The rate, as of SGD, that all weights end at."""
    gamma: Positive = 1e-3
    """How fast the bounds close."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Memory of the mean and of the square of the gradients."""
    eps: Positive = 1e-8
    """Keeps the division finite."""
    amsbound: bool = False
    """Whether to divide by the largest second moment seen so far."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.AdaBound."""
        options: dict[str, Any] = {"final_lr": self.final_rate, "gamma": self.gamma, "ams_bound": self.amsbound}
        built: torch.optim.Optimizer = _library("AdaBound").AdaBound(
            groups, betas=self.betas, eps=self.eps, weight_decouple=False, **options
        )
        return built


class Lion(Optimizer):
    """Lion (Chen et al. 2023): steps of the sign of a momentum. Rates are 3 to 10 times smaller than AdamW's."""

    learning_rate: Positive = 1e-4
    """Size of every weight's step before the schedule's factor."""
    weight_decay: NotNegative = 0.01
    """Share of the weights, times the rate, that is taken off at each step."""
    betas: tuple[Share, Share] = (0.9, 0.99)
    """Mix of momentum and gradient in the sign, and memory of the momentum."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.Lion."""
        built: torch.optim.Optimizer = _library("Lion").Lion(groups, betas=self.betas, weight_decouple=True)
        return built


class ScheduleFreeAdamW(Optimizer):
    """Schedule-free AdamW (Defazio et al. 2024): an average of the weights takes the place of a falling schedule.

    Training and evaluation use different weights: see `to_train` and `to_eval`. Use it with a constant schedule.
    """

    learning_rate: Positive = 2.5e-3
    """Step size; higher than AdamW's, because it never falls."""
    weight_decay: NotNegative = 0.01
    """Share of the weights, times the rate, that is taken off at each step."""
    betas: tuple[Annotated[float, Field(gt=0, lt=1)], Share] = (0.9, 0.999)
    """Mix of average and newest weights at which gradients are taken, and memory of the squared gradients."""
    eps: Positive = 1e-8
    """Keeps the division finite."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps in which the rate rises from zero."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.ScheduleFreeAdamW."""
        options: dict[str, Any] = {"eps": self.eps, "warmup_steps": self.warmup_steps}
        free = _library("ScheduleFreeAdamW").ScheduleFreeAdamW
        built: torch.optim.Optimizer = free(groups, betas=self.betas, **options)
        return built


_OF_INNER = ("learning_rate", "weight_decay", "groups", "decay_all")


def _as_mapping(inner: Any) -> Mapping[str, Any]:
    if isinstance(inner, str):
        return {"kind": inner}
    if isinstance(inner, Mapping) and "kind" in inner:
        return inner
    raise ConfigError(f"inner must be an optimizer, its name or its JSON object, but got inner={inner!r}")


class Lookahead(Optimizer):
    """Lookahead (Zhang et al. 2019) around another optimizer.

    Every `every` steps of the inner optimizer, slow ← slow + alpha · (weights - slow), and the weights go on from
    there. Rate, decay and groups are the inner optimizer's; given here, they are handed on to it.
    """

    inner: Optimizer = Field(default_factory=AdamW)
    """The optimizer that makes the steps."""
    every: int = Field(default=5, ge=1)
    """Steps of the inner optimizer between two steps of the slow weights."""
    alpha: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the way that the slow weights go."""

    @model_validator(mode="before")
    @classmethod
    def _share_with_inner(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        inner = fields.get("inner", AdamW())
        if not isinstance(inner, Optimizer):
            inner = Optimizer.from_dict(_as_mapping(inner))
        if isinstance(inner, Lookahead | ScheduleFreeAdamW):
            raise ConfigError(
                f"Lookahead keeps slow weights of its own, so it cannot go around {inner.kind}, but got "
                f"inner={inner.kind}. Use another inner optimizer."
            )
        inner = inner.replace(**{name: fields[name] for name in _OF_INNER if name in fields})
        return fields | {"inner": inner} | {name: getattr(inner, name) for name in _OF_INNER}

    def collect(self, module: nn.Module) -> Groups:
        """The inner optimizer's groups."""
        return self.inner.collect(module)

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.Lookahead around the inner optimizer."""
        built: torch.optim.Optimizer = _library("Lookahead").Lookahead(
            self.inner.create(groups), k=self.every, alpha=self.alpha, pullback_momentum="none"
        )
        return built
