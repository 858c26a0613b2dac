"""AutoGluon's side of benchmarks/automl.py, run by a Python that has autogluon.timeseries: folder in, forecasts out."""

import json
import logging
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd


def main(place: Path) -> None:
    """Fit on the first window's rows, forecast after each window's rows."""
    from autogluon.timeseries import TimeSeriesDataFrame, TimeSeriesPredictor

    logging.getLogger("autogluon").setLevel(logging.ERROR)
    order = json.loads((place / "order.json").read_text())
    tables = [
        read(place / f"known{window}.parquet", order["freq"], TimeSeriesDataFrame) for window in range(order["windows"])
    ]
    predictor = TimeSeriesPredictor(
        prediction_length=order["h"],
        eval_metric="MASE",
        freq=FREQ[order["freq"]],
        path=str(place / "models"),
        eval_metric_seasonal_period=order["season"],
        verbosity=0,
    )
    begun = time.perf_counter()
    predictor.fit(
        tables[0],
        presets="medium_quality",
        time_limit=order["seconds"],
        excluded_model_types=["Chronos", "Chronos2", "Toto"],
    )
    seconds = time.perf_counter() - begun
    parts = []
    for table in tables:
        mean = predictor.predict(table)["mean"].sort_index()
        parts.append(mean.to_numpy(dtype=np.float64).reshape(-1, order["h"]))
    np.save(place / "forecast.npy", np.concatenate(parts))
    board = predictor.leaderboard()
    (place / "facts.json").write_text(json.dumps({"seconds": seconds, "note": ", ".join(board["model"][:4])}))


FREQ = {"1i": "YE", "1q": "QS", "30m": "30min"}


def read(path: Path, freq: str, kind: type) -> object:
    """The rows of a file; whole-number times become the end of years (they are only counted)."""
    frame = pd.read_parquet(path)
    if freq == "1i":
        hourly = int(frame.groupby("unique_id").size().max()) > 250  # years beyond 2262 do not exist for pandas
        FREQ["1i"] = "h" if hourly else "YE"
        start, step = pd.Timestamp("1900-01-01"), pd.tseries.frequencies.to_offset(FREQ["1i"])
        span = int(frame["ds"].max()) + 1
        stamps = pd.date_range(start, periods=span, freq=step)
        frame["ds"] = stamps[frame["ds"].to_numpy()]
    return kind.from_data_frame(frame, id_column="unique_id", timestamp_column="ds").rename(columns={"y": "target"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
