"""The report of a search: what was found, how it went, and what the winner is worth on rows that no trial saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from neuro_divergent._version import __version__
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.plotting import close, render
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report.chart import Chart, Trace
from neuro_divergent.report.page import Page
from neuro_divergent.report.sections import figure, title
from neuro_divergent.search.plots import best_so_far

if TYPE_CHECKING:
    from neuro_divergent.search.result import SearchResult

MOST_ROWS = 50


def search_report(found: SearchResult, *, source: str = "", train: str = "") -> Page:
    """A page about a search.

    Args:
        found: the result of the search.
        source: where the data came from.
        train: the command that trains the winner on all rows, if there is one.
    """
    of = f" on {source.replace(chr(92), '/').rsplit('/', 1)[-1]}" if source else ""
    best = found.best
    page = Page(f"Search{of}", f"{found.table.height:,} trials of {best.model.kind}, best first.")
    page.heading("Result")
    page.cards(_cards(found))
    page.text("Every trial was trained only on rows before its test rows. The seed is averaged, not searched.")
    if found.nested is not None:
        page.text("The last rows of the table, which no trial saw, scored the winner once.")
    page.code(best.model.to_json())
    if train:
        page.text("Train the winner on all rows:")
        page.code(train)
    page.heading("Trials over time")
    page.chart(_convergence(found))
    _importance(page, found)
    if len(found.directions) > 1:
        page.heading("Pareto front")
        page.text("Trials that no other trial beats in all objectives. The star is the one that the weights recommend.")
        _picture(page, found, "plot_pareto", "every pair of objectives")
    page.heading("Trials")
    _trials(page, found)
    page.folded("Space", found.space.text())
    page.folded("Training of the winner, every field", best.config.replace(callbacks=()).to_json())
    page.footer = f"neuro-divergent {__version__}. This file needs no network."
    return page


def _cards(found: SearchResult) -> list[tuple[str, str, Literal["", "good", "bad"]]]:
    best, nested = found.best, found.nested
    metric = title(next(iter(found.directions)))
    cards: list[tuple[str, str, Literal["", "good", "bad"]]] = [
        (figure(best.value), f"{metric} of trial {best.number} in the search", "")
    ]
    if nested is not None:
        mood: Literal["", "good", "bad"] = ""
        if nested.naive is not None and found.optimism is not None:
            smaller = found.optimism == nested.nested - nested.validation
            mood = "good" if (nested.nested < nested.naive) == smaller else "bad"
            cards.append((figure(nested.naive), "naive forecast on the last rows", ""))
        cards.insert(1, (figure(nested.nested), f"{title(nested.metric)} on the last rows, which no trial saw", mood))
        cards.append((figure(found.optimism), "optimism: how much the search flattered the winner", ""))
    return cards


def _convergence(found: SearchResult) -> Chart:
    metric, direction = next(iter(found.directions.items()))
    ended = found.table.filter(found.table["state"] == "complete").sort("number")
    numbers, scores = ended["number"].to_list(), ended[metric].to_list()
    best = best_so_far(scores, direction)
    x = [place for number in numbers for place in (number, number)][1:]
    y = [value for value in best for _ in (0, 1)][:-1]
    traces = [
        Trace(name="trial", x=numbers, y=scores, kind="points"),
        Trace(name="best so far", x=x, y=y, colour=COLOURS[1]),
    ]
    wide = min(scores) > 0 and max(scores) / min(scores) > 20
    return Chart(title="Trials over time", traces=traces, xlabel="trial", ylabel=title(metric), log=wide)


def _importance(page: Page, found: SearchResult) -> None:
    try:
        shares = found.importance()
        found._tried("a partial dependence plot")
    except ConfigError:  # too few trials
        return
    page.heading("What mattered")
    page.text("The share of the variation of the score that each value explains (Optuna's importance evaluator).")
    page.table(["value", "importance"], [[name, f"{100 * share:.0f} %"] for name, share in shares.items()])
    _picture(page, found, "plot_partial_dependence", "how the score depends on each value")
    _picture(page, found, "plot_parallel", "a line per trial over all values, coloured by its score")


def _picture(page: Page, found: SearchResult, method: str, description: str) -> None:
    """A figure of matplotlib; without that package the page goes without it."""
    try:
        require("matplotlib", extra="plots", purpose="A plot")
    except ImportError:
        return
    drawn = getattr(found, method)()
    page.picture(render(drawn), description)
    close(drawn)


def _trials(page: Page, found: SearchResult) -> None:
    metric, direction = next(iter(found.directions.items()))
    rows = found.table.sort(metric, descending=direction == "maximize", nulls_last=True)
    names = [name for name in rows.columns if rows[name].null_count() < rows.height]
    shown = [[_cell(row[name]) for name in names] for row in rows.head(MOST_ROWS).to_dicts()]
    best = next((place for place, row in enumerate(rows.head(MOST_ROWS)["number"]) if row == found.best.number), None)
    page.table(names, shown, best)
    if rows.height > MOST_ROWS:
        page.text(f"{MOST_ROWS} of {rows.height:,} trials are shown.", soft=True)


def _cell(value: object) -> str:
    return "–" if value is None else figure(value) if isinstance(value, float) else str(value)
