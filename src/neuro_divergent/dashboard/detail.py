"""Everything about one run that its page shows, beside the curves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuro_divergent.core import files
from neuro_divergent.core.errors import NeuroDivergentError, first_line
from neuro_divergent.core.plain_files import plain_tail
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.record import RunRecord
from neuro_divergent.core.runs.saved import Saved
from neuro_divergent.dashboard.logs import Log
from neuro_divergent.dashboard.rows import RunRow
from neuro_divergent.dashboard.thinning import finite_only

SHOWN_EVENTS = 400
MOST_TEXT = 2000
"""Characters of a text of an event that are shown."""
MOST_OUTPUT = 64 * 2**10
"""Bytes of the output of a supervised training that are shown."""
MOST_NAMES, MOST_ROWS = 300, 200
"""Limits of a table of values by layer: names, and moments."""


def detail(row: RunRow, log: Log) -> dict[str, Any]:
    """The run: its row, configuration, facts, events, checkpoints, models, and what could not be read."""
    record, problems = row.record(), []

    def tried(what: str, read: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return read()
        except (NeuroDivergentError, OSError) as error:
            problems.append(f"{what}: {first_line(error)}")
            return otherwise

    command = record.command
    events = log.events()
    found = {
        "run": row.shown(),
        "config": tried(names.CONFIG, lambda: record.config, None),
        "about": tried(names.ABOUT, lambda: record.about, {}),
        "command": None if command is None else ["neuro-divergent", *command.arguments],
        "snapshots": tried(names.SNAPSHOTS, lambda: list(record.snapshots), []),
        "checkpoints": tried(names.CHECKPOINTS, lambda: [_saved(item) for item in record.checkpoints], []),
        "models": tried(names.MODEL, lambda: [_saved(item) for item in record.models], []),
        "events": [_event(event) for event in events if event["event"] not in ("console", "log")][-SHOWN_EVENTS:],
        "verdicts": [_event(event) for event in events if event["event"] == "verdict"],
        "console": [_event(event) for event in events if event["event"] == "console"][-SHOWN_EVENTS:],
        "output": tried("output", lambda: _output(row.folder), None),
        "tables": _tables(events),
        "logged": sorted({name for event in events if event["event"] == "log" for name in _numbers(event)}),
        "left_out": log.left_out,
        "complete": log.reader.complete,
        "can_stop": row.folder is not None,
        "refit": _refit(record),
    }
    return finite_only(found | {"problems": problems})  # type: ignore[no-any-return]


def _saved(saved: Saved) -> dict[str, Any]:
    if names.is_remote(saved.path):
        return {"name": saved.name, "step": saved.step, "bytes": None, "time": None}
    folder = files.present(Path(saved.path))
    sizes = [entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder) if entry.is_file()]
    return {"name": saved.name, "step": saved.step, "bytes": sum(sizes), "time": os.stat(folder).st_mtime}


def _refit(record: RunRecord) -> bool:
    try:
        return record.refit is not None
    except (NeuroDivergentError, OSError):
        return False


def _event(event: dict[str, Any]) -> dict[str, Any]:
    """An event with short texts and small mappings."""
    return {str(name)[:80]: _short(value) for name, value in list(event.items())[:30]}


def _short(value: Any, depth: int = 2) -> Any:
    """The value with at most 30 items; what is nested deeper than a verdict's figures is text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth and isinstance(value, dict):
        return {str(name)[:80]: _short(item, depth - 1) for name, item in list(value.items())[:30]}
    if depth and isinstance(value, list):
        return [_short(item, depth - 1) for item in value[:30]]
    return (value if isinstance(value, str) else repr(value))[:MOST_TEXT]


def _output(folder: Path | None) -> str | None:
    """The end of the output of a supervised training; None if there is none."""
    place = None if folder is None else folder / names.ATTEMPTS
    logs = sorted(place.glob("*.log")) if place is not None and place.is_dir() and not place.is_symlink() else []
    return plain_tail(logs[-1], MOST_OUTPUT)[0].decode(errors="replace") if logs else None


def _numbers(event: dict[str, Any]) -> list[str]:
    return [name for name, value in event.items() if name not in ("step", "epoch", "time") and _is_number(value)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _tables(events: list[dict[str, Any]]) -> list[str]:
    """The logged values that are numbers by name, such as the gradient norms of the layers."""
    found = {
        name
        for event in events
        if event["event"] == "log"
        for name, value in event.items()
        if isinstance(value, dict) and value and all(map(_is_number, value.values()))
    }
    return sorted(found)


def layer_table(log: Log, wanted: str) -> dict[str, Any]:
    """A logged value by name and moment: {"steps": [...], "names": [...], "values": [[...], ...]}, a list per name."""
    events = [event for event in log.events() if isinstance(event.get(wanted), dict)]
    events = events[:: max(1, -(-len(events) // MOST_ROWS))]
    found = list(dict.fromkeys(str(name) for event in events for name in event[wanted]))[:MOST_NAMES]
    return finite_only(  # type: ignore[no-any-return]
        {
            "steps": [event["step"] for event in events],
            "names": found,
            "values": [
                [value if _is_number(value := event[wanted].get(name)) else None for event in events] for name in found
            ],
        }
    )


def logged_curve(log: Log, wanted: str) -> dict[str, Any]:
    """A number that a callback logged, by step."""
    pairs = [(event["step"], event[wanted]) for event in log.events() if wanted in event and _is_number(event[wanted])]
    return finite_only({"x": [x for x, _ in pairs], "y": [float(y) for _, y in pairs]})  # type: ignore[no-any-return]
