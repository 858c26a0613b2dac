"""Where could the price be in two weeks, and can the intervals be believed?

Prices can hardly be forecast; how far they may move can. This trains quantiles of a daily price with gaps (weekends are
no gaps: the frequency is business days), counts how often the truth fell inside, and writes the report.

    python examples/price_intervals.py
    python examples/price_intervals.py --data prices.csv --time timestamp --target close
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

import neuro_divergent as nd
from neuro_divergent.report import training_report

HORIZON, LOOKBACK = 10, 60


def generated(days: int = 1500) -> pl.DataFrame:
    """A random walk whose volatility comes in clusters, on business days, with a few days missing."""
    rng = np.random.default_rng(3)
    volatility = 0.01 * np.exp(0.6 * np.sin(np.arange(days) / 90) + rng.normal(0, 0.2, days))
    close = 100 * np.exp(np.cumsum(rng.normal(0.0002, volatility)))
    dates = pl.Series(np.busday_offset("2018-01-01", np.arange(days), roll="forward"))
    return pl.DataFrame({"timestamp": dates, "close": close.round(2)}).filter(pl.Series(rng.random(days) > 0.01))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a CSV with a column of days and one of prices")
    parser.add_argument("--time", default="timestamp")
    parser.add_argument("--target", default="close")
    parser.add_argument("--steps", type=int, default=300, help="optimizer steps")
    parser.add_argument("--out", type=Path, default=Path("price-report.html"))
    options = parser.parse_args()
    frame = generated() if options.data is None else pl.read_csv(options.data, try_parse_dates=True)
    data = nd.TimeSeriesDataFrame.from_frame(frame, time_col=options.time, target_col=options.target)

    model = nd.MLP(h=HORIZON, input_size=LOOKBACK, anchor="last")
    config = nd.TrainingConfig(max_steps=options.steps, loss=nd.MQLoss(level=[50, 80, 95]))
    train, test = data.drop_last(250), data
    fitted = model.fit(train, config)
    scores = fitted.evaluate(test, level=[50, 80, 95], n_windows=25)
    for level in (50, 80, 95):
        print(f"{100 * scores['MLP', f'coverage-{level}']:5.1f} % of the days lay inside the {level} % interval")
    print(f"MAE {scores['MLP', 'mae']:.2f}, of the naive forecast {scores.table['mae'][1]:.2f}")

    training_report(model.fit(data, config), source=options.data or "generated prices").save(options.out)
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
