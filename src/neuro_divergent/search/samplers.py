"""Samplers that Optuna does not have."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from optuna.samplers import BaseSampler, RandomSampler

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from neuro_divergent.search.space import SearchSpace


class ByNumber(BaseSampler):
    """Gives trial n the n-th point of a grid.

    Optuna numbers trials without a gap or a repetition, also if several processes ask. So each point is tried exactly
    once.
    """

    def __init__(self, points: list[dict[str, Any]]) -> None:
        self._points = points
        self._random = RandomSampler(seed=0)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        """Nothing: each value is given by `sample_independent`."""
        return {}

    def sample_relative(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002
    ) -> dict[str, Any]:
        """Nothing: each value is given by `sample_independent`."""
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The value of the trial's point."""
        point = self._points[trial.number] if trial.number < len(self._points) else {}
        if param_name in point:
            return point[param_name]
        return self._random.sample_independent(study, trial, param_name, param_distribution)


_GRIDS: dict[tuple[str, int, int | None], ByNumber] = {}


def by_number(space: SearchSpace, points: int, most: int | None) -> ByNumber:
    """The sampler of the first `most` points of a grid. They are listed once."""
    key = (space.fingerprint(), points, most)
    if key not in _GRIDS:
        _GRIDS.clear()
        _GRIDS[key] = ByNumber(list(islice(space.grid(points, most=None), most)))
    return _GRIDS[key]
