"""How cost grows with the data: a training step from 100 to 100,000 series, loading, and scoring up to 40,000 series.

    python benchmarks/growth.py --write        # also draws benchmarks/results/growth_step.svg and growth_load.svg

A step is a whole one (batch, forward, backward, optimizer) of an MLP on 1024 windows, through the trainer; its cost is
that of a long training less that of a short one. Loading goes from a Parquet file to a checked store, scoring from a
fitted model and a table to an `Evaluation`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import torch

import neuro_divergent as nd
from harness import RESULTS, Line, line, print_table, write
from neuro_divergent.data.store.store import SeriesStore

SCORED = (5_000, 10_000, 20_000, 40_000)
SERIES = (100, 1_000, 10_000, 100_000)
ROWS = (100_000, 800_000, 3_200_000, 12_800_000)


def milliseconds(series: int, repeats: int) -> float:
    """Of one training step on so many series of 200 points."""
    length = 200
    y = np.random.default_rng(0).standard_normal(series * length, dtype=np.float32)
    store = SeriesStore(
        ids=np.arange(series),
        offsets=np.arange(series + 1, dtype=np.int64) * length,
        y=y,
        start=np.zeros(series, np.int64),
        freq="1i",
    )
    table = nd.TimeSeriesDataFrame.from_store(store)
    seconds = {20: float("inf"), 120: float("inf")}
    for _ in range(repeats):
        for steps in seconds:
            config = nd.TrainingConfig(
                max_steps=steps, max_epochs=None, batch_size=1024, progress=False, validation_split=None
            )
            begin = time.perf_counter()
            nd.MLP(h=24, input_size=96, hidden_size=256, layers=2).fit(table, config)
            seconds[steps] = min(seconds[steps], time.perf_counter() - begin)
    return (seconds[120] - seconds[20]) * 10


def loading(rows: int, folder: str, repeats: int) -> float:
    """Seconds from a Parquet file to a checked store."""
    series = rows // 400
    path = Path(folder) / f"{rows}.parquet"
    pl.DataFrame(
        {
            "unique_id": np.repeat(np.arange(series), 400),
            "ds": np.tile(np.arange(400), series),
            "y": np.random.default_rng(0).standard_normal(series * 400),
        }
    ).write_parquet(path)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        nd.TimeSeriesDataFrame.from_parquet(path).store  # noqa: B018
        best = min(best, time.perf_counter() - begin)
    return best


def scoring(series: int, repeats: int) -> float:
    """Seconds to evaluate a fitted model on so many series of 30 points."""
    length = 30
    rows = np.arange(series * length)
    store = SeriesStore(
        ids=np.arange(series),
        offsets=np.arange(series + 1, dtype=np.int64) * length,
        y=(5 + np.sin(0.9 * (rows % length) + rows // length % 7)).astype(np.float32),
        start=np.zeros(series, np.int64),
        freq="1i",
    )
    table = nd.TimeSeriesDataFrame.from_store(store)
    config = nd.TrainingConfig(max_steps=2, max_epochs=None, progress=False, validation_split=None)
    fitted = nd.DLinear(h=4, input_size=8).fit(table.drop_last(4), config)
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        fitted.evaluate(table)
        best = min(best, time.perf_counter() - begin)
    return best


def picture(name: str, x: tuple[int, ...], y: list[float], labels: tuple[str, str], bottom: bool) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(x, y, marker="o", color="#3366aa")
    axes.set_xscale("log")
    axes.set_yscale("linear" if bottom else "log")
    if bottom:
        axes.set_ylim(0, 1.3 * max(y))
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.grid(alpha=0.3)
    figure.savefig(RESULTS / name, metadata={"Date": None})
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/growth.json and its pictures")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    milliseconds(100, 1)
    steps = [milliseconds(series, arguments.repeats) for series in SERIES]
    with tempfile.TemporaryDirectory() as folder:
        loads = [loading(rows, folder, arguments.repeats) for rows in ROWS]
    lines: list[Line] = [line(f"a step, {n:,} series", ms, unit="ms") for n, ms in zip(SERIES, steps, strict=True)]
    lines.append(line("a step at 100,000 series over one at 100", steps[-1] / steps[0], at_most=1.5))
    lines += [line(f"loading {n:,} rows", s, unit="s") for n, s in zip(ROWS, loads, strict=True)]
    growth = (loads[-1] / loads[-2]) / (ROWS[-1] / ROWS[-2])
    lines.append(line("time for 4 times the rows, over 4 times the time", growth, at_most=1.25))
    scored = [scoring(series, arguments.repeats) for series in SCORED]
    lines += [line(f"scoring {n:,} series", s, unit="s") for n, s in zip(SCORED, scored, strict=True)]
    lines.append(line("scoring 20,000 series, seconds over 2", scored[2] / 2, at_most=1.0))
    growth = (scored[-1] / scored[0]) / (SCORED[-1] / SCORED[0])
    lines.append(line("scoring 8 times the series, over 8 times the time", growth, at_most=1.25))
    print_table(lines)
    if arguments.write:
        plots = [
            picture("growth_step.svg", SERIES, steps, ("series", "milliseconds per step"), True),
            picture("growth_load.svg", ROWS, loads, ("rows", "seconds to a checked store"), False),
        ]
        write("growth", lines, command="python benchmarks/growth.py", plots=plots)


if __name__ == "__main__":
    main()
