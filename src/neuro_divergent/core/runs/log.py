"""Read the event log of a run, also if the run was interrupted and resumed."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.json import from_plain, parse_json
from neuro_divergent.core.runs.names import EVENTS

MAX_EVENT_BYTES = 256 * 2**20
"""Bytes of the event log that are read, the newest ones. A step takes about 55 bytes."""
MAX_LINE_BYTES = 4 * 2**20

COLUMNS = ("loss", "gradient_norm", "learning_rate")
"""The values of each step in a line of steps, beside its number."""
_SESSION = frozenset({"fit_start", "fit_end", "error", "checkpoint"})
"""Events of the training process. They stay valid if the training resumes from an earlier step."""
_YEAR_5000 = 95_617_584_000
"""In seconds since 1970. A later time is not a clock time."""
_ABOUT = frozenset({"event", "step"})
_BAD = (StorageError, KeyError, TypeError, ValueError, OverflowError, AttributeError)


@dataclass(frozen=True)
class RunLog:
    """The event log of a run, with repeated steps merged.

    A resumed training continues from a checkpoint, and its `fit_start` line names the step. Earlier lines about later
    steps and epochs are dropped, because these were trained again. If a step or epoch has several lines, the last one
    counts.
    """

    epochs: list[dict[str, float]]
    """One record per finished epoch, as in `History.epochs`."""
    steps: dict[str, list[float]]
    """The columns step (counted from 1), loss, gradient_norm and learning_rate; a row per completed step."""
    events: list[dict[str, Any]]
    """All other lines: starts, ends, errors, checkpoints, and logged values."""
    damaged: int = 0
    """Number of unreadable lines. A killed process may leave half a line."""
    complete: bool = True
    """Whether the whole log was read. Of a log beyond the size limit, only the newest lines are read."""

    @property
    def time(self) -> float | None:
        """Time of the last line, in seconds since 1970."""
        return self._last.get("time")

    @property
    def step(self) -> int:
        """Number of completed steps at the last line."""
        return int(self._last.get("step", 0))

    memory: dict[str, list[float]] = field(default_factory=lambda: {"step": [], "time": [], "memory": []})
    """The columns step, time and memory (bytes of the process), a row per line of steps."""

    _last: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)


def read_log(data: bytes, *, complete: bool = True) -> RunLog:
    """Return the log of these lines. Unreadable lines are counted and left out."""
    reader = LogReader(complete=complete)
    reader.feed(data)
    reader.end()
    return reader.log()


def parse_line(line: bytes) -> dict[str, Any]:
    """Return one line of a log. A line that is not an event raises StorageError, ValueError or another of _BAD."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError("too long")
    found = parse_json(line, EVENTS)
    if b'"float"' in line:  # NaN or infinite
        found = from_plain(found)
    if type(found["event"]) is not str or type(found["step"]) is not int or type(found["epoch"]) is not int:
        raise TypeError("not an event")
    if type(found["time"]) not in (int, float) or not 0 <= found["time"] < _YEAR_5000:
        found["time"] = None  # a callback may have logged a value named "time"
    return dict(found)


class LogReader:
    """Reads the event log of a run piece by piece, so that a growing file is read once.

    Args:
        complete: whether the first piece begins at the first line. Otherwise its first line is left out, because
            reading began in its middle.
    """

    def __init__(self, *, complete: bool = True) -> None:
        self.complete = complete
        self.numbers = array("q")
        self.columns = {name: array("d") for name in COLUMNS}
        self.epochs: dict[int, dict[str, float]] = {}
        self.events: list[dict[str, Any]] = []
        self.memory: list[tuple[int, float, float]] = []
        self.damaged = 0
        self.last: dict[str, Any] = {}
        self._rest = b""
        self._skip = not complete
        """Whether to leave out everything up to the next line break."""

    def feed(self, data: bytes) -> None:
        """Read the next bytes. An unfinished last line is kept for the next call; a line that is too long is damage."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if self._skip:
                self._skip = False
            elif line.strip():
                self._line(line)
        if len(self._rest) > MAX_LINE_BYTES:
            self.damaged += not self._skip
            self._rest, self._skip = b"", True

    def end(self) -> None:
        """Read the last line, although it has no line break."""
        if self._rest.strip() and not self._skip:
            self._line(self._rest)
        self._rest = b""

    def log(self) -> RunLog:
        """What was read so far."""
        numbers: list[float] = [*self.numbers]
        columns = {name: column.tolist() for name, column in self.columns.items()}
        epochs = [self.epochs[number] for number in sorted(self.epochs)]
        memory = [[float(row[place]) for row in self.memory] for place in range(3)]
        named = dict(zip(("step", "time", "memory"), memory, strict=True))
        return RunLog(
            epochs, {"step": numbers} | columns, list(self.events), self.damaged, self.complete, named, self.last
        )

    def _line(self, line: bytes) -> None:
        try:
            self.take(parse_line(line))
        except _BAD:
            self.damaged += 1

    def take(self, line: dict[str, Any]) -> None:
        """Add one line. A malformed line changes nothing."""
        kind = line["event"]
        if kind == "steps":
            self._steps(line["steps"], {name: list(map(float, line[name])) for name in COLUMNS})
            if type(line.get("memory")) in (int, float) and line["time"] is not None:
                self.memory.append((line["step"], line["time"], line["memory"]))
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
        self.memory = [row for row in self.memory if row[0] <= step]
        self.epochs = {number: record for number, record in self.epochs.items() if number <= epoch}
        self.events = [] if step == 0 else [line for line in self.events if _holds(line, step)]

    def _steps(self, numbers: list[int], columns: dict[str, list[float]]) -> None:
        if not numbers or any(type(number) is not int for number in numbers):
            raise TypeError("steps are whole numbers")
        if {len(column) for column in columns.values()} != {len(numbers)}:
            raise ValueError("one value for each step")
        first = self.numbers[-1] + 1 if self.numbers else numbers[0]
        if numbers[0] >= first and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            self.numbers.extend(numbers)
            for name in COLUMNS:
                self.columns[name].extend(columns[name])
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
    """Whether a line is still valid for a run that resumed from a step."""
    if line["event"] in _SESSION:
        return True
    # A skipped step has the number of the steps completed before it.
    return bool(line["step"] < step if line["event"] == "skipped" else line["step"] <= step)
