from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from small_search import CONFIG, MODEL, SPACE

import neuro_divergent as nd


@pytest.fixture(scope="session")
def table() -> nd.TimeSeriesDataFrame:
    """Three series of 80 days: a weekly wave and a little noise."""
    days = np.arange(80)
    noise = np.random.default_rng(1).normal(0, 0.3, (3, 80))
    frame = pl.concat(
        pl.DataFrame(
            {
                "unique_id": [f"s{series}"] * 80,
                "ds": pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 3, 20), "1d", eager=True),
                "y": 10 + series + 3 * np.sin(2 * np.pi * days / 7) + noise[series],
            }
        )
        for series in range(3)
    )
    return nd.TimeSeriesDataFrame.from_frame(frame)


@pytest.fixture
def random_search(tmp_path: Path) -> Callable[..., nd.RandomSearch]:
    """A small random search in a directory of its own; other fields may be given."""

    def make(cls: Any = nd.RandomSearch, **fields: Any) -> Any:
        usual = {"space": SPACE, "model": MODEL, "config": CONFIG, "directory": tmp_path / "study"}
        if cls is nd.RandomSearch:
            usual["n_trials"] = 4
        return cls(**usual | fields)

    return make
