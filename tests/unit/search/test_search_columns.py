"""Other columns: what only the last rows have decides nothing, and the winner can still be trained on all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from small_search import CONFIG

import neuro_divergent as nd

COLUMNS: dict[str, Any] = {
    "future": ["price", "promotion"],
    "historical": ["visits", "weather"],
    "static": ["region"],
    "categorical": ["promotion", "weather", "region"],
}
ROWS, H = 60, 4


def a_frame(*, poisoned: bool) -> pl.DataFrame:
    """Two series; poisoned: the last horizon has other values, new categories, and a series that begins there."""
    draw = np.random.default_rng(1)
    days = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 2, 29), "1d", eager=True)
    frame = pl.concat(
        pl.DataFrame(
            {
                "unique_id": [name] * ROWS,
                "ds": days,
                "y": 10 + draw.normal(0, 1, ROWS),
                "price": draw.normal(0, 1, ROWS),
                "visits": draw.normal(0, 1, ROWS),
                "promotion": draw.choice(["m", "n", "o"], ROWS),
                "weather": draw.choice(["x", "y"], ROWS),
                "region": [region] * ROWS,
            }
        )
        for name, region in (("s", "north"), ("t", "south"))
    )
    if not poisoned:
        return frame
    late = pl.col("ds") >= days[-H]
    frame = frame.with_columns(
        *(pl.when(late).then(1e5).otherwise(name).alias(name) for name in ("y", "price", "visits")),
        *(pl.when(late).then(pl.lit("a")).otherwise(name).alias(name) for name in ("promotion", "weather")),
    )
    begun = frame.filter(late, pl.col("unique_id") == "s")
    return pl.concat([frame, begun.with_columns(pl.lit("new").alias("unique_id"), pl.lit("east").alias("region"))])


def test_columns_of_the_last_rows_decide_nothing(random_search: Callable[..., Any]) -> None:
    """The new categories come first in the alphabet: they would move the codes of all others."""
    model = nd.MLP(h=H, input_size=8, hidden_size=8)
    plain = random_search(model=model, config=CONFIG, n_trials=2, nested=H)
    other = plain.replace(directory=plain.directory.parent / "poisoned")
    result, poisoned = plain.fit(a_frame(poisoned=False), **COLUMNS), other.fit(a_frame(poisoned=True), **COLUMNS)
    assert result.table["mae"].to_list() == poisoned.table["mae"].to_list()
    assert poisoned.nested.nested > 1000 > result.nested.nested
    before, after = poisoned.best_forecaster(refit=False), poisoned.best_forecaster()
    scores = [one.evaluate(a_frame(poisoned=True), metrics=["mae"])["MLP", "mae"] for one in (before, after)]
    assert scores[0] == scores[1] > 1000  # the forecasts that were made before the training on all rows
