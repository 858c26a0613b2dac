"""The events of a run: what its lines mean together, whatever was interrupted and resumed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.json import from_plain, parse_json
from neuro_divergent.core.runs.names import EVENTS

MAX_EVENT_BYTES = 256 * 2**20
"""How much of a run's events is read, the newest; a line of steps takes about 55 bytes for each of them."""
MAX_LINE_BYTES = 4 * 2**20

COLUMNS = ("loss", "gradient_norm", "learning_rate")
"""What a line of steps says of each step, besides its number."""
_SESSION = frozenset({"fit_start", "fit_end", "error", "checkpoint"})
"""Lines about the training as a process: they stay true when it goes on from an earlier step."""
_YEAR_5000 = 95_617_584_000
"""In seconds since 1970; what is later is no time that a clock showed."""
_ABOUT = frozenset({"event", "step"})
_BAD = (StorageError, KeyError, TypeError, ValueError, OverflowError, AttributeError)


@dataclass(frozen=True)
class RunLog:
    """What the events of a run say, read in their order.

    A training that is started again goes on from a checkpoint, and its `fit_start` line names that step. What earlier
    lines say of later steps and epochs is dropped then: those were done again. Otherwise the latest line of a step or
    an epoch counts.
    """

    epochs: list[dict[str, float]]
    """One record per finished epoch, as in `History.epochs`."""
    steps: dict[str, list[float]]
    """The columns step (counted from 1), loss, gradient_norm and learning_rate; a row per step that was done."""
    events: list[dict[str, Any]]
    """Every other line: starts, ends, errors, checkpoints, and what was logged."""
    damaged: int = 0
    """Lines that say nothing: a killed process may leave half a line."""
    complete: bool = True
    """Whether all of it was read; of events beyond the limit only the newest are."""

    @property
    def time(self) -> float | None:
        """When the last line was written, in seconds since 1970."""
        return self._last.get("time")

    @property
    def step(self) -> int:
        """How many steps were done when the last line was written."""
        return int(self._last.get("step", 0))

    _last: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


def read_log(data: bytes, *, complete: bool = True) -> RunLog:
    """The log of these lines; a line that makes no sense is counted and left out."""
    reader = _Reader()
    for line in _lines(data, complete):
        try:
            reader.take(_parsed(line))
        except _BAD:
            reader.damaged += 1
    numbers: list[float] = [*reader.numbers]
    epochs = [reader.epochs[number] for number in sorted(reader.epochs)]
    return RunLog(epochs, {"step": numbers} | reader.columns, reader.events, reader.damaged, complete, reader.last)


def _lines(data: bytes, complete: bool) -> Iterable[bytes]:
    """Without the first one where reading began in the middle of it."""
    lines = data.split(b"\n")
    return (line for line in (lines if complete else lines[1:]) if line.strip())


def _parsed(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise ValueError("too long")
    found = parse_json(line, EVENTS)
    if b'"float"' in line:  # a number that JSON has no word for
        found = from_plain(found)
    if type(found["event"]) is not str or type(found["step"]) is not int or type(found["epoch"]) is not int:
        raise TypeError("not an event")
    if type(found["time"]) not in (int, float) or not 0 <= found["time"] < _YEAR_5000:
        found["time"] = None  # a callback may have logged something of that name
    return dict(found)


class _Reader:
    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.columns: dict[str, list[float]] = {name: [] for name in COLUMNS}
        self.epochs: dict[int, dict[str, float]] = {}
        self.events: list[dict[str, Any]] = []
        self.damaged = 0
        self.last: dict[str, Any] = {}

    def take(self, line: dict[str, Any]) -> None:
        """One line; nothing of it is kept if it has a wrong form."""
        kind = line["event"]
        if kind == "steps":
            self._steps(line["steps"], {name: list(map(float, line[name])) for name in COLUMNS})
        elif kind == "epoch":
            self.epochs[line["epoch"]] = {
                name: line[name] if name == "epoch" else float(line[name])
                for name in line
                if name not in _ABOUT and line[name] is not None
            }
        else:
            if kind == "fit_start":
                self._go_on_from(line["step"], line["epoch"])
            self.events.append(line)
        self.last = {"time": line["time"], "step": line["step"]}

    def _go_on_from(self, step: int, epoch: int) -> None:
        keep = bisect_left(self.numbers, step + 1)
        del self.numbers[keep:]
        for column in self.columns.values():
            del column[keep:]
        self.epochs = {number: record for number, record in self.epochs.items() if number <= epoch}
        self.events = [] if step == 0 else [line for line in self.events if _holds(line, step)]

    def _steps(self, numbers: list[int], columns: dict[str, list[float]]) -> None:
        if not numbers or any(type(number) is not int for number in numbers):
            raise TypeError("steps are whole numbers")
        if {len(column) for column in columns.values()} != {len(numbers)}:
            raise ValueError("one value for each step")
        first = self.numbers[-1] + 1 if self.numbers else numbers[0]
        if numbers[0] >= first and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            self.numbers += numbers
            for name in COLUMNS:
                self.columns[name] += columns[name]
            return
        for row, number in enumerate(numbers):
            self._step(number, {name: columns[name][row] for name in COLUMNS})

    def _step(self, number: int, values: dict[str, float]) -> None:
        place = bisect_left(self.numbers, number)
        if place == len(self.numbers) or self.numbers[place] != number:
            self.numbers.insert(place, number)
            for name in COLUMNS:
                self.columns[name].insert(place, 0.0)
        for name in COLUMNS:
            self.columns[name][place] = values[name]


def _holds(line: dict[str, Any], step: int) -> bool:
    """Whether a line is still true of a run that went on from a step."""
    if line["event"] in _SESSION:
        return True
    # A step that was left out has the number of steps that were done before it.
    return bool(line["step"] < step if line["event"] == "skipped" else line["step"] <= step)
