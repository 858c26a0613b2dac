"""Optimizers from the pytorch-optimizer package, which is imported when one is built.

Tests compare them step by step with formulas from the papers. A resumed run is bit-exact.
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
    """LAMB (You et al. 2020): Adam steps scaled to the weight norm of each tensor; for large batches.

    The third version of the paper: no bias correction, weight decay inside the update, weight norms of at most 10.
    """

    weight_decay: NotNegative = 0.01
    """Multiple of the weights that is added to each update before scaling."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Decay rates of the first and the second moment of the gradients."""
    eps: Positive = 1e-6
    """Small number that keeps the divisions finite."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.Lamb."""
        # Without adam_debias the library divides the rate by 1 - beta1^t, although the trust ratio already sets the
        # step size. The first step would be ten times too large.
        options: dict[str, Any] = {"weight_decouple": False, "adam_debias": True}
        built: torch.optim.Optimizer = _library("LAMB").Lamb(groups, betas=self.betas, eps=self.eps, **options)
        return built


class AdaBound(Optimizer):
    """AdaBound (Luo et al. 2019): Adam whose per-weight learning rates converge to one final rate.

    At step t the rates lie in final_rate · [1 - 1 / (gamma t + 1), 1 + 1 / (gamma t)]. A schedule scales these bounds,
    too.
    """

    final_rate: Positive = 0.1
    """The final learning rate of all weights; choose it as for SGD."""
    gamma: Positive = 1e-3
    """How fast the bounds converge."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Decay rates of the first and the second moment of the gradients."""
    eps: Positive = 1e-8
    """Small number that keeps the division finite."""
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
    """Lion (Chen et al. 2023): each step is the sign of a momentum. Use a rate 3 to 10 times smaller than for AdamW."""

    learning_rate: Positive = 1e-4
    """Size of every weight's step before the schedule's factor."""
    weight_decay: NotNegative = 0.01
    """Decoupled weight decay: each step subtracts learning rate × this × weight."""
    betas: tuple[Share, Share] = (0.9, 0.99)
    """Weight of the momentum inside the sign, and decay rate of the momentum."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.Lion."""
        built: torch.optim.Optimizer = _library("Lion").Lion(groups, betas=self.betas, weight_decouple=True)
        return built


class ScheduleFreeAdamW(Optimizer):
    """Schedule-free AdamW (Defazio et al. 2024): an average of the weights replaces a decaying schedule.

    Training and evaluation use different weights; see `to_train` and `to_eval`. Use it with a constant schedule.
    """

    learning_rate: Positive = 2.5e-3
    """Step size; larger than for AdamW, because it never decays."""
    weight_decay: NotNegative = 0.01
    """Decoupled weight decay: each step subtracts learning rate × this × weight."""
    betas: tuple[Annotated[float, Field(gt=0, lt=1)], Share] = (0.9, 0.999)
    """Weight of the average in the point where gradients are computed, and decay rate of the squared gradients."""
    eps: Positive = 1e-8
    """Small number that keeps the division finite."""
    warmup_steps: int = Field(default=0, ge=0)
    """Number of steps in which the learning rate rises from zero."""

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

    After every `every` steps of the inner optimizer: slow ← slow + alpha · (weights - slow), then weights ← slow.
    Learning rate, weight decay and groups belong to the inner optimizer; values given here are passed to it.
    """

    inner: Optimizer = Field(default_factory=AdamW)
    """The optimizer that makes the steps."""
    every: int = Field(default=5, ge=1)
    """Steps of the inner optimizer between two steps of the slow weights."""
    alpha: Annotated[float, Field(gt=0, le=1)] = 0.5
    """How far the slow weights move towards the fast ones, as a share of the distance."""

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
                f"Lookahead keeps its own slow weights, so its inner optimizer must not average weights, but got "
                f"inner={inner.kind}. Use another inner optimizer."
            )
        inner = inner.replace(**{name: fields[name] for name in _OF_INNER if name in fields})
        return fields | {"inner": inner} | {name: getattr(inner, name) for name in _OF_INNER}

    def collect(self, module: nn.Module) -> Groups:
        """The parameter groups of the inner optimizer."""
        return self.inner.collect(module)

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """pytorch_optimizer.Lookahead around the inner optimizer."""
        built: torch.optim.Optimizer = _library("Lookahead").Lookahead(
            self.inner.create(groups), k=self.every, alpha=self.alpha, pullback_momentum="none"
        )
        return built
