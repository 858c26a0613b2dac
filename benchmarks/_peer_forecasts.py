"""A peer at its defaults on M4 hourly, from the values to the forecast: a script for the Python that has the peer.

    python _peer_forecasts.py PEER FILE SEED LIMIT

FILE is a numpy archive: `values` of all series end to end, `lengths`, and `held` [series, 48]. After LIMIT seconds of
training the peer stops where it is. Prints JSON: error (sMAPE of the median), seconds, share (of its own training that
was done) and version.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

HORIZON = 48
QUIET = {"enable_progress_bar": False, "logger": False, "enable_model_summary": False}


def counting(package: str) -> tuple[Any, list[int]]:
    """A callback of the Lightning that the peer uses, and the list that grows by one with each step."""
    steps: list[int] = []
    base: Any = import_module(package).Callback

    class Count(base):
        def on_train_batch_end(self, trainer: Any, *rest: Any) -> None:  # noqa: ARG002
            steps.append(trainer.global_step)

    return Count(), steps


def darts(rows: list[Any], seed: int, limit: float) -> tuple[Any, float]:
    """N-BEATS; the lookback, which has no default, is twice the horizon; scaled as in every example of its manual."""
    package, scaling = import_module("darts"), import_module("darts.dataprocessing.transformers")
    scaler = scaling.Scaler()
    series = scaler.fit_transform([package.TimeSeries.from_values(row) for row in rows])
    count, steps = counting("pytorch_lightning")
    model = import_module("darts.models").NBEATSModel(
        input_chunk_length=2 * HORIZON,
        output_chunk_length=HORIZON,
        random_state=seed,
        pl_trainer_kwargs={"accelerator": "cpu", "callbacks": [count], "max_time": {"seconds": limit}, **QUIET},
    )
    model.fit(series)
    windows = sum(len(row) - 3 * HORIZON + 1 for row in rows)
    whole = model.n_epochs * -(-windows // model.batch_size)
    forecasts = scaler.inverse_transform(model.predict(HORIZON, series=series))
    return np.stack([item.values()[:, 0] for item in forecasts]), len(steps) / whole


def gluonts(rows: list[Any], seed: int, limit: float) -> tuple[Any, float]:
    """DeepAR; the forecast is the median of its trajectories."""
    pandas, lightning = import_module("pandas"), import_module("lightning.pytorch")
    lightning.seed_everything(seed)
    count, steps = counting("lightning.pytorch")
    start = pandas.Period("2000-01-01", "h")
    data = import_module("gluonts.dataset.common").ListDataset([{"start": start, "target": row} for row in rows], "h")
    estimator = import_module("gluonts.torch").DeepAREstimator(
        freq="h",
        prediction_length=HORIZON,
        trainer_kwargs={"callbacks": [count], "max_time": {"seconds": limit}, **QUIET},
    )
    predictor = estimator.train(data)
    forecasts = np.stack([item.quantile(0.5) for item in predictor.predict(data)])
    return forecasts, len(steps) / (estimator.trainer_kwargs["max_epochs"] * estimator.num_batches_per_epoch)


PEERS: dict[str, Callable[[list[Any], int, float], tuple[Any, float]]] = {"darts": darts, "gluonts": gluonts}


def main(arguments: list[str]) -> None:
    peer, path, seed, limit = arguments
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import_module("torch")
    package = import_module(peer)
    import_module({"darts": "darts.models", "gluonts": "gluonts.torch"}[peer])
    with np.load(path) as archive:
        values, lengths, held = archive["values"], archive["lengths"], archive["held"]
    rows = np.split(values, np.cumsum(lengths)[:-1])
    begin = time.perf_counter()
    forecast, share = PEERS[peer](rows, int(seed), float(limit))
    seconds = time.perf_counter() - begin
    error = float((200 * np.abs(held - forecast) / (np.abs(held) + np.abs(forecast))).mean())
    found = {"error": error, "seconds": seconds, "share": share, "version": str(package.__version__)}
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
