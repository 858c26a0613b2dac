"""How often intervals hold the truth, on windows that neither training nor calibration has seen.

    python benchmarks/coverage.py --data DIRECTORY [--part recipes|conformal] [--only NAME,...] [--validation] [--write]

The part "recipes" trains NHITS and MLP with MQLoss, NHITS with StudentT and DeepAR with the defaults of a fit on
five real sets, and scores the intervals on hidden horizons: within 5 points of the level, and no negative value for
counts. "plain" is the coverage without the correction of the intervals. `--validation` scores the stretch
before the hidden horizons, on which choices rest. Counts lie on the edges of intervals: such an edge counts as inside
or outside, whichever is nearer to the level, and the table says both shares.

The part "conformal" measures conformal intervals of a point forecast.

A point model is fitted on the first part of each series, its errors are measured on `calibrated` windows after it
(`forecaster.calibrate`), and its intervals are checked on `windows` windows after these, one after the other. The bound
is the promise: within 3 points of the level on the generated panel, within 5 on real data (half-hourly demand, whose
errors change with the season, so that a whole year calibrates it; M4 hourly).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import polars as pl
import torch

import _coverage_recipes as recipes
import neuro_divergent as nd
from harness import Line, line, print_table, write

LEVELS = (80.0, 90.0, 95.0)
METHODS = ("conformal_distribution", "conformal_error", "adaptive")


def cases(folder: Path) -> dict[str, dict[str, Any]]:
    """Name → table, frequency, sizes, how many windows are scored, and how far from the level is near enough."""
    found: dict[str, dict[str, Any]] = {
        "generated panel": {
            "table": nd.samples.hourly_panel(30, 1344),
            "freq": "1h",
            "h": 24,
            "input_size": 168,
            "windows": 8,
            "calibrated": 20,
            "within": 3.0,
        }
    }
    demand, hourly = folder / "vic_elec_30min.parquet", folder / "m4_hourly_train.parquet"
    if demand.exists():
        table = pl.read_parquet(demand)
        names = {column.lower(): column for column in table.columns}
        time = next(column for column in table.columns if table[column].dtype.is_temporal())
        value = names.get("y") or names["demand"]
        table = table.select(pl.lit("vic").alias("unique_id"), pl.col(time).alias("ds"), pl.col(value).alias("y"))
        found["vic_elec"] = {
            "table": table,
            "freq": "30min",
            "h": 48,
            "input_size": 336,
            "windows": 365,
            "calibrated": 365,
            "within": 5.0,
        }
    if hourly.exists():
        found["M4 hourly"] = {
            "table": pl.read_parquet(hourly).select("unique_id", "ds", "y"),
            "freq": 1,
            "h": 48,
            "input_size": 168,
            "windows": 3,
            "calibrated": 4,
            "within": 5.0,
        }
    return found


def coverage(case: dict[str, Any], method: str) -> dict[float, float]:
    """Per cent of the truth inside the intervals of each level."""
    table, h, windows = case["table"], case["h"], case["windows"]
    data = nd.TimeSeriesDataFrame.from_frame(table, freq=case["freq"])
    config = nd.TrainingConfig(max_epochs=None, max_steps=400, batch_size=256, progress=False)
    intervals = nd.PredictionIntervals(n_windows=case["calibrated"], method=method, step_size=h)
    model = nd.MLP(h=h, input_size=case["input_size"], anchor="auto")
    fitted = model.fit(data.drop_last((windows + case["calibrated"]) * h), config)
    fitted.calibrate(data.drop_last(windows * h), intervals)
    inside = {level: [0.0, 0] for level in LEVELS}
    for window in range(windows):
        known = data.drop_last((windows - window) * h)
        both = fitted.predict(known, level=list(LEVELS)).join(table, on=["unique_id", "ds"])
        for level in LEVELS:
            low, high = (pl.col(f"MLP-{side}-{level:g}") for side in ("lo", "hi"))
            inside[level][0] += float(both.select(((pl.col("y") >= low) & (pl.col("y") <= high)).sum()).item())
            inside[level][1] += both.height
    return {level: 100 * hits / count for level, (hits, count) in inside.items()}


def conformal_lines(folder: Path) -> list[Line]:
    """The intervals of a point forecast."""
    lines: list[Line] = []
    for name, case in cases(folder).items():
        for method in METHODS:
            for level, found in coverage(case, method).items():
                what = f"{name}, {method}, {level:g} %"
                miss = abs(found - level)
                target = f"{level - case['within']:g} to {level + case['within']:g}"
                item = line(what, found, target, unit="%")
                item["ok"] = miss <= case["within"]
                lines.append(item)
    return lines


def recipe_lines(folder: Path, only: str, models_only: str = "", *, validation: bool) -> list[Line]:
    """The intervals of quantile losses and distributions."""
    lines: list[Line] = []
    models = [part.strip().lower() for part in models_only.split(",") if part.strip()]
    wanted = [part.strip().lower() for part in only.split(",") if part.strip()]
    for case in recipes.cases(folder):
        if wanted and case.name.lower() not in wanted:
            continue
        for name in recipes.models(case):
            if models and name.split(",")[0].lower() not in models:
                continue
            found = recipes.measure(case, name, validation=validation)
            lines += _of(found)
            print_table(lines[-len(found.checks) - 1 :])
    return lines


def _of(found: recipes.Found) -> list[Line]:
    lines: list[Line] = []
    for check, plain in zip(found.checks, found.plain, strict=True):
        what = f"{found.case}, {found.model}, {check.level:g} %"
        edge = f", {check.between:.1f} % without the edges" if check.inside - check.between > 1 else ""
        note = f"plain {plain.inside:.1f} %; {'corrected' if found.corrected else 'not corrected'}{edge}"
        item = line(what, check.inside, f"within {recipes.WITHIN:g} of {check.level:g}", unit="%", note=note)
        item["ok"] = check.off <= recipes.WITHIN
        lines.append(item)
    counts = found.case == "M5"
    what = f"{found.case}, {found.model}: negative values"
    lines.append(line(what, found.negative, at_most=0 if counts else None, unit="%", note=f"{found.seconds:.0f} s"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the real data sets are")
    parser.add_argument("--part", choices=("recipes", "conformal", "all"), default="all")
    parser.add_argument("--only", default="", help="sets of the part recipes, with commas")
    parser.add_argument("--models", default="", help="models of the part recipes, with commas, such as nhits,mlp")
    parser.add_argument("--validation", action="store_true", help="score the stretch before the hidden horizons")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/coverage.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[Line] = []
    if arguments.part != "conformal":
        lines += recipe_lines(arguments.data, arguments.only, arguments.models, validation=arguments.validation)
    if arguments.part != "recipes":
        lines += conformal_lines(arguments.data)
    print_table(lines)
    if arguments.write:
        some = arguments.part != "all" or bool(arguments.only or arguments.models)
        write("coverage", lines, command="python benchmarks/coverage.py", partial=some)
    if any(item["ok"] is False for item in lines):
        sys.exit("an interval covers too much or too little")


if __name__ == "__main__":
    main()
