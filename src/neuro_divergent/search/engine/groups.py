"""Which trials come next: those that a killed process left, those that are promoted, new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuro_divergent.core.errors import NeuroDivergentError, first_line
from neuro_divergent.search.engine.ledger import Ledger
from neuro_divergent.search.engine.rungs import Rule, Stage
from neuro_divergent.search.engine.slots import Running
from neuro_divergent.search.engine.work import Wanted
from neuro_divergent.search.searches import COSTS, MultiObjectiveSearch
from neuro_divergent.search.settings import Search
from neuro_divergent.search.study import STACK, Trials
from neuro_divergent.training.config.training_config import TrainingConfig

STACK_OF_ANY, STACK_OF_ADAPTIVE = 16, 4
"""Trials that are trained together: many if trials do not depend on earlier results, few if they do."""
BATCH = 16
"""Trials that a deterministic search asks for at once."""


class Groups:
    """Makes groups of trials. The members of a group have the same stage and are trained together.

    Args:
        search: what is searched.
        trials: the trials of the study.
        rule: the stages of a trial.
        ledger: trials with an impossible point end there.
        one_thread: whether each training uses one thread.
    """

    def __init__(self, search: Search, trials: Trials, rule: Rule, ledger: Ledger, one_thread: bool) -> None:
        self.search, self.trials, self.rule, self.ledger = search, trials, rule, ledger
        self._one_thread = one_thread
        self._looked = False
        self.closing = False
        """Whether no more trials will come: then the best of each rung go on."""

    @property
    def size(self) -> int:
        """Most trials of a group."""
        timed = isinstance(self.search, MultiObjectiveSearch) and COSTS[0] in self.search.objectives
        if self.search.stacked is False or timed:
            return 1
        return STACK_OF_ADAPTIVE if self.search.adaptive or self.rule.pauses else STACK_OF_ANY

    def batch(self) -> list[list[Running]]:
        """The groups of the next batch of a deterministic search, written down before they start."""
        groups: list[list[Running]] = []
        while sum(map(len, groups)) < BATCH and (group := self.next()):
            groups.append(group)
            if self.closing:
                break
        for group in groups:
            members = [one.number for one in group]
            for one in group:
                one.batch = members[0]
                self.trials.note(one.number, STACK, members)
        return groups

    def next(self) -> list[Running]:
        """The next group; empty if there is nothing to do."""
        found = [] if self._looked and not self.rule.pauses else self._begun()
        found = found or self._new()
        return found or self._begun()  # another process may have left one meanwhile

    def _begun(self) -> list[Running]:
        """Trials that go on."""
        self._looked = True
        with self.trials.claims.asking():
            return self._left_over() or self._promoted()

    def _new(self) -> list[Running]:
        """New trials, unless the budget or the patience is used up."""
        limit = self.search.early_stopping
        while not self.closing and (limit is None or self.ledger.without_gain < limit):
            asked = self.trials.ask(self.size)
            group = [run for number, point in asked if (run := self._started(number, point)) is not None]
            if group or not asked:  # all points may be impossible: then the next ones are tried
                return group
        return []

    def _left_over(self) -> list[Running]:
        """Trials whose process was killed before their first pause."""
        left = [one for one in self.trials.abandoned() if not (self.rule.pauses and one.intermediate_values)]
        if left and self.search.deterministic:  # trained together again, as it was written down
            members = left[0].user_attrs.get(STACK, [left[0].number])
            left = [one for one in left if one.number in members]
        stage = self.rule.following(left[0]) if left else None
        return self._taken([one.number for one in left if self.rule.following(one) == stage])

    def _promoted(self) -> list[Running]:
        """Paused trials that go on."""
        if not self.rule.pauses:
            return []
        trials = {one.number: one for one in self.trials.all()}
        numbers = self.rule.promotable(list(trials.values()), self.trials.sign, closing=self.closing)
        free = [number for number in numbers if number not in self.trials.claims.held]
        stage = self.rule.following(trials[free[0]]) if free else None
        return self._taken([number for number in free if self.rule.following(trials[number]) == stage])

    def _taken(self, numbers: Sequence[int]) -> list[Running]:
        taken = self.trials.take(numbers[: self.size])
        made = [self._started(one.number, self.trials.point(one), self.rule.following(one)) for one in taken]
        return [one for one in made if one is not None]

    def _started(self, number: int, point: dict[str, Any], stage: Stage | None = None) -> Running | None:
        """A trial that is ready to be trained; None if its point is impossible, which is a failure."""
        try:
            model, config = self.trials.space.apply(point, self.search.model, self.search.config)
        except NeuroDivergentError as error:
            self.ledger.fail(number, first_line(error))
            return None
        return Running(Wanted(number, model, self._trained_as(config)), stage or self.rule.stages(number)[0])

    def _trained_as(self, config: TrainingConfig) -> TrainingConfig:
        """The configuration of a trial: small trainings are not worth a compiler, and processes share the cores."""
        changes: dict[str, Any] = {"compile": False} if config.compile == "auto" else {}
        if config.threads == "auto" and (self._one_thread or self.search.deterministic):
            changes["threads"] = 1
        return config.replace(**changes) if changes else config
