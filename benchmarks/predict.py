"""How long a forecast takes: one series and many, frame in and frame out, beside neuralforecast.

    python benchmarks/predict.py [--series N] [--rounds N] [--peer-python PATH] [--write]

Ours and the peer's are the same model in spirit: an MLP with two hidden layers of 512, lookback 48, horizon 24, on the
generated hourly panel, trained for a few steps only (how good it is does not matter here). One thread, warm, median of
the rounds. The peer runs in a process of its own (`--peer-python`, an interpreter with neuralforecast installed) and
reads pandas frames; without one its ratios are left out.

Limits: one series in 1.2 ms from a polars or a pandas frame, pandas at most twice polars, 10 times faster than the
peer, 10,000 series 5 times faster, `forward` on one prepared window in 210 µs. A predictor's `predict_array` is a
multiple of `forward` on the same windows: 4 for one window, 1.5 for 1,024.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import torch

import neuro_divergent as nd
from harness import line, write

LIMITS = {
    "forward_us": 210.0,
    "one_series_ms": 1.2,
    "one_series_pandas_ms": 1.2,
    "pandas_over_polars": 2.0,
    "array_1_over_forward": 4.0,
    "array_1024_over_forward": 1.5,
    "one_series_ratio": 10.0,
    "one_series_pandas_ratio": 10.0,
    "many_series_ratio": 5.0,
}
"""Those that end in "ratio" are at least, the others at most."""
HORIZON, LOOKBACK, ROWS = 24, 48, 96

PEER = """
import json, logging, statistics, sys, time, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import pandas as pd, torch
torch.set_num_threads(1)
from neuralforecast import NeuralForecast
from neuralforecast.models import MLP
one, many, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = dict(enable_progress_bar=False, logger=False, accelerator="cpu", enable_model_summary=False)
model = MLP(h=24, input_size=48, hidden_size=512, num_layers=2, max_steps=3, scaler_type="standard", **options)
nf = NeuralForecast(models=[model], freq="h")
small, large = pd.read_parquet(one), pd.read_parquet(many)
nf.fit(large[large.unique_id.isin(large.unique_id.unique()[:20])], val_size=0)
def timed(frame, rounds):
    nf.predict(df=frame)
    spans = []
    for _ in range(rounds):
        begun = time.perf_counter()
        nf.predict(df=frame)
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans)
print("RESULT " + json.dumps({"one": timed(small, rounds), "many": timed(large, max(2, rounds // 20))}))
"""


def median(function: Callable[[], Any], rounds: int) -> float:
    """Seconds of a warm call."""
    for _ in range(max(3, rounds // 10)):
        function()
    spans = []
    for _ in range(rounds):
        begun = time.perf_counter()
        function()
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans)


def panel(series: int) -> pl.DataFrame:
    """The generated panel without gaps, its series repeated under new names."""
    few = nd.samples.hourly_panel(min(series, 50), ROWS, seed=3)
    few = few.upsample("ds", every="1h", group_by="unique_id", maintain_order=True).fill_null(strategy="forward")
    copies = [few.with_columns(unique_id=pl.col("unique_id") + f"-{copy:04d}") for copy in range(-(-series // 50))]
    return pl.concat(copies).sort("unique_id", "ds")


def ours(one: pl.DataFrame, many: pl.DataFrame, rounds: int) -> dict[str, float]:
    """Seconds of each of our calls."""
    config = nd.TrainingConfig(max_steps=3, progress=False, validation_split=None)
    ids = many["unique_id"].unique(maintain_order=True)[:20]
    model = nd.MLP(h=HORIZON, input_size=LOOKBACK, hidden_size=512, layers=2)
    fitted = model.fit(many.filter(pl.col("unique_id").is_in(ids.to_list())), config)
    window = torch.from_numpy(one["y"].to_numpy()[-LOOKBACK:].astype("float32")).reshape(1, -1)
    windows, predictor, few = window.repeat(1024, 1), fitted.predictor(), max(2, rounds // 20)
    as_pandas, arrays = one.to_pandas(), [each.numpy() for each in (window, windows)]
    return {
        "forward": median(lambda: fitted.forward(window), 5 * rounds),
        "forward_1024": median(lambda: fitted.forward(windows), rounds),
        "array": median(lambda: predictor.predict_array(arrays[0]), 5 * rounds),
        "array_1024": median(lambda: predictor.predict_array(arrays[1]), rounds),
        "one": median(lambda: fitted.predict(one), rounds),
        # A new frame each time, as a service gets it: pandas keeps what it finds out about the columns of an old one.
        "one_pandas": median(lambda: fitted.predict(as_pandas.copy()), rounds),
        "observe": median(lambda: predictor.observe(predictor.make_future_dataframe(h=1).with_columns(y=1.0)), few),
        "many": median(lambda: fitted.predict(many), few),
    }


def peer(python: str, folder: Path, rounds: int) -> dict[str, float] | None:
    """Seconds of the peer's calls, or None where it cannot run."""
    if not Path(python).exists():
        print(f"the peer is left out: {python} does not exist")
        return None
    command = [python, "-c", PEER, str(folder / "one.parquet"), str(folder / "many.parquet"), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)  # it leaves logs behind
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        print(f"the peer is left out: {done.stderr.strip().splitlines()[-1:] or 'no result'}")
        return None
    found: dict[str, float] = json.loads(lines[0].removeprefix("RESULT "))
    return found


def report(mine: dict[str, float], theirs: dict[str, float] | None) -> tuple[dict[str, float], bool]:
    """Print a line per figure; the second value says whether all limits were kept."""
    figures = {
        "forward_us": mine["forward"] * 1e6,
        "one_series_ms": mine["one"] * 1e3,
        "one_series_pandas_ms": mine["one_pandas"] * 1e3,
        "pandas_over_polars": mine["one_pandas"] / mine["one"],
        "array_1_over_forward": mine["array"] / mine["forward"],
        "array_1024_over_forward": mine["array_1024"] / mine["forward_1024"],
        "observe_20_series_ms": mine["observe"] * 1e3,
        "many_series_s": mine["many"],
    }
    if theirs is not None:
        figures["one_series_ratio"] = theirs["one"] / mine["one"]
        figures["one_series_pandas_ratio"] = theirs["one"] / mine["one_pandas"]
        figures["many_series_ratio"] = theirs["many"] / mine["many"]
    kept = True
    for name, value in figures.items():
        limit = LIMITS.get(name)
        good = limit is None or (value >= limit if name.endswith("ratio") else value <= limit)
        kept &= good
        words = "" if limit is None else f"  limit {limit:g}  {'ok' if good else 'MISSED'}"
        print(f"{name:24} {value:10.3f}{words}")
    return figures, kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--peer-python", default="", help="an interpreter that has neuralforecast")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/predict.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    many = panel(options.series)
    one = many.filter(pl.col("unique_id") == many["unique_id"][0])
    theirs = None
    if options.peer_python:
        import tempfile

        with tempfile.TemporaryDirectory() as name:
            one.write_parquet(Path(name) / "one.parquet")
            many.write_parquet(Path(name) / "many.parquet")
            theirs = peer(options.peer_python, Path(name), max(10, options.rounds // 10))
    else:
        print("the peer is left out: name its interpreter with --peer-python")
    figures, kept = report(ours(one, many, options.rounds), theirs)
    if options.write:
        lines = []
        for name, value in figures.items():
            bound = {"at_least" if name.endswith("ratio") else "at_most": LIMITS.get(name)}
            lines.append(line(name.replace("_", " "), value, **bound))
        write("predict", lines, command="python benchmarks/predict.py --peer-python PATH")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
