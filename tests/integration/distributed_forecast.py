"""Forecasts many series in whatever processes run this script, and writes the forecasts.

torchrun --nproc-per-node=2 distributed_forecast.py FORECASTS.parquet
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

import neuro_divergent as nd


def main(path: str) -> None:
    count, rows = 10_000, 30
    values = np.random.default_rng(1).normal(size=count * rows).astype(np.float32).cumsum()
    frame = pl.DataFrame(
        {
            "unique_id": np.repeat([f"s{number:05d}" for number in range(count)], rows),
            "ds": np.tile(np.arange(rows), count),
            "y": values,
        }
    )
    config = nd.TrainingConfig(
        max_steps=3,
        batch_size=64,
        validation_split=None,
        early_stopping=None,
        progress=False,
        distributed=nd.Distributed(exact=True, processes=1),
    )
    fitted = nd.MLP(h=4, input_size=12, hidden_size=16).fit(frame, config)
    forecast = fitted.predict()
    assert forecast["unique_id"].to_list() == sorted(forecast["unique_id"].to_list())
    if nd.main_process():
        forecast.write_parquet(path)


if __name__ == "__main__":
    main(sys.argv[1])
