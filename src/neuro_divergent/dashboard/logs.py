"""The whole event logs of the runs that are looked at, read once and then only as far as they have grown."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import StorageError
from neuro_divergent.core.plain_files import open_plain
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.log import LogReader
from neuro_divergent.dashboard.rows import RunRow
from neuro_divergent.dashboard.thinning import plain, smoothed, thinned

CHUNK = 2**20
MOST_BYTES = 64 * 2**20
"""Of a longer log, only the newest bytes are read."""
MOST_LOGS, MOST_STEPS = 48, 3_000_000
"""Logs that are kept in memory, and steps of all of them together."""
MOST_EVENTS, MOST_EPOCHS = 3000, 100_000
"""Events and epochs that are kept of a log, the newest ones."""
STEP_COLUMNS = ("loss", "gradient_norm", "learning_rate")

Floats = npt.NDArray[np.float64]


class Log:
    """The log of one run."""

    def __init__(self, row: RunRow) -> None:
        self.row = row
        self.guard = threading.Lock()
        self._begin((0, 0), 0)

    def _begin(self, file: tuple[int, int], offset: int) -> None:
        self._file, self._offset = file, offset
        self.reader = LogReader(complete=offset == 0)
        self.left_out = 0
        """Number of events that were left out because there are too many."""

    def refresh(self) -> Log:
        """Read what is new."""
        with self.guard:
            if self.row.folder is None:
                self._remote()
            else:
                self._local(self.row.folder / names.EVENTS)
        return self

    def _local(self, path: Path) -> None:
        try:
            with open_plain(path) as file:
                facts = os.fstat(file.fileno())
                same = (facts.st_dev, facts.st_ino)
                if same != self._file or facts.st_size < self._offset:
                    self._begin(same, max(0, facts.st_size - MOST_BYTES))
                file.seek(self._offset)
                while self._offset < facts.st_size and (data := file.read(CHUNK)):
                    self._offset += len(data)
                    self._feed(data)
        except FileNotFoundError:
            return

    def _remote(self) -> None:
        source = self.row.record().source
        data, complete = (b"", True) if source is None else source.events()
        self._begin((0, 0), 0 if complete else 1)
        for first in range(0, len(data), CHUNK):
            self._feed(data[first : first + CHUNK])
        self.reader.end()

    def _feed(self, data: bytes) -> None:
        reader = self.reader
        reader.feed(data)
        if len(reader.events) > MOST_EVENTS:
            keep = [event for event in reader.events[:-MOST_EVENTS] if event["event"] in ("verdict", "fit_start")]
            self.left_out += len(reader.events) - MOST_EVENTS - len(keep[-MOST_EVENTS:])
            reader.events = keep[-MOST_EVENTS:] + reader.events[-MOST_EVENTS:]
        if len(reader.epochs) > MOST_EPOCHS:
            reader.epochs = dict(sorted(reader.epochs.items())[-MOST_EPOCHS:])
        if len(reader.memory) > MOST_EPOCHS:
            reader.memory = reader.memory[::2]

    def step_curves(self, first: float | None, last: float | None, points: int, width: int) -> dict[str, Any]:
        """The columns of the steps between two steps, thinned; with their running mean if `width` is above 1."""
        with self.guard:
            steps = np.array(self.reader.numbers, dtype=np.float64)
            columns = {name: np.array(self.reader.columns[name]) for name in STEP_COLUMNS}
            memory = np.array(self.reader.memory, dtype=np.float64).reshape(-1, 3)
        begin = 0 if first is None else int(np.searchsorted(steps, first, "left"))
        end = len(steps) if last is None else int(np.searchsorted(steps, last, "right"))
        found: dict[str, Any] = {}
        for name, values in columns.items():
            found[name] = _curve(steps[begin:end], values[begin:end], points)
            if width > 1 and name != "learning_rate":
                found[f"{name}_mean"] = _curve(steps[begin:end], smoothed(values, width)[begin:end], points)
        inside = memory[(memory[:, 0] >= (first or 0)) & (memory[:, 0] <= (np.inf if last is None else last))]
        found["memory"] = _curve(inside[:, 0], inside[:, 2], points)
        found["steps_per_second"] = _curve(*_speed(inside), points)
        return {"curves": found, "first": _end(steps, 0), "last": _end(steps, -1), "steps": len(steps)}

    def loss_curve(self, points: int) -> dict[str, Any]:
        """The training loss of all steps, thinned."""
        with self.guard:
            steps, loss = np.array(self.reader.numbers, dtype=np.float64), np.array(self.reader.columns["loss"])
        return _curve(steps, loss, points)

    def epoch_curves(self, points: int, width: int = 1) -> dict[str, Any]:
        """Every column of the records of epochs, thinned."""
        with self.guard:
            records = [self.reader.epochs[number] for number in sorted(self.reader.epochs)]
        known = list(dict.fromkeys(name for record in records for name in record))[:60]
        found = {}
        for name in known:
            if name in ("epoch", "time"):
                continue
            pairs = [(record["epoch"], record[name]) for record in records if name in record and "epoch" in record]
            x, y = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
            found[name] = _curve(x, y, points)
            if width > 1:
                found[f"{name}_mean"] = _curve(x, smoothed(y, width), points)
        return {"curves": found, "epochs": len(records)}

    def events(self) -> list[dict[str, Any]]:
        """All lines but those of steps and epochs."""
        with self.guard:
            return list(self.reader.events)

    def epoch_record(self, number: int | None) -> dict[str, float]:
        """The record of an epoch; empty if there is none."""
        with self.guard:
            return dict(self.reader.epochs.get(number, {})) if number is not None else {}


def _curve(x: Floats, y: Floats, points: int) -> dict[str, Any]:
    thin_x, thin_y = thinned(x, y, points)
    return {"x": plain(thin_x), "y": plain(thin_y)}


def _speed(memory: Floats) -> tuple[Floats, Floats]:
    """Steps per second between two lines of steps of one session."""
    steps, seconds = np.diff(memory[:, 0]), np.diff(memory[:, 1])
    good = (steps > 0) & (seconds > 0)
    return memory[1:, 0][good], steps[good] / seconds[good]


def _end(values: Floats, place: int) -> float | None:
    return float(values[place]) if len(values) else None


class Logs:
    """The logs that were asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Log] = OrderedDict()
        self._guard = threading.Lock()

    def of(self, row: RunRow) -> Log:
        """The log of a run, up to date. A run with links has none: they could lead out of its directory."""
        row.record()
        with self._guard:
            log = self._kept.pop(row.place.id, None) or Log(row)
            self._kept[row.place.id] = log
        try:
            log.refresh()
        except OSError as error:
            raise StorageError(f"{row.place.path}: the event log could not be read: {error}") from error
        with self._guard:
            while len(self._kept) > 1 and (len(self._kept) > MOST_LOGS or self._steps() > MOST_STEPS):
                self._kept.popitem(last=False)
        return log

    def _steps(self) -> int:
        return sum(len(log.reader.numbers) for log in self._kept.values())
