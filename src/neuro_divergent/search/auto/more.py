"""Further members for the time that is left: points of the best models' search spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError, MissingExtraError
from neuro_divergent.core.extras import require
from neuro_divergent.search.auto.member import Wanted
from neuro_divergent.search.storage import quiet

if TYPE_CHECKING:
    from optuna.study import Study

    from neuro_divergent.search.space import SearchSpace

TRIES = 20
"""A space may give the same point again, or an impossible one: it is asked at most so often."""


def can_search() -> bool:
    """Whether the extra `search` is installed."""
    try:
        require("optuna", extra="search", purpose="A search")
    except MissingExtraError:
        return False
    return True


@dataclass
class More:
    """The search around one model of the portfolio: its default space, and the scores so far."""

    base: Wanted
    seed: int
    tried: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        import optuna

        self.space: SearchSpace = self.base.model.search_space(self.base.config)
        with quiet():
            sampler = optuna.samplers.TPESampler(seed=self.seed, n_startup_trials=4, multivariate=True, group=True)
            self.study: Study = optuna.create_study(sampler=sampler)
        self._open: dict[str, Any] = {}

    def begin(self, badness: float) -> None:
        """Tell the score of the model as it is in the portfolio, so that the search begins with its defaults."""
        point = self.space.default_point(self.base.model, self.base.config)
        if point is not None:
            self.told(point, badness)

    def told(self, point: Mapping[str, Any], badness: float) -> None:
        """Tell the score of a point that this process did not ask for."""
        with quiet():
            self.study.enqueue_trial(dict(point))
            trial = self.study.ask()
            self.tried.append(self.space.suggest(trial))
            self.study.tell(trial, badness)

    def ask(self, name: str) -> Wanted | None:
        """The next model to try; None if the space has no other point."""
        for _ in range(TRIES):
            with quiet():
                trial = self.study.ask()
                point = self.space.suggest(trial)
                if point in self.tried or not self.space.allows(point):
                    self.study.tell(trial, state=_failed())
                    continue
            self.tried.append(point)
            try:
                model, config = self.space.apply(point, self.base.model, self.base.config)
            except ConfigError:
                with quiet():
                    self.study.tell(trial, state=_failed())
                continue
            self._open[name] = trial
            return Wanted(model, config, name, "search", dict(point))
        return None

    def tell(self, name: str, badness: float | None) -> None:
        """Tell the score of a model that was asked for; None for a failed training."""
        trial = self._open.pop(name, None)
        if trial is None:
            return
        with quiet():
            if badness is None:
                self.study.tell(trial, state=_failed())
            else:
                self.study.tell(trial, badness)


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL


def unused_name(base: str, taken: Sequence[str]) -> str:
    """A name for another setting of a model."""
    number = 1
    while f"{base} search {number}" in taken:
        number += 1
    return f"{base} search {number}"
