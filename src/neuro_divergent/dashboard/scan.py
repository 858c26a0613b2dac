"""The state of a run from one quick pass over its event log, which goes on where it ended when the log grows.

A table of a thousand runs needs a few numbers of each. Lines of steps and of logged values, nearly all bytes of a log,
are passed over without parsing.
"""

from __future__ import annotations

import os
import re
from array import array
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.plain_files import open_plain
from neuro_divergent.core.runs.log import MAX_LINE_BYTES, parse_line

CHUNK = 2**20
MOST_BYTES = 64 * 2**20
"""Of a longer log, only the newest bytes are read."""
_PASSED = (b'{"event": "steps"', b'{"event": "log"', b'{"event": "console"')
_ENDS = frozenset({"fit_start", "fit_end", "error"})
_PLACE = re.compile(rb'"time": ([0-9.e+]{1,24}), "step": ([0-9]{1,15}), "epoch": ([0-9]{1,15})')
_BAD = (StorageError, ValueError, KeyError, TypeError, OverflowError, AttributeError, RecursionError)


class Scan:
    """What the table of runs shows of an event log."""

    def __init__(self) -> None:
        self._start_again()

    def _start_again(self) -> None:
        self.offset = 0
        self._file = (0, 0)
        self._rest = b""
        self._skip = False
        self.began: dict[str, Any] = {}
        """The newest fit_start line."""
        self.first_time: float | None = None
        self.session: dict[str, Any] = {}
        """The newest line that says how the training began or ended."""
        self.time: float | None = None
        self.step = self.epoch = 0
        self.numbers = array("q")
        self.scores: dict[str, array[float]] = {}
        """For each column of the epochs that may be monitored, a value per epoch; NaN where there is none."""
        self.verdicts = 0
        self.lines = self.damaged = 0

    def read(self, path: Path) -> bool:
        """Read what is new in the log; returns whether anything was. A log that was replaced is read from its start."""
        try:
            with open_plain(path) as file:
                facts = os.fstat(file.fileno())
                if (facts.st_dev, facts.st_ino) != self._file or facts.st_size < self.offset:
                    self._start_again()
                    self._file = (facts.st_dev, facts.st_ino)
                    self.offset = max(0, facts.st_size - MOST_BYTES)
                    self._skip = self.offset > 0
                if facts.st_size == self.offset:
                    return False
                file.seek(self.offset)
                while self.offset < facts.st_size and (data := file.read(CHUNK)):
                    self.offset += len(data)
                    self.feed(data)
        except FileNotFoundError:
            return False
        return True

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the log."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        passed = b""
        for line in lines:
            if self._skip:
                self._skip = False
                continue
            if line.startswith(_PASSED):
                passed = line
            elif line.strip():
                passed = b""
                self._line(line)
        if passed and (place := _PLACE.search(passed[:200])):
            self._at(float(place[1]), int(place[2]), int(place[3]))
        if len(self._rest) > MAX_LINE_BYTES:
            self.damaged += not self._skip
            self._rest, self._skip = b"", True

    def _at(self, time: float | None, step: int, epoch: int) -> None:
        self.time = time if time is not None else self.time
        self.step, self.epoch = step, epoch

    def _line(self, line: bytes) -> None:
        try:
            found = parse_line(line)
            kind = found["event"]
            if kind == "epoch":
                self._epoch(found)
            elif kind in _ENDS:
                self._session(found)
            self.verdicts += kind == "verdict"
            self._at(found["time"], found["step"], found["epoch"])
            self.lines += 1
        except _BAD:
            self.damaged += 1

    def _session(self, line: dict[str, Any]) -> None:
        self.session = {key: line.get(key) for key in ("event", "time", "step", "epoch", "why", "error")}
        if line["event"] != "fit_start":
            return
        self.began = {key: line.get(key) for key in ("time", "step", "total_steps", "steps_per_epoch")}
        if line["step"] == 0 or self.first_time is None:
            self.first_time = line["time"]
        keep = sum(number <= line["epoch"] for number in self.numbers)
        del self.numbers[keep:]
        for column in self.scores.values():
            del column[keep:]

    def _epoch(self, line: dict[str, Any]) -> None:
        number = line["epoch"]
        values = {
            name: float(value)
            for name, value in line.items()
            if name.startswith(("validation_", "train_")) and type(value) in (int, float) and name.isidentifier()
        }
        if self.numbers and self.numbers[-1] >= number:  # trained again without a line that says so
            return
        self.numbers.append(number)
        for name in list(values)[:20]:
            if name not in self.scores and len(self.scores) < 40:
                self.scores[name] = array("d", [float("nan")] * (len(self.numbers) - 1))
        for name, column in self.scores.items():
            column.append(values.get(name, float("nan")))

    def best(self, monitor: str, mode: str) -> tuple[float, int] | None:
        """The best value of a column, and its epoch; None if there is none."""
        pairs = [
            (value, number)
            for value, number in zip(self.scores.get(monitor, ()), self.numbers, strict=False)
            if value - value == 0
        ]
        if not pairs:
            return None
        return max(pairs) if mode == "max" else min(pairs)
