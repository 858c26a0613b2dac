"""How much electricity tomorrow, given the weather forecast?

Hourly demand depends on the hour, the weekday and the temperature. The temperature of tomorrow is known from the
weather forecast, so it is a column known ahead. This compares a model that is told it with one that is not.

    python examples/electricity_demand.py
    python examples/electricity_demand.py --data demand.csv      # columns ds, y, temperature; hourly
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl

import neuro_divergent as nd

HORIZON, LOOKBACK, HIDDEN = 24, 168, 14


def generated(days: int = 120) -> pl.DataFrame:
    """Demand with a daily and weekly rhythm, and heating below 15 degrees and cooling above 22."""
    rng = np.random.default_rng(7)
    hours = np.arange(24 * days)
    fronts = np.repeat(rng.normal(0, 5.0, days), 24)  # warm and cold days that the past does not announce
    temperature = 12 + 6 * np.sin(hours / (24 * 90) * 6.283) + 4 * np.sin(hours / 24 * 6.283 - 2) + fronts
    rhythm = 12 * np.sin(hours / 24 * 6.283 - 1.8) - 8 * ((hours // 24) % 7 >= 5)
    weather = 1.5 * np.maximum(15 - temperature, 0) + 1.1 * np.maximum(temperature - 22, 0)
    demand = 80 + rhythm + weather + rng.normal(0, 1.0, len(hours))
    first = pl.datetime(2024, 1, 1)
    times = pl.datetime_range(first, first + pl.duration(hours=len(hours) - 1), "1h", eager=True)
    return pl.DataFrame({"ds": times, "y": demand.round(2), "temperature": temperature.round(1)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a CSV with the columns ds, y and temperature")
    parser.add_argument("--steps", type=int, default=300, help="optimizer steps of each training")
    options = parser.parse_args()
    frame = generated() if options.data is None else pl.read_csv(options.data, try_parse_dates=True)

    config = nd.TrainingConfig(max_steps=options.steps, loss=nd.MQLoss(level=[80]))
    model = nd.NHITS(h=HORIZON, input_size=LOOKBACK, hidden_sizes=(128, 128))
    calendar = ["hour", "dayofweek"]
    tables = {
        "without the weather": nd.TimeSeriesDataFrame.from_frame(frame, features=calendar),
        "with the weather": nd.TimeSeriesDataFrame.from_frame(frame, future=["temperature"], features=calendar),
    }
    for name, data in tables.items():
        fitted = model.fit(data.drop_last(HIDDEN * HORIZON), config)
        scores = fitted.evaluate(data, level=[80], n_windows=HIDDEN)
        inside = 100 * scores["NHITS", "coverage-80"]
        print(f"{name:20s} MAE {scores['NHITS', 'mae']:5.2f}, {inside:.0f} % of the hours inside the 80 % interval")
    print(f"{'yesterday again':20s} MAE {scores.table['mae'][1]:5.2f}")

    # To forecast what has not happened yet, tomorrow's temperature is handed over.
    shown, tomorrow = data.drop_last(HORIZON), frame.select("ds", "temperature")[-HORIZON:]
    print(fitted.predict(shown, future=tomorrow, level=[80]).head(3))


if __name__ == "__main__":
    main()
