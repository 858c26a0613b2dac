"""A search as its database tells it: trials, convergence, importances, and the Pareto front.

The SQLite file is read as it is, without Optuna: a reader that only looks must never change a study.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from neuro_divergent.core.errors import CorruptFileError, StorageError
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import open_plain, plain_bytes
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.process import locked
from neuro_divergent.dashboard.places import Place
from neuro_divergent.dashboard.thinning import finite_only

MOST_TRIALS = 20_000
_QUERIES = {
    "directions": "SELECT objective, direction FROM study_directions ORDER BY objective",
    "trials": "SELECT trial_id, number, state, datetime_start, datetime_complete FROM trials ORDER BY number LIMIT ?",
    "values": "SELECT trial_id, objective, value, value_type FROM trial_values",
    "stages": "SELECT trial_id, step, intermediate_value FROM trial_intermediate_values ORDER BY step",
    "params": "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params ORDER BY param_id",
    "notes": "SELECT trial_id, key, value_json FROM trial_user_attributes WHERE key IN ('error', 'excluded')",
}
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "WAITING": "waiting"}


def study(place: Place) -> dict[str, Any]:
    """The study as plain data."""
    folder = Path(place.path)
    database = folder / names.STUDY_DATABASE
    with open_plain(database):  # a link is refused
        pass
    facts = parse_json(plain_bytes(folder / names.STUDY, MAX_JSON_BYTES), names.STUDY)
    try:
        with _opened(database) as connection:
            rows = {name: _all(connection, query) for name, query in _QUERIES.items()}
    except sqlite3.Error as error:
        raise CorruptFileError(f"{database} could not be read as a study of Optuna: {error}") from error
    directions = ["maximize" if str(row[1]).upper() == "MAXIMIZE" else "minimize" for row in rows["directions"]]
    trials = _trials(rows, folder)
    done = [trial for trial in trials if trial["state"] == "complete" and trial["values"]]
    several = len(directions) > 1
    return finite_only(  # type: ignore[no-any-return]
        {
            "id": place.id,
            "name": place.name,
            "facts": facts if isinstance(facts, dict) else {},
            "directions": directions,
            "trials": trials,
            "convergence": [] if several else _convergence(done, directions),
            "importances": importances(done, directions),
            "front": _front(done, directions) if several else [],
        }
    )


@contextmanager
def _opened(database: Path) -> Iterator[sqlite3.Connection]:
    address = f"file:{quote(os.fspath(database))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=2.0)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        ticks = iter(range(2000))
        connection.set_progress_handler(lambda: next(ticks, None) is None, 1_000_000)  # a view could run for ever
        yield connection


def _all(connection: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    wanted = (MOST_TRIALS,) if "?" in query else ()
    return connection.execute(query, wanted).fetchmany(MOST_TRIALS * 40)


def _trials(rows: dict[str, list[tuple[Any, ...]]], folder: Path) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for key, number, state, begun, ended in rows["trials"]:
        known = _STATES.get(str(state).upper())
        if known is None:
            known = "running" if locked(folder / names.CLAIMS / names.trial_name(int(number))) else "paused"
        found[key] = {"number": number, "state": known, "begun": begun, "ended": ended}
        found[key] |= {"values": [], "params": {}, "stages": [], "note": None}
    for key, _, value, kind in sorted(rows["values"], key=lambda row: (row[0], row[1])):
        if key in found:
            found[key]["values"].append(value if str(kind).upper().endswith("FINITE") else None)
    for key, step, value in rows["stages"]:
        if key in found:
            found[key]["stages"].append([step, value])
    for key, name, value, distribution in rows["params"]:
        if key in found:
            found[key]["params"][str(name)] = _param(value, distribution)
    for key, what, text in rows["notes"]:
        if key in found:
            found[key]["note"] = "excluded by a constraint" if what == "excluded" else str(text)[:500]
    return list(found.values())


def _param(value: Any, distribution: Any) -> Any:
    """The value of a setting. A choice is stored as its number."""
    try:
        described = parse_json(str(distribution).encode(), "distribution")
        if described["name"] == "CategoricalDistribution":
            choice = described["attributes"]["choices"][int(value)]
            return choice if isinstance(choice, str | int | float | bool) or choice is None else json.dumps(choice)
        return int(value) if described["name"].startswith("Int") else value
    except (StorageError, KeyError, TypeError, ValueError, IndexError):
        return value


def _sign(direction: str) -> int:
    return -1 if direction == "maximize" else 1


def _convergence(done: list[dict[str, Any]], directions: list[str]) -> list[list[float]]:
    """Number of the trial and the best score up to it, where it changes."""
    found: list[list[float]] = []
    for trial in done:
        value = trial["values"][0]
        if value is not None and (not found or _sign(directions[0]) * value < _sign(directions[0]) * found[-1][1]):
            found.append([trial["number"], value])
    return found


def _front(done: list[dict[str, Any]], directions: list[str]) -> list[int]:
    """The numbers of the trials that no other trial beats in every objective."""
    signs = [_sign(direction) for direction in directions]
    points = [
        (trial["number"], [sign * value for sign, value in zip(signs, trial["values"], strict=True)])
        for trial in done
        if len(trial["values"]) == len(signs) and None not in trial["values"]
    ]
    return [number for number, own in points if not any(_beats(other, own) for _, other in points)]


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and list(one) != list(other)


def importances(done: list[dict[str, Any]], directions: list[str]) -> list[dict[str, Any]]:
    """For each setting, the share of the scores' variance between four groups of its values, the largest first.

    Scores are replaced by their ranks, so that one bad trial does not decide. A share is what the setting explains
    by itself, without interactions; few trials overestimate it.
    """
    scored = [trial for trial in done if trial["values"][0] is not None]
    if len(scored) < 8 or not directions:
        return []
    ranks = _ranks([float(trial["values"][0]) for trial in scored])
    found = []
    for name in dict.fromkeys(name for trial in scored for name in trial["params"]):
        pairs = [
            (trial["params"][name], rank) for trial, rank in zip(scored, ranks, strict=True) if name in trial["params"]
        ]
        found.append({"name": name, "share": _explained(pairs)})
    return sorted(found, key=lambda item: -item["share"])


def _ranks(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    for place, index in enumerate(order):
        ranks[index] = float(place)
    return ranks


def _explained(pairs: list[tuple[Any, float]]) -> float:
    """The share of the variance of the second numbers between groups of the first values.

    >>> _explained([(0, 0.0), (0, 1.0), (1, 10.0), (1, 11.0)]) > 0.9
    True
    """
    if len(pairs) < 4:
        return 0.0
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value, _ in pairs)
    distinct = len({repr(value) for value, _ in pairs})
    if numbers and distinct > 4:
        order = sorted(pairs, key=lambda pair: pair[0])
        groups = [order[len(order) * part // 4 : len(order) * (part + 1) // 4] for part in range(4)]
    else:
        keys = dict.fromkeys(repr(value) for value, _ in pairs)
        groups = [[pair for pair in pairs if repr(pair[0]) == key] for key in keys]
    mean = math.fsum(rank for _, rank in pairs) / len(pairs)
    total = math.fsum((rank - mean) ** 2 for _, rank in pairs)
    between = sum(
        len(group) * (math.fsum(rank for _, rank in group) / len(group) - mean) ** 2 for group in groups if group
    )
    return between / total if total > 0 else 0.0
