"""The report of an AutoForecaster: why the forecast was chosen, what was tried, and the forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from neuro_divergent._version import __version__
from neuro_divergent.core.errors import DataError
from neuro_divergent.plotting.style import COLOURS
from neuro_divergent.report.chart import Chart, Trace
from neuro_divergent.report.forecast_charts import MAX_SERIES, bands, rows_of
from neuro_divergent.report.page import Choice, Page
from neuro_divergent.report.sections import COVERAGE_HEADER, beside_naive, coverage_row, figure, title
from neuro_divergent.search.auto.board import ENSEMBLE
from neuro_divergent.search.auto.evaluation import forecasts_of

if TYPE_CHECKING:
    from neuro_divergent.search.auto.board import Row
    from neuro_divergent.search.auto.result import AutoResult

MOST_ROWS = 60
Card = tuple[str, str, Literal["", "good", "bad"]]


def auto_report(found: AutoResult, *, source: str = "") -> Page:
    """A page about a fitted AutoForecaster.

    Args:
        found: the result of `AutoForecaster.fit`.
        source: where the data came from.
    """
    of = f" on {source.replace(chr(92), '/').rsplit('/', 1)[-1]}" if source else ""
    board = found.leaderboard
    page = Page(f"Forecast{of}", f"{len(board) - 1} models and naive forecasts, best first.")
    page.heading("Result")
    page.cards(_cards(found))
    page.heading("Why this forecast")
    page.items(found.reasons)
    page.heading("Leaderboard")
    page.text(
        f"{title(board.metric)} on the last windows, which decided nothing, and on the windows before them, which "
        "chose the ensemble. No model was trained on either before it was scored; the chosen ones have seen both since."
    )
    rows = board.rows[:MOST_ROWS]
    best = next((place for place, row in enumerate(rows) if row.source == ENSEMBLE), None)
    page.table(["model", title(board.metric), "on choosing windows", "weight", "seconds", ""], _table(rows), best)
    if found.coverage:
        page.heading("Coverage of the intervals")
        page.text("Measured on the last windows, with intervals from the windows before them.")
        page.table(list(COVERAGE_HEADER), [coverage_row(item) for item in found.coverage])
    page.heading("Forecasts")
    try:
        page.chooser(_charts(found), "Series", total=found.data.n_series)
    except DataError as error:  # columns known ahead are needed, and not given
        page.text(f"No forecast is shown: {error}", soft=True)
    page.footer = f"neuro-divergent {__version__}. This file needs no network."
    return page


def _cards(found: AutoResult) -> list[Card]:
    board = found.leaderboard
    own = board.row(ENSEMBLE)
    naive = next((row for row in board.rows if row.source == "naive"), None)
    score = own.score if own.score is not None else own.selection
    other = None if naive is None else naive.score if own.score is not None else naive.selection
    words, mood = beside_naive(board.metric, score, other)
    cards: list[Card] = [(figure(score), f"{title(board.metric)} of the forecast", mood)]
    if naive is not None and other is not None:
        cards.append((figure(other), f"of the {naive.model} forecast ({words})", ""))
    cards.append((str(len(found.members)), "models in the ensemble", ""))
    cards.append((f"{found.facts.get('seconds', 0):.0f} s", f"of {found.facts.get('time_limit', 0):.0f} s used", ""))
    return cards


def _table(rows: tuple[Row, ...]) -> list[list[str]]:
    return [
        [
            row.model, figure(row.score), figure(row.selection), f"{row.weight:.2f}" if row.weight else "",
            "" if row.seconds is None else f"{row.seconds:.1f}", row.note,
        ]
        for row in rows
    ]  # fmt: skip


def _charts(found: AutoResult) -> Iterator[Choice]:
    """The last rows and the forecast of some series."""
    table, columns, values = forecasts_of(found, MAX_SERIES, found.levels)
    for number in range(min(table.n_series, MAX_SERIES)):
        length = int(table.store.lengths[number])
        times, actual = rows_of(table, number, max(0, length - 4 * found.h), length)
        ahead = table.times(number, length, found.h).to_list()
        traces = [
            *bands(columns, ahead, values[number]),
            Trace(name="actual", x=times, y=actual, colour="ink", width=1.5),
            Trace(name="forecast", x=ahead, y=values[number, :, 0], colour=COLOURS[0], width=2.0),
        ]
        name = str(table.ids[number])
        yield Choice(title=name, charts=[Chart(title=name, traces=traces, ylabel=table.schema.target_col, titled=True)])
