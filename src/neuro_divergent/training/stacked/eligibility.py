"""Which trainings may share one stacked computation: conditions on each one, and what all must have in common."""

from __future__ import annotations

from typing import Any

from neuro_divergent.losses import Loss
from neuro_divergent.optim import Optimizer
from neuro_divergent.optim.formulas import clipping_has_formula, has_formula
from neuro_divergent.training.config.facts import Check, Limit, refusals
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.precision import HIGHEST_UNGUARDED_RATE
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task

LARGEST_WORK = 1 << 22
"""Trained weights times rows per step up to which "auto" stacks. Beyond it, arithmetic takes the time and not the
overhead of a step, so stacking saves nothing (benchmarks/many.py --crossover)."""

FEWEST_STEPS = 20
"""Below this many steps the check at the start, one step of each member, costs more than stacking saves."""


def config_obstacle(config: TrainingConfig) -> str | None:
    """Why a training with this configuration cannot be stacked, as a sentence; None if it can."""
    return next((reason for _, reason in refusals(config, "stack", CHECKS, _sentence)), None)


def _sentence(name: str, value: Any, possible: tuple[Any, ...]) -> str:  # noqa: ARG001
    if possible == (None,):
        return f"{name} is about one run"
    return f"{name} is not {' or '.join(repr(one) for one in possible)}"


def _optimizer_has_rows(optimizer: Any) -> str | None:
    if not isinstance(optimizer, Optimizer):  # not resolved yet
        return None
    if not has_formula(optimizer):
        return f"{optimizer.kind} is not Adam, AdamW or SGD (without amsgrad)"
    rates = [optimizer.learning_rate, *(group.learning_rate or 0.0 for group in optimizer.groups)]
    if max(rates) > HIGHEST_UNGUARDED_RATE:
        return f"a learning rate above {HIGHEST_UNGUARDED_RATE:g} is watched step by step"
    return None


def _clipping_has_rows(clipping: Any) -> str | None:
    if clipping == "auto" or clipping_has_formula(clipping):
        return None
    return f"{getattr(clipping, 'kind', clipping)} is not ClipByNorm or ClipByValue"


CHECKS: dict[str, Check] = {"optimizer_has_rows": _optimizer_has_rows, "clipping_has_rows": _clipping_has_rows}
"""The checks that the fact `stack` names."""


def not_worth_it(state: TrainState) -> str | None:
    """Why stacking would not save time for trainings like this one, as a sentence; None if it would."""
    numbers = sum(parameter.numel() for group in state.optimizer.param_groups for parameter in group["params"])
    work = numbers * int(state.config.batch_size)
    if work > LARGEST_WORK:
        return f"{numbers} weights times batches of {state.config.batch_size} are too much work to gain from stacking"
    if state.total_steps < FEWEST_STEPS:
        return f"{state.total_steps} steps are too few to be worth it"
    return None


def agree(one: tuple[Task, TrainState], other: tuple[Task, TrainState]) -> bool:
    """Whether two trainings may be members of one stack."""
    return _shapes(*one) == _shapes(*other) and all(
        _fields_agree(facts.stack, _value(one, name), _value(other, name))
        for name, facts in one[1].config.facts().items()
    )


def _value(member: tuple[Task, TrainState], name: str) -> Any:
    """The value of a configuration field; for "loss" the loss of the task."""
    task, state = member
    return task.loss if name == "loss" else getattr(state.config, name)


def _fields_agree(limit: Limit, one: Any, other: Any) -> bool:
    if limit.members == "any":
        return True
    if limit.members == "same":
        return bool(one == other)
    if isinstance(one, Optimizer) and isinstance(other, Optimizer):
        return _without_numbers(one) == _without_numbers(other)
    return losses_agree(one, other)


def _without_numbers(optimizer: Optimizer) -> Optimizer:
    """The optimizer without the numbers that may differ between members."""
    return optimizer.replace(learning_rate=1.0, weight_decay=0.0, groups=())


def _shapes(task: Task, state: TrainState) -> list[Any]:
    module = state.module
    return [
        type(state.config),
        type(task),
        type(module),
        [(name, p.shape, p.dtype, p.device, p.requires_grad) for name, p in module.named_parameters()],
        [(name, buffer.shape, buffer.dtype) for name, buffer in module.named_buffers()],
    ]


def losses_agree(one: Loss, other: Loss) -> bool:
    """Whether two losses are the same formula: equal, or different in plain numbers only (the level of a quantile)."""
    return one == other or (type(one) is type(other) and differing(one, other) is not None)


def differing(one: Loss, other: Loss) -> list[str] | None:
    """The names of the numbers in which two losses of one kind differ; None if they differ in something else."""
    names = [name for name in type(one).model_fields if getattr(one, name) != getattr(other, name)]
    plain = all(isinstance(getattr(loss, name), float) for name in names for loss in (one, other))
    return names if plain else None
