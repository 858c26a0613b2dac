"""What a study found, as lines for a person and as facts for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from neuro_divergent.cli.io.terminal import harmless, table
from neuro_divergent.core.errors import ConfigError, NotFittedError

if TYPE_CHECKING:
    from neuro_divergent.search.result import SearchResult

SHOWN = 5


def study_facts(found: SearchResult) -> dict[str, Any]:
    """The result of a search as plain data."""
    facts: dict[str, Any] = {
        "what": "study",
        "path": str(found.directory),
        "metric": found.metric,
        "directions": found.directions,
        "states": dict(Counter(found.table["state"].to_list())),
        "best": None,
        "nested": None if found.nested is None else found.nested._asdict(),
        "optimism": found.optimism,
    }
    try:
        best = found.best
        facts["best"] = {"trial": best.number, "value": best.value, "point": best.point}
        facts["pareto"] = [one.number for one in found.study.best_trials] if len(found.directions) > 1 else None
    except NotFittedError:
        pass
    return facts | {"trials": found.table.to_dicts()}


def study_lines(found: SearchResult) -> Iterator[str]:
    """The result of a search: states of the trials, the best ones, importances, and the score on unseen rows."""
    rows = found.table
    states = Counter(rows["state"].to_list()) if rows.height else Counter[str]()
    yield harmless(
        f"study {found.directory}: " + (", ".join(f"{n} {state}" for state, n in states.items()) or "no trial")
    )
    try:
        best = found.best
    except NotFittedError:
        for error in rows["error"].drop_nulls().unique().to_list()[:SHOWN] if rows.height else ():
            yield harmless(f"failed: {error}")
        return
    yield _best_trials(found, best.number)
    try:
        shares = sorted(found.importance().items(), key=lambda item: -item[1])
        yield harmless("importance: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares[:SHOWN]))
    except ConfigError:  # too few trials
        pass
    if found.nested is not None:
        yield nested_sentence(found)


def nested_sentence(found: SearchResult) -> str:
    """How the winner did on rows that no trial saw, beside its validation score and the naive forecast."""
    nested = found.nested
    assert nested is not None
    naive = "" if nested.naive is None else f"; the naive forecast has {nested.naive:.4g}"
    return (
        f"on the last rows, which no trial saw, trial {nested.trial} has {nested.metric} {nested.nested:.4g} "
        f"({nested.validation:.4g} in the search){naive}"
    )


def _best_trials(found: SearchResult, best: int) -> str:
    """A table of the best trials, the winner first."""
    metrics = list(found.directions)
    ended = found.table.drop_nulls(metrics[0])
    ordered = ended.sort(metrics[0], descending=found.directions[metrics[0]] == "maximize")
    shown = [row for row in ordered.to_dicts() if row["number"] == best]
    shown += [row for row in ordered.to_dicts() if row["number"] != best][: SHOWN - 1]
    names = [name for name in found.space.dimensions if name in ended.columns]
    rows = [[str(row["number"]), *(_cell(row[name]) for name in (*metrics, *names))] for row in shown]
    return harmless_lines(table(["trial", *metrics, *names], rows))


def harmless_lines(text: str) -> str:
    """Several lines without characters that control the terminal."""
    return "\n".join(harmless(line) for line in text.split("\n"))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
