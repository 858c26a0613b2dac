"""All that a dashboard knows of its runs, and the thread that looks for changes while somebody looks at the page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from neuro_divergent.core.errors import ConfigError, NeuroDivergentError
from neuro_divergent.dashboard.logs import Logs
from neuro_divergent.dashboard.places import Place, find_places
from neuro_divergent.dashboard.rows import RunRow

SECONDS_BETWEEN_LOOKS = 0.15
"""How often running and shown runs are looked at: a few system calls for each of them."""
SECONDS_BETWEEN_SEARCHES = 2.0
"""How often the directories are searched for new runs, and all runs are looked at."""
SECONDS_REMOTE = 10.0
"""The same for remote directories, where every look is a request."""
SECONDS_OF_FIRST_PAGE = 0.5
"""For so long the first request reads runs. A thread reads the others and tells the page."""

Listener = Callable[[list[str]], None]


class Watch:
    """The runs below some directories."""

    def __init__(self, roots: list[str]) -> None:
        self.roots = roots
        self.logs = Logs()
        self.places: dict[str, Place] = {}
        self.rows: dict[str, RunRow] = {}
        self._listeners: dict[Listener, frozenset[str]] = {}
        self._guard = threading.RLock()
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        self._searched = self._asked_remote = float("-inf")
        self._ready: set[str] = set()
        self.failed: dict[str, str] = {}
        """Why a remote directory could not be listed when it was asked last, by directory."""

    def search(self) -> bool:
        """Search the directories; returns whether runs came or went."""
        remote = time.monotonic() - self._asked_remote >= SECONDS_REMOTE
        roots = [root for root in self.roots if remote or "://" not in root]
        failed: dict[str, str] = {}
        found = {place.id: place for place in find_places(roots, failed)}
        with self._guard:
            self._searched = time.monotonic()
            if remote:
                self._asked_remote, self.failed = self._searched, failed
            kept = self.failed if remote else self.roots  # a connection that breaks removes no run
            found |= {key: place for key, place in self.places.items() if place.remote and place.root in kept}
            changed = found.keys() != self.places.keys()
            self.places = found
            runs = {key: place for key, place in found.items() if place.kind == "run"}
            self.rows = {key: self.rows.get(key) or RunRow(place) for key, place in runs.items()}
        return changed

    def table(self) -> dict[str, Any]:
        """All runs as rows. Runs that were not read yet have the state "reading"; the watch reads them next."""
        if time.monotonic() - self._searched >= SECONDS_BETWEEN_SEARCHES:
            self.search()
        end = time.monotonic() + SECONDS_OF_FIRST_PAGE
        rows, unread = [], 0
        for key, row in list(self.rows.items()):
            if key in self._ready:
                pause = SECONDS_REMOTE if row.place.remote else SECONDS_BETWEEN_LOOKS
                if time.monotonic() - row.looked > pause:
                    self._look(row)
                rows.append(row.shown())
            elif time.monotonic() < end:
                self._look(row)
                rows.append(row.shown())
            else:
                unread += 1
                rows.append({**row.common(), "state": "reading", "why": "", "version": 0})
        studies = [
            {"id": place.id, "name": place.name, "path": place.path}
            for place in self.places.values()
            if place.kind == "study"
        ]
        found = {"runs": rows, "studies": studies, "unread": unread, "roots": self.roots, "time": time.time()}
        return found | {"problems": list(self.failed.values())}

    def row(self, run: str) -> RunRow:
        """The run of an id; ConfigError if there is none."""
        if run not in self.rows:
            self.search()
        row = self.rows.get(run)
        if row is None:
            raise ConfigError(f"a run is named by its id, but got {run[:40]!r}, which names none (it may be removed)")
        self._look(row)
        return row

    def study(self, name: str) -> Place:
        """The study of an id; ConfigError if there is none."""
        place = self.places.get(name)
        if place is None or place.kind != "study":
            raise ConfigError(f"a study is named by its id, but got {name[:40]!r}, which names none")
        return place

    def listen(self, listener: Listener, shown: frozenset[str]) -> None:
        """Call a function with the ids of runs that changed; "table" stands for the list of runs."""
        with self._guard:
            self._listeners[listener] = shown
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="nd-dashboard", daemon=True)
                self._thread.start()
        self._wake.set()

    def leave(self, listener: Listener) -> None:
        """Call the function no more. Without listeners nothing is looked at."""
        with self._guard:
            self._listeners.pop(listener, None)

    def close(self) -> None:
        """End the thread."""
        self._ended = True
        self._wake.set()

    def _work(self) -> None:
        while not self._ended:
            if not self._listeners:
                self._wake.wait()
                self._wake.clear()
                continue
            try:
                changed = self._changes()
            except (NeuroDivergentError, OSError):  # a directory may be removed meanwhile; it is searched again
                changed = []
            if changed:
                for listener in list(self._listeners):
                    listener(changed)
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _changes(self) -> list[str]:
        changed: list[str] = []
        if time.monotonic() - self._searched >= SECONDS_BETWEEN_SEARCHES:
            if self.search():
                changed.append("table")
            looked = list(self.rows.values())
        else:
            shown = frozenset().union(*self._listeners.values()) if self._listeners else frozenset()
            looked = [row for key, row in self.rows.items() if key in shown or row.running]
        unread = [row for key, row in self.rows.items() if key not in self._ready]
        for row in unread[:200]:
            self._look(row)
            row.shown()
        changed += ["table"] if unread else []
        for row in looked:
            if row.place.remote and row.looked > time.monotonic() - SECONDS_REMOTE:
                continue
            if self._look(row):
                changed.append(row.place.id)
        return changed

    def _look(self, row: RunRow) -> bool:
        self._ready.add(row.place.id)
        try:
            return row.look()
        except (NeuroDivergentError, OSError):
            return False
