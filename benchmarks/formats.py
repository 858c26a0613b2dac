"""The same table as CSV, as Parquet, and as a store on disk: time until it is ready to train on.

    python benchmarks/formats.py --data ../shared/data [--write]

The claim to check is that Parquet loads about ten times faster than CSV.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from harness import line, print_table, write
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame

ROOT = Path(__file__).resolve().parents[1]


def seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def size(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--file", default="m5_tail_train.parquet")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/formats.json")
    arguments = parser.parse_args()
    source = arguments.data / arguments.file
    if not source.exists():
        sys.exit(f"{source} is not there: give the folder of the benchmark data with --data")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pl.scan_parquet(source).sink_csv(folder / "table.csv")
        data = TimeSeriesDataFrame.from_parquet(source)
        data.store.save(folder / "store")
        results = (
            ("CSV", folder / "table.csv", lambda: TimeSeriesDataFrame.from_csv(folder / "table.csv")),
            ("Parquet", source, lambda: TimeSeriesDataFrame.from_parquet(source)),
            ("store reopened", folder / "store", lambda: SeriesStore.open(folder / "store")),
        )
        timed = [(label, size(path), seconds(work, arguments.repeats)) for label, path, work in results]
    slowest = timed[0][2]
    print(f"{arguments.file}: {len(data):,} rows, {data.n_series:,} series; best of {arguments.repeats}")
    lines = [line("CSV", slowest, unit="s", note=f"{timed[0][1]:.1f} MB")]
    for label, megabytes, took in timed[1:]:
        note = f"{took:.4g} s, {megabytes:.1f} MB"
        promised = 10 if label == "Parquet" else None
        lines.append(line(f"{label}: times as fast as CSV", slowest / took, at_least=promised, note=note))
    print_table(lines)
    if arguments.write:
        write("formats", lines, "python benchmarks/formats.py --data DIRECTORY")


if __name__ == "__main__":
    main()
