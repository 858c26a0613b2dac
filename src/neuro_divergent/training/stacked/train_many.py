"""Train many small networks as one stack: a step of a small network is mostly overhead, which stacked networks share.

Each member has the same batches, initial weights, clipping, validation, stopping and records as in a training alone;
only rounding differs. Before the first step, the stacked gradients are compared with those of each member alone. A
network that cannot be stacked is detected there and trained alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal

import torch

from neuro_divergent.core.errors import ConfigError, NeuroDivergentError
from neuro_divergent.training.stacked.check import obstacle
from neuro_divergent.training.stacked.eligibility import agree, config_obstacle, not_worth_it
from neuro_divergent.training.stacked.stacked_loop import Failed, StackedLoop, release
from neuro_divergent.training.stacked.strategy import Member, StackedSteps
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.trainer import train
from neuro_divergent.training.training_run import surroundings

log = logging.getLogger(__name__)

Failures = dict[int, NeuroDivergentError]
"""The errors of failed trainings, by the index of the member."""

Between = Callable[[StackedLoop, list[TrainState]], None]
"""Called between two steps of a stack, with the states of its live members."""

Stacked = Literal["auto"] | bool
"""Whether to stack: "auto" where it is possible and saves time, True always (or an error), False never."""


def train_many(members: Sequence[Member], *, stacked: Stacked = "auto", title: str = "training") -> Failures:
    """Train prepared states to their end, in place; return the errors of failed members by their index.

    Members that differ in numbers only are stacked. A failed member does not end the others.

    Args:
        members: the task and the prepared state of each training.
        stacked: "auto" stacks what can be stacked and is small enough to save time; True stacks all or raises; False
            trains one after the other.
        title: the name on the progress line.
    """
    check_choice(stacked)
    groups = _groups(members) if stacked else [[member] for member in members]
    if stacked is True and len(groups) > 1:
        raise refusal("the trainings differ in shapes, optimizer, clipping or loss")
    numbers = {id(state): number for number, (_, state) in enumerate(members)}
    failures: Failures = {}
    for group in groups:
        failed = _train_group(group, stacked, title)
        failures |= {numbers[id(state)]: error for state, error in failed}
    return dict(sorted(failures.items()))


def advance_stacked(
    members: Sequence[Member],
    until: Sequence[int],
    *,
    stacked: Stacked = "auto",
    title: str = "training",
    between: Between | None = None,
) -> tuple[list[int], Failures]:
    """Advance the members that can be stacked, each to a step of its own, where it can be saved and advanced again.

    Returns the indexes of the other members, which were not changed, and the errors of failed ones by their index.

    Args:
        members: the task and the state of each training.
        until: the step to which each is advanced.
        stacked: "auto" and True stack what can be stacked; False stacks nothing.
        title: the name on the progress line.
        between: called after each step with the loop and its live states.
    """
    check_choice(stacked)
    numbers = {id(state): number for number, (_, state) in enumerate(members)}
    left: list[int] = []
    failures: Failures = {}
    for group in _groups(members) if stacked else [[member] for member in members]:
        steps = [until[numbers[id(state)]] for _, state in group]
        alone = len(group) == 1 or not stacked or _not_stacked(group)
        failed: list[Failed] = []
        if alone or _train_as_one(group, title, failed, steps, between) is not None:
            left += [numbers[id(state)] for _, state in group]
        failures |= {numbers[id(state)]: error for state, error in failed}
    return sorted(left), failures


def _not_stacked(group: list[Member]) -> bool:
    """Whether a group of several members is not stacked with "auto"."""
    return any(config_obstacle(state.config) for _, state in group) or bool(not_worth_it(group[0][1]))


def check_choice(stacked: object) -> None:
    """Raise if `stacked` is not "auto", True or False."""
    if stacked not in ("auto", True, False):
        raise ConfigError(f"stacked must be 'auto', True or False, but got stacked={stacked!r}")


def refusal(reason: str) -> ConfigError:
    """The error for stacked=True where stacking is not possible."""
    return ConfigError(
        f"stacked=True trains all in one computation, but that is not possible here: {reason}. Use stacked='auto', "
        "which trains one after the other where necessary"
    )


def _groups(members: Sequence[Member]) -> list[list[Member]]:
    groups: list[list[Member]] = []
    for member in members:
        # All members of a stack are at the same step.
        same = (group for group in groups if group[0][1].step == member[1].step and agree(group[0], member))
        group = next(same, None)
        if group is None:
            groups.append([member])
        else:
            group.append(member)
    return groups


def _train_group(group: list[Member], stacked: Stacked, title: str) -> list[Failed]:
    reason = None if stacked else "stacked=False"
    if stacked:
        reason = next((found for _, state in group if (found := config_obstacle(state.config))), None)
        if reason is None and stacked == "auto":
            reason = "no other training is like it" if len(group) == 1 else not_worth_it(group[0][1])
    if reason is None:
        failures: list[Failed] = []
        reason = _train_as_one(group, title, failures)
        if reason is None:
            return failures
    if stacked is True:
        raise refusal(reason)
    log.info("%d trainings run one after the other: %s", len(group), reason)
    failed = []
    for task, state in group:
        try:
            train(task, state, title=title)
        except NeuroDivergentError as error:
            failed.append((state, error))
    return failed


def _train_as_one(
    group: list[Member],
    title: str,
    failures: list[Failed],
    until: Sequence[int] | None = None,
    between: Between | None = None,
) -> str | None:
    """Train a group as a stack; return None, or why it cannot be stacked. Then nothing was changed."""
    generator_state = torch.get_rng_state()
    try:
        with surroundings(group[0][1].config):
            stack = StackedSteps(group)
            try:
                if (reason := obstacle(stack)) is None:
                    log.info("%d trainings run as one stack", len(group))
                    failures += StackedLoop(stack, title, until, between).run()
            finally:
                release(stack.members)
    finally:
        torch.set_rng_state(generator_state)
    return reason
