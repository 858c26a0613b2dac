"""Which trainings may share one computation: what each must not ask for, and what all must agree on."""

from __future__ import annotations

from typing import Any

from neuro_divergent.losses import Loss
from neuro_divergent.optim import Optimizer
from neuro_divergent.optim.formulas import clipping_has_formula, has_formula
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.precision import HIGHEST_UNGUARDED_RATE
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Task

LARGEST_WORK = 1 << 22
"""Trained numbers times rows per step up to which stacking is chosen by itself: beyond, arithmetic and not the overhead
of a step takes the time, and there is nothing to win (benchmarks/many.py --crossover)."""

FEWEST_STEPS = 20
"""Below this many steps the check at the start, one step of each member, costs more than stacking wins."""

_ALONE = (
    "checkpoints", "gradient_noise", "regularization", "averaging", "curriculum", "teacher_forcing",
    "activation_checkpointing", "fault_tolerance",
)  # fmt: skip
"""Fields that must be off, because they are about one run."""

_EXACTLY: dict[str, tuple[Any, ...]] = {
    "callbacks": ((),),
    "accumulate_gradients": (1,),
    "precision": ("float32", "float64"),
    "compile": ("auto", False),
    "gradient_method": ("autograd",),
    "nonfinite": ("stop",),
    "refit_on_all": (False,),
}


def config_obstacle(config: TrainingConfig) -> str | None:
    """Why a training with this configuration must run by itself, in words; None when it need not."""
    for name in _ALONE:
        if getattr(config, name) is not None:
            return f"{name} is about one run"
    for name, allowed in _EXACTLY.items():
        if getattr(config, name) not in allowed:
            return f"{name} is not {' or '.join(repr(value) for value in allowed)}"
    optimizer, clipping = config.optimizer, config.gradient_clipping
    if isinstance(optimizer, Optimizer):
        if not has_formula(optimizer):
            return f"{optimizer.kind} is not Adam, AdamW or SGD (without amsgrad)"
        rates = [optimizer.learning_rate, *(group.learning_rate or 0.0 for group in optimizer.groups)]
        if max(rates) > HIGHEST_UNGUARDED_RATE:
            return f"a learning rate above {HIGHEST_UNGUARDED_RATE:g} is watched step by step"
    if clipping != "auto" and not clipping_has_formula(clipping):
        return f"{getattr(clipping, 'kind', clipping)} is not ClipByNorm or ClipByValue"
    return None


def not_worth_it(state: TrainState) -> str | None:
    """Why nothing would be won by stacking trainings like this one; None when something is."""
    numbers = sum(parameter.numel() for group in state.optimizer.param_groups for parameter in group["params"])
    work = numbers * int(state.config.batch_size)
    if work > LARGEST_WORK:
        return f"{numbers} weights times batches of {state.config.batch_size} are work enough by themselves"
    if state.total_steps < FEWEST_STEPS:
        return f"{state.total_steps} steps are too few to be worth it"
    return None


def agree(one: tuple[Task, TrainState], other: tuple[Task, TrainState]) -> bool:
    """Whether two members may be rows of one stack."""
    return _facts(*one) == _facts(*other) and losses_agree(one[0].loss, other[0].loss)


def _facts(task: Task, state: TrainState) -> list[Any]:
    module, config = state.module, state.config
    optimizer = config.optimizer
    assert isinstance(optimizer, Optimizer)
    return [
        type(task),
        type(module),
        [(name, p.shape, p.dtype, p.device, p.requires_grad) for name, p in module.named_parameters()],
        [(name, buffer.shape, buffer.dtype) for name, buffer in module.named_buffers()],
        optimizer.replace(learning_rate=1.0, weight_decay=0.0, groups=()),
        [getattr(config, name) for name in ("gradient_clipping", "precision", "threads", "deterministic", "freeze")],
    ]


def losses_agree(one: Loss, other: Loss) -> bool:
    """Whether two losses are the same formula: equal, or different in plain numbers only (the level of a quantile)."""
    return one == other or (type(one) is type(other) and differing(one, other) is not None)


def differing(one: Loss, other: Loss) -> list[str] | None:
    """The names of the numbers in which two losses of one kind differ; None if they differ in something else."""
    names = [name for name in type(one).model_fields if getattr(one, name) != getattr(other, name)]
    plain = all(isinstance(getattr(loss, name), float) for name in names for loss in (one, other))
    return names if plain else None
