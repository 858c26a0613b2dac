"""Tables that leave nothing to train on are answered with the reason."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.core.errors import DataError

MODEL = nd.MLP(h=4, input_size=8, hidden_size=4)
BEGIN = datetime(2020, 1, 1)
CONFIGS = [
    nd.TrainingConfig(max_epochs=1, progress=False),
    nd.TrainingConfig(max_epochs=None, max_steps=2, progress=False, validation_split=None),
    nd.TrainingConfig(max_epochs=None, max_steps=2, progress=False, validation_split=None,
                      curriculum=nd.EasySeriesFirst()),
]  # fmt: skip


def table(rows: int, observed: int | None = None) -> pl.DataFrame:
    y = [float(row % 5) if observed is None or row < observed else None for row in range(rows)]
    return pl.DataFrame({"unique_id": "a", "ds": [BEGIN + timedelta(hours=row) for row in range(rows)], "y": y})


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("short", ["drop", "pad"])
def test_series_that_are_too_short(config, short):
    with pytest.raises(DataError, match=r"input_size=8 and h=4 need 12 rows .* but the longest series has 3"):
        MODEL.fit(table(3), config, short=short, freq="1h")


@pytest.mark.parametrize("config", CONFIGS)
def test_targets_that_are_masked(config):
    with pytest.raises(
        DataError, match=r"no series has a window .*: 6 of 40 rows have an observed value \(freq='1h'\)"
    ):
        MODEL.fit(table(40, observed=6), config, freq="1h")
    with pytest.raises(DataError, match=r": 0 of 40 rows have an observed value"):
        MODEL.fit(table(40, observed=0), config, freq="1h")


def test_a_frequency_that_is_too_fine():
    with pytest.raises(DataError, match=r": 60 of 212401 rows have an observed value \(freq='1s'\).*whether freq is"):
        MODEL.fit(table(60), CONFIGS[0], freq="1s")


def test_a_fine_tuning_on_a_short_table():
    fitted = MODEL.fit(table(60), CONFIGS[1], freq="1h")
    for config in (None, CONFIGS[0]):
        with pytest.raises(DataError, match=r"need 12 rows .* but the longest series has"):
            fitted.fine_tune(table(6), config)
