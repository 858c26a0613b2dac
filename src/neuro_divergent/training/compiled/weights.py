"""The weights that a compiled step changes, and their optimizer state.

A compiled step reads and writes the state tensors of torch's optimizer in place. An eager step, a checkpoint and a
resume then find the state where they expect it. The formulas are in optim/formulas.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from neuro_divergent.optim import SGD, Optimizer
from neuro_divergent.optim.formulas import Scalars, has_formula, memory_names, update
from neuro_divergent.optim.groups import ParameterGroup


class Weight(NamedTuple):
    """One parameter with its optimizer state, the number of its parameter group and its weight decay."""

    value: Tensor
    memory: tuple[Tensor, ...]
    group: int
    decay: float


def compilable(settings: object) -> bool:
    """Whether the step of an optimizer can be part of the compiled function."""
    if isinstance(settings, SGD) and not settings.momentum:
        # SGD without momentum keeps no state. After a resume nothing shows which parameters never had a gradient: those
        # must not be decayed.
        groups = cast("tuple[ParameterGroup, ...]", settings.groups)
        return has_formula(settings) and not (settings.weight_decay or any(group.weight_decay for group in groups))
    return has_formula(settings)


def updated(settings: Optimizer, weight: Weight, gradient: Tensor, scalars: Tensor) -> tuple[Tensor, ...]:
    """The parameter and its state after one step, as (value, *memory).

    Args:
        settings: an optimizer that is `compilable`.
        weight: the parameter before the step.
        gradient: its clipped gradient.
        scalars: [4] float64, the `step_scalars` of its group.
    """
    numbers = Scalars(*scalars.unbind())
    return update(settings, weight.value, weight.memory, gradient, numbers, decay=weight.decay or None)


def collect(settings: Optimizer, optimizer: torch.optim.Optimizer) -> tuple[list[str], list[Weight], Tensor] | None:
    """Names, weights and step counts of all parameters; None until every parameter has its optimizer state.

    torch's step counts become views of one tensor, so that one addition counts for all.
    """
    names, weights, counts = [], [], []
    wanted = memory_names(settings)
    for number, group in enumerate(optimizer.param_groups):
        for name, parameter in zip(group["names"], group["params"], strict=True):
            kept: dict[str, Any] = optimizer.state[parameter] if wanted else {}
            memory = tuple(kept.get(entry) for entry in wanted)
            if any(entry is None for entry in memory):
                return None
            names.append(name)
            weights.append(Weight(parameter.detach(), memory, number, float(group["weight_decay"])))  # type: ignore[arg-type]
            if "step" in kept:
                counts.append((kept, kept["step"]))
    return names, weights, _joined(counts)


def _joined(counts: list[tuple[dict[str, Any], Tensor]]) -> Tensor:
    if not counts:
        # SGD counts no steps. If it has momentum, an eager step was taken before: the next one is not the first.
        return torch.ones(1)
    joined = torch.stack([count for _, count in counts])
    for number, (kept, _) in enumerate(counts):
        kept["step"] = joined[number]
    return joined
