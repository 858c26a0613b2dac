"""The domains of `ray.tune`, as plain data: what a hyperparameter may be.

A domain of Ray itself means the same: `read_domain` reads both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.space.dimensions import Dimension, Integers, LogUniform, Uniform


@dataclass(frozen=True)
class Domain:
    """The values of a hyperparameter."""

    dimension: Dimension | None = None
    """The range or choice; None for a value that is computed."""
    constant: Any = None
    """The only value, if there is no range."""
    step: float | None = None
    """The distance of the values of a logarithmic range."""
    normal: tuple[float, float] | None = None
    """Mean and standard deviation of a normal distribution."""
    function: Callable[..., Any] | None = None
    """Function of the rest of the configuration."""
    options: tuple[Any, ...] = ()
    """The values of a choice, of any type."""

    @property
    def categories(self) -> list[Any]:
        """The values of a choice."""
        return list(self.options)

    @property
    def lower(self) -> Any:
        """The smallest value."""
        return getattr(self.dimension, "low", self.constant)

    @property
    def upper(self) -> Any:
        """The end of the range, which whole numbers do not reach."""
        high = getattr(self.dimension, "high", self.constant)
        return high + 1 if isinstance(self.dimension, Integers) else high

    def suggest(self, trial: Any, name: str) -> Any:
        """The value that an Optuna trial suggests."""
        if self.normal is not None:
            value: Any = NormalDist(*self.normal).inv_cdf(trial.suggest_float(name, 1e-9, 1.0 - 1e-9))
        elif self.options:
            labels = [one if isinstance(one, _PRIMITIVES) else str(one) for one in self.options]
            chosen = trial.suggest_categorical(name, labels)
            return next(one for one, label in zip(self.options, labels, strict=True) if _same(label, chosen))
        elif self.dimension is None:
            return self.constant
        else:
            value = self.dimension.suggest(trial, name)
        return value if self.step is None else _rounded(value, self.step)


_PRIMITIVES = (str, int, float, bool, type(None))


def _same(label: Any, chosen: Any) -> bool:
    return type(label) is type(chosen) and label == chosen


def _rounded(value: float, step: float) -> float:
    rounded = round(value / step) * step
    return int(rounded) if float(step).is_integer() and isinstance(step, int) else rounded


def choice(categories: Sequence[Any]) -> Domain:
    """One of these values."""
    values = list(categories)
    if not values:
        raise ConfigError("choice needs at least one value, but got []")
    different = [one for place, one in enumerate(values) if not any(_same(one, other) for other in values[:place])]
    return Domain(options=tuple(different))


def uniform(lower: float, upper: float) -> Domain:
    """A real number from lower to upper."""
    return _range(Uniform, float(lower), float(upper))


def quniform(lower: float, upper: float, q: float) -> Domain:
    """A multiple of q from lower to upper."""
    low, high = math.ceil(lower / q) * q, math.floor(upper / q) * q
    return Domain(constant=float(low)) if low >= high else Domain(Uniform(low=low, high=high, step=q))


def loguniform(lower: float, upper: float, base: float = 10) -> Domain:  # noqa: ARG001  # every base is the same range
    """A real number from lower to upper, every ratio equally likely."""
    return _range(LogUniform, float(lower), float(upper))


def qloguniform(lower: float, upper: float, q: float, base: float = 10) -> Domain:  # noqa: ARG001
    """A multiple of q from lower to upper, every ratio equally likely."""
    found = _range(LogUniform, float(lower), float(upper))
    return Domain(found.dimension, found.constant, step=q)


def _range(kind: type[Uniform] | type[LogUniform], lower: float, upper: float) -> Domain:
    return Domain(constant=lower) if lower == upper else Domain(kind(low=lower, high=upper))


def randint(lower: int, upper: int) -> Domain:
    """A whole number from lower to upper - 1."""
    return _integers(lower, upper - 1)


def qrandint(lower: int, upper: int, q: int = 1) -> Domain:
    """A multiple of q from lower to upper."""
    return _integers(math.ceil(lower / q) * q, math.floor(upper / q) * q, step=q)


def lograndint(lower: int, upper: int, base: float = 10) -> Domain:  # noqa: ARG001
    """A whole number from lower to upper - 1, every ratio equally likely."""
    return _integers(lower, upper - 1, log=True)


def qlograndint(lower: int, upper: int, q: int, base: float = 10) -> Domain:  # noqa: ARG001
    """A multiple of q from lower to upper, every ratio equally likely."""
    found = _integers(lower, upper, log=True)
    return Domain(found.dimension, found.constant, step=q)


def _integers(low: int, high: int, **options: Any) -> Domain:
    return Domain(constant=low) if low == high else Domain(Integers(low=low, high=high, **options))


def randn(mean: float = 0.0, sd: float = 1.0) -> Domain:
    """A normally distributed number."""
    return Domain(normal=(mean, sd))


def qrandn(mean: float, sd: float, q: float) -> Domain:
    """A normally distributed multiple of q."""
    return Domain(normal=(mean, sd), step=q)


def sample_from(func: Callable[..., Any]) -> Domain:
    """A function of the rest of the configuration: `lambda spec: 2 * spec.config.hidden_size`."""
    return Domain(function=func)


def grid_search(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Every one of these values, `num_samples` times."""
    return {"grid_search": list(values)}


def read_domain(value: Any) -> Domain | None:
    """The domain that a value describes, one of ours or one of Ray; None for a constant."""
    if isinstance(value, Domain):
        return value
    if not hasattr(value, "get_sampler"):
        return None
    if hasattr(value, "categories"):
        return choice(value.categories)
    if hasattr(value, "func"):
        return sample_from(value.func)
    sampler = value.get_sampler()
    step = getattr(sampler, "q", None)
    inner = sampler.get_sampler() if step is not None else sampler
    kind, whole = type(inner).__name__.strip("_"), type(value).__name__ == "Integer"
    if kind == "Normal":
        return randn(inner.mean, inner.sd) if step is None else qrandn(inner.mean, inner.sd, step)
    log = kind == "LogUniform"
    make: tuple[Callable[..., Domain], Callable[..., Domain]]
    if whole:
        make = (lograndint, qlograndint) if log else (randint, qrandint)
    else:
        make = (loguniform, qloguniform) if log else (uniform, quniform)
    return make[0](value.lower, value.upper) if step is None else make[1](value.lower, value.upper, step)


class Spec(SimpleNamespace):
    """What a function of `sample_from` gets: `spec.config.hidden_size` or `spec["config"]["hidden_size"]`."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def sampled(config: Mapping[str, Any], trial: Any) -> dict[str, Any]:
    """The configuration of one Optuna trial: every domain has a value."""
    found = _values(config, trial, "")
    spec = Spec(config=Spec(**found))
    for name, value in config.items():
        domain = read_domain(value)
        if domain is not None and domain.function is not None:
            found[name] = domain.function(spec)
    return found


def _values(config: Mapping[str, Any], trial: Any, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    combination = trial.number
    for name, value in config.items():
        whole = f"{path}{name}"
        if isinstance(value, Mapping) and set(value) == {"grid_search"}:
            options = list(value["grid_search"])
            found[name] = options[combination % len(options)]
            combination //= len(options)
        elif isinstance(value, Mapping):
            found[name] = _values(value, trial, f"{whole}/")
        else:
            domain = read_domain(value)
            found[name] = value if domain is None else domain.suggest(trial, whole)
    return found


def combinations(config: Mapping[str, Any]) -> int:
    """How many combinations the grids of a configuration have."""
    sizes = [len(value["grid_search"]) for value in config.values() if _is_grid(value)]
    return math.prod(sizes)


def _is_grid(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"grid_search"}
