"""Several runs side by side: curves, differences of configuration, and a ranking of what was scored alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from neuro_divergent.core.errors import NeuroDivergentError, first_line
from neuro_divergent.dashboard.logs import Logs
from neuro_divergent.dashboard.rows import RunRow
from neuro_divergent.dashboard.thinning import finite_only

MOST_RUNS = 50
MOST_DIFFERENCES = 500
LOSS = "validation_loss"
_PLACES = ("checkpoints.directory", "callbacks")
"""Settings that say where a run writes, not what it learns."""


def compared(rows: Sequence[RunRow], logs: Logs, metric: str | None, points: int) -> dict[str, Any]:
    """Curves, differences and the ranking of some runs."""
    runs, curves, settings, records = [], {}, {}, {}
    for row in rows[:MOST_RUNS]:
        shown = row.shown()
        try:
            log = logs.of(row)
            curves[shown["id"]] = {
                "steps": {"loss": log.loss_curve(points)},
                "epochs": log.epoch_curves(points)["curves"],
            }
            records[shown["id"]] = log.epoch_record(shown.get("score_epoch"))
            settings[shown["id"]] = dict(_flat(_settings(row)))
        except (NeuroDivergentError, OSError) as error:
            shown = shown | {"state": "damaged", "why": first_line(error)}
        runs.append(shown)
    good = [run for run in runs if run["id"] in curves]
    chosen = metric or _common_metric(good, records)
    return finite_only(  # type: ignore[no-any-return]
        {
            "runs": runs,
            "curves": curves,
            "metrics": _metrics(records),
            "metric": chosen,
            "groups": ranked(good, records, chosen),
            "refusal": refusal(good, records, chosen),
            "differences": differences(settings),
        }
    )


def _settings(row: RunRow) -> dict[str, Any]:
    record = row.record()
    return {"model": record.about.get("model") or {}, "training": record.config or {}}


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _flat(item, f"{path}.{name}" if path else str(name))
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def differences(settings: dict[str, dict[str, str]]) -> list[dict[str, Any]]:
    """The settings that are not the same in all runs.

    >>> differences({"a": {"x": "1", "y": "2"}, "b": {"x": "1", "y": "3"}})
    [{'setting': 'y', 'values': {'a': '2', 'b': '3'}}]
    """
    found = []
    for name in dict.fromkeys(name for own in settings.values() for name in own):
        values = {run: own.get(name) for run, own in settings.items()}
        if len(set(values.values())) > 1 and not name.removeprefix("training.").startswith(_PLACES):
            found.append({"setting": name, "values": values})
    return found[:MOST_DIFFERENCES]


def _metrics(records: dict[str, dict[str, float]]) -> list[str]:
    """The scores on held-out rows that every run has."""
    if not records:
        return []
    common = set.intersection(*(set(record) for record in records.values()))
    return sorted(name for name in common if name.startswith("validation_") and name != "validation_seconds")


def _common_metric(runs: list[dict[str, Any]], records: dict[str, dict[str, float]]) -> str:
    """The validation loss if all runs have the same one, else a metric that all have."""
    losses = {json.dumps((run["scored"] or {}).get("loss"), sort_keys=True) for run in runs}
    other = [name for name in _metrics(records) if name != LOSS]
    return other[0] if len(losses) > 1 and other else LOSS


def scored_alike(run: dict[str, Any], metric: str) -> tuple[str, ...] | None:
    """What must be equal so that a metric of two runs can be compared; None if the run does not say it."""
    scored = run.get("scored")
    if not scored or not scored.get("rows"):
        return None
    loss = json.dumps(scored.get("loss"), sort_keys=True) if metric == LOSS else ""
    return str(scored["rows"]), str(scored.get("h")), loss


def ranked(runs: list[dict[str, Any]], records: dict[str, dict[str, float]], metric: str) -> list[dict[str, Any]]:
    """The runs in groups that were scored alike, best first, each group beside its naive forecast."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in runs:
        key, value = scored_alike(run, metric), records.get(run["id"], {}).get(metric)
        if key is not None and isinstance(value, int | float) and value - value == 0:
            groups.setdefault(key, []).append({"id": run["id"], "name": run["name"], "value": value})
    found = []
    for members in groups.values():
        best_last = next(
            run["mode"] == "max" and run["monitor"] == metric for run in runs if run["id"] == members[0]["id"]
        )
        members.sort(key=lambda member: member["value"], reverse=best_last)
        of = next(run for run in runs if run["id"] == members[0]["id"])
        found.append({"runs": members, "naive": of["naive"].get(metric), "data": of["data"], "h": of["scored"]["h"]})
    return sorted(found, key=lambda group: -len(group["runs"]))


def refusal(runs: list[dict[str, Any]], records: dict[str, dict[str, float]], metric: str) -> list[str]:
    """Why the runs cannot be ranked in one table, as sentences; empty if they can."""
    reasons = []
    unknown = [run["name"] for run in runs if scored_alike(run, metric) is None]
    if unknown:
        reasons.append(f"{_listed(unknown)}: the run does not say on which rows it was scored")
    known = [run for run in runs if scored_alike(run, metric) is not None]
    without = [run["name"] for run in known if metric not in records.get(run["id"], {})]
    if without:
        reasons.append(f"{_listed(without)}: there is no {metric}")
    tables = {(run["data"] or {}).get("fingerprint") for run in known}
    if len(tables) > 1:
        reasons.append(f"they were scored on {len(tables)} different tables")
    elif len({run["scored"]["rows"] for run in known}) > 1:
        reasons.append("they hold out different rows of the table")
    if len({run["scored"].get("h") for run in known}) > 1:
        reasons.append("they forecast different numbers of steps")
    if metric == LOSS and len({json.dumps(run["scored"].get("loss"), sort_keys=True) for run in known}) > 1:
        reasons.append("their validation losses are different functions: choose a metric that all of them have")
    return reasons


def _listed(found: Sequence[str], shown: int = 3) -> str:
    more = f" and {len(found) - shown} more" if len(found) > shown else ""
    return ", ".join(found[:shown]) + more
