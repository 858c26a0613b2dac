"""How much of each product will each shop sell in the next two weeks, and which model is best at it?

A panel of many related series is learned by one model. What sets series apart is a category (the town), what is known
ahead is the promotion calendar. Models are compared by cross-validation over time, beside a seasonal naive forecast.

    python examples/retail_panel.py
    python examples/retail_panel.py --data sales.csv     # columns unique_id, ds, y, promotion, town; daily
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

import neuro_divergent as nd

HORIZON, LOOKBACK = 14, 56


def generated(series: int = 30, days: int = 300) -> pl.DataFrame:
    """Sales with a weekly rhythm of each town, promotions that sell more, and days when the shop is closed."""
    rng = np.random.default_rng(11)
    dates = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 1) + pl.duration(days=days - 1), "1d", eager=True)
    day, parts = np.arange(days), []
    for number in range(series):
        town = ("Basel", "Bern", "Genf")[number % 3]
        weekly = 1 + 0.4 * np.sin((day + number % 3) / 7 * 6.283)
        promotion = (rng.random(days) < 0.1).astype(float)
        mean = rng.uniform(20, 200) * weekly * (1 + 0.8 * promotion)
        sold = rng.poisson(mean).astype(float)
        shop = pl.DataFrame({"ds": dates, "y": sold, "promotion": promotion}).with_columns(town=pl.lit(town))
        open_days = pl.Series(rng.random(days) > 0.02)
        parts.append(shop.with_columns(unique_id=pl.lit(f"shop-{number:02d}")).filter(open_days))
    return pl.concat(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a CSV with the columns unique_id, ds, y, promotion and town")
    parser.add_argument("--steps", type=int, default=300, help="optimizer steps of each training")
    options = parser.parse_args()
    frame = generated() if options.data is None else pl.read_csv(options.data, try_parse_dates=True)
    data = nd.TimeSeriesDataFrame.from_frame(frame, future=["promotion"], categorical=["town"], features=["dayofweek"])
    print(data.report())

    sizes = {"h": HORIZON, "input_size": LOOKBACK}
    models = [nd.NHITS(**sizes, hidden_sizes=(128, 128)), nd.MLP(**sizes), nd.DLinear(**sizes)]
    config = nd.TrainingConfig(max_steps=options.steps, batch_size=128, loss=nd.Huber())
    result = nd.cross_validation(models, data, config=config, n_windows=2, metrics=["mae", "mase"])
    print(f"\nTwo times the last {HORIZON} days were hidden:")
    for row in result.evaluation.table.sort("mase").iter_rows(named=True):
        print(f"{row['model']:22s} MAE {row['mae']:6.2f}  MASE {row['mase']:.3f}")
    worst = result.evaluation.by_series.filter(pl.col("model") == "NHITS").sort("mase", descending=True)
    print(f"hardest for NHITS: {', '.join(worst['unique_id'][:3])}")


if __name__ == "__main__":
    main()
