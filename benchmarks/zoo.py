"""Every model of the zoo with its recipe, beside the seasonal naive forecast, on four sets.

    python benchmarks/zoo.py --data DIRECTORY [--validation] [--sets panel,tourism] [--models LSTM,GRU] [--write]

Each model is trained on the known rows with its defaults and forecasts the rows after them. The score is MASE: the mean
absolute error over that of the seasonal naive forecast inside the known rows, averaged over all series. The bound is
the score of the seasonal naive forecast. `--validation` hides one more horizon and scores that. Choices are made there;
the last horizon is only reported. Each training has a process and a thread of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import neuro_divergent as nd
from _accuracy_data import KEYS, Panel, m4_hourly, only_last, without_last
from harness import Line, line, print_table, write

LOOKBACK = {"panel": 168, "vic_elec": 336, "m4_hourly": 168, "tourism": 16}
LEFT_OUT = {
    "HINT": "a wrapper around another model",
    "TimeLLM": "needs the weights of a language model",
}


def load(name: str, folder: Path, *, validation: bool) -> Panel:
    """A set with its last horizon hidden; with `validation` the horizon before that. The naive season is the week."""
    if name == "m4_hourly":
        return replace(m4_hourly(folder, validation=validation), season=168)
    if name == "panel":
        table, freq, h, season = _without_gaps(nd.samples.hourly_panel()), "1h", 24, 168
    elif name == "vic_elec":
        found = pl.read_parquet(folder / "vic_elec_30min.parquet")
        clock = next(column for column in found.columns if found[column].dtype.is_temporal())
        value = next(column for column in found.columns if column.lower() in ("y", "demand"))
        ids = pl.lit("vic").alias("unique_id")
        table, freq, h, season = (
            found.select(ids, pl.col(clock).alias("ds"), pl.col(value).alias("y")),
            "30min",
            48,
            336,
        )
    else:
        found = pl.read_parquet(folder / "australia_tourism_quarterly.parquet")
        table, freq, h, season = found.select(_tourism(found)).sort(KEYS), "1q", 8, 4
    if validation:
        table = without_last(table, h)
    return Panel(without_last(table, h), only_last(table, h), freq, h, season, {})


def _without_gaps(table: pl.DataFrame) -> pl.DataFrame:
    """Missing hours with the value of a week before, so that the naive forecast is plain arithmetic."""
    filled = table.sort(KEYS).upsample("ds", every="1h", group_by="unique_id", maintain_order=True)
    week = pl.col("y").shift(168).over("unique_id")
    return filled.with_columns(pl.col("unique_id").forward_fill(), pl.col("y").fill_null(week)).drop_nulls()


def _tourism(found: pl.DataFrame) -> list[pl.Expr]:
    key = [column for column in found.columns if found[column].dtype in (pl.String, pl.Categorical)]
    clock = next(column for column in found.columns if found[column].dtype.is_temporal())
    value = next(column for column in found.columns if found[column].dtype.is_numeric())
    return [
        pl.concat_str([pl.col(column).cast(pl.String) for column in key], separator="/").alias("unique_id"),
        pl.col(clock).alias("ds"),
        pl.col(value).cast(pl.Float64).alias("y"),
    ]


def mase(panel: Panel, forecast: pl.DataFrame, name: str) -> float:
    """The mean over the series of the absolute error over that of the seasonal naive forecast in the known rows."""
    change = (pl.col("y") - pl.col("y").shift(panel.season)).abs().mean().alias("scale")
    scales = panel.known.group_by("unique_id").agg(change)
    both = panel.held.join(forecast, on=KEYS)
    errors = both.group_by("unique_id").agg((pl.col("y") - pl.col(name)).abs().mean().alias("error"))
    ratio = errors.join(scales, on="unique_id").filter(pl.col("scale") > 0)
    return float((ratio["error"] / ratio["scale"]).cast(pl.Float64).mean())  # type: ignore[arg-type]


def one(name: str, which: str, folder: Path, *, validation: bool, options: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train one model and score its forecast. Runs in a process of its own."""
    import torch

    torch.set_num_threads(1)
    panel = load(which, folder, validation=validation)
    model = getattr(nd, name)(h=panel.h, input_size=LOOKBACK[which], **options)
    start = time.process_time()
    fitted = model.fit(panel.table, nd.TrainingConfig(seed=seed, progress=False))
    seconds = time.process_time() - start
    forecast = fitted.predict()
    return {
        "mase": mase(panel, forecast, model.name),
        "naive": mase(panel, panel.naive(), "naive"),
        "seconds": round(seconds, 1),
        "steps": int(fitted.history.steps) if hasattr(fitted.history, "steps") else 0,
    }


def names() -> list[str]:
    """The models of the zoo."""
    from neuro_divergent import models

    return [name for name in models.__all__ if name not in LEFT_OUT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the real data sets are")
    parser.add_argument("--sets", default=",".join(LOOKBACK), help="which sets, with commas between")
    parser.add_argument("--models", default="", help="which models, with commas between; all without it")
    parser.add_argument("--options", type=json.loads, default={}, help="fields of the models, as JSON")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1800, help="seconds that one training may take")
    parser.add_argument("--validation", action="store_true", help="score the horizon before the last one")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/zoo.json")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        options = {"validation": arguments.validation, "options": arguments.options, "seed": arguments.seed}
        print(json.dumps(one(*arguments.one, arguments.data, **options)))
        return
    lines: list[Line] = []
    for name in arguments.models.split(",") if arguments.models else names():
        for which in arguments.sets.split(","):
            found = _in_process(name, which, arguments)
            note = (
                f"seasonal naive {found['naive']:.3f}, {found['seconds']:.0f} core seconds"
                if found["naive"]
                else found["error"]
            )
            lines.append(line(f"{which}, {name}", found["mase"], at_most=found["naive"], unit="MASE", note=note))
            print(f"{which:10} {name:20} {found['mase']:.3f}  {note}", file=sys.stderr, flush=True)
    print_table(lines)
    if arguments.write:
        write("zoo", lines, command="python benchmarks/zoo.py", partial=bool(arguments.models or arguments.sets))
    if any(item["ok"] is False for item in lines):
        sys.exit("a model is no better than the seasonal naive forecast")


def _in_process(name: str, which: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, which, "--data", str(arguments.data)]
    command += ["--options", json.dumps(arguments.options), "--seed", str(arguments.seed)]
    command += ["--validation"] if arguments.validation else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.limit, check=False)
    except subprocess.TimeoutExpired:
        return {
            "mase": np.nan,
            "naive": 0.0,
            "seconds": arguments.limit,
            "error": f"stopped after {arguments.limit:g} s",
        }
    if done.returncode:
        return {"mase": np.nan, "naive": 0.0, "seconds": 0.0, "error": done.stderr.strip().splitlines()[-1][:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
