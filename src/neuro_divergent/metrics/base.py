"""User-defined metrics: one definition for training and evaluation.

A metric is a function of sums: `values` returns one or more numbers per target, these are summed over batches, and
`combine` computes the metric from the sums. The metric of a whole pass therefore does not depend on the batch size.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description, Function
from neuro_divergent.core.errors import ConfigError, NonFiniteError, RegistryError
from neuro_divergent.metrics.arrays import Array
from neuro_divergent.metrics.by_name import METRICS

if TYPE_CHECKING:
    from torch import Tensor

Goal = Literal["min", "max"]

_BUILT_IN = frozenset(map(registry.normalise, METRICS))
_OWN_SPELLING = {registry.normalise(name): name for name in METRICS}
_HIGHER_IS_BETTER = ("accuracy", "directional_accuracy", "r2")


class Metric(Description):
    """Base of user-defined metrics. A subclass implements `values`, and `combine` unless the metric is a mean.

    It can then be used by its class name.

    class WithinTenPercent(nd.metrics.Metric):
        goal = "max"

        def values(self, actual, forecast):
            return ((forecast - actual).abs() <= 0.1 * actual.abs()).double()
    """

    family: ClassVar[str] = "metric"
    goal: ClassVar[Goal] = "min"
    """Whether lower ("min") or higher ("max") is better."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        kind = cls.__dict__.get("kind", cls.__name__)
        if registry.normalise(kind) in _BUILT_IN:
            raise RegistryError(
                f"each metric needs a different name, but {kind!r} is both built in and {cls.__module__}."
                f"{cls.__qualname__}. Choose another name for the new class."
            )
        super().__pydantic_init_subclass__(**options)

    @property
    def name(self) -> str:
        """The name in results if the metric is passed as an object. A metric passed by name keeps the given name."""
        return self.kind

    @abstractmethod
    def values(self, actual: Tensor, forecast: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return one finite number per target, in the shape of `actual`, or a tuple of several such tensors.

        Args:
            actual: the targets, float64, in original units; 0 where nothing was observed. The result there is ignored.
            forecast: the point forecasts, in the shape of `actual`.
        """

    def combine(self, sums: Tensor) -> float:
        """Return the metric; the weighted mean unless overridden. NaN means that it is undefined for these values.

        Args:
            sums: [the sum of the weights, the weighted sum of each tensor of `values`].
        """
        return float(sums[1] / sums[0])


class CustomMetric(Metric):
    """The mean of a function's values per target. Lower is better.

    A file contains only the function's name. Pass the function again: `nd.load(path, using={"overshoot": overshoot})`.
    """

    function: Function
    """Function of (actual, forecast), two tensors of the same shape, that returns one number per target."""

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def values(self, actual: Tensor, forecast: Tensor) -> Tensor:
        """Return the values of the function."""
        values: Tensor = self.function(actual, forecast)
        return values


AnyMetric = str | Metric | Callable[[Any, Any], Any]
"""A metric's name, a `Metric`, or a function (actual, forecast) → one number per target."""


def canonical(name: str) -> str:
    """Return the standard spelling of a built-in metric's name, given in any case. Other names are unchanged.

    >>> canonical("MAE"), canonical("sMAPE"), canonical("MyOwn")
    ('mae', 'smape', 'MyOwn')
    """
    return _OWN_SPELLING.get(registry.normalise(name), name)


def _read(item: Any) -> str | Metric:
    """The value of a metric field: a name or a description."""
    if isinstance(item, Mapping):
        return Metric.from_dict(item)
    if isinstance(item, type) and issubclass(item, Metric):
        return item()
    return canonical(item) if isinstance(item, str) else own_metric(item)[1]


MetricField = Annotated[str | Metric, BeforeValidator(_read)]
"""A field for a metric: its name, a `Metric`, its class, its JSON object, or a function."""


def metric_name(item: AnyMetric) -> str:
    """Return the name of a metric in results."""
    return canonical(item) if isinstance(item, str) else own_metric(item)[0]


def named_metrics(wanted: Sequence[AnyMetric], built_in: Sequence[str]) -> dict[str, Metric | None]:
    """Return the requested metrics by name, in their order; None for a metric in `built_in`."""
    found: dict[str, Metric | None] = {}
    for given in [wanted] if isinstance(wanted, str | Metric) else wanted:
        item = canonical(given) if isinstance(given, str) else given
        name, metric = (item, None) if item in built_in else own_metric(item, built_in)
        if name in found and found[name] != metric:
            raise ConfigError(f"metrics must have different names, but got {name!r} twice. Override `name` in one")
        found[str(name)] = metric
    return found


def own_metric(item: AnyMetric, built_in: Sequence[str] = ()) -> tuple[str, Metric]:
    """Return the name in results and the metric, given by a registered name, an object or a function."""
    if isinstance(item, str):
        found = registry.find("metric", item)
        if found is None:
            raise registry.unknown("metric", item, built_in)
        return item, found()
    if isinstance(item, Metric):
        return item.name, item
    if not callable(item) or isinstance(item, type):
        raise ConfigError(f"a metric must be a name, a Metric or a function of (actual, forecast), but got {item!r}")
    custom = CustomMetric(function=item)
    return custom.name, custom


def statistics(metric: Metric, actual: Tensor, forecast: Tensor) -> tuple[Tensor, ...]:
    """Return the values of a metric. Values of another shape than the target are refused."""
    given = metric.values(actual, forecast)
    parts = given if isinstance(given, tuple) else (given,)
    for part in parts:
        if getattr(part, "shape", None) != actual.shape:
            got = tuple(part.shape) if hasattr(part, "shape") else type(part).__name__
            raise ConfigError(
                f"values() must return one number per target, shape {tuple(actual.shape)}, but {metric.name} returned "
                f"{got}. Do not take the mean there; override combine() for another summary"
            )
    return tuple(part.double() for part in parts)


def check_finite(name: str, parts: Sequence[Tensor], actual: Tensor, forecast: Tensor, counts: Tensor) -> None:
    """Refuse values of a metric that count and are not finite, although the forecast is finite."""
    for part in parts:
        bad = counts & forecast.isfinite() & ~part.isfinite()
        if bool(bad.any()):
            raise NonFiniteError(
                f"a metric must return finite numbers, but {name} returned {float(part[bad][0])} for an actual value "
                f"of {float(actual[bad][0]):g} and a forecast of {float(forecast[bad][0]):g}. Handle such values in "
                "the metric, for instance with torch.where"
            )


def combined(metric: Metric, sums: Tensor) -> float:
    """Return the metric of its sums; NaN if no value counted."""
    if not float(sums[0]) > 0:
        return float("nan")
    figure = metric.combine(sums)
    try:
        number = float(figure)
    except (TypeError, ValueError, RuntimeError):  # nothing, a text, a tensor of several numbers
        number = float("inf")
    if math.isinf(number) and bool(sums.isfinite().all()):
        raise NonFiniteError(
            f"combine() must return one finite number, or NaN if the metric is undefined, but {metric.name} returned "
            f"{figure!r} for the sums {sums.tolist()}"
        )
    return number


def figure(metric: Metric, actual: Array, forecast: Array, axis: int | tuple[int, ...] | None) -> Any:
    """Return a metric of forecasts along one or more axes. A NaN in `actual` does not count; NaN if no value counts."""
    import torch

    y, f = torch.as_tensor(actual, dtype=torch.float64), torch.as_tensor(forecast, dtype=torch.float64)
    counts = ~y.isnan()
    parts = statistics(metric, torch.where(counts, y, 0.0), f)
    check_finite(metric.name, parts, y, f, counts)
    # A NaN forecast makes the metric NaN: a model must not look better by omitting forecasts.
    kept = [torch.where(counts, torch.where(f.isnan(), torch.nan, part), 0.0) for part in parts]
    sums = torch.stack([counts.double(), *kept])
    if axis is None:
        return combined(metric, sums.flatten(1).sum(1))
    left = sums.sum([one + 1 for one in ((axis,) if isinstance(axis, int) else axis)])
    return np.array([combined(metric, column) for column in left.flatten(1).T]).reshape(left.shape[1:])


def badness(name: str, value: float | None) -> float:
    """Return a number that grows as a metric gets worse, so that the smallest is the best; infinite without a value.

    Some metrics are better if higher, a bias if closer to 0, and a coverage such as coverage-80 if closer to its level.
    """
    metric, _, level = name.partition("-")
    if value is None or value != value:
        return float("inf")
    if metric in ("bias", "bias_percent"):
        return abs(value)
    if metric == "coverage":
        return abs(value - float(level) / 100)
    return -value if goal_of(name) == "max" else value


def goal_of(name: str) -> Goal:
    """Return whether lower ("min") or higher ("max") is better."""
    if name in METRICS:
        return "max" if name in _HIGHER_IS_BETTER else "min"
    goal: Goal = getattr(registry.find("metric", name), "goal", "min")
    return goal
