"""The leaderboard of an AutoForecaster: every model, what it scored, and what became of it."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from neuro_divergent.metrics.base import badness

ENSEMBLE = "ensemble"


@dataclass
class Row:
    """One line of the leaderboard."""

    model: str
    score: float | None = None
    """The metric on the windows that decide nothing; None if the model was not trained."""
    selection: float | None = None
    """The metric on the windows that chose the ensemble."""
    weight: float = 0.0
    """The weight in the ensemble."""
    seconds: float | None = None
    """Seconds of the training."""
    steps: int | None = None
    parameters: int | None = None
    source: str = "portfolio"
    """portfolio, search, given, naive, mean (of the last seasons) or ensemble."""
    note: str = ""
    """Why the model is not in the ensemble, or was not trained."""


class AutoLeaderboard:
    """Every model of an AutoForecaster, the best one first.

    Args:
        rows: one for each model, and one for the ensemble.
        metric: the metric that decides the order.
    """

    def __init__(self, rows: Sequence[Row], metric: str) -> None:
        def worse(row: Row) -> float:
            value = row.score if row.score is not None else row.selection
            return badness(metric, value) if value is not None and math.isfinite(value) else math.inf

        self.rows = tuple(sorted(rows, key=lambda row: (worse(row), row.source != ENSEMBLE)))
        self.metric = metric

    @property
    def table(self) -> pl.DataFrame:
        """The rows as a polars frame."""
        kinds = {
            "model": pl.String, "score": pl.Float64, "selection": pl.Float64, "weight": pl.Float64,
            "seconds": pl.Float64, "steps": pl.Int64, "parameters": pl.Int64, "source": pl.String, "note": pl.String,
        }  # fmt: skip
        return pl.DataFrame([asdict(row) for row in self.rows], schema=kinds)

    @property
    def best(self) -> str:
        """The name of the first model."""
        return self.rows[0].model

    def row(self, model: str) -> Row:
        """The row of a model."""
        return next(row for row in self.rows if row.model == model)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain data."""
        return [asdict(row) for row in self.rows]

    def _cells(self) -> list[list[str]]:
        head = ["", "model", self.metric, "selection", "weight", "seconds", "note"]
        return [head] + [
            [
                str(place), row.model, _number(row.score), _number(row.selection),
                f"{row.weight:.2f}" if row.weight else "", "" if row.seconds is None else f"{row.seconds:.1f}",
                row.note,
            ]
            for place, row in enumerate(self.rows, 1)
        ]  # fmt: skip

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        rows = self._cells()
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(c.ljust(widths[i]) if i in (1, 6) else c.rjust(widths[i]) for i, c in enumerate(row)).rstrip()
            for row in rows
        ]
        return f"AutoLeaderboard by {self.metric} on windows that decided nothing\n" + "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *rows = [[html.escape(cell) for cell in row] for row in self._cells()]
        top = "".join(f"<th>{cell}</th>" for cell in head)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        caption = f"sorted by {html.escape(self.metric)} on windows that decided nothing"
        return f"<table><caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.4g}"
