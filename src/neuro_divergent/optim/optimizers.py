"""Optimizers: descriptions that build torch's own classes on a module's trainable parameters.

Every group of a built optimizer has "names" (parallel to "params") and "initial_lr"; `set_rate` multiplies the latter.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import nn

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.optim.groups import ParameterGroup, parameter_groups
from neuro_divergent.optim.without_compiler import light, without_compiler

Groups = list[dict[str, Any]]
"""What torch's constructors take: one dictionary per parameter group."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A finite number above zero."""

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number, zero or above."""

Share = Annotated[float, Field(ge=0, lt=1)]
"""A number in [0, 1)."""

Fused = Literal["auto"] | bool
"""Whether torch's one-kernel step is used: "auto" means where the device and the parameters allow it."""

_FUSED_DEVICES = {"cpu", "cuda", "mps", "xpu"}


class Optimizer(Description):
    """Base of all optimizers. A new one adds its fields and `create`."""

    family: ClassVar[str] = "optimizer"

    learning_rate: Positive = 1e-3
    """Step size before the schedule's factor."""
    weight_decay: NotNegative = 0.0
    """How strongly weights are pulled to zero; biases, normalisations and embeddings are spared."""
    groups: Several[ParameterGroup] = default(())
    """Parameters, by name pattern, with a rate or a decay of their own."""
    decay_all: bool = False
    """Whether biases, normalisations and embeddings are decayed too."""

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        """The live optimizer of a module's trainable parameters."""
        with without_compiler():
            created = self.create(self.collect(module))
        if not isinstance(created, torch.optim.Optimizer):
            raise ConfigError(f"create(groups) returns a torch optimizer, but that of {self.kind} returned {created!r}")
        return remember_start(created)

    def collect(self, module: nn.Module) -> Groups:
        """The module's trainable parameters in groups, with "names", rate, decay and "initial_lr"."""
        return parameter_groups(module, self.learning_rate, self.weight_decay, self.groups, self.decay_all)

    def takes(self, module: nn.Module) -> set[str]:
        """Names of the parameters that it can train: all, unless overridden."""
        return {name for name, _ in module.named_parameters()}

    def at_rate(self, learning_rate: float) -> Self:
        """The same optimizer at another rate; a group with a rate of its own keeps its ratio to the optimizer's.

        >>> SGD(learning_rate=0.1, groups=({"pattern": "head.*", "learning_rate": 0.4},)).at_rate(0.01).groups
        (ParameterGroup(pattern='head.*', learning_rate=0.04),)
        """
        factor = learning_rate / self.learning_rate
        groups = tuple(
            group if group.learning_rate is None else group.replace(learning_rate=group.learning_rate * factor)
            for group in self.groups
        )
        return self.replace(learning_rate=learning_rate, groups=groups)

    @abstractmethod
    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """Call the torch class; the groups carry rate and decay."""


def remember_start(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Note the numbers of the groups: what training changes from here on is state, the rest is configuration."""
    for group in optimizer.param_groups:
        group["began_with"] = {key: value for key, value in group.items() if isinstance(value, int | float)}
    return optimizer


def forget_gradients(optimizer: torch.optim.Optimizer) -> None:
    """What zero_grad(set_to_none=True) does, without the note to the profiler that costs more than a small layer."""
    if type(optimizer).zero_grad is not torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad(set_to_none=True)
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set each group's rate to its own first rate times `factor`.

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
    """Decide on torch's one-kernel step: real floating parameters on a device that has the kernel."""
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
    """Decide on torch's step over all parameters at once; torch itself only does so on accelerators."""
    return all(parameter.device.type in {"cpu", "cuda", "xpu"} for group in groups for parameter in group["params"])


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015): m̂ / (√v̂ + eps) steps; the decay, when set, is L2 added to the gradient."""

    betas: tuple[Share, Share] = (0.9, 0.999)
    """Memory of the mean and of the square of the gradients."""
    eps: Positive = 1e-8
    """Keeps the division finite."""
    amsgrad: bool = False
    """Whether to divide by the largest v̂ seen so far (Reddi et al. 2018)."""
    fused: Fused = "auto"
    """Whether torch's one-kernel step is used."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.Adam."""
        fused = use_fused(self.fused, groups)
        return light(torch.optim.Adam)(groups, betas=self.betas, eps=self.eps, amsgrad=self.amsgrad, fused=fused)


class AdamW(Optimizer):
    """AdamW (Loshchilov and Hutter 2019): Adam with the decay applied to the weights, not to the gradient."""

    weight_decay: NotNegative = 0.01
    """Share of the weights, times the rate, that is taken off at each step."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Memory of the mean and of the square of the gradients."""
    eps: Positive = 1e-8
    """Keeps the division finite."""
    amsgrad: bool = False
    """Whether to divide by the largest v̂ seen so far."""
    fused: Fused = "auto"
    """Whether torch's one-kernel step is used."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.AdamW."""
        fused = use_fused(self.fused, groups)
        return light(torch.optim.AdamW)(groups, betas=self.betas, eps=self.eps, amsgrad=self.amsgrad, fused=fused)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, Nesterov's by option; the decay is L2 added to the gradient."""

    learning_rate: Positive = 1e-2
    """Step size before the schedule's factor."""
    momentum: Share = 0.9
    """Memory of the past steps; 0 is plain gradient descent."""
    dampening: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What is held back of each new gradient."""
    nesterov: bool = False
    """Whether the gradient is looked up one momentum step ahead."""
    fused: Fused = "auto"
    """Whether torch's one-kernel step is used; never with dampening."""

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
    """Give each parameter a momentum of zero before its first step.

    torch's fused kernel takes all momenta or none, so it fails on a parameter whose first gradient comes later than the
    others'. From zero, the first momentum is the gradient itself, as it should be without dampening.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and optimizer.state[parameter].get("momentum_buffer") is None:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


class RMSprop(Optimizer):
    """RMSprop (Hinton 2012): the gradient divided by the root of its mean square."""

    alpha: Share = 0.9
    """Memory of the square of the gradients."""
    eps: Positive = 1e-8
    """Keeps the division finite."""
    momentum: Share = 0.0
    """Memory of the past steps."""
    centered: bool = False
    """Whether the mean is taken off, so that the division is by a standard deviation."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.RMSprop."""
        options: dict[str, Any] = {"momentum": self.momentum, "centered": self.centered, "foreach": use_foreach(groups)}
        return light(torch.optim.RMSprop)(groups, alpha=self.alpha, eps=self.eps, **options)


class NAdam(Optimizer):
    """NAdam (Dozat 2016): Adam with Nesterov's momentum."""

    learning_rate: Positive = 2e-3
    """Step size before the schedule's factor."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Memory of the mean and of the square of the gradients."""
    eps: Positive = 1e-8
    """Keeps the division finite."""
    momentum_decay: NotNegative = 4e-3
    """How fast the momentum reaches betas[0]."""
    decoupled: bool = False
    """Whether the decay is applied to the weights (as in AdamW) instead of the gradient."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.NAdam."""
        options: dict[str, Any] = {"momentum_decay": self.momentum_decay, "decoupled_weight_decay": self.decoupled}
        return light(torch.optim.NAdam)(groups, betas=self.betas, eps=self.eps, foreach=use_foreach(groups), **options)


class RAdam(Optimizer):
    """RAdam (Liu et al. 2020): Adam whose first steps are held back until the second moment can be trusted."""

    betas: tuple[Share, Share] = (0.9, 0.999)
    """Memory of the mean and of the square of the gradients."""
    eps: Positive = 1e-8
    """Keeps the division finite."""
    decoupled: bool = False
    """Whether the decay is applied to the weights (as in AdamW) instead of the gradient."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.RAdam."""
        options: dict[str, Any] = {"decoupled_weight_decay": self.decoupled, "foreach": use_foreach(groups)}
        return light(torch.optim.RAdam)(groups, betas=self.betas, eps=self.eps, **options)


class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011): the gradient divided by the root of the sum of all its squares."""

    learning_rate: Positive = 1e-2
    """Step size before the schedule's factor."""
    rate_decay: NotNegative = 0.0
    """At step t (from 0) the rate is divided by 1 + t × this."""
    initial_accumulator: NotNegative = 0.0
    """What the sum of squares starts from."""
    eps: Positive = 1e-10
    """Keeps the division finite."""
    fused: Fused = "auto"
    """Whether torch's one-kernel step is used (on the CPU; other devices have none)."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.Adagrad."""
        on_cpu = all(parameter.device.type == "cpu" for group in groups for parameter in group["params"])
        fused = use_fused(self.fused if on_cpu or self.fused is True else False, groups)
        options: dict[str, Any] = {"lr_decay": self.rate_decay, "initial_accumulator_value": self.initial_accumulator}
        return light(torch.optim.Adagrad)(groups, eps=self.eps, fused=fused, **options)


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern 2018): the second moment of a matrix kept as one row and one column."""

    learning_rate: Positive = 1e-2
    """Step size before the schedule's factor."""
    beta2_decay: Annotated[float, Field(lt=0)] = -0.8
    """Exponent by which the memory of the squares grows with the steps."""
    eps: tuple[Positive | None, Positive] = (None, 1e-3)
    """Floors of the squared gradient (None: the number type's own) and of the weights' scale."""
    clip_threshold: Positive = 1.0
    """Largest root mean square of an update."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.Adafactor."""
        return light(torch.optim.Adafactor)(groups, beta2_decay=self.beta2_decay, eps=self.eps, d=self.clip_threshold)
