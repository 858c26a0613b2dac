"""What a user waits for: seconds from the table to the forecast, and the test error that is reached.

    python benchmarks/time_to_accuracy.py --data DIRECTORY --peer-python PATH

Ours is the recommended recipe (`anchor="auto"`, two weeks of lookback on hourly data), run to its own end: three seeds,
medians of error and time. neuralforecast runs at its defaults and, on M4 hourly, at the best setting that was found by
hand (NHITS: scaler standard, input_size 240, 1000 steps). Everything counts, from the frame to the forecast; imports do
not. A line passes when our error is not above theirs and our time is at most the given share of theirs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

READ_M4 = """
import json, logging, sys, time, warnings
warnings.filterwarnings("ignore"); logging.disable(50)
import polars as pl
folder, seed = sys.argv[1], int(sys.argv[2])
columns = pl.col("unique_id"), pl.col("ds").cast(pl.Int64), pl.col("y").cast(pl.Float64)
known, held = (pl.read_parquet(f"{folder}/m4_hourly_{part}.parquet").select(columns) for part in ("train", "test"))
def error(forecast, name):
    gap, size = (pl.col("y") - pl.col(name)).abs(), pl.col("y").abs() + pl.col(name).abs()
    return held.join(forecast, on=["unique_id", "ds"]).select((200 * gap / size).mean()).item()
"""
OUR_M4 = """
import torch
import neuro_divergent as nd
begin = time.perf_counter()
model = nd.{model}(h=48, input_size=336, anchor="auto")
forecast = model.fit(known, nd.TrainingConfig(seed=seed, progress=False), freq=1).predict()
print(json.dumps([error(forecast, model.name), time.perf_counter() - begin]))
"""
THEIR_M4 = """
from neuralforecast import NeuralForecast
from neuralforecast.models import {model}
quiet = dict(enable_progress_bar=False, logger=False, enable_model_summary=False, enable_checkpointing=False)
begin = time.perf_counter()
nf = NeuralForecast(models=[{model}(h=48, random_seed=seed, **{arguments}, **quiet)], freq=1)
nf.fit(known)
forecast = nf.predict()
print(json.dumps([error(forecast.with_columns(pl.col("ds").cast(pl.Int64)), "{model}"), time.perf_counter() - begin]))
"""
READ_ETT = """
import json, logging, sys, time, warnings
warnings.filterwarnings("ignore"); logging.disable(50)
import numpy as np, polars as pl
folder, seed = sys.argv[1], int(sys.argv[2])
wide = pl.read_parquet(f"{folder}/etth1.parquet").head(14_400)
channels = [name for name in wide.columns if name != "date"]
past = wide.head(8640)
wide = wide.with_columns(((pl.col(c) - past[c].mean()) / past[c].std(ddof=0)).alias(c) for c in channels)
table = wide.unpivot(on=channels, index="date", variable_name="unique_id", value_name="y").rename({"date": "ds"})
table = table.select("unique_id", "ds", "y").sort("unique_id", "ds")
"""
OUR_ETT = """
sys.path.insert(0, {here!r})
from pathlib import Path
from _accuracy_data import Etth1
import neuro_divergent as nd
begin = time.perf_counter()
case = Etth1(Path(folder))
model = nd.{model}(h=96, input_size=336, anchor="auto")
config = nd.TrainingConfig(seed=seed, progress=False)
fitted = model.fit(case.train, config, validation=case.validation, freq="1h")
print(json.dumps([case.errors(fitted)[1], time.perf_counter() - begin]))
"""
THEIR_ETT = """
from neuralforecast import NeuralForecast
from neuralforecast.models import {model}
quiet = dict(enable_progress_bar=False, logger=False, enable_model_summary=False, enable_checkpointing=False)
begin = time.perf_counter()
nf = NeuralForecast(models=[{model}(h=96, random_seed=seed, **{arguments}, **quiet)], freq="1h")
found = nf.cross_validation(table, val_size=2880, test_size=2880, n_windows=None)
mae = float(np.abs(found["y"].to_numpy() - found["{model}"].to_numpy()).mean())
print(json.dumps([mae, time.perf_counter() - begin]))
"""
CASES: list[tuple[str, str, str, str, str, dict[str, Any], float]] = [
    ("M4 hourly, NHITS, its defaults", "NHITS", READ_M4, OUR_M4, THEIR_M4, {"input_size": 96}, 0.1),
    (
        "M4 hourly, NHITS, tuned by hand",
        "NHITS",
        READ_M4,
        OUR_M4,
        THEIR_M4,
        {"input_size": 240, "scaler_type": "standard", "max_steps": 1000},
        0.1,
    ),
    (
        "M4 hourly, LSTM, its defaults",
        "LSTM",
        READ_M4,
        OUR_M4,
        THEIR_M4,
        {"input_size": 96},
        0.2,
    ),
    ("ETTh1, NHITS, its defaults", "NHITS", READ_ETT, OUR_ETT, THEIR_ETT, {"input_size": 336}, 0.2),
]


def run(python: str, script: str, data: Path, seed: int, folder: str) -> tuple[float, float]:
    command = [python, "-c", script, str(data), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        sys.exit(f"{python} failed:\n{done.stderr[-3000:]}")
    error, seconds = json.loads(done.stdout.strip().splitlines()[-1])
    return float(error), float(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the data sets are")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has neuralforecast and polars")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", help="cases whose name has this in it; results of others stay")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/time_to_accuracy.json")
    arguments = parser.parse_args()
    from harness import Line, line, print_table, write

    data = arguments.data.resolve()
    peer = [arguments.peer_python, "-c", "import neuralforecast, polars"]
    there = subprocess.run(peer, capture_output=True, check=False).returncode == 0
    if not data.is_dir() or not there:
        print("this needs the data (--data) and a Python with neuralforecast and polars (--peer-python)")
        return
    here = str(Path(__file__).resolve().parent)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for what, model, read, our, their, given, share in CASES:
            if arguments.only and arguments.only not in what:
                continue
            mine = (read if read is READ_M4 else READ_M4.split("columns =")[0]) + our
            mine = mine.replace("{model}", model).replace("{here!r}", repr(here))
            other = (read + their).replace("{model}", model).replace("{arguments}", repr(given))
            ours = [run(sys.executable, mine, data, seed, folder) for seed in range(1, arguments.seeds + 1)]
            theirs = run(arguments.peer_python, other, data, 1, folder)
            error, seconds = (median(column) for column in zip(*ours, strict=True))
            print(f"{what}: error {error:.4g} and {theirs[0]:.4g}, {seconds:.1f} s and {theirs[1]:.1f} s", flush=True)
            note = f"{error:.4g} and {theirs[0]:.4g}"
            lines.append(line(f"{what}: error over theirs", error / theirs[0], at_most=1, note=note))
            note = f"{seconds:.1f} s and {theirs[1]:.1f} s"
            lines.append(line(f"{what}: time over theirs", seconds / theirs[1], at_most=share, note=note))
    print_table(lines)
    if arguments.write:
        command = "python benchmarks/time_to_accuracy.py --peer-python PATH"
        write("time_to_accuracy", lines, command=command, partial=bool(arguments.only))


if __name__ == "__main__":
    main()
