"""From Parquet to data that is ready to train on: time and peak memory, beside neuralforecast's dataset.

Ours reads the file and makes every check; the peer's `TimeSeriesDataset.from_df` makes none, and its reading of the
file is timed apart. Each measurement is a fresh process, the sides alternate, the best of several counts.

    python benchmarks/data_load.py --data ../shared/data --peer-python /path/to/peer/bin/python [--write]

Promised: no more time than the peer's dataset of a polars frame, a third of that of a pandas frame, half of its peak
memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from harness import Line, line, peer_python, print_table, write

ROOT = Path(__file__).resolve().parents[1]

_MEASURE = """
import json, sys, time
def resident(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024
path = sys.argv[1]
"""

OURS = (
    _MEASURE
    + """
import polars as pl
from neuro_divergent.data.table import TimeSeriesDataFrame
pl.DataFrame({"a": [1]}).lazy().select("a").collect()
before = resident("VmRSS"); begin = time.perf_counter()
data = TimeSeriesDataFrame.from_parquet(path)
seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "peak": resident("VmHWM") - before, "rows": len(data), "series": data.n_series}))
"""
)

PEER = (
    _MEASURE
    + """
import logging, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
library = sys.argv[2]
try:
    import polars as pl
    from neuralforecast.tsdataset import TimeSeriesDataset
except ImportError:
    print(json.dumps({"absent": True})); sys.exit()
import torch
torch.zeros(1)
before = resident("VmRSS"); begin = time.perf_counter()
frame = pl.read_parquet(path)
if library == "pandas":
    frame = frame.to_pandas()
read = time.perf_counter() - begin
begin = time.perf_counter()
dataset, *_ = TimeSeriesDataset.from_df(df=frame)
seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "read": read, "peak": resident("VmHWM") - before}))
"""
)


def run(python: str, code: str, *arguments: str) -> dict[str, float]:
    result = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT)
    if result.returncode:
        sys.exit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


def best(results: list[dict[str, float]]) -> dict[str, float]:
    return {key: min(result[key] for result in results) for key in results[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--peer-python", default=peer_python(), help="an interpreter that has neuralforecast")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/data_load.json")
    arguments = parser.parse_args()
    path = arguments.data / "m5_tail_train.parquet"
    if not path.exists():
        sys.exit(f"{path} is not there: give the folder of the benchmark data with --data")
    ours: list[dict[str, float]] = []
    peers: dict[str, list[dict[str, float]]] = {"polars": [], "pandas": []}
    for _ in range(arguments.repeats):
        ours.append(run(sys.executable, OURS, str(path)))
        for library, results in peers.items():
            result = run(arguments.peer_python, PEER, str(path), library)
            if "absent" not in result:
                results.append(result)
    own = best(ours)
    lines = [line("file to checked store", own["seconds"], unit="s"), line("peak memory", own["peak"], unit="MB")]
    print(f"{own['rows']:,} rows, {own['series']:,} series")
    print(f"neuro-divergent  file to checked store  {own['seconds']:.3f} s, peak {own['peak']:.0f} MB")
    for library, results in peers.items():
        if not results:
            print(f"neuralforecast from {library}: skipped, {arguments.peer_python} lacks it or polars (--peer-python)")
            continue
        peer = best(results)
        print(
            f"neuralforecast   from_df on {library}     {peer['seconds']:.3f} s (+ {peer['read']:.3f} s reading), "
            f"peak {peer['peak']:.0f} MB"
        )
        lines += compared(library, own, peer)
    print_table(lines)
    if arguments.write:
        write("data_load", lines, "python benchmarks/data_load.py --data DIRECTORY --peer-python PATH")


def compared(library: str, own: dict[str, float], peer: dict[str, float]) -> list[Line]:
    """Time and peak memory beside the peer's dataset of a frame of this library."""
    whole = f"{own['seconds'] / (peer['seconds'] + peer['read']):.2f} of its time with its reading of the file"
    note = f"{own['seconds']:.2f} s and {peer['seconds']:.2f} s; {whole}"
    ratio = own["seconds"] / peer["seconds"]
    if library == "polars":
        time_line = line("time over neuralforecast's from polars", ratio, at_most=1, note=note)
    else:
        time_line = line("times faster than neuralforecast from pandas", 1 / ratio, at_least=3, note=note)
    note = f"{own['peak']:.0f} MB and {peer['peak']:.0f} MB"
    what = f"peak memory over neuralforecast's from {library}"
    return [time_line, line(what, own["peak"] / peer["peak"], at_most=0.5, note=note)]


if __name__ == "__main__":
    main()
