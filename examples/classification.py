"""Which machine is about to fail? The same trainer, on arrays and classes instead of tables and forecasts.

Any torch module trains on the engine of the forecasters: schedules, clipping, early stopping, checkpoints, history.

    python examples/classification.py
    python examples/classification.py --data vibrations.csv    # one row per recording; the last column is the class
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl
from torch import nn

import neuro_divergent as nd


def generated(rows: int = 1500, length: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Recordings of vibration: healthy, unbalanced (one strong tone), worn (bursts)."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, rows)
    time = np.arange(length)
    phase = rng.uniform(0, 6.283, (rows, 1))
    x = rng.normal(0, 1.0, (rows, length)) + 0.5 * np.sin(time / 9 + phase)
    x += (y == 1)[:, None] * 0.9 * np.sin(time / 3 + phase)
    x += (y == 2)[:, None] * (rng.random((rows, length)) < 0.08) * rng.normal(0, 4, (rows, length))
    return x.astype(np.float32), y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a CSV: numbers, and the number of the class in the last column")
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    if options.data is None:
        x, y = generated()
    else:
        table = pl.read_csv(options.data).to_numpy()
        x, y = table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64)
    cut = int(0.8 * len(x))

    network = nn.Sequential(
        nn.Unflatten(1, (1, x.shape[1])), nn.Conv1d(1, 16, 7, padding=3), nn.ReLU(), nn.Conv1d(16, 32, 5, padding=2),
        nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(128, int(y.max()) + 1),
    )  # fmt: skip
    config = nd.TrainingConfig(
        max_epochs=options.epochs,
        batch_size=64,
        loss=nd.CrossEntropy(),
        metrics=("accuracy",),
        optimizer=nd.AdamW(learning_rate=3e-3),
        schedule=nd.WarmupCosine(warmup=0.1),
        early_stopping=nd.EarlyStopping(patience=8),
    )
    history = nd.Trainer(config).fit(network, (x[:cut], y[:cut]), validation=(x[cut:], y[cut:]))
    print(f"{len(history)} epochs, {history.stopped}")
    print(f"accuracy on what was held back: {max(history['validation_accuracy']):.3f}")


if __name__ == "__main__":
    main()
