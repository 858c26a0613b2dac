"""When a trial pauses, and whether it goes on: the stages of a trial and the rules of pruning.

A trial is trained in stages. After each stage it is scored, and a rule decides: go on, pause, or prune. Paused trials
keep a checkpoint and may be promoted later. Pruned trials have ended.

Successive halving is the asynchronous one (ASHA; Li et al. 2020, A System for Massively Parallel Hyperparameter
Tuning): of all trials that have finished a stage, the best 1/eta go on. Hyperband (Li et al. 2018) runs several such
ladders, called brackets, that begin with longer and longer first stages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.search.settings import Search

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

ETA = 3
LADDER = 3
"""Stages of successive halving: 1/9, 1/3 and all of the steps."""
EQUAL_STAGES = 8
"""Stages of a trial under a pruner of Optuna."""


@dataclass(frozen=True)
class Stage:
    """A part of a trial, at the end of which it is scored."""

    step: int
    """The step under which the score is reported to Optuna."""
    share: float = 1.0
    """The share of its steps up to which the trial is trained."""
    folds: int | None = None
    """How many folds are trained; None for all."""


class Rule(ABC):
    """Decides whether a trial goes on after a stage."""

    pauses = False
    """Whether a trial may pause and be promoted later."""

    @abstractmethod
    def stages(self, number: int) -> list[Stage]:
        """The stages of a trial, by its number."""

    def promotable(self, trials: Sequence[FrozenTrial], sign: float, *, closing: bool) -> list[int]:  # noqa: ARG002
        """Numbers of paused trials that may go on, best first."""
        return []

    def hopeless(self, trials: Sequence[FrozenTrial], sign: float, budget: int) -> list[int]:  # noqa: ARG002
        """Numbers of paused trials that cannot be promoted any more."""
        return []

    def following(self, trial: FrozenTrial) -> Stage | None:
        """The next stage of a trial; None if it has finished all."""
        done = max(trial.intermediate_values, default=-1)
        return next((stage for stage in self.stages(trial.number) if stage.step > done), None)


class WholeTrials(Rule):
    """No pruning: a trial is one stage."""

    def stages(self, number: int) -> list[Stage]:  # noqa: ARG002
        """One stage."""
        return [Stage(step=1)]


class EqualStages(Rule):
    """Stages of equal length, for a pruner of Optuna."""

    def stages(self, number: int) -> list[Stage]:  # noqa: ARG002
        """Stages of equal length."""
        return [Stage(step=part, share=part / EQUAL_STAGES) for part in range(1, EQUAL_STAGES + 1)]


@dataclass(frozen=True)
class FoldByFold(Rule):
    """One fold after the other, for the Wilcoxon pruner, which compares the folds of two trials."""

    folds: int

    def stages(self, number: int) -> list[Stage]:  # noqa: ARG002
        """One stage for each fold."""
        return [Stage(step=fold, folds=fold + 1) for fold in range(self.folds)]


@dataclass(frozen=True)
class Halving(Rule):
    """Asynchronous successive halving; with several brackets Hyperband."""

    brackets: int = 1
    pauses = True

    def bracket(self, number: int) -> int:
        """The bracket of a trial. Brackets with a shorter first stage get more trials, as in the paper."""
        shares = [-(-self.brackets * ETA**s // (s + 1)) for s in reversed(range(self.brackets))]
        place = number * 7 % sum(shares)  # 7 divides no such sum: the brackets alternate
        for bracket, share in enumerate(shares):
            if place < share:
                return bracket
            place -= share
        raise AssertionError("place is less than the sum of all shares")

    def stages(self, number: int) -> list[Stage]:
        """The rungs of the trial's bracket: the step is the number of smallest parts that are trained."""
        rungs = range(self.bracket(number), LADDER)
        return [Stage(step=ETA**rung, share=ETA ** (rung - LADDER + 1)) for rung in rungs]

    def promotable(self, trials: Sequence[FrozenTrial], sign: float, *, closing: bool) -> list[int]:
        """Paused trials among the best 1/eta of their rung, the highest rung first.

        Args:
            trials: all trials.
            sign: 1 to minimise, -1 to maximise.
            closing: no more trials will come: then the best of a rung goes on even if it is alone.
        """
        found = []
        for rung in reversed(range(LADDER - 1)):
            for bracket in range(min(rung, self.brackets - 1) + 1):
                ranked = self._ranked(trials, bracket, ETA**rung, sign)
                best = ranked[: max(len(ranked) // ETA, 1 if closing else 0)]
                found += [trial.number for trial in best if _paused_at(trial, ETA**rung)]
        return found

    def hopeless(self, trials: Sequence[FrozenTrial], sign: float, budget: int) -> list[int]:
        """Paused trials that are worse than all that a rung could ever promote."""
        found = []
        for bracket in range(self.brackets):
            coming = sum(self.bracket(number) == bracket for number in range(budget))
            for rung in range(bracket, LADDER - 1):
                ranked = self._ranked(trials, bracket, ETA**rung, sign)
                worse = ranked[max(1, coming // ETA) :]
                found += [trial.number for trial in worse if _paused_at(trial, ETA**rung)]
        return found

    def _ranked(self, trials: Sequence[FrozenTrial], bracket: int, step: int, sign: float) -> list[FrozenTrial]:
        """The trials of a bracket that have finished a rung, best first."""
        there = [one for one in trials if step in one.intermediate_values and self.bracket(one.number) == bracket]
        return sorted(there, key=lambda one: (sign * one.intermediate_values[step], one.number))


def _paused_at(trial: FrozenTrial, step: int) -> bool:
    """Whether a trial has not ended and has a score of this step as its last one."""
    return not trial.state.is_finished() and max(trial.intermediate_values) == step


def rule_of(search: Search, folds: int) -> tuple[Rule, Any]:
    """The rule of a search, and the pruner of Optuna that decides, if one does."""
    import optuna

    given = search.pruner
    if given is None:
        return WholeTrials(), None
    if given == "successive_halving":
        return Halving(), None
    if given == "hyperband":
        return Halving(brackets=LADDER), None
    if given == "wilcoxon":
        if folds < 2:
            raise ConfigError("the Wilcoxon pruner compares folds, so it needs several, but there is 1. Set cv_folds=5")
        return FoldByFold(folds), optuna.pruners.WilcoxonPruner(n_startup_steps=min(2, folds - 1))
    if given == "median":
        return EqualStages(), optuna.pruners.MedianPruner(n_startup_trials=5)
    if given == "patient":
        return EqualStages(), optuna.pruners.PatientPruner(optuna.pruners.MedianPruner(n_startup_trials=5), patience=1)
    if isinstance(given, optuna.pruners.WilcoxonPruner) and folds > 1:
        return FoldByFold(folds), given
    return EqualStages(), given
