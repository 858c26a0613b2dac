"""Scaling per series, in numpy: fitted on the training rows of each series, then frozen, and invertible.

Letters: B windows, H horizon, Q outputs, S series, N rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError, DataError, NotFittedError, RegistryError

SERIES_SCALERS = ("standard", "robust", "robust-iqr", "minmax", "boxcox")
"""The built-in names. `series_scaler` also finds registered classes."""

MAD_OF_STANDARD = 0.6744897501960817
"""The median absolute deviation of a normal distribution with standard deviation 1."""

NOISE_ULPS = 8.0
"""A spread below this many rounding steps is rounding noise, not data."""

ROWS_AT_ONCE = 1 << 20
"""Rows that are scaled at once. Beside the result, memory is needed only for their float64 copies."""

Floats = npt.NDArray[np.floating[Any]]
Doubles = npt.NDArray[np.float64]


def series_scaler(item: str | SeriesScaler | type[SeriesScaler]) -> SeriesScaler:
    """Return a new series scaler, not fitted.

    Args:
        item: one of `SERIES_SCALERS`, the name of a registered subclass, a subclass, or an object to copy.
    """
    if isinstance(item, SeriesScaler):
        fresh = copy(item)
        fresh._state = None
        return fresh
    if not isinstance(item, str | type) or (isinstance(item, type) and not issubclass(item, SeriesScaler)):
        raise ConfigError(f"a series scaler must be a name, a SeriesScaler or a subclass of it, but got {item!r}")
    cls = item if isinstance(item, type) else _SERIES.get(item) or registry.find(SeriesScaler.family, item)
    if cls is None:
        raise registry.unknown(SeriesScaler.family, str(item), SERIES_SCALERS)
    scaler: SeriesScaler = cls()
    return scaler


def register_scaler(cls: type[Any], own: Sequence[str]) -> None:
    """Register a scaler class by name. Built-in classes, whose names begin with _, need no registration."""
    if cls.__name__.startswith("_"):
        return
    if registry.normalise(cls.kind) in {registry.normalise(name) for name in own}:
        raise RegistryError(
            f"each {cls.family} needs a different name, but {cls.kind!r} is both built in and {cls.__module__}."
            f"{cls.__qualname__}. Choose another name for the new class."
        )
    registry.register(cls)


class SeriesScaler(ABC):
    """Scales each series by statistics of its training rows. All arithmetic is in float64.

    A subclass is registered by its `name`, or by its class name. It overrides `measure`. A subclass whose state is not
    location and scale also overrides `fields`, `affine`, `to_scaled` and `to_original`.
    """

    family: ClassVar[str] = "series scaler"
    kind: ClassVar[str]
    name: ClassVar[str]
    """The name of the scaler in files."""
    affine: ClassVar[bool] = True
    """Whether the state is location and scale, with original = scaled * scale + location."""
    fields: ClassVar[tuple[str, ...]] = ("location", "scale")
    """The names of the state's arrays, each [S]."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        cls.kind = cls.name
        register_scaler(cls, SERIES_SCALERS)

    def __init__(self) -> None:
        self._state: dict[str, Doubles] | None = None

    def fit(
        self,
        y: Floats,
        offsets: npt.NDArray[np.int64],
        mask: npt.NDArray[np.bool_] | None = None,
        until: npt.NDArray[np.int64] | None = None,
        ids: Sequence[object] | npt.NDArray[np.generic] | None = None,
        series: npt.NDArray[np.int64] | None = None,
    ) -> Self:
        """Compute the statistics of each series, and return the scaler itself.

        Args:
            y: [N] all series, concatenated.
            offsets: [S + 1] series s is y[offsets[s] : offsets[s + 1]].
            mask: [N] true where y was observed; None if all values were.
            until: [M] how many first rows of each series are training rows; None means all.
            ids: [S] names for error messages; series numbers if None.
            series: [M] the series to fit, with repetitions allowed; None means each once.
        """
        numbers = np.arange(len(offsets) - 1) if series is None else series
        found = np.zeros((len(self.fields), len(numbers)))
        for place, number in enumerate(numbers.tolist()):
            first, last = int(offsets[number]), int(offsets[number + 1])
            last = last if until is None else min(last, first + int(until[place]))
            values = y[first:last].astype(np.float64)
            if mask is not None:
                values = values[mask[first:last]]
            found[:, place] = self._measured(values, number if ids is None else ids[number])
        self._state = dict(zip(self.fields, found, strict=True))
        return self

    def transform(self, values: Floats, series: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return scaled values. `series` has the series numbers for the leading dimensions of `values`."""
        return self.to_scaled(values.astype(np.float64), *self._columns(values, series)).astype(values.dtype)

    def inverse(self, values: Floats, series: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return values in original units. For forecasts [B, H] or [B, H, Q], `series` is [B]."""
        return self.to_original(values.astype(np.float64), *self._columns(values, series)).astype(values.dtype)

    def transform_flat(
        self, y: Floats, offsets: npt.NDArray[np.int64], mask: npt.NDArray[np.bool_] | None = None
    ) -> Floats:
        """Return all series scaled, concatenated; unobserved values are 0. Memory use is bounded."""
        out = np.zeros_like(y)
        for first in range(0, len(y), ROWS_AT_ONCE):
            rows = np.arange(first, min(first + ROWS_AT_ONCE, len(y)))
            rows = rows if mask is None else rows[mask[rows]]
            out[rows] = self.transform(y[rows], np.searchsorted(offsets, rows, side="right") - 1)
        return out

    def to_arrays(self) -> dict[str, Doubles]:
        """Return the fitted state: one float64 array [S] per field."""
        return {name: array.copy() for name, array in self._fitted().items()}

    def from_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Set the state from the arrays of `to_arrays`, and return the scaler itself."""
        if set(arrays) != set(self.fields) or len({np.shape(array) for array in arrays.values()}) != 1:
            raise ConfigError(
                f"the {self.name} scaler's state is the arrays {', '.join(self.fields)} of one length, "
                f"but got { ({name: np.shape(array) for name, array in arrays.items()}) }"
            )
        self._state = {name: np.array(arrays[name], dtype=np.float64) for name in self.fields}
        return self

    def _fitted(self) -> dict[str, Doubles]:
        if self._state is None:
            raise NotFittedError(f"the {self.name} scaler has no statistics yet. Call fit first")
        return self._state

    def _columns(self, values: Floats, series: npt.NDArray[np.integer[Any]]) -> list[Doubles]:
        shape = (*series.shape, *(1 for _ in range(values.ndim - series.ndim)))
        return [array[series].reshape(shape) for array in self._fitted().values()]

    def _measured(self, values: Doubles, series: object) -> tuple[float, ...]:
        given = self.measure(values, series)
        found = tuple(given) if isinstance(given, Iterable) else (given,)
        rule = f"measure() gives one finite number for each of {', '.join(self.fields)}, a scale above 0"
        if len(found) != len(self.fields) or not np.isfinite(found).all():
            raise ConfigError(f"{rule}, but {self.name} gave {found} for series {series!r}")
        if self.affine and not found[self.fields.index("scale")] > 0:
            raise ConfigError(f"{rule}, but {self.name} gave {found} for series {series!r} of {len(values)} values")
        return found

    @abstractmethod
    def measure(self, values: Doubles, series: object) -> tuple[float, ...]:
        """Return the statistics of one series, in the order of `fields`.

        Args:
            values: its observed training values; may be empty.
            series: its name, for messages.
        """

    def to_scaled(self, values: Doubles, *state: Doubles) -> Doubles:
        """Return scaled values. `state` has the fields, each in a shape that broadcasts to `values`."""
        location, scale = state
        return (values - location) / scale

    def to_original(self, values: Doubles, *state: Doubles) -> Doubles:
        """The inverse of `to_scaled`."""
        location, scale = state
        return values * scale + location


class _SeriesStandard(SeriesScaler):
    """Mean and population standard deviation."""

    name = "standard"

    def measure(self, values: Doubles, series: object) -> tuple[float, ...]:  # noqa: ARG002
        return _spread(values, np.mean, np.std)


class _SeriesRobust(SeriesScaler):
    """Median and median absolute deviation; the scaled standard deviation if more than half the values are equal."""

    name = "robust"

    def measure(self, values: Doubles, series: object) -> tuple[float, ...]:  # noqa: ARG002
        deviation = lambda x: np.median(np.abs(x - np.median(x)))  # noqa: E731
        return _spread(values, np.median, deviation, lambda x: MAD_OF_STANDARD * np.std(x))


class _SeriesRobustIqr(SeriesScaler):
    """Median and interquartile range; the scaled standard deviation if the quartiles are equal."""

    name = "robust-iqr"

    def measure(self, values: Doubles, series: object) -> tuple[float, ...]:  # noqa: ARG002
        return _spread(values, np.median, _interquartile, lambda x: 2 * MAD_OF_STANDARD * np.std(x))


class _SeriesMinMax(SeriesScaler):
    """The smallest training value becomes 0, the largest 1."""

    name = "minmax"

    def measure(self, values: Doubles, series: object) -> tuple[float, ...]:  # noqa: ARG002
        return _spread(values, np.min, np.ptp)


class _SeriesBoxCox(SeriesScaler):
    """Box-Cox power transform with the maximum-likelihood lambda in [-1, 2] of each series; positive series only.

    Values are first divided by the geometric mean g of the series, so that powers stay finite for values of any
    magnitude. This does not change the best lambda: z = ((y / g) ** lambda - 1) / lambda, or log(y / g) for lambda 0.
    """

    name = "boxcox"
    affine = False
    fields = ("lmbda", "geometric_mean")

    def measure(self, values: Doubles, series: object) -> tuple[float, ...]:
        if values.size == 0:
            return 1.0, 1.0
        if not values.min() > 0:
            row = int(np.argmin(values))
            raise DataError(
                f"the boxcox scaler needs positive values, but series {series!r} has {float(values[row])} "
                f"at observed row {row}. Choose another scaler, or add a constant to the column"
            )
        logs = np.log(values)
        return _likeliest_lambda(logs - logs.mean()), float(np.exp(logs.mean()))

    def to_scaled(self, values: Doubles, *state: Doubles) -> Doubles:
        lmbda, geometric = state
        if values.size and not values.min() > 0:
            raise DataError(
                f"the boxcox scaler needs positive values, but got {float(values.min())} after the training rows. "
                "Choose another scaler, or add a constant to the column"
            )
        return _boxcox(np.log(values) - np.log(geometric), lmbda)

    def to_original(self, values: Doubles, *state: Doubles) -> Doubles:
        lmbda, geometric = state
        # A forecast below the transform's range (lambda > 0) becomes almost 0, one above it (lambda < 0) very large.
        base = np.maximum(lmbda * values, -1 + 1e-12)
        safe = np.where(lmbda == 0, 1.0, lmbda)
        logs = np.where(lmbda == 0, values, np.log1p(base) / safe)
        return cast(Doubles, np.exp(logs) * geometric)


_SERIES: dict[str, type[SeriesScaler]] = {
    "standard": _SeriesStandard,
    "robust": _SeriesRobust,
    "robust-iqr": _SeriesRobustIqr,
    "minmax": _SeriesMinMax,
    "boxcox": _SeriesBoxCox,
}

_Measure = Callable[[Doubles], Any]


def _interquartile(values: Doubles) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)


def _spread(values: Doubles, location: _Measure, *scales: _Measure) -> tuple[float, float]:
    """The location, and the first scale that exceeds rounding noise; 0 and 1 without values."""
    if values.size == 0:
        return 0.0, 1.0
    # The data was or becomes float32, so float32 rounding is the noise, although this arithmetic is float64.
    noise = float(np.abs(values).max()) * NOISE_ULPS * float(np.finfo(np.float32).eps)
    found = (float(scale(values)) for scale in scales)
    return float(location(values)), next((scale for scale in found if scale > noise), max(1.0, noise))


def _boxcox(logs: Doubles, lmbda: Doubles | float) -> Doubles:
    safe = np.where(lmbda == 0, 1.0, lmbda)
    return cast(Doubles, np.where(lmbda == 0, logs, np.expm1(lmbda * logs) / safe))


def _likeliest_lambda(logs: Doubles, low: float = -1.0, high: float = 2.0) -> float:
    """The lambda that maximises the profile log-likelihood, by golden section; logs have mean 0."""
    if np.ptp(logs) < NOISE_ULPS * float(np.finfo(np.float32).eps):
        return 1.0
    ratio = (5**0.5 - 1) / 2
    inner, outer = high - ratio * (high - low), low + ratio * (high - low)
    at_inner, at_outer = _log_variance(logs, inner), _log_variance(logs, outer)
    while high - low > 1e-7:
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - ratio * (high - low)
            at_inner = _log_variance(logs, inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + ratio * (high - low)
            at_outer = _log_variance(logs, outer)
    return (low + high) / 2


def _log_variance(logs: Doubles, lmbda: float) -> float:
    """-2 times the profile log-likelihood per row, up to a constant. The Jacobian term is 0: the logs have mean 0."""
    return float(np.log(_boxcox(logs, lmbda).var()))
