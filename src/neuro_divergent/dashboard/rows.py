"""One row of the table of runs: what a run is, how far it is, and how good."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from neuro_divergent.core.errors import NeuroDivergentError, StorageError, first_line
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.process import process_of
from neuro_divergent.core.runs.read import read_run
from neuro_divergent.core.runs.record import KILLED, RunRecord
from neuro_divergent.dashboard.places import Place, foreign_links
from neuro_divergent.dashboard.scan import Scan
from neuro_divergent.dashboard.thinning import finite_only

SECONDS_OF_SILENCE = 120.0
"""A remote run without a new event for so long counts as lost: there are no locks to ask."""
_NOTHING: dict[str, Any] = {
    "model": "",
    "data": None,
    "scored": None,
    "monitor": "validation_loss",
    "mode": "min",
    "naive": {},
    "tags": [],
    "note": "",
    "step": 0,
    "total_steps": None,
    "epoch": 0,
    "score": None,
}
"""What a row has that cannot be read."""
_FACTS = (names.CONFIG, names.ABOUT, names.NOTES)


class RunRow:
    """A run, what was read of it so far, and what of it has changed since."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.scan = Scan()
        self.version = 0
        """Rises with every change that was seen."""
        self.guard = threading.Lock()
        self._facts: dict[str, Any] | None = None
        self._seen: tuple[Any, ...] = ()
        self.running: bool | None = None
        self.looked = float("-inf")
        """When it was looked at last, by the monotonic clock."""
        self._shown: dict[str, Any] | None = None

    @property
    def folder(self) -> Path | None:
        """The directory of a local run."""
        return None if self.place.remote else Path(self.place.path)

    def record(self) -> RunRecord:
        """The run as `nd.read_run` reads it. A directory with links is refused: they could lead out of it."""
        if self.folder is not None and (links := foreign_links(self.folder)):
            raise StorageError(f"a run has no links, but this one has {', '.join(links[:3])}. They are not read")
        return read_run(self.place.path)

    def look(self) -> bool:
        """Look for changes; returns whether there were any. It costs a few system calls if there are none."""
        with self.guard:
            self.looked = time.monotonic()
            now = self._remote_signs() if self.folder is None else self._signs(self.folder)
            if now == self._seen:
                return False
            if now[: len(_FACTS)] != self._seen[: len(_FACTS)]:
                self._facts = None
            self._seen = now
            self._shown = None
            self.version += 1
            return True

    def _signs(self, folder: Path) -> tuple[Any, ...]:
        inner = [_stamp(folder / name) for name in (*_FACTS, names.EVENTS, names.CHECKPOINTS, names.SNAPSHOTS)]
        self.running = process_of(folder).running if os.path.lexists(folder / names.LOCK) else False
        return (*inner, self.running)

    def _remote_signs(self) -> tuple[Any, ...]:
        """A remote run is asked for the names of its newest files only."""
        record = read_run(self.place.path)
        assert record.source is not None
        newest = record.checkpoints[-1].name if record.checkpoints else None
        data, _ = record.source.events()
        return (None, None, None, newest, len(data), time.time() // SECONDS_OF_SILENCE)

    def shown(self) -> dict[str, Any]:
        """The row as plain data."""
        with self.guard:
            if self._shown is None:
                try:
                    self._shown = finite_only(self._read())
                except (NeuroDivergentError, OSError) as error:
                    self._shown = self.common() | {"state": "damaged", "why": first_line(error)}
            found = self._shown
            return found | {"version": self.version}

    def common(self) -> dict[str, Any]:
        """What is known of a run without reading it."""
        place = self.place
        own = {"id": place.id, "name": place.name, "root": place.root, "study": place.study, "path": place.path}
        return {**_NOTHING, **own}

    def _read(self) -> dict[str, Any]:
        record = self.record()
        if self.folder is not None:
            self.scan.read(self.folder / names.EVENTS)
        else:
            self._scan_remote(record)
        if self._facts is None:
            self._facts = _facts_of(record)
        return self.common() | self._facts | self._progress() | self._score() | self._state(record)

    def _scan_remote(self, record: RunRecord) -> None:
        assert record.source is not None
        data, complete = record.source.events()
        self.scan = Scan()
        self.scan.feed((data if complete else data[data.find(b"\n") :]) + b"\n")

    def _progress(self) -> dict[str, Any]:
        scan = self.scan
        given: Any = scan.began.get("total_steps")
        total = given if _is_number(given) and given > 0 else None
        begun, first = scan.began.get("time"), scan.began.get("step")
        done, left = scan.step - (first if isinstance(first, int) else 0), None
        if total and begun and scan.time and done > 0 and self.running:
            left = max(0.0, (total - scan.step) * (scan.time - begun) / done)
        return {
            "step": scan.step,
            "total_steps": total,
            "epoch": scan.epoch,
            "started": scan.first_time or begun,
            "last": scan.time,
            "seconds": scan.time - scan.first_time if scan.time and scan.first_time else None,
            "left": left,
            "verdicts": scan.verdicts,
            "damaged_lines": scan.damaged,
        }

    def _score(self) -> dict[str, Any]:
        assert self._facts is not None
        monitor, mode = self._facts["monitor"], self._facts["mode"]
        best = self.scan.best(monitor, mode)
        if best is None and monitor == "validation_loss":
            monitor, best = "train_loss", self.scan.best("train_loss", "min")
        naive = self._facts["naive"].get(monitor)
        value = None if best is None else best[0]
        gain = None
        if value is not None and isinstance(naive, int | float) and naive:
            gain = (naive - value) / abs(naive) * (-1 if mode == "max" else 1)
        return {
            "score": value,
            "score_name": monitor,
            "score_epoch": None if best is None else best[1],
            "naive_score": naive,
            "gain": gain,
        }

    def _state(self, record: RunRecord) -> dict[str, Any]:
        last, kind = self.scan.session, self.scan.session.get("event")
        running = self.running
        if self.folder is None:
            silent = self.scan.time is None or time.time() - self.scan.time > SECONDS_OF_SILENCE
            running = kind == "fit_start" and not silent
        if running:
            return {"state": "running", "why": ""}
        if kind is None:
            return {"state": "finished" if record.models else "new", "why": ""}
        if kind == "fit_start":
            return {"state": "lost", "why": KILLED}
        if kind == "error":
            error = str(last.get("error") or "")
            signalled = error.startswith(("KeyboardInterrupt", "SystemExit"))
            return {"state": "stopped" if signalled else "failed", "why": error}
        why = str(last.get("why") or "")
        return {"state": "stopped" if why == names.STOPPED_ON_REQUEST else "finished", "why": why}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Inode, size and time of a file or directory; None if there is none."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _facts_of(record: RunRecord) -> dict[str, Any]:
    """What does not change while a run trains: model, data, what is monitored, and the notes of the user."""
    config, about = record.config or {}, record.about
    model, data = _mapping(about.get("model")), _mapping(about.get("data"))
    rule, notes = _mapping(config.get("early_stopping")), record.notes
    return {
        "model": str(model.get("alias") or model.get("kind") or ""),
        "data": {name: _scalar(data.get(name)) for name in ("series", "rows", "freq")}
        | {"fingerprint": str(data.get("fingerprint") or "")[:200]}
        if data
        else None,
        "scored": _scored(_mapping(about.get("scored"))),
        "monitor": str(rule.get("monitor") or "validation_loss"),
        "mode": "max" if rule.get("mode") == "max" else "min",
        "naive": {name: value for name, value in _mapping(about.get("naive")).items() if _is_number(value)},
        "tags": notes["tags"],
        "note": notes["note"],
    }


def _scored(given: dict[str, Any]) -> dict[str, Any] | None:
    """On which rows a run was scored, how far ahead, and by which loss; None if it does not say it."""
    if not given:
        return None
    rows = given.get("rows")
    return {"rows": rows if isinstance(rows, str) else None, "h": _scalar(given.get("h")), "loss": given.get("loss")}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: Any) -> str | float | None:
    """A number or a short text; None for anything else."""
    if isinstance(value, str):
        return value[:200]
    return value if _is_number(value) else None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
