"""The study of a search in Optuna's storage: ask for trials, report scores, tell results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError, TrainingError
from neuro_divergent.search.claims import Claims
from neuro_divergent.search.plan import Plan, read_document
from neuro_divergent.search.settings import Search
from neuro_divergent.search.storage import quiet, storage_of

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

NAME = "search"
"""The name of the study in its SQLite file; in another database its id follows."""
FACTS = "facts"
"""User attribute of a finished trial: seconds, steps, parameters, scores of its folds."""
ERROR = "error"
"""User attribute of a failed trial: why it failed."""
EXCLUDED = "excluded"
"""User attribute of a trial whose point a constraint does not allow."""
NESTED = "nested"
"""User attribute of a study: the score of the winner on the rows that no trial saw."""
STACK = "stack"
"""User attribute of a trial: the numbers of the trials that are trained with it, if the search is deterministic."""

MOST_EXCLUDED = 1000
"""Largest number of points in a row that constraints exclude."""


def study_name(directory: Path, url: str | None) -> str:
    """The name of a study in its storage. A database may have several, each with the id that study.json has."""
    if url is None:
        return NAME
    document = read_document(directory)
    return f"{NAME}-{directory.name if document is None else document.get('id', directory.name)}"


class Trials:
    """The trials of a study, for one process that searches.

    Trials of this process are claimed (claims.py). A trial that is running and not claimed is paused, or its process
    was killed: it goes on here.
    """

    def __init__(self, search: Search, directory: Path, plan: Plan, pruner: Any) -> None:
        import optuna

        assert search.space is not None
        self.search, self.plan, self.space = search, plan, search.space
        self.claims = Claims(directory)
        self.given_sampler = search.sampler
        self.budget = search.budget
        if not self.budget:
            raise ConfigError("the constraints of a space must allow points, but they exclude the whole grid")
        with self.claims.asking():  # two processes that begin at once make one study
            storage = storage_of(directory, search.storage)
            self.study: Study = optuna.create_study(
                storage=storage,
                study_name=study_name(directory, search.storage),
                directions=list(search.directions.values()),  # type: ignore[arg-type]  # two words
                sampler=self.given_sampler or search.own_sampler(search.seed),
                pruner=pruner or optuna.pruners.NopPruner(),
                load_if_exists=True,
            )
            self._storage = self.study._storage
            if not self.study.get_trials(deepcopy=False):
                self.study.set_metric_names(list(search.directions))
                self._enqueue_first()
        self.sign = 1.0 if next(iter(search.directions.values())) == "minimize" else -1.0

    def _enqueue_first(self) -> None:
        """The model as it is, then the points to try first. A grid has its own order."""
        from optuna.samplers import GridSampler

        if hasattr(self.search, "points") or isinstance(self.given_sampler, GridSampler):
            return
        default = self.space.default_point(self.search.model, self.search.config)
        for point in [*([] if default is None else [default]), *self.space.first]:
            self.study.enqueue_trial(dict(point), skip_if_exists=True)

    def all(self) -> list[FrozenTrial]:
        """All trials, as they are in the storage now."""
        self.study._thread_local.cached_all_trials = None
        return self.study.get_trials(deepcopy=False)

    def ask(self, most: int) -> list[tuple[int, dict[str, Any]]]:
        """Up to `most` new trials, claimed: their numbers and points. Fewer if the budget is used up."""
        from optuna.trial import TrialState

        found: list[tuple[int, dict[str, Any]]] = []
        excluded = 0
        with self.claims.asking(), quiet():
            begun = [one for one in self.all() if one.state != TrialState.WAITING]
            count = sum(EXCLUDED not in one.user_attrs for one in begun)
            number = len(begun)
            while len(found) < most and count < self.budget and not self.exhausted:
                if self.given_sampler is None:
                    self.study.sampler = self.search.own_sampler(self.search.seed + 1_000_003 * (number + 1))
                trial = self.study.ask()
                point = self.space.suggest(trial)
                number += 1
                if not self.space.allows(point):
                    excluded += 1
                    trial.set_user_attr(EXCLUDED, True)
                    self.study.tell(trial, state=TrialState.PRUNED)
                    if excluded >= MOST_EXCLUDED:
                        raise ConfigError(
                            f"the constraints of a space must allow points, but they excluded {excluded} in a row"
                        )
                    continue
                count += 1
                self.claims.claim(trial.number)
                found.append((trial.number, point))
        return found

    @property
    def exhausted(self) -> bool:
        """Whether a sampler of Optuna has said that there are no more points to try."""
        return self.study._stop_flag

    def abandoned(self) -> list[FrozenTrial]:
        """Running trials that no process works on."""
        from optuna.trial import TrialState

        return [
            one
            for one in self.all()
            if one.state == TrialState.RUNNING and one.number not in self.claims.held and not self._is_claimed(one)
        ]

    def _is_claimed(self, trial: FrozenTrial) -> bool:
        if not self.claims.claim(trial.number):
            return True
        self.claims.release(trial.number)
        return False

    def take(self, numbers: Sequence[int]) -> list[FrozenTrial]:
        """Claim these trials; those that another process has taken or ended meanwhile are left out."""
        claimed = [number for number in numbers if number not in self.claims.held and self.claims.claim(number)]
        taken = []
        by_number = {one.number: one for one in self.all()} if claimed else {}
        for number in claimed:  # read after the claim: another process may have ended it before
            if by_number[number].state.is_finished():
                self.claims.release(number)
            else:
                taken.append(by_number[number])
        return taken

    def point(self, trial: FrozenTrial) -> dict[str, Any]:
        """The point of a trial. A trial that was killed before all values were drawn gets the rest now."""
        import optuna

        names = set(trial.params)
        with quiet():
            try:
                point = self.space.suggest(optuna.trial.FixedTrial(trial.params))
                if set(point) <= names:
                    return point
            except ValueError:
                pass
            return self.space.suggest(optuna.trial.Trial(self.study, trial._trial_id))

    def report(self, number: int, step: int, value: float) -> FrozenTrial:
        """Store the score of a stage. Returns the trial with it."""
        trial_id = self._id(number)
        self._storage.set_trial_intermediate_value(trial_id, step, value)
        self.study._thread_local.cached_all_trials = None
        return self._storage.get_trial(trial_id)

    def should_prune(self, trial: FrozenTrial) -> bool:
        """Whether the pruner of Optuna ends the trial."""
        with quiet():
            return self.study.pruner.prune(self.study, trial)

    def tell(self, number: int, values: Sequence[float], facts: dict[str, Any]) -> None:
        """End a trial with its scores."""
        self._end(number, {FACTS: facts}, values=list(values))

    def prune(self, number: int, facts: dict[str, Any] | None = None) -> None:
        """End a trial before its last stage."""
        from optuna.trial import TrialState

        self._end(number, {} if facts is None else {FACTS: facts}, state=TrialState.PRUNED)

    def fail(self, number: int, why: str) -> None:
        """End a trial that failed."""
        from optuna.trial import TrialState

        self._end(number, {ERROR: why}, state=TrialState.FAIL)

    def _end(self, number: int, attributes: dict[str, Any], **told: Any) -> None:
        trial_id = self._id(number)
        for name, value in attributes.items():
            self._storage.set_trial_user_attr(trial_id, name, value)
        self.study._thread_local.in_optimize_loop = True  # else samplers may not stop the study
        with quiet():
            self.study.tell(number, **told)
        self.claims.release(number)

    def note(self, number: int, name: str, value: Any) -> None:
        """Store a user attribute of a running trial."""
        self._storage.set_trial_user_attr(self._id(number), name, value)

    def _id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self.study._study_id, number)

    def close(self) -> None:
        """Give all claims up."""
        self.claims.release_all()
        with quiet():
            backend = getattr(self._storage, "_backend", None)
            if backend is not None:
                backend.remove_session()


def best_of(trials: Sequence[FrozenTrial], sign: float) -> FrozenTrial | None:
    """The finished trial with the best score; the earlier one of two equal ones."""
    from optuna.trial import TrialState

    done = [one for one in trials if one.state == TrialState.COMPLETE and math.isfinite(one.values[0])]
    return min(done, key=lambda one: (sign * one.values[0], one.number), default=None)


def refuse_all_failed(trials: Sequence[FrozenTrial]) -> None:
    """Raise if every trial has failed, with their messages."""
    messages: dict[str, int] = {}
    for one in trials:
        why = str(one.user_attrs.get(ERROR, "it was ended by another program"))
        messages[why] = messages.get(why, 0) + 1
    told = "; ".join(f"{why} ({count} trial{'' if count == 1 else 's'})" for why, count in list(messages.items())[:3])
    raise TrainingError(f"a search needs one trial that ends, but all {len(trials)} failed: {told}")
