"""The report names series that pull the mean, days with large errors, and what the gradients say."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl

import neuro_divergent as nd
from neuro_divergent.report import training_report


def test_a_large_series_wild_sundays_and_gradients_are_named():
    """Series b has ten times the noise of a, c and d. On Sundays all have six times the noise of other days."""
    draw, days = np.random.default_rng(0), 500
    begin = datetime(2023, 1, 2)  # a Monday
    times = [begin + timedelta(days=day) for day in range(days)]
    wild = np.array([6.0 if time.weekday() == 6 else 1.0 for time in times])
    frame = pl.concat(
        pl.DataFrame({"unique_id": name, "ds": times, "y": 50 + size * wild * draw.normal(size=days)})
        for name, size in zip("abcd", (1.0, 10.0, 1.0, 1.0), strict=True)
    )
    config = nd.TrainingConfig(max_steps=20, refit=None, callbacks=[nd.GradientAnalyzer(every_n_steps=5)])
    text = training_report(nd.MLP(h=7, input_size=14, hidden_size=8).fit(frame, config)).render()
    assert "b has 7" in text  # about 10 / 13
    assert "with 25% of the values" in text
    assert "Errors are largest on Sundays" in text
    assert "Gradients are healthy" in text
    assert "network.perceptron" in text


def test_an_even_table_says_nothing_more():
    draw = np.random.default_rng(1)
    frame = pl.DataFrame({"unique_id": ["a"] * 200 + ["b"] * 200, "ds": [*range(200)] * 2, "y": draw.normal(size=400)})
    fitted = nd.MLP(h=4, input_size=8, hidden_size=4).fit(frame, nd.TrainingConfig(max_steps=5, refit=None))
    text = training_report(fitted).render()
    assert "of all absolute errors" not in text
    assert "Gradients by layer" not in text
