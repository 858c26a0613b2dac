"""Optimizers: descriptions that build torch's optimizers for the trainable parameters of a module.

Every group of a built optimizer has "names" (parallel to "params") and "initial_lr", which `set_rate` multiplies.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import nn

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import OneOrSeveral, default
from neuro_divergent.optim.groups import ParameterGroup, parameter_groups
from neuro_divergent.optim.without_compiler import light, without_compiler

Groups = list[dict[str, Any]]
"""The parameter groups of torch's constructors: one dictionary per group."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above zero."""

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number, zero or above."""

Share = Annotated[float, Field(ge=0, lt=1)]
"""A number in [0, 1)."""

Fused = Literal["auto"] | bool
"""Whether to use torch's fused kernel: "auto" uses it where device and parameters allow it."""

_FUSED_DEVICES = {"cpu", "cuda", "mps", "xpu"}


class Optimizer(Description):
    """Base class of all optimizers. A subclass adds its fields and `create`."""

    family: ClassVar[str] = "optimizer"

    learning_rate: Positive = 1e-3
    """Learning rate, which the schedule multiplies."""
    weight_decay: NotNegative = 0.0
    """Weight decay. By default biases, normalisations and embeddings are not decayed."""
    groups: OneOrSeveral[ParameterGroup] = default(())
    """Learning rates and weight decays for some parameters, chosen by name pattern."""
    decay_all: bool = False
    """Whether biases, normalisations and embeddings are decayed, too."""

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        """The torch optimizer for the module's trainable parameters.

        >>> type(AdamW(learning_rate=3e-4).build(nn.Linear(2, 1))).__name__
        'AdamW'
        """
        with without_compiler():
            created = self.create(self.collect(module))
        if not isinstance(created, torch.optim.Optimizer):
            raise ConfigError(f"create(groups) returns a torch optimizer, but that of {self.kind} returned {created!r}")
        return remember_start(created)

    def collect(self, module: nn.Module) -> Groups:
        """The module's trainable parameters in groups, with "names", "lr", "weight_decay" and "initial_lr"."""
        return parameter_groups(module, self.learning_rate, self.weight_decay, self.groups, self.decay_all)

    def takes(self, module: nn.Module) -> set[str]:
        """Names of the parameters that it can train: all, unless overridden."""
        return {name for name, _ in module.named_parameters()}

    def at_rate(self, learning_rate: float) -> Self:
        """A copy with another learning rate. The rates of groups keep their ratio to it.

        >>> slower = SGD(learning_rate=0.1, groups=({"pattern": "head.*", "learning_rate": 0.4},)).at_rate(0.01)
        >>> slower.groups[0].learning_rate
        0.04
        """
        factor = learning_rate / self.learning_rate
        groups = tuple(
            group if group.learning_rate is None else group.replace(learning_rate=group.learning_rate * factor)
            for group in self.groups
        )
        return self.replace(learning_rate=learning_rate, groups=groups)

    @abstractmethod
    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """The torch optimizer for these groups, which contain learning rate and weight decay."""


def remember_start(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Note the numbers of the groups: what training changes from here on is state, the rest is configuration."""
    for group in optimizer.param_groups:
        group["began_with"] = {key: value for key, value in group.items() if isinstance(value, int | float)}
    return optimizer


def forget_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Same as zero_grad(set_to_none=True), without its profiler record, which costs more than a small layer."""
    if type(optimizer).zero_grad is not torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad(set_to_none=True)
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set the learning rate of each group to its "initial_lr" times `factor`.

    >>> optimizer = SGD(learning_rate=0.5).build(nn.Linear(1, 1))
    >>> set_rate(optimizer, 0.1)
    >>> optimizer.param_groups[0]["lr"]
    0.05
    """
    for group in optimizer.param_groups:
        rate = group["initial_lr"] * factor
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def use_fused(fused: Fused, groups: Groups) -> bool:
    """Whether to use torch's fused kernel: it needs real floating-point parameters on a device that has it."""
    parameters = [parameter for group in groups for parameter in group["params"]]
    able = all(p.device.type in _FUSED_DEVICES and p.is_floating_point() for p in parameters)
    if fused is True and not able:
        places = ", ".join(sorted({f"{p.dtype} on {p.device.type}" for p in parameters}))
        raise ConfigError(
            f"fused=True needs floating-point parameters on {' or '.join(sorted(_FUSED_DEVICES))}, but got {places}. "
            'Leave it at fused="auto".'
        )
    return able if fused == "auto" else bool(fused)


def use_foreach(groups: Groups) -> bool:
    """Whether to use torch's `foreach` step; by itself torch uses it on accelerators only."""
    return all(parameter.device.type in {"cpu", "cuda", "xpu"} for group in groups for parameter in group["params"])


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015): steps m̂ / (√v̂ + eps). Weight decay is L2, added to the gradient."""

    betas: tuple[Share, Share] = (0.9, 0.999)
    """Decay rates of the first and the second moment of the gradients."""
    eps: Positive = 1e-8
    """Small number that keeps the division finite."""
    amsgrad: bool = False
    """Whether to divide by the largest v̂ seen so far (Reddi et al. 2018)."""
    fused: Fused = "auto"
    """Whether to use torch's fused kernel."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.Adam."""
        fused = use_fused(self.fused, groups)
        return light(torch.optim.Adam)(groups, betas=self.betas, eps=self.eps, amsgrad=self.amsgrad, fused=fused)


class AdamW(Optimizer):
    """AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay."""

    weight_decay: NotNegative = 0.01
    """Decoupled weight decay: each step subtracts learning rate × this × weight."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Decay rates of the first and the second moment of the gradients."""
    eps: Positive = 1e-8
    """Small number that keeps the division finite."""
    amsgrad: bool = False
    """Whether to divide by the largest v̂ seen so far."""
    fused: Fused = "auto"
    """Whether to use torch's fused kernel."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.AdamW."""
        fused = use_fused(self.fused, groups)
        return light(torch.optim.AdamW)(groups, betas=self.betas, eps=self.eps, amsgrad=self.amsgrad, fused=fused)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, optionally Nesterov's. Weight decay is L2, added to the gradient."""

    learning_rate: Positive = 1e-2
    """Learning rate, which the schedule multiplies."""
    momentum: Share = 0.9
    """Momentum; 0 is plain gradient descent."""
    dampening: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Dampening: a new gradient enters the momentum with the factor 1 - this."""
    nesterov: bool = False
    """Whether to use Nesterov momentum."""
    fused: Fused = "auto"
    """Whether to use torch's fused kernel; never with dampening."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.SGD."""
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ConfigError(
                f"nesterov=True needs momentum above 0 and no dampening, but got momentum={self.momentum} and "
                f"dampening={self.dampening}"
            )
        fused = use_fused(self.fused if self.dampening == 0 else False, groups)
        options: dict[str, Any] = {"momentum": self.momentum, "dampening": self.dampening, "nesterov": self.nesterov}
        optimizer = light(torch.optim.SGD)(groups, **options, fused=fused)
        if fused and self.momentum:
            optimizer.register_step_pre_hook(_start_momentum)
        return optimizer


def _start_momentum(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ARG001
    """Create a zero momentum for each parameter before its first step.

    torch's fused kernel needs all momenta or none, so it fails if the first gradient of a parameter comes later than
    that of others. From zero, the first momentum is the gradient itself, which is correct without dampening.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and optimizer.state[parameter].get("momentum_buffer") is None:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


class RMSprop(Optimizer):
    """RMSprop (Hinton 2012): the gradient divided by the root of its running mean square."""

    alpha: Share = 0.9
    """Decay rate of the running mean of squared gradients."""
    eps: Positive = 1e-8
    """Small number that keeps the division finite."""
    momentum: Share = 0.0
    """Momentum of the steps."""
    centered: bool = False
    """Whether to subtract the mean, so that the divisor is a standard deviation."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.RMSprop."""
        options: dict[str, Any] = {"momentum": self.momentum, "centered": self.centered, "foreach": use_foreach(groups)}
        return light(torch.optim.RMSprop)(groups, alpha=self.alpha, eps=self.eps, **options)


class NAdam(Optimizer):
    """NAdam (Dozat 2016): Adam with Nesterov's momentum."""

    learning_rate: Positive = 2e-3
    """Learning rate, which the schedule multiplies."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Decay rates of the first and the second moment of the gradients."""
    eps: Positive = 1e-8
    """Small number that keeps the division finite."""
    momentum_decay: NotNegative = 4e-3
    """How fast the momentum reaches betas[0]."""
    decoupled: bool = False
    """Whether weight decay is decoupled, as in AdamW, instead of L2."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.NAdam."""
        options: dict[str, Any] = {"momentum_decay": self.momentum_decay, "decoupled_weight_decay": self.decoupled}
        return light(torch.optim.NAdam)(groups, betas=self.betas, eps=self.eps, foreach=use_foreach(groups), **options)


class RAdam(Optimizer):
    """RAdam (Liu et al. 2020): Adam that rectifies its first steps, in which the second moment is unreliable."""

    betas: tuple[Share, Share] = (0.9, 0.999)
    """Decay rates of the first and the second moment of the gradients."""
    eps: Positive = 1e-8
    """Small number that keeps the division finite."""
    decoupled: bool = False
    """Whether weight decay is decoupled, as in AdamW, instead of L2."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.RAdam."""
        options: dict[str, Any] = {"decoupled_weight_decay": self.decoupled, "foreach": use_foreach(groups)}
        return light(torch.optim.RAdam)(groups, betas=self.betas, eps=self.eps, **options)


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011): the gradient divided by the root of the sum of all its squares."""

    learning_rate: Positive = 1e-2
    """Learning rate, which the schedule multiplies."""
    rate_decay: NotNegative = 0.0
    """At step t (from 0) the learning rate is divided by 1 + t × this."""
    initial_accumulator: NotNegative = 0.0
    """Initial value of the sum of squares."""
    eps: Positive = 1e-10
    """Small number that keeps the division finite."""
    fused: Fused = "auto"
    """Whether to use torch's fused kernel (on the CPU; other devices have none)."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.Adagrad."""
        on_cpu = all(parameter.device.type == "cpu" for group in groups for parameter in group["params"])
        fused = use_fused(self.fused if on_cpu or self.fused is True else False, groups)
        options: dict[str, Any] = {"lr_decay": self.rate_decay, "initial_accumulator_value": self.initial_accumulator}
        return light(torch.optim.Adagrad)(groups, eps=self.eps, fused=fused, **options)


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern 2018): stores the second moment of a matrix as one row and one column."""

    learning_rate: Positive = 1e-2
    """Learning rate, which the schedule multiplies."""
    beta2_decay: Annotated[float, Field(lt=0)] = -0.8
    """Exponent of the step in the decay rate of the squared gradients, 1 - t^beta2_decay."""
    eps: tuple[Positive | None, Positive] = (None, 1e-3)
    """Lower bounds of the squared gradient (None: that of the number format) and of the scale of the weights."""
    clip_threshold: Positive = 1.0
    """Largest root mean square of an update."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.Adafactor."""
        return light(torch.optim.Adafactor)(groups, beta2_decay=self.beta2_decay, eps=self.eps, d=self.clip_threshold)
