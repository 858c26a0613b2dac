"""Metrics of your own: one definition that a training follows and an evaluation computes.

A metric is a function of sums over values: `values` gives one number (or several) per target, the sums of these are
added up over batches, and `combine` makes one figure from them. Sums add up exactly, so a figure of a whole pass does
not depend on the batch size.
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
    """Base of metrics that are used by name: `values` and, unless the figure is a mean, `combine`.

    class WithinTenPercent(nd.metrics.Metric):
        goal = "max"

        def values(self, actual, forecast):
            return ((forecast - actual).abs() <= 0.1 * actual.abs()).double()
    """

    family: ClassVar[str] = "metric"
    goal: ClassVar[Goal] = "min"
    """Whether less or more is better."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        kind = cls.__dict__.get("kind", cls.__name__)
        if registry.normalise(kind) in _BUILT_IN:
            raise RegistryError(
                f"a metric is named once, but {kind!r} is both the library's own and {cls.__module__}."
                f"{cls.__qualname__}. Give the new class a name of its own."
            )
        super().__pydantic_init_subclass__(**options)

    @property
    def name(self) -> str:
        """How results call it, where it was handed over as an object; a name in a list stays as it was written."""
        return self.kind

    @abstractmethod
    def values(self, actual: Tensor, forecast: Tensor) -> Tensor | tuple[Tensor, ...]:
        """One finite number per target, of the shape of `actual` (float64, original units), or several such tensors.

        Where nothing was observed, `actual` is 0 and the answer does not count.
        """

    def combine(self, sums: Tensor) -> float:
        """One figure from [the sum of the weights, the weighted sums of the values]; the mean unless overridden.

        NaN means that these values have no such figure.
        """
        return float(sums[1] / sums[0])


class CustomMetric(Metric):
    """The mean of what a function gives per target; less is better.

    A file keeps the function's name only: give it back with `nd.load(path, using={"overshoot": overshoot})`.
    """

    function: Function
    """Called with actual and forecast, tensors of one shape."""

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def values(self, actual: Tensor, forecast: Tensor) -> Tensor:
        """What the function gives."""
        values: Tensor = self.function(actual, forecast)
        return values


AnyMetric = str | Metric | Callable[[Any, Any], Any]
"""A metric's name, a `Metric`, or a function (actual, forecast) → one number per target."""


def canonical(name: str) -> str:
    """The library's own spelling of a metric's name, which may be given in any case; other names stay as they are.

    >>> canonical("MAE"), canonical("sMAPE"), canonical("MyOwn")
    ('mae', 'smape', 'MyOwn')
    """
    return _OWN_SPELLING.get(registry.normalise(name), name)


def _read(item: Any) -> str | Metric:
    """What a field keeps of a metric: a name, or a description."""
    if isinstance(item, Mapping):
        return Metric.from_dict(item)
    if isinstance(item, type) and issubclass(item, Metric):
        return item()
    return canonical(item) if isinstance(item, str) else own_metric(item)[1]


MetricField = Annotated[str | Metric, BeforeValidator(_read)]
"""A field that takes a metric's name, a `Metric`, its class, its JSON object, or a function."""


def metric_name(item: AnyMetric) -> str:
    """How results call a metric."""
    return canonical(item) if isinstance(item, str) else own_metric(item)[0]


def named_metrics(wanted: Sequence[AnyMetric], built_in: Sequence[str]) -> dict[str, Metric | None]:
    """What was asked for, by name, in that order; None stands for a metric in `built_in`."""
    found: dict[str, Metric | None] = {}
    for given in [wanted] if isinstance(wanted, str | Metric) else wanted:
        item = canonical(given) if isinstance(given, str) else given
        name, metric = (item, None) if item in built_in else own_metric(item, built_in)
        if name in found and found[name] != metric:
            raise ConfigError(f"metrics must have different names, but got {name!r} twice. Override `name` in one")
        found[str(name)] = metric
    return found


def own_metric(item: AnyMetric, built_in: Sequence[str] = ()) -> tuple[str, Metric]:
    """The metric that is registered under a name, or was handed over, with its name in results."""
    if isinstance(item, str):
        found = registry.find("metric", item)
        if found is None:
            raise registry.unknown("metric", item, built_in)
        return item, found()
    if isinstance(item, Metric):
        return item.name, item
    if not callable(item) or isinstance(item, type):
        raise ConfigError(f"a metric is a name, a Metric or a function of (actual, forecast), but got {item!r}")
    custom = CustomMetric(function=item)
    return custom.name, custom


def statistics(metric: Metric, actual: Tensor, forecast: Tensor) -> tuple[Tensor, ...]:
    """The values of a metric, refused where one is not of the target's shape."""
    given = metric.values(actual, forecast)
    parts = given if isinstance(given, tuple) else (given,)
    for part in parts:
        if getattr(part, "shape", None) != actual.shape:
            got = tuple(part.shape) if hasattr(part, "shape") else type(part).__name__
            raise ConfigError(
                f"a metric gives one number per target, shape {tuple(actual.shape)}, but {metric.name} gave {got}. "
                "Leave the mean to the library, or override combine()"
            )
    return tuple(part.double() for part in parts)


def check_finite(name: str, parts: Sequence[Tensor], actual: Tensor, forecast: Tensor, counts: Tensor) -> None:
    """Refuse values of a metric that are not finite although they count and the forecast is finite."""
    for part in parts:
        bad = counts & forecast.isfinite() & ~part.isfinite()
        if bool(bad.any()):
            raise NonFiniteError(
                f"a metric gives finite numbers, but {name} gave {float(part[bad][0])} for an actual value of "
                f"{float(actual[bad][0]):g} and a forecast of {float(forecast[bad][0]):g}. Treat such values in "
                "the metric, for instance with torch.where"
            )


def combined(metric: Metric, sums: Tensor) -> float:
    """The figure that a metric makes of its sums; NaN when nothing counted."""
    if not float(sums[0]) > 0:
        return float("nan")
    figure = metric.combine(sums)
    try:
        number = float(figure)
    except (TypeError, ValueError, RuntimeError):  # nothing, a text, a tensor of several numbers
        number = float("inf")
    if math.isinf(number) and bool(sums.isfinite().all()):
        raise NonFiniteError(
            f"combine() gives one finite number, or NaN for no figure, but {metric.name} gave {figure!r} for the sums "
            f"{sums.tolist()}"
        )
    return number


def figure(metric: Metric, actual: Array, forecast: Array, axis: int | tuple[int, ...] | None) -> Any:
    """The figure of forecasts along an axis or several; a NaN in `actual` does not count, nothing counted is NaN."""
    import torch

    y, f = torch.as_tensor(actual, dtype=torch.float64), torch.as_tensor(forecast, dtype=torch.float64)
    counts = ~y.isnan()
    parts = statistics(metric, torch.where(counts, y, 0.0), f)
    check_finite(metric.name, parts, y, f, counts)
    # A forecast that is not a number makes the figure NaN: a model that does not answer must not look better.
    kept = [torch.where(counts, torch.where(f.isnan(), torch.nan, part), 0.0) for part in parts]
    sums = torch.stack([counts.double(), *kept])
    if axis is None:
        return combined(metric, sums.flatten(1).sum(1))
    left = sums.sum([one + 1 for one in ((axis,) if isinstance(axis, int) else axis)])
    return np.array([combined(metric, column) for column in left.flatten(1).T]).reshape(left.shape[1:])


def badness(name: str, value: float | None) -> float:
    """What grows as a figure gets worse, so that the smallest is the best; infinite for no figure.

    More is better for some, nearer to 0 for a bias, and nearer to its level for a coverage such as coverage-80.
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
    """Whether less or more of a metric is better."""
    if name in METRICS:
        return "max" if name in _HIGHER_IS_BETTER else "min"
    goal: Goal = getattr(registry.find("metric", name), "goal", "min")
    return goal
