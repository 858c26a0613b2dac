"""The time between two rows: parsed from pandas or polars spelling, added to time stamps, and counted between them.

Time stamps are numpy arrays: `datetime64` (UTC when there is a time zone) or whole numbers. Steps of hours and less
advance in absolute time; steps of days and more advance on the wall clock of the time zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import ConfigError

Times = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
MONTHS = {"mo": 1, "q": 3, "y": 12}
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

# unit, edge of the month ("" where the spelling does not say)
_SPELLINGS: dict[str, tuple[str, str]] = {
    "i": ("i", ""),
    "us": ("us", ""),
    "U": ("us", ""),
    "ms": ("ms", ""),
    "L": ("ms", ""),
    "s": ("s", ""),
    "S": ("s", ""),
    "m": ("m", ""),
    "min": ("m", ""),
    "T": ("m", ""),
    "h": ("h", ""),
    "H": ("h", ""),
    "d": ("d", ""),
    "D": ("d", ""),
    "bd": ("bd", ""),
    "b": ("bd", ""),
    "B": ("bd", ""),
    "w": ("w", ""),
    "W": ("w", ""),
    "mo": ("mo", ""),
    "M": ("mo", "end"),
    "ME": ("mo", "end"),
    "MS": ("mo", "start"),
    "q": ("q", ""),
    "Q": ("q", "end"),
    "QE": ("q", "end"),
    "QS": ("q", "start"),
    "y": ("y", ""),
    "Y": ("y", "end"),
    "A": ("y", "end"),
    "YE": ("y", "end"),
    "YS": ("y", "start"),
    "AS": ("y", "start"),
}
_PIECE = re.compile(r"(\d*)\s*([A-Za-z]+)(?:-([A-Za-z]{3}))?(?::(end))?")
_COMPOUND = re.compile(r"(\d+(?:us|ms|min|s|m|h|d|w))+")
_EXAMPLES = '"15min", "1h", "1d", "1bd" (business days), "1w", "1mo", "MS", "ME", "1q", "1y", "1i" (whole numbers)'
MAX_COUNT = 1_000_000_000
REACH = 100
"""Within this many steps a grid has a stamp that the calendar does not move. A February 29 is at most 8 years away."""


@dataclass(frozen=True)
class Frequency:
    """A number of units. `str` gives the spelling that stores and files use, and `parse` reads it."""

    count: int
    unit: str
    """One of i, us, ms, s, m, h, d, w, bd, mo, q, y."""
    end: bool = False
    """Whether months, quarters and years are stamped on their last day."""
    anchor: int | None = None
    """The weekday (0 is Monday) or month (0 is January) in the spelling. It is used to check data; `str` omits it."""
    first_day: bool = False
    """Whether the spelling (MS, QS, YS) requires stamps on the first day of a month. Used as `anchor` is."""

    @classmethod
    def parse(cls, text: str | int | Frequency) -> Self:
        """Read a pandas or polars spelling; a whole number means steps of that many integers."""
        if isinstance(text, Frequency):
            return text  # type: ignore[return-value]
        if isinstance(text, int) and not isinstance(text, bool):
            return cls._checked(text, "i", text)
        if not isinstance(text, str):
            raise ConfigError(f"freq must be text such as {_EXAMPLES}, but got freq={text!r}")
        found = _PIECE.fullmatch(text.strip())
        if found is None and _COMPOUND.fullmatch(text.strip()):
            return cls._compound(text.strip())
        if found is None or found[2] not in _SPELLINGS:
            raise ConfigError(f"freq must be a known step such as {_EXAMPLES}, but got freq={text!r}")
        unit, edge = _SPELLINGS[found[2]]
        end = edge == "end" or found[4] is not None
        if end and unit not in MONTHS:
            raise ConfigError(f'":end" is for months, quarters and years only, but got freq={text!r}')
        base = cls._checked(int(found[1] or 1), unit, text)
        return cls(base.count, unit, end, _anchor(unit, found[3], text), edge == "start")

    @classmethod
    def _checked(cls, count: int, unit: str, given: object) -> Self:
        if not 1 <= count <= MAX_COUNT:
            raise ConfigError(f"freq must be at least one step and at most {MAX_COUNT:,}, but got freq={given!r}")
        return cls(count, unit)

    @classmethod
    def _compound(cls, text: str) -> Self:
        pieces = re.findall(r"(\d+)(us|ms|min|s|m|h|d|w)", text)
        return cls.of_microseconds(sum(int(n) * MICROSECONDS[_SPELLINGS[unit][0]] for n, unit in pieces), text)

    @classmethod
    def of_microseconds(cls, total: int, given: object = None) -> Self:
        """The step of that many microseconds in the largest unit that divides it."""
        for unit in ("w", "d", "h", "m", "s", "ms"):
            if total > 0 and total % MICROSECONDS[unit] == 0:
                return cls._checked(total // MICROSECONDS[unit], unit, given or total)
        return cls._checked(total, "us", given or total)

    @classmethod
    def of_months(cls, months: int, *, end: bool = False) -> Self:
        """The step of that many months in the largest unit that divides it."""
        for unit in ("y", "q"):
            if months % MONTHS[unit] == 0:
                return cls(months // MONTHS[unit], unit, end)
        return cls(months, "mo", end)

    def __str__(self) -> str:
        return f"{self.count}{self.unit}{':end' if self.end else ''}"

    @property
    def months(self) -> int:
        """Months in a step, 0 when the unit is shorter."""
        return self.count * MONTHS.get(self.unit, 0)

    @property
    def microseconds(self) -> int:
        """Microseconds in a step, on the wall clock for days and weeks; 0 for business days, months and integers."""
        return self.count * MICROSECONDS.get(self.unit, 0)

    @property
    def integer(self) -> bool:
        """Whether the steps are whole numbers instead of time."""
        return self.unit == "i"

    @property
    def on_wall_clock(self) -> bool:
        """Whether the hour of the day stays the same across a clock change of the time zone."""
        return self.unit in ("d", "w", "bd", "mo", "q", "y")

    def advance(self, start: Times, steps: npt.ArrayLike, zone: str | None = None) -> Times:
        """The time stamps `steps` after `start`, both broadcast; negative steps go back."""
        counts: Ints = np.asarray(steps, dtype=np.int64) * self.count
        start = np.asarray(start)
        if self.integer:
            return np.asarray(start + counts, dtype=np.int64)
        start = start.astype("datetime64[us]")
        if zone is None or not self.on_wall_clock:
            return self._advance_naive(start, counts)
        return to_utc(self._advance_naive(to_local(start, zone), counts), zone)

    def _advance_naive(self, start: Times, counts: Ints) -> Times:
        if self.unit in MICROSECONDS:
            return np.asarray(start + (counts * MICROSECONDS[self.unit]).astype("timedelta64[us]"))
        days = start.astype("datetime64[D]")
        of_day = start - days
        if self.unit == "bd":
            return np.asarray(np.busday_offset(days, counts, roll="preceding") + of_day)
        return np.asarray(_add_months(days, counts * MONTHS[self.unit], end=self.end) + of_day)

    def positions(self, start: Times, times: Times, zone: str | None = None) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """How many steps each time stamp is after its start, and whether it is on that grid at all."""
        if self.integer:
            distance = np.asarray(times, dtype=np.int64) - np.asarray(start, dtype=np.int64)
            return distance // self.count, distance % self.count == 0
        if zone is not None and self.on_wall_clock:
            steps = self._nearest(to_local(start, zone), to_local(times, zone))
        else:
            steps = self._nearest(start, times)
        times = times.astype("datetime64[us]")
        good = np.asarray(self.advance(start, steps, zone) == times)
        if zone is not None and self.on_wall_clock and not good.all():
            # A skipped hour may have moved a stamp past midnight, where it would count as the next step.
            before = np.asarray(self.advance(start, steps - 1, zone) == times) & ~good
            steps, good = steps - before, good | before
        return steps, good

    def _nearest(self, start: Times, times: Times) -> Ints:
        if self.unit in MICROSECONDS:
            step = self.microseconds
            distance = (times.astype("datetime64[us]") - start.astype("datetime64[us]")).astype(np.int64)
            return np.asarray((distance + step // 2) // step, dtype=np.int64)
        first, last = start.astype("datetime64[D]"), times.astype("datetime64[D]")
        if self.unit == "bd":
            return np.asarray(np.busday_count(first, last), dtype=np.int64) // self.count
        distance = (last.astype("datetime64[M]") - first.astype("datetime64[M]")).astype(np.int64)
        return np.asarray(distance // self.months, dtype=np.int64)

    def moves(self, zone: str | None) -> bool:
        """Whether the calendar may move stamps of such a grid, because a month is too short or an hour is skipped."""
        return bool(self.months and not self.end) or (self.on_wall_clock and zone is not None)

    def phase(self, anchor: Times, zone: str | None = None) -> Ints:
        """The day of the month (where steps are months) and the time of day, as one number.

        Two anchors with equal phase and a whole number of steps between them define the same grid.
        """
        local = (to_local(anchor, zone) if zone else anchor).astype("datetime64[us]")
        since = "datetime64[M]" if self.months and not self.end else "datetime64[D]"
        return np.asarray((local - local.astype(since)).astype(np.int64))

    def anchor_from(self, anchor: Times, steps: Ints, zone: str | None = None) -> Times:
        """[S] the anchor of a grid that is cut to begin [S] `steps` after its present anchor.

        It is the first stamp after the cut that the calendar did not move. (Counted from February 28, a grid of the
        30th of every month would stay on the 28th.) If the next `REACH` stamps were all moved, the anchor is kept.
        """
        found = np.array(self.advance(anchor, steps, zone))
        if not self.moves(zone):
            return found
        moved = np.flatnonzero(self._moved(anchor, steps, zone))
        if len(moved):
            ahead = steps[moved, None] + np.arange(REACH)
            good = ~self._moved(anchor[moved, None], ahead, zone)
            which = (np.arange(len(moved)), good.argmax(axis=1))
            stamps = self.advance(anchor[moved], ahead[which], zone)
            found[moved] = np.where(good[which], stamps, anchor[moved])
        return found

    def _moved(self, anchor: Times, steps: Ints, zone: str | None) -> npt.NDArray[np.bool_]:
        anchor = anchor.astype("datetime64[us]")
        local = to_local(anchor, zone) if zone else anchor
        ideal = self._advance_naive(local, steps * self.count)
        moved: npt.NDArray[np.bool_] = np.zeros(ideal.shape, dtype=bool)
        if self.months and not self.end:
            moved |= self.phase(ideal) != self.phase(local)
        if zone is not None:
            moved |= to_local(to_utc(ideal, zone), zone) != ideal
        return moved

    def maybe_moved(self, times: Times, zone: str | None = None) -> npt.NDArray[np.bool_]:
        """Whether the calendar may have moved these stamps: they end a month, or follow a clock change."""
        maybe: npt.NDArray[np.bool_] = np.zeros(np.shape(times), dtype=bool)
        if self.months and not self.end:
            local = to_local(times, zone) if zone else times
            maybe |= is_month_end(local)
        if zone is not None and self.on_wall_clock:
            day_before = times.astype("datetime64[us]") - np.timedelta64(1, "D")
            passed = to_local(times, zone) - to_local(day_before, zone)
            maybe |= passed > np.timedelta64(1, "D")
        return maybe

    def phase_ok(self, start: Times, zone: str | None = None) -> npt.NDArray[np.bool_]:
        """Whether these starts match the weekday, month, or first or last day of a month that the spelling requires."""
        if self.integer or not self.on_wall_clock:
            return np.ones(len(start), dtype=bool)
        days = (to_local(start, zone) if zone else start).astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        good = np.ones(len(days), dtype=bool)
        if self.unit == "bd":
            good &= np.is_busday(days)
        if self.first_day:
            good &= days == months.astype("datetime64[D]")
        if self.end:
            good &= is_month_end(days)
        if self.anchor is not None and self.unit == "w":
            good &= weekday(days) == self.anchor
        elif self.anchor is not None:
            good &= (months.astype(np.int64) - self.anchor) % min(self.months, 12) == 0
        return good


def _anchor(unit: str, name: str | None, text: str) -> int | None:
    if name is None:
        return None
    names = WEEKDAYS if unit == "w" else MONTH_NAMES if unit in ("q", "y") else ()
    if name.upper() not in names:
        raise ConfigError(f"freq must end in a weekday (W-SUN) or a month (QS-JAN, YE-DEC), but got freq={text!r}")
    return names.index(name.upper())


def weekday(days: Times) -> Ints:
    """0 for Monday to 6 for Sunday."""
    return np.asarray(
        (days.astype("datetime64[D]").astype(np.int64) + 3) % 7, dtype=np.int64
    )  # 1970-01-01 was a Thursday


def is_month_end(days: Times) -> npt.NDArray[np.bool_]:
    """Whether the day is the last of its month."""
    days = days.astype("datetime64[D]")
    return np.asarray((days + 1).astype("datetime64[M]") > days.astype("datetime64[M]"))


def _add_months(days: Times, months: Ints, *, end: bool) -> Times:
    """Same day of the month, or its last day where the month is shorter (always its last day with `end`)."""
    first = days.astype("datetime64[M]")
    target = first + months
    last = (target + 1).astype("datetime64[D]") - 1
    if end:
        return np.asarray(last)
    same = target.astype("datetime64[D]") + (days - first.astype("datetime64[D]"))
    return np.asarray(np.minimum(same, last))


def to_local(times: Times, zone: str) -> Times:
    """UTC to the zone's wall clock, without a zone."""
    series = pl.Series(np.ravel(times).astype("datetime64[us]")).dt.replace_time_zone("UTC")
    local = series.dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return local.to_numpy().reshape(np.shape(times))


def to_utc(local: Times, zone: str) -> Times:
    """The zone's wall clock to UTC. Of an hour that exists twice, the earlier one is taken.

    A time that a clock change skips is moved later by the size of the change: it is 24 hours after the same time of
    the day before. Python and pandas (`Timestamp + DateOffset`) do the same.
    """
    series = pl.Series(np.ravel(local).astype("datetime64[us]"))
    options: dict[str, Any] = {"ambiguous": "earliest", "non_existent": "null"}
    utc = series.dt.replace_time_zone(zone, **options)
    if utc.null_count() > series.null_count():
        utc = utc.fill_null(series.dt.offset_by("-1d").dt.replace_time_zone(zone, **options) + timedelta(days=1))
    return utc.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy().reshape(np.shape(local))
