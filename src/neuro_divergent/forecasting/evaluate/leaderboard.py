"""A table of models, the best one first: one row per model, one column per metric."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

import polars as pl

from neuro_divergent.core.errors import UnknownNameError
from neuro_divergent.metrics.base import badness


@dataclass(frozen=True)
class Leaderboard:
    """Mean and standard deviation over the folds of every metric; models are sorted by one metric, best first."""

    table: pl.DataFrame
    """One row per model, best first: model, then <metric> and <metric>_deviation."""
    by: str
    """The metric that decides the order."""

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order of the columns."""
        return [name for name in self.table.columns[1:] if not name.endswith("_deviation")]

    @property
    def best(self) -> str:
        """The name of the first model."""
        return str(self.table["model"][0])

    def _rows(self) -> list[list[str]]:
        head = ["", "model", *self.metrics]
        found = [head]
        for place, row in enumerate(self.table.iter_rows(named=True), 1):
            figures = [_figure(row[name], row[f"{name}_deviation"]) for name in self.metrics]
            found.append([str(place), str(row["model"]), *figures])
        return found

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(_aligned(cell, widths[i], i) for i, cell in enumerate(row)).rstrip() for row in rows]
        return f"Leaderboard by {self.by} (mean ± deviation over the folds)\n" + "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *rows = [[html.escape(cell) for cell in row] for row in self._rows()]
        top = "".join(f"<th>{cell}</th>" for cell in head)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        caption = f"sorted by {html.escape(self.by)}; mean ± deviation over the folds"
        return f"<table><caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def leaderboard(scores: pl.DataFrame, by: str) -> Leaderboard:
    """The leaderboard of scores with the columns model, metric, mean and deviation."""
    names = scores["metric"].unique(maintain_order=True).to_list()
    if by not in names:
        raise UnknownNameError(f"a leaderboard is sorted by one of its metrics, {', '.join(names)}, but got {by!r}")
    rows = []
    for model in scores["model"].unique(maintain_order=True):
        own = {row["metric"]: row for row in scores.filter(pl.col("model") == model).iter_rows(named=True)}
        row: dict[str, object] = {"model": model}
        for name in names:
            found = own.get(name, {"mean": math.nan, "deviation": math.nan})
            row |= {name: found["mean"], f"{name}_deviation": found["deviation"]}
        rows.append(row)
    rows.sort(key=lambda row: badness(by, row[by]))  # type: ignore[arg-type]
    return Leaderboard(pl.DataFrame(rows, infer_schema_length=None), by)


def _figure(mean: float, deviation: float) -> str:
    if mean is None or math.isnan(mean):
        return "–"
    return f"{mean:.4g}" if not deviation or math.isnan(deviation) else f"{mean:.4g} ± {deviation:.2g}"


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 1 else cell.rjust(width)
