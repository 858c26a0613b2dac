"""Muon, and several optimizers of one module, each for the parameters that a pattern names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.optim.composed import AnySchedule
from neuro_divergent.optim.groups import undecayed_names
from neuro_divergent.optim.library_optimizers import Lookahead, ScheduleFreeAdamW
from neuro_divergent.optim.optimizers import AdamW, Groups, NotNegative, Optimizer, Positive, Share, remember_start
from neuro_divergent.optim.patterns import matching
from neuro_divergent.optim.plateau import ReduceOnPlateau
from neuro_divergent.optim.schedules import ScheduleContext
from neuro_divergent.optim.without_compiler import light, without_compiler

REST = "default"
"""How `schedules` names the parameters that no pattern fits."""


class Muon(Optimizer):
    """Muon (Jordan et al. 2024): momentum whose singular values are all made 1, for weight matrices only.

    Biases, normalisations and embeddings need another one beside it: `Optimizers({"*": Muon()}, default=AdamW())`.
    """

    weight_decay: NotNegative = 0.1
    """Share of the weights, times the rate, that is taken off at each step."""
    momentum: Share = 0.95
    """Memory of the past gradients."""
    nesterov: bool = True
    """Whether the gradient is looked up one momentum step ahead."""
    eps: Positive = 1e-7
    """Keeps the division by the norm finite."""
    iterations: Annotated[int, Field(ge=1, le=20)] = 5
    """Newton-Schulz iterations per step."""
    size: Literal["match_rms_adamw", "original"] = "match_rms_adamw"
    """How long steps are: as AdamW's at the same rate (Liu et al. 2025), or √(rows / columns) as first published, with
    rates of about 0.02."""

    def takes(self, module: nn.Module) -> set[str]:
        """Matrices, but not those of embeddings."""
        spared = undecayed_names(module)
        return {name for name, parameter in module.named_parameters() if parameter.ndim == 2 and name not in spared}

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """torch.optim.Muon."""
        other = [n for group in groups for n, p in zip(group["names"], group["params"], strict=True) if p.ndim != 2]
        if other:
            raise ConfigError(
                f"Muon is for matrices, but got {', '.join(other[:3])}{' and others' if len(other) > 3 else ''}. Give "
                'the rest to another optimizer: Optimizers({"*": Muon()}, default=AdamW())'
            )
        options: dict[str, Any] = {"nesterov": self.nesterov, "ns_steps": self.iterations, "adjust_lr_fn": self.size}
        return light(torch.optim.Muon)(groups, momentum=self.momentum, eps=self.eps, **options)


class Optimizers(Optimizer):
    """Several optimizers: each pattern's for the parameters that it names, `default` for the rest.

    A parameter that a pattern fits, but its optimizer cannot train (a bias under Muon), goes to `default`. Clipping is
    over all parameters together. Rate, decay and groups are those of the members; the rate shown is that of `default`.

    >>> module = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    >>> live = Optimizers({"*": Muon()}, default=AdamW()).build(module)
    >>> [group["names"] for group in live.param_groups]
    [['0.weight'], ['0.bias', '1.weight', '1.bias']]
    """

    by: dict[str, Optimizer] = Field(min_length=1, kw_only=False)
    """Shell-style pattern of parameter names → its optimizer. No parameter may fit two patterns."""
    default: Optimizer = Field(default_factory=AdamW)
    """The optimizer of all other parameters."""
    schedules: dict[str, AnySchedule] = {}
    """Pattern, or "default" → a schedule of these parameters instead of the training's."""

    @model_validator(mode="before")
    @classmethod
    def _rate_of_default(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        rest = fields.get("default", AdamW())
        rest = rest if isinstance(rest, Optimizer) else Optimizer.model_validate(rest)
        own = {name: getattr(rest, name) for name in ("learning_rate", "weight_decay", "decay_all")} | {"groups": ()}
        for name, value in own.items():
            given = fields.get(name, value)
            if (tuple(given) if name == "groups" else given) != value:
                raise ConfigError(f"{name} belongs to the members of Optimizers, but got {name}={given!r} beside them")
        return fields | {"default": rest} | own

    @model_validator(mode="after")
    def _fit_together(self) -> Optimizers:
        for member in (*self.by.values(), self.default):
            if isinstance(member, Optimizers | Lookahead | ScheduleFreeAdamW):
                raise ConfigError(
                    f"{member.kind} keeps weights or members of its own, so it cannot be one of several optimizers. "
                    "Use it alone"
                )
        for name, schedule in self.schedules.items():
            if name not in self.by and name != REST:
                raise ConfigError(f"schedules are for {', '.join([*self.by, REST])}, but got {name!r}")
            if isinstance(schedule, ReduceOnPlateau):
                raise ConfigError(
                    "ReduceOnPlateau follows a metric and not the step, so it cannot be the schedule of some "
                    "parameters. Use TrainingConfig(schedule=...)"
                )
        return self

    @classmethod
    def examples(cls) -> tuple[Optimizers, ...]:
        """For the conformance suite."""
        return (cls(by={"*": Muon()}), cls(by={"2.*": Muon(learning_rate=0.01)}, default=AdamW(weight_decay=0.0)))

    def at_rate(self, learning_rate: float) -> Optimizers:
        """The same optimizers, all rates multiplied so that the one of `default` is this one."""
        factor = learning_rate / self.default.learning_rate
        members = {name: member.at_rate(member.learning_rate * factor) for name, member in self.by.items()}
        return Optimizers(by=members, default=self.default.at_rate(learning_rate), schedules=self.schedules)

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        """One live optimizer that steps all members."""
        built = []
        with without_compiler():
            for name, names in self.divided(module).items():
                member = self.by.get(name, self.default)
                if groups := _only(member.collect(module), names):
                    built.append(member.create(groups))
                    for group in built[-1].param_groups:
                        group["schedule"] = self.schedules.get(name)
            return remember_start(_Together(built))

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """Not possible: which parameter is whose is known of a module only."""
        raise ConfigError(f"Optimizers are built on a module, but got {len(groups)} groups. Call build(module)")

    def divided(self, module: nn.Module) -> dict[str, set[str]]:
        """Pattern (or "default") → the names of its parameters."""
        names = [name for name, _ in module.named_parameters()]
        owner: dict[str, str] = {}
        for pattern, member in self.by.items():
            fitting, able = matching(names, pattern), member.takes(module)
            for name in fitting:
                if name in owner:
                    raise ConfigError(
                        f"a parameter has one optimizer, but {name!r} fits both {owner[name]!r} and {pattern!r}. Make "
                        "the patterns narrower"
                    )
                owner[name] = pattern
            if not able.intersection(fitting):
                raise ConfigError(
                    f"{member.kind} can train none of the parameters that {pattern!r} fits: {', '.join(fitting[:3])}. "
                    "Choose another pattern"
                )
            owner |= {name: REST for name in fitting if name not in able}
        found: dict[str, set[str]] = {pattern: set() for pattern in (*self.by, REST)}
        for name in names:
            found[owner.get(name, REST)].add(name)
        return found


def set_own_rates(optimizer: torch.optim.Optimizer, step: int, context: ScheduleContext, factor: float) -> None:
    """Set the rates of the groups with a schedule of their own, times a factor."""
    for group in optimizer.param_groups:
        schedule = group.get("schedule")
        if schedule is not None:
            own = replace(context, base_rate=float(group["initial_lr"]))
            group["lr"] = group["initial_lr"] * factor * schedule.factor_at(step, own)


def _only(groups: Groups, names: set[str]) -> Groups:
    """The groups with these parameters alone."""
    kept = []
    for group in groups:
        pairs = [pair for pair in zip(group["names"], group["params"], strict=True) if pair[0] in names]
        if pairs:
            own, parameters = (list(part) for part in zip(*pairs, strict=True))
            kept.append(group | {"names": own, "params": parameters})
    return kept


class _Together(torch.optim.Optimizer):
    """Steps its members; their groups and their state are seen as those of one optimizer."""

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        super().__init__([group for member in members for group in member.param_groups], {})
        self.members = list(members)
        shared: defaultdict[Tensor, Any] = defaultdict(dict)
        for member in members:
            shared.update(member.state)
            member.state = shared
        self.state = shared

    def step(self, closure: Any = None) -> Any:
        """One step of each member."""
        loss = None if closure is None else closure()
        for member in self.members:
            member.step()
        return loss
