"""The table that chose the shipped recipes: optimizers × schedules × batch sizes on three data sets.

    python benchmarks/recipes.py [--quick] [--small] [--data DIRECTORY] [--models mlp,nhits] [--json PATH]
    python benchmarks/recipes.py --finals --quick --models tcn,lstm --seeds 2      # to the recipe's own end
    python benchmarks/recipes.py --trained PATH PATH --write      # one table of what earlier runs found

Each row trains a model for the same number of windows, so that a larger batch takes fewer steps, and is scored on a
last stretch of each series that neither training nor early stopping has seen: MASE (mean absolute error over that of
the seasonal naive forecast in the training part), averaged over the series, and the seconds that the training took. The
score of the whole recipe is the mean over data sets of MASE relative to the best row of that data set. A row is
what DEFAULTS.md calls a recipe: optimizer, rate, schedule, batch. m4_hourly is used when --data holds
m4_hourly_train.parquet (columns unique_id, ds, y).

The finals compare rates and schedules alone: batches, epochs, validation and early stopping are those of the model's
recipe, and each training runs to its own end. They decide what is shipped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import neuro_divergent as nd
from harness import Line, line, write
from neuro_divergent.data import samples

OPTIMIZERS: dict[str, nd.Optimizer] = {
    "AdamW 1e-3": nd.AdamW(learning_rate=1e-3),
    "AdamW 3e-3": nd.AdamW(learning_rate=3e-3),
    "AdamW 1e-4": nd.AdamW(learning_rate=1e-4),
    "SGD 1e-2": nd.SGD(learning_rate=1e-2, momentum=0.9),
    "RAdam 1e-3": nd.RAdam(learning_rate=1e-3),
    "NAdam 1e-3": nd.NAdam(learning_rate=1e-3),
    "schedule-free": nd.ScheduleFreeAdamW(),
}
SCHEDULES: dict[str, nd.Schedule | None] = {
    "cosine": nd.CosineAnnealing(),
    "warm-up cosine": nd.WarmupCosine(warmup=0.1, min_lr=1e-6),
    "one-cycle": nd.OneCycle(),
    "plateau": nd.ReduceOnPlateau(patience=5, factor=0.5),
    "step decay": nd.StepDecay(every=30, factor=0.1),
    "constant": None,
}
BATCHES = (32, 128, 512)
SMALL = (["AdamW 1e-3", "AdamW 3e-3", "AdamW 1e-4", "schedule-free"], list(SCHEDULES), (32, 128))
"""For models that take long: the optimizers that were near the top for the fast ones."""
FINALS = (["AdamW 1e-3", "AdamW 3e-3"], ["cosine", "warm-up cosine", "one-cycle", "plateau", "step decay"])
QUICK = (["AdamW 1e-3", "AdamW 3e-3", "schedule-free"], ["cosine", "one-cycle", "constant"], (64, 256))


def data_sets(folder: Path, quick: bool) -> dict[str, dict[str, Any]]:
    """Name → table, frequency, horizon, lookback, season."""
    found: dict[str, dict[str, Any]] = {
        "air_passengers": {"table": samples.air_passengers(), "freq": "1mo", "h": 12, "input_size": 24, "season": 12},
        "hourly_panel": {
            "table": samples.hourly_panel(8 if quick else 30, 600 if quick else 1344),
            "freq": "1h",
            "h": 24,
            "input_size": 96,
            "season": 24,
        },
    }
    file = folder / "m4_hourly_train.parquet"
    if file.exists():
        table = pl.read_parquet(file).select("unique_id", "ds", "y")
        ids = table["unique_id"].unique().sort()[: 20 if quick else 200].to_list()
        table = table.filter(pl.col("unique_id").is_in(ids))
        freq = "1i" if table["ds"].dtype.is_integer() else "1h"
        found["m4_hourly"] = {"table": table, "freq": freq, "h": 48, "input_size": 168, "season": 24}
    else:
        print(f"{file} is not there: two data sets instead of three")
    return found


def mase(known: pl.DataFrame, held: pl.DataFrame, forecast: pl.DataFrame, name: str, season: int) -> float:
    """Mean over the series of the error relative to the seasonal naive error in the known part."""
    naive = (
        known.sort("unique_id", "ds")
        .group_by("unique_id", maintain_order=True)
        .agg((pl.col("y") - pl.col("y").shift(season)).abs().mean().alias("naive"))
    )
    joined = (
        held.join(forecast, on=["unique_id", "ds"])
        .group_by("unique_id")
        .agg((pl.col("y") - pl.col(name)).abs().mean().alias("error"))
    )
    both = joined.join(naive, on="unique_id").filter(pl.col("naive") > 0)
    return float((both["error"] / both["naive"]).mean())  # type: ignore[arg-type]


def models(names: Sequence[str], case: dict[str, Any]) -> list[nd.Model]:
    known: dict[str, tuple[type[nd.Model], dict[str, Any]]] = {
        "mlp": (nd.MLP, {}),
        "nhits": (nd.NHITS, {}),
        "dlinear": (nd.DLinear, {}),
        # Narrower than by default, so that a grid of them ends within the hour.
        "lstm": (nd.LSTM, {"hidden_size": 64}),
        "tcn": (nd.TCN, {"hidden_size": 64}),
        "patchtst": (nd.PatchTST, {"hidden_size": 64, "ff_size": 128}),
    }
    return [known[name][0](h=case["h"], input_size=case["input_size"], **known[name][1]) for name in names]


Recipe = tuple[str, str, int | str]
"""Optimizer, schedule, batch."""


def config_for(recipe: Recipe, windows: int, seed: int) -> nd.TrainingConfig:
    """A training that sees this many windows; with a batch in words one that leaves the rest to the model's recipe."""
    optimizer, schedule, batch = recipe
    chosen = nd.TrainingConfig(optimizer=OPTIMIZERS[optimizer], schedule=SCHEDULES[schedule], seed=seed, progress=False)
    if isinstance(batch, str):
        return chosen
    return chosen.replace(
        max_epochs=None,
        max_steps=max(4, windows // batch),
        steps_per_epoch=max(2, windows // batch // 10),
        batch_size=batch,
        loss=nd.MAE(),
    )


def run(model: nd.Model, case: dict[str, Any], recipe: Recipe, windows: int, seed: int) -> dict[str, float]:
    table, h = case["table"], case["h"]
    cut = table.with_columns(pl.len().over("unique_id").alias("n"), pl.int_range(pl.len()).over("unique_id").alias("i"))
    known = cut.filter(pl.col("i") < pl.col("n") - h).drop("n", "i")
    held = cut.filter(pl.col("i") >= pl.col("n") - h).drop("n", "i")
    begin = time.process_time()
    fitted = model.fit(known, config_for(recipe, windows, seed), freq=case["freq"])
    seconds = time.process_time() - begin
    score = mase(known, held, fitted.predict(), model.name, case["season"])
    return {"mase": score, "seconds": seconds}


def grid(size: str) -> list[Recipe]:
    if size == "finals":
        return [(*row, "of the recipe") for row in itertools.product(*FINALS)]
    optimizers, schedules, batches = {
        "quick": QUICK,
        "small": SMALL,
        "full": (list(OPTIMIZERS), list(SCHEDULES), BATCHES),
    }[size]
    rows = itertools.product(optimizers, schedules, batches)
    return [row for row in rows if row[0] != "schedule-free" or row[1] == "constant"]


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="small data and, without --small, a small grid: about two minutes"
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="where m4_hourly_train.parquet is")
    parser.add_argument("--models", default="mlp", help="of mlp, nhits, dlinear, lstm, tcn, patchtst, with commas")
    parser.add_argument("--small", action="store_true", help="fewer optimizers and batch sizes")
    parser.add_argument(
        "--finals", action="store_true", help="rates and schedules alone, all else as the recipe has it"
    )
    parser.add_argument("--windows", type=int, help="windows seen by each training")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every training to this file")
    parser.add_argument(
        "--trained", type=Path, nargs="+", help="what earlier runs wrote with --json, instead of training"
    )
    parser.add_argument("--write", action="store_true", help="write the best to benchmarks/results/recipes.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    results = train(arguments) if arguments.trained is None else read(arguments.trained)
    report(results, list(dict.fromkeys(row["data"] for row in results)))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    if arguments.write:
        names = ",".join(dict.fromkeys(row["model"].lower() for row in results))
        how = f"--data DIRECTORY --models {names}" if arguments.trained is None else "--trained PATH PATH"
        write("recipes", lines(results), command=f"python benchmarks/recipes.py {how}")
    return results


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The trainings of earlier runs."""
    return [row for path in paths for row in json.loads(path.read_text(encoding="utf-8"))]


def train(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Every recipe of the grid on every data set."""
    windows = arguments.windows or (12_800 if arguments.quick else 64_000)
    results: list[dict[str, Any]] = []
    cases = data_sets(arguments.data, arguments.quick)
    size = "finals" if arguments.finals else "small" if arguments.small else "quick" if arguments.quick else "full"
    for recipe in grid(size):
        for name, case in cases.items():
            for model in models(arguments.models.split(","), case):
                runs = [run(model, case, recipe, windows, seed) for seed in range(1, arguments.seeds + 1)]
                means = {key: float(np.mean([one[key] for one in runs])) for key in runs[0]}
                keys = dict(zip(("optimizer", "schedule", "batch"), recipe, strict=True))
                named = f"{model.name}, to its end" if arguments.finals else model.name
                results.append({"benchmark": "recipes", "data": name, "model": named} | keys | means)
                print(named, name, *recipe, *(f"{value:.3f}" for value in means.values()), file=sys.stderr, flush=True)
    return results


KEYS = ["model", "optimizer", "schedule", "batch"]


def ranked(results: list[dict[str, Any]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every training with its error relative to the best on its data set, and every recipe, the best first."""
    best = pl.col("mase").min().over("data", "model")
    rows = [row | {"batch": str(row["batch"])} for row in results]
    table = pl.DataFrame(rows).with_columns((pl.col("mase") / best).alias("relative"))
    whole = table.group_by(KEYS).agg(pl.col("relative").mean(), pl.col("seconds").sum())
    return table, whole.sort("model", "relative", "optimizer", "schedule", "batch")


def lines(results: list[dict[str, Any]], shown: int = 12) -> list[Line]:
    """The best recipes of each model for the documentation, with their errors on each data set."""
    found = []
    table, whole = ranked(results)
    for row in whole.group_by("model", maintain_order=True).head(shown).iter_rows(named=True):
        own = table.filter(*(pl.col(key) == row[key] for key in KEYS))
        note = ", ".join(f"{name} {mase:.3f}" for name, mase in own.select("data", "mase").iter_rows())
        what = f"{row['model']}: {row['optimizer']}, {row['schedule']}, batch {row['batch']}: MASE over the best one's"
        found.append(line(what, row["relative"], note=note))
    return found


def report(results: list[dict[str, Any]], names: list[str]) -> None:
    """One line per recipe, the best first."""
    table, whole = ranked(results)
    print(f"{'model':<18} {'optimizer':<14} {'schedule':<15} {'batch':>13} {'relative':>9} {'seconds':>8}", end="")
    print("".join(f" {name:>15}" for name in names))
    for row in whole.iter_rows(named=True):
        text = f"{row['model']:<18} {row['optimizer']:<14} {row['schedule']:<15} {row['batch']:>13}"
        own = table.filter(*(pl.col(key) == row[key] for key in KEYS))
        scores = "".join(f" {own.filter(pl.col('data') == name)['mase'].mean():>15.3f}" for name in names)
        print(f"{text} {row['relative']:>9.3f} {row['seconds']:>8.1f}{scores}")
    for model, optimizer, schedule, batch in whole.group_by("model", maintain_order=True).first().select(KEYS).rows():
        print(f"best for {model}: {optimizer}, {schedule}, batch {batch}")


if __name__ == "__main__":
    main(sys.argv[1:])
