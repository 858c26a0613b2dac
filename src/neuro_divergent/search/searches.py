"""The searches: which settings are tried, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.core.registry import normalise
from neuro_divergent.metrics.base import canonical
from neuro_divergent.search.scoring import direction_of
from neuro_divergent.search.settings import Count, Search

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

LARGEST_GRID = 1000
"""Most points of a grid without `n_trials`."""


def _spelled(name: str, short: str) -> BeforeValidator:
    """A validator that also takes another spelling of a name: "Matern52", "NSGA-II"."""
    known = {normalise(name), short}
    return BeforeValidator(lambda given: name if isinstance(given, str) and normalise(given) in known else given)


COSTS = ("training_time", "model_size")
"""Objectives that are no metrics: CPU seconds of the trainings, and the number of parameters."""


class RandomSearch(Search):
    """Tries points that are drawn at random from the space."""

    n_trials: Count = 100
    """Number of trials."""

    @property
    def budget(self) -> int:
        """How many trials the search has at most."""
        return self.n_trials

    def own_sampler(self, seed: int) -> BaseSampler:
        """Independent draws."""
        from optuna.samplers import RandomSampler

        return RandomSampler(seed=seed)


class GridSearch(Search):
    """Tries every point of a grid exactly once."""

    points: Count = 5
    """Values of each continuous range. Other dimensions have all their values."""
    n_trials: Count | None = None
    """Limit of the number of trials; None tries the whole grid, which may have 1,000 points."""

    @model_validator(mode="after")
    def _size(self) -> Self:
        if self.space is not None and self.n_trials is None and self.grid_size > LARGEST_GRID:
            raise ConfigError(
                f"a grid may have {LARGEST_GRID} points without a limit, but this one has {self.grid_size}. Set "
                f"n_trials, use fewer values (points={self.points}), or use RandomSearch"
            )
        return self

    @property
    def grid_size(self) -> int:
        """The number of points of the grid."""
        assert self.space is not None
        return self.space.grid_size(self.points)

    @property
    def budget(self) -> int:
        """How many trials the search has at most: a grid ends with its last point that the constraints allow."""
        assert self.space is not None
        if not self.space.constraints:
            return min(self.n_trials or self.grid_size, self.grid_size)
        return len(list(islice(self.space.grid(self.points, most=None), self.n_trials)))

    def own_sampler(self, seed: int) -> BaseSampler:  # noqa: ARG002
        """The point whose position in the grid is the number of the trial."""
        from neuro_divergent.search.samplers import by_number

        assert self.space is not None
        return by_number(self.space, self.points, self.n_trials)


class TPESearch(Search):
    """Tries points that are likely better than the earlier ones: a tree-structured Parzen estimator (Optuna's)."""

    adaptive: ClassVar[bool] = True

    n_trials: Count = 100
    """Number of trials."""
    n_initial_points: Count = 10
    """Random trials before the estimator is used."""

    @property
    def budget(self) -> int:
        """How many trials the search has at most."""
        return self.n_trials

    def own_sampler(self, seed: int) -> BaseSampler:
        """Optuna's TPE. Trials that run count as bad ones, so that parallel trials differ."""
        from optuna.samplers import TPESampler

        return TPESampler(seed=seed, n_startup_trials=self.n_initial_points, constant_liar=True)


class BayesianOptimization(Search):
    """Tries points by a Gaussian process of the scores: Optuna's GP sampler with log expected improvement."""

    adaptive: ClassVar[bool] = True

    n_calls: Count = 50
    """Number of trials."""
    n_initial_points: Count = 10
    """Random trials before the Gaussian process is used."""
    acquisition: Annotated[str, _spelled("expected_improvement", "ei")] = "expected_improvement"
    """The acquisition function. Its logarithm is used, which has the same maximum and is numerically stable."""
    kernel: Annotated[str, _spelled("matern52", "matern")] = "matern52"
    """The kernel of the Gaussian process: Matérn 5/2, one length scale per dimension."""
    alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e-6
    """Least variance of the noise of a score, in units of the variance of all scores."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name, known in (("acquisition", "expected_improvement"), ("kernel", "matern52")):
            if getattr(self, name) != known:
                raise ConfigError(
                    f"{name} must be {known!r}, the only one there is, but got {name}={getattr(self, name)!r}"
                )
        return self

    @property
    def budget(self) -> int:
        """How many trials the search has at most."""
        return self.n_calls

    def own_sampler(self, seed: int) -> BaseSampler:
        """Optuna's GP sampler with this least noise."""
        from optuna.samplers import GPSampler

        sampler = GPSampler(seed=seed, n_startup_trials=self.n_initial_points, warn_independent_sampling=False)
        sampler._minimum_noise = self.alpha
        return sampler


def _objectives(value: Any) -> Any:
    if not isinstance(value, Mapping) or len(value) < 2:
        raise ConfigError(
            'objectives must be two or more, such as {"accuracy": 0.7, "model_size": 0.3}, but got '
            f"objectives={value!r}"
        )
    return {canonical(str(name)): _objective(canonical(str(name)), given) for name, given in value.items()}


def _objective(name: str, given: Any) -> tuple[str, float]:
    """Direction and weight from a weight, a text ("minimize 0.2"), a pair ("minimize", 0.2) or {"minimize": 0.2}."""
    usual = "maximize" if name == "accuracy" else "minimize" if name in COSTS else direction_of(name)
    if isinstance(given, Mapping) and len(given) == 1:
        given = next(iter(given.items()))
    parts = given.split() if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else [given]
    direction, weight = (parts[0], parts[1]) if len(parts) == 2 else (usual, parts[0])
    try:
        number = float(weight)
    except (TypeError, ValueError):
        number = -1.0
    if len(parts) > 2 or not 0 <= number < float("inf") or direction not in ("minimize", "maximize"):
        raise ConfigError(
            f"an objective has a weight of at least 0, or a direction and a weight such as '{usual} 0.2', but "
            f"{name} has {given!r}"
        )
    if direction != usual:
        raise ConfigError(f"{name} gets better when it is {usual}d, but got {given!r}. Write '{usual} {number:g}'")
    return direction, number


class MultiObjectiveSearch(Search):
    """Searches the Pareto front of several objectives with NSGA-II, and recommends one of its points by weights."""

    adaptive: ClassVar[bool] = True

    objectives: Takes[
        Annotated[dict[str, tuple[str, float]], BeforeValidator(_objectives)],
        Mapping[str, float | str | tuple[str, float]],
    ] = default({"accuracy": ("maximize", 0.7), "training_time": ("minimize", 0.2), "model_size": ("minimize", 0.1)})
    """The objectives with direction and weight: accuracy (the scoring metric, negated where smaller is better),
    training_time (CPU seconds), model_size (parameters), or a metric. A weight alone takes the usual direction."""
    algorithm: Annotated[Literal["nsga2"], _spelled("nsga2", "nsgaii")] = "nsga2"
    """How the points are chosen."""
    population_size: Annotated[int, Field(ge=2)] = 50
    """Trials of a generation."""
    generations: Count = 100
    """Number of generations."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.pruner is not None:
            raise ConfigError("a search with several objectives has no single score to prune by: set pruner=None")
        if self.early_stopping is not None:
            raise ConfigError("a search with several objectives has no single best score: set early_stopping=None")
        if not any(weight > 0 for _, weight in self.objectives.values()):
            raise ConfigError("at least one objective needs a weight above 0, but all are 0")
        return self

    @property
    def budget(self) -> int:
        """How many trials the search has at most."""
        return self.population_size * self.generations

    @property
    def directions(self) -> dict[str, str]:
        """Name and direction of each objective."""
        return {name: direction for name, (direction, _) in self.objectives.items()}

    def own_sampler(self, seed: int) -> BaseSampler:
        """Optuna's NSGA-II."""
        from optuna.samplers import NSGAIISampler

        return NSGAIISampler(population_size=self.population_size, seed=seed)
