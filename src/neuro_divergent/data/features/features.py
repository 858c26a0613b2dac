"""Columns made from the time stamps and from the target's own past, asked for by name.

| name | column |
|---|---|
| second, minute, hour, dayofweek, day, dayofyear, week, month, quarter | its place in its range, from -0.5 to 0.5 |
| year | (year - 2000) / 100 |
| weekend, month_start, month_end | 1 where it is so, 0 elsewhere |
| holidays:US, holidays:DE-BY | 1 on public holidays of the country or subdivision (extra `holidays`) |
| fourier:24:3 | sine and cosine of the 1st, 2nd and 3rd harmonic of 24 steps, between -1 and 1: six columns |
| fourier:daily:2 (weekly, yearly) | the same with the period on the clock or in the calendar |
| time | place in the time span of the training table, from -0.5 to 0.5, and beyond it after its end |
| lag:24 | the target 24 rows before |
| rolling_mean:24 (std, min, max) | of the last 24 rows, the present one included |

All but the last two rows are known ahead (role "future"). Lags and rolling figures are "historical": row t is made of
rows up to t of the same series and of nothing later. Time stamps with a zone count by its wall clock.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import ConfigError, DataError, UnknownNameError
from neuro_divergent.core.extras import require
from neuro_divergent.core.registry import closest, normalise
from neuro_divergent.data.time.frequency import Frequency

Matrix = npt.NDArray[np.float32]
Span = tuple[Any, Any]
"""First and last time of the training table: two datetimes (UTC when there is a zone) or two whole numbers."""


class Moments(NamedTuple):
    """What a calendar feature is computed from: sorted distinct times."""

    times: pl.Series
    freq: str | None
    span: Span | None

    @property
    def integer(self) -> bool:
        """Whether the times are whole numbers."""
        return self.times.dtype.is_integer()


class Panel(NamedTuple):
    """What a historical feature is computed from: all series end to end, float64, null where unobserved."""

    table: pl.DataFrame
    """Columns series and y."""
    starts: npt.NDArray[np.int64]
    """[N] for each row, the first row of its series."""


@dataclass(frozen=True)
class Feature:
    """One parsed name: its columns, and whether they are known ahead."""

    name: str
    columns: tuple[str, ...]
    role: Literal["future", "historical"]
    compute: Callable[[Any], npt.NDArray[Any]] = field(repr=False, compare=False)
    """Moments (future) or Panel (historical) to [rows] or [rows, columns]."""
    dated: bool = False
    """Whether whole numbers as time are not enough."""


def parse_features(names: Sequence[str]) -> tuple[Feature, ...]:
    """Read feature names; an unknown one is answered with the closest."""
    if isinstance(names, str):
        raise ConfigError(f"features must be a list of names, but got features={names!r}. Write features=[{names!r}]")
    features = tuple(_parse(name) for name in names)
    columns = [column for feature in features for column in feature.columns]
    twice = sorted({column for column in columns if columns.count(column) > 1})
    if twice:
        raise ConfigError(f"each feature is given once, but got {', '.join(twice)} twice")
    return features


def calendar(
    names: Sequence[str] | Sequence[Feature], times: pl.Series, *, freq: str | None = None, span: Span | None = None
) -> Matrix:
    """The future features of each time stamp, [T, columns]; computed once per distinct time.

    Args:
        names: names or parsed features; historical ones are left out.
        times: dates, datetimes or whole numbers, in any order.
        freq: distance of two rows in polars spelling; Fourier terms of a number of steps need it with datetimes.
        span: first and last time of the training table, for the feature "time"; those of `times` if None.
    """
    features = [feature for feature in _parsed(names) if feature.role == "future"]
    _check_times(times, features)
    if not features or times.len() == 0:
        return np.zeros((times.len(), sum(len(feature.columns) for feature in features)), dtype=np.float32)
    distinct = times.unique().sort()
    moments = Moments(distinct, freq, span)
    table = np.concatenate([_columns(feature.compute(moments)) for feature in features], axis=1)
    if distinct.len() == times.len() and times.is_sorted():
        return table
    return table[np.searchsorted(distinct.to_physical().to_numpy(), times.to_physical().to_numpy())]


def history(
    names: Sequence[str] | Sequence[Feature],
    y: npt.NDArray[np.floating[Any]],
    offsets: npt.NDArray[np.int64],
    mask: npt.NDArray[np.bool_] | None = None,
) -> Matrix:
    """The historical features of each row, [N, columns], always finite.

    Only observed values count. Where a lag reaches behind the first observation it is that observation; where a
    rolling window is empty, its mean, min and max are the last observation and its std is 0; before the first
    observation everything is 0.
    """
    features = [feature for feature in _parsed(names) if feature.role == "historical"]
    if not features:
        return np.zeros((len(y), 0), dtype=np.float32)
    lengths = np.diff(offsets)
    series = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    target = pl.Series("y", y.astype(np.float64))
    if mask is not None:
        target = target.zip_with(pl.Series(mask), pl.Series([None], dtype=pl.Float64))
    panel = Panel(pl.DataFrame([pl.Series("series", series), target.alias("y")]), np.repeat(offsets[:-1], lengths))
    return np.concatenate([_columns(feature.compute(panel)) for feature in features], axis=1)


def _parsed(names: Sequence[str] | Sequence[Feature]) -> Sequence[Feature]:
    given = [name for name in names if isinstance(name, Feature)]
    return given if len(given) == len(names) else parse_features([str(name) for name in names])


def _columns(values: npt.NDArray[Any]) -> Matrix:
    return np.asarray(values, dtype=np.float32).reshape(len(values), -1)


def _check_times(times: pl.Series, features: Sequence[Feature]) -> None:
    if not (times.dtype.is_integer() or times.dtype in (pl.Date, pl.Datetime)):
        raise DataError(f"times must be dates, datetimes or whole numbers, but got {times.dtype}")
    if times.null_count():
        raise DataError(f"every row needs a time, but {times.null_count()} of {times.len()} have none")
    dated = [feature.name for feature in features if feature.dated]
    if dated and times.dtype.is_integer():
        raise ConfigError(
            f"the features {', '.join(dated)} need dates, but the time column holds whole numbers. "
            'Give dates, or use features that count steps, such as "fourier:24:3" or "time"'
        )


def _ranged(read: Callable[[pl.Series], pl.Series], first: int, last: int) -> Callable[[Moments], npt.NDArray[Any]]:
    return lambda moments: (read(moments.times).to_numpy() - first) / (last - first) - 0.5


def _flag(read: Callable[[pl.Series], pl.Series]) -> Callable[[Moments], npt.NDArray[Any]]:
    return lambda moments: read(moments.times).to_numpy()


def _clock(read: Callable[[pl.Series], pl.Series]) -> Callable[[pl.Series], pl.Series]:
    """Dates have no time of day in polars; theirs is midnight."""
    return lambda times: read(times.cast(pl.Datetime("us")) if times.dtype == pl.Date else times)


_PLAIN: dict[str, Callable[[Moments], npt.NDArray[Any]]] = {
    "second": _ranged(_clock(lambda times: times.dt.second()), 0, 59),
    "minute": _ranged(_clock(lambda times: times.dt.minute()), 0, 59),
    "hour": _ranged(_clock(lambda times: times.dt.hour()), 0, 23),
    "dayofweek": _ranged(lambda times: times.dt.weekday(), 1, 7),
    "day": _ranged(lambda times: times.dt.day(), 1, 31),
    "dayofyear": _ranged(lambda times: times.dt.ordinal_day(), 1, 366),
    "week": _ranged(lambda times: times.dt.week(), 1, 53),
    "month": _ranged(lambda times: times.dt.month(), 1, 12),
    "quarter": _ranged(lambda times: times.dt.quarter(), 1, 4),
    "year": lambda moments: (moments.times.dt.year().to_numpy() - 2000) / 100,
    "weekend": _flag(lambda times: times.dt.weekday() >= 6),
    "month_start": _flag(lambda times: times.dt.day() == 1),
    "month_end": _flag(lambda times: times.dt.date() == times.dt.date().dt.month_end()),
}
_BY_KEY = {normalise(name): name for name in (*_PLAIN, "time")}
_WITH_ARGUMENTS = {
    "fourier": "fourier:24:3",
    "holidays": "holidays:US",
    "lag": "lag:24",
    "rolling_mean": "rolling_mean:24",
    "rolling_std": "rolling_std:24",
    "rolling_min": "rolling_min:24",
    "rolling_max": "rolling_max:24",
}


def _parse(name: str) -> Feature:
    head, *arguments = name.strip().split(":")
    plain = _BY_KEY.get(normalise(head))
    if plain is not None and not arguments:
        return Feature(plain, (plain,), "future", _PLAIN.get(plain, _elapsed), dated=plain in _PLAIN)
    if plain is not None:
        raise ConfigError(f"the feature {plain!r} takes no arguments, but got {name!r}")
    if head not in _WITH_ARGUMENTS:
        known = [*_PLAIN, "time", *_WITH_ARGUMENTS]
        near = [_WITH_ARGUMENTS.get(item, item) for item in closest(head, known)]
        known = [_WITH_ARGUMENTS.get(item, item) for item in known]
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(known)}."
        raise UnknownNameError(f"there is no feature named {name!r}; {hint}")
    if head == "fourier":
        return _fourier(name, arguments)
    return _holidays(name, arguments) if head == "holidays" else _past(name, head, arguments)


def reach(names: Sequence[str]) -> int:
    """How many rows before its own the furthest lag or rolling figure looks at; 0 without any.

    >>> reach(["hour", "lag:7", "rolling_mean:24"])
    24
    """
    parts = (name.split(":") for name in names)
    return max((int(part[1]) for part in parts if part[0] == "lag" or part[0].startswith("rolling_")), default=0)


def _malformed(name: str, head: str) -> ConfigError:
    return ConfigError(f"the feature {head!r} is written like {_WITH_ARGUMENTS[head]!r}, but got {name!r}")


def _whole(text: str) -> int:
    """A whole number of at least 1, or 0 where it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _elapsed(moments: Moments) -> npt.NDArray[Any]:
    times = _absolute(moments.times).astype(np.float64)
    first, last = (times[0], times[-1]) if moments.span is None else (_number(moments, end) for end in moments.span)
    return (times - first) / max(float(last - first), 1.0) - 0.5


def _number(moments: Moments, time: Any) -> float:
    if getattr(time, "tzinfo", None) is not None:  # numpy would take it for UTC too, but warn
        time = time.astimezone(datetime.UTC).replace(tzinfo=None)
    return float(time) if moments.integer else float(np.datetime64(time, "us").astype(np.int64))


def _absolute(times: pl.Series) -> npt.NDArray[np.int64]:
    """Whole numbers as they are; times in microseconds of UTC."""
    if not times.dtype.is_integer():
        times = times.cast(pl.Datetime("us", getattr(times.dtype, "time_zone", None)))
    return times.to_physical().cast(pl.Int64).to_numpy()


def _fourier(name: str, arguments: list[str]) -> Feature:
    if len(arguments) != 2:
        raise _malformed(name, "fourier")
    period, order = arguments[0], _whole(arguments[1])
    if period in _CYCLES:
        steps, phase = math.inf, _CYCLES[period]
    else:
        steps = _period(period, name)
        phase = lambda moments: _positions(moments) / steps  # noqa: E731
    if not 1 <= order <= steps / 2:
        raise ConfigError(f"the order of a Fourier feature is between 1 and half its period, but got {name!r}")
    columns = tuple(f"fourier_{period}_{wave}{k}" for k in range(1, order + 1) for wave in ("sin", "cos"))
    return Feature(name, columns, "future", lambda moments: _waves(phase(moments), order), dated=period in _CYCLES)


def _period(text: str, name: str) -> float:
    try:
        period = float(text)
    except ValueError:
        period = math.nan
    if not (math.isfinite(period) and period > 1):
        raise ConfigError(
            f"a Fourier feature's period is a number of steps above 1, or daily, weekly or yearly, but got {name!r}"
        )
    return period


def _waves(phase: npt.NDArray[np.float64], order: int) -> npt.NDArray[np.float64]:
    # Only the fraction of a period matters; dropping the rest keeps the sine exact far from the epoch.
    angle = 2 * np.pi * np.mod(np.outer(phase, np.arange(1, order + 1)), 1.0)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(phase), 2 * order)


def _positions(moments: Moments) -> npt.NDArray[np.float64]:
    """Steps since the epoch (0 for whole numbers): the same for a table and for what follows it."""
    if moments.integer:
        step = Frequency.parse(moments.freq).count if moments.freq else 1
        return _absolute(moments.times) / step
    if moments.freq is None:
        raise ConfigError(
            "a Fourier feature of a number of steps needs the frequency, but got freq=None. "
            "Give freq, or name the period: fourier:daily:3"
        )
    zone = getattr(moments.times.dtype, "time_zone", None)
    times = _absolute(moments.times).astype("datetime64[us]")
    steps, _ = Frequency.parse(moments.freq).positions(np.zeros_like(times), times, zone)
    return steps.astype(np.float64)


_DAY = 86_400_000_000


def _wall(moments: Moments) -> npt.NDArray[np.int64]:
    """Microseconds since the epoch on the zone's own clock."""
    times = moments.times
    return _absolute(times.dt.replace_time_zone(None) if getattr(times.dtype, "time_zone", None) else times)


def _of_year(moments: Moments) -> npt.NDArray[np.float64]:
    days = moments.times.dt.ordinal_day().to_numpy() - 1 + _wall(moments) % _DAY / _DAY
    return np.asarray(days / (365 + moments.times.dt.is_leap_year().to_numpy()), dtype=np.float64)


_CYCLES: dict[str, Callable[[Moments], npt.NDArray[np.float64]]] = {
    "daily": lambda moments: _wall(moments) % _DAY / _DAY,
    "weekly": lambda moments: (_wall(moments) + 3 * _DAY) % (7 * _DAY) / (7 * _DAY),  # the epoch was a Thursday
    "yearly": _of_year,
}


def _holidays(name: str, arguments: list[str]) -> Feature:
    if len(arguments) != 1 or not arguments[0]:
        raise _malformed(name, "holidays")
    package = require("holidays", extra="holidays", purpose=f"The feature {name!r}")
    country, _, part = arguments[0].upper().partition("-")
    supported: dict[str, list[str]] = package.list_supported_countries()
    if country not in supported:
        raise ConfigError(
            f"holidays are named by a country's two-letter code such as US, DE or BR, but got {name!r}. "
            f"The {len(supported)} known codes are those of the package holidays {package.__version__}"
        )
    if part and part not in supported[country]:
        raise ConfigError(f"{country} has the subdivisions {', '.join(supported[country]) or 'none'}, but got {name!r}")

    def compute(moments: Moments) -> npt.NDArray[Any]:
        days = moments.times.dt.date()
        years = range(days[0].year, days[-1].year + 1)
        free: list[datetime.date] = sorted(package.country_holidays(country, subdiv=part or None, years=years))
        return days.is_in(pl.Series(free, dtype=pl.Date).implode()).to_numpy()

    column = f"holidays_{country}_{part}" if part else f"holidays_{country}"
    return Feature(name, (column,), "future", compute, dated=True)


def _past(name: str, head: str, arguments: list[str]) -> Feature:
    size = _whole(arguments[0]) if len(arguments) == 1 else 0
    if size < 1:
        raise _malformed(name, head)
    compute = _lag(size) if head == "lag" else _rolling(head.removeprefix("rolling_"), size)
    return Feature(name, (f"{head}_{size}",), "historical", compute)


def _lag(size: int) -> Callable[[Panel], npt.NDArray[Any]]:
    def compute(panel: Panel) -> npt.NDArray[Any]:
        rows = np.arange(len(panel.starts))
        values = panel.table["y"].fill_null(0.0).to_numpy()
        if panel.table["y"].null_count() == 0:
            return values[np.maximum(rows - size, panel.starts)]
        observed = panel.table["y"].is_not_null().to_numpy()
        last = np.maximum.accumulate(np.where(observed, rows, -1))  # last observed row at or before each row
        following = np.minimum.accumulate(np.where(observed, rows, len(rows))[::-1])[::-1]
        source = np.maximum(rows - size, following[panel.starts])
        return np.where(last >= panel.starts, values[last[np.minimum(source, rows)]], 0.0)

    return compute


def _rolling(figure: str, size: int) -> Callable[[Panel], npt.NDArray[Any]]:
    y = pl.col("y")
    rolled = {
        "mean": y.rolling_mean(size, min_samples=1),
        "std": y.rolling_std(size, min_samples=1, ddof=0),
        "min": y.rolling_min(size, min_samples=1),
        "max": y.rolling_max(size, min_samples=1),
    }[figure]

    def compute(panel: Panel) -> npt.NDArray[Any]:
        values = panel.table.select(rolled.over("series"))["y"]
        if values.null_count() and figure != "std":
            values = values.fill_null(panel.table.select(y.forward_fill().over("series"))["y"])
        return values.fill_null(0.0).to_numpy()

    return compute
