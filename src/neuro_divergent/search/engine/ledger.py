"""What became of the trials: tells the study, counts, and deletes files that nobody needs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import TrainingError
from neuro_divergent.search.amounts import in_words
from neuro_divergent.search.engine import disk
from neuro_divergent.search.engine.progress import Progress
from neuro_divergent.search.engine.rungs import Rule
from neuro_divergent.search.engine.work import Outcome
from neuro_divergent.search.plan import Plan
from neuro_divergent.search.scoring import direction_of
from neuro_divergent.search.searches import COSTS, MultiObjectiveSearch
from neuro_divergent.search.settings import Search
from neuro_divergent.search.storage import RESUME
from neuro_divergent.search.study import EXCLUDED, Trials, best_of, refuse_all_failed

log = logging.getLogger(__name__)

LARGEST = 1.7e308
"""A bound that every score meets, which JSON can hold."""


class Ledger:
    """The ended trials of a search."""

    def __init__(
        self, search: Search, plan: Plan, directory: Path, trials: Trials, rule: Rule, progress: Progress
    ) -> None:
        self.search, self.plan, self.directory = search, plan, directory
        self.trials, self.rule, self.progress = trials, rule, progress
        self.best: tuple[float, int] | None = None
        """Score and number of the best trial."""
        self.without_gain = 0
        """Trials since the best one got better."""
        self.stopped = False
        """Whether a callback ended the search, or its time is over: then it can go on later."""
        self._several = isinstance(search, MultiObjectiveSearch)
        self._counts = {"done": 0, "pruned": 0, "failed": 0}
        for one in sorted((one for one in trials.all() if one.state.is_finished()), key=lambda one: one.number):
            if EXCLUDED not in one.user_attrs:
                self._count(one.state.name, one.number, one.values[0] if one.state.name == "COMPLETE" else None)
        progress.before = self._counts["done"]

    def values(self, outcome: Outcome) -> list[float]:
        """The objectives of a trial."""
        metric = self.search.metric
        known = dict(outcome.scores) | {COSTS[0]: outcome.seconds, COSTS[1]: float(outcome.parameters)}
        known["accuracy"] = outcome.scores[metric] * (1 if direction_of(metric) == "maximize" else -1)
        return [known[name] for name in self.search.directions]

    def bound(self) -> dict[str, float] | None:
        """Which finished trials may be the best. With several objectives all are kept until the front is known."""
        if self._several:
            return None
        name, direction = next(iter(self.search.directions.items()))
        key = name if direction == "minimize" else f"-{name}"
        return {key: LARGEST if self.best is None else self.trials.sign * self.best[0]}

    def complete(self, number: int, outcome: Outcome) -> None:
        """End a trial with its scores."""
        values, before = self.values(outcome), self.best
        self.trials.tell(number, values, facts_of(outcome))
        self._count("COMPLETE", number, values[0])
        if self._several:
            self._keep({one.number for one in self.trials.study.best_trials})
        elif self.best is not None and self.best[1] != number:
            disk.delete_trial(self.directory, number)
        elif before is not None:
            disk.delete_trial(self.directory, before[1])
        disk.delete_checkpoints(self.directory, number)
        self._tell_callbacks(number)

    def prune(self, number: int, outcome: Outcome | None = None) -> None:
        """End a trial before its last stage."""
        self.trials.prune(number, None if outcome is None else facts_of(outcome))
        self._ended("PRUNED", number)

    def fail(self, number: int, why: str) -> None:
        """End a trial that failed."""
        self.trials.fail(number, why)
        self._ended("FAIL", number)

    def _ended(self, state: str, number: int) -> None:
        self._count(state, number, None)
        disk.delete_trial(self.directory, number)
        self._tell_callbacks(number)

    def prune_hopeless(self) -> None:
        """End the paused trials that cannot be promoted any more, and keep the others within the disk limit."""
        with self.trials.claims.asking():
            hopeless = self.rule.hopeless(self.trials.all(), self.trials.sign, self.trials.budget)
            for trial in self.trials.take(hopeless):
                self.prune(trial.number)
            while disk.used(self.directory) > self.search.max_disk and self._prune_worst():
                pass

    def _prune_worst(self) -> bool:
        """End the paused trial with the worst score; False if there is none."""
        paused = [one for one in self.trials.abandoned() if one.intermediate_values]
        worst = sorted(paused, key=lambda one: self.trials.sign * one.intermediate_values[max(one.intermediate_values)])
        for trial in self.trials.take([one.number for one in worst[-1:]]):
            limit = self.search.max_disk
            log.warning("trial %d was pruned, because the study may use %d bytes of disk", trial.number, limit)
            self.prune(trial.number)
            return True
        return False

    def _keep(self, wanted: set[int]) -> None:
        """Delete the files of finished trials but these."""
        unfinished = {one.number for one in self.trials.all() if not one.state.is_finished()}
        disk.keep_only(self.directory, wanted | unfinished)

    def _count(self, state: str, number: int, value: float | None) -> None:
        self._counts["done"] += 1
        self._counts["pruned"] += state == "PRUNED"
        self._counts["failed"] += state == "FAIL"
        sign = self.trials.sign
        rank = None if self.best is None else (sign * self.best[0], self.best[1])
        if value is not None and (rank is None or (sign * value, number) < rank):
            self.best, self.without_gain = (value, number), 0
        else:
            self.without_gain += 1

    def _tell_callbacks(self, number: int) -> None:
        if not self.search.callbacks:
            return
        trial = next(one for one in self.trials.all() if one.number == number)
        for callback in self.search.callbacks:
            if callback(self.trials.study, trial) is True:
                self.stopped = True

    def show(self, *, last: bool = False) -> None:
        """Update the progress line."""
        counts = self._counts
        self.progress.show(counts["done"], counts["pruned"], counts["failed"], self.best, last=last)

    def conclude(self) -> None:
        """End paused trials, unless the search can go on later; refuse a search without any result."""
        if not self.stopped:
            with self.trials.claims.asking():
                running = [one for one in self.trials.all() if one.state.name == "RUNNING"]
                abandoned = self.trials.abandoned()
                if len(abandoned) == len(running):  # else another process may still promote them
                    for trial in self.trials.take([one.number for one in abandoned]):
                        self.prune(trial.number)
        trials = [one for one in self.trials.all() if EXCLUDED not in one.user_attrs]
        best = best_of(trials, self.trials.sign)
        front = self.trials.study.best_trials if self._several else [] if best is None else [best]
        self._keep({one.number for one in front})
        self._refuse_nothing([one for one in trials if one.state.is_finished()])

    def _refuse_nothing(self, finished: Sequence[Any]) -> None:
        if finished and all(one.state.name == "FAIL" for one in finished):
            refuse_all_failed(finished)
        if not finished and self.search.timeout is not None:
            raise TrainingError(
                f"a search needs one trial that ends, but none did within timeout, {in_words(self.search.timeout)}. "
                "Go on with resume='auto', or give it more time",
                advice=[RESUME],
            )


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """What is stored of an ended trial besides its scores."""
    return {
        "seconds": round(outcome.seconds, 4),
        "steps": outcome.steps,
        "parameters": outcome.parameters,
        "scores": outcome.scores,
        "by_part": outcome.by_part,
    }
