"""What diagnostics add to a report: which series pull the mean, when errors are large, what the gradients say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from neuro_divergent.diagnostics.gradient_report import gradient_report
from neuro_divergent.diagnostics.gradients import LAYERS
from neuro_divergent.forecasting.evaluate.errors import ForecastErrors
from neuro_divergent.report.page import Page

if TYPE_CHECKING:
    from neuro_divergent.forecasting.evaluate.held_out import HeldOut
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

PULLS = 2.0
"""A series pulls the mean if its share of the error is this many times its share of the values, and above a tenth."""
UNEVEN = 1.5
"""A part of the calendar is named if its error is this many times the mean."""
FEW_VALUES = 20
"""Of fewer values in a part nothing is said."""
_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def error_sentences(held: HeldOut, name: str) -> list[str]:
    """Sentences on series that pull the mean, and on hours, weekdays and months with large errors."""
    errors = ForecastErrors(truth=held.truth, found={name: held.found})
    found = []
    pull = errors.pull()
    heavy = pull.filter((pl.col("share") > PULLS * pl.col("share_of_values")) & (pl.col("share") > 0.1))
    if len(pull) > 1 and len(heavy):
        names = ", ".join(str(item) for item in heavy["series"][:3].to_list())
        share, values = float(heavy["share"].sum()), float(heavy["share_of_values"].sum())
        more = f" and {len(heavy) - 3} others" if len(heavy) > 3 else ""
        verb = "have" if len(heavy) > 1 else "has"
        found.append(f"{names}{more} {verb} {share:.0%} of all absolute errors, with {values:.0%} of the values.")
    if errors.to_polars()["time"].dtype.is_temporal():
        found += [sentence for part in ("hour", "weekday", "month") if (sentence := _largest(errors, part))]
    return found


def _largest(errors: ForecastErrors, part: str) -> str | None:
    """A sentence on the part with the largest error, if it stands out."""
    rows = errors.by(part).filter(pl.col("values") >= FEW_VALUES)
    if len(rows) < 2:
        return None
    mean = float((rows["mae"] * rows["values"]).sum()) / float(rows["values"].sum())
    top = rows.sort("mae", descending=True).row(0, named=True)
    if not mean or top["mae"] < UNEVEN * mean:
        return None
    when = {"hour": f"{top[part]}:00", "weekday": _DAYS[(top[part] - 1) % 7], "month": f"month {top[part]}"}[part]
    word = {"hour": "at", "weekday": "on", "month": "in"}[part]
    return f"Errors are largest {word} {when}: {top['mae'] / mean:.1f} times the mean."


def gradient_items(page: Page, fitted: Forecaster) -> None:
    """What the gradients looked like, if the training had a GradientAnalyzer."""
    if any(LAYERS in event for event in fitted.history.events):
        report = gradient_report(fitted)
        page.parts.append("<h3>Gradients</h3>")
        page.text(report.verdict)
        page.folded("Gradients by layer", str(report))
