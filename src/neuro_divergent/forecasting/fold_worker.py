"""Folds in processes of their own: what each is to do is written as files, and so is what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, TrainingError
from neuro_divergent.core.exact import parse_json
from neuro_divergent.data.frame import TimeSeriesDataFrame
from neuro_divergent.data.report import DataReport
from neuro_divergent.data.schema import DataSchema
from neuro_divergent.data.store import SeriesStore
from neuro_divergent.forecasting.cross_validation import FoldForecasts, Plan, run_job
from neuro_divergent.forecasting.evaluate import Hindcasts
from neuro_divergent.forecasting.intervals import PredictionIntervals
from neuro_divergent.forecasting.levels import Columns
from neuro_divergent.forecasting.model import Model
from neuro_divergent.forecasting.splitting import Fold
from neuro_divergent.training.callbacks.base import CallbackSettings
from neuro_divergent.training.config import TrainingConfig


def run_jobs(
    plan: Plan, table: TimeSeriesDataFrame, jobs: Sequence[Sequence[Fold]], n_jobs: int
) -> list[FoldForecasts]:
    """Do every job in a process of its own, so many at a time; the results are in the order of the jobs."""
    if n_jobs < 1:
        raise ConfigError(f"n_jobs must be at least 1, but got n_jobs={n_jobs}")
    document = _described(plan, table)
    import torch

    threads = max(1, torch.get_num_threads() // n_jobs)
    with tempfile.TemporaryDirectory(prefix="neuro-divergent-folds-") as name:
        folder = Path(name)
        table.store.save(folder / "table")
        for number, job in enumerate(jobs):
            files.write_json(folder / f"job-{number}.json", document | {"folds": [_fold_facts(fold) for fold in job]})
        with ThreadPoolExecutor(n_jobs) as pool:
            list(pool.map(lambda number: _start(folder, number, threads), range(len(jobs))))
        return [part for number, job in enumerate(jobs) for part in _read(folder, number, job)]


def _start(folder: Path, number: int, threads: int) -> None:
    command = [sys.executable, "-m", "neuro_divergent.forecasting.fold_worker", str(folder), str(number), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode != 0:
        raise TrainingError(f"fold {number} of a cross-validation failed in its process: {done.stderr.strip()[-2000:]}")


def _described(plan: Plan, table: TimeSeriesDataFrame) -> dict[str, Any]:
    for name, config in plan.configs.items():
        live = [type(item).__name__ for item in config.callbacks if not isinstance(item, CallbackSettings)]
        if live or '"reference"' in json.dumps(config.replace(callbacks=()).to_dict()):
            raise ConfigError(
                "folds in other processes are described by files, which cannot hold your own callables, but the "
                f"configuration of {name} has some. Use n_jobs=1"
            )
    return {
        "models": [model.to_dict() for model in plan.models],
        "configs": {name: config.replace(progress=False).to_dict() for name, config in plan.configs.items()},
        "level": plan.level,
        "quantiles": plan.quantiles,
        "intervals": None if plan.intervals is None else plan.intervals.to_dict(),
        "h": plan.h,
        "short": plan.short,
        "local_scaler": plan.local_scaler,
        "schema": table.schema.to_dict(),
        "library": table.library,
    }


def _fold_facts(fold: Fold) -> dict[str, Any]:
    sides = {"train": fold.train, "test": fold.test}
    rows = {name: [part.tolist() for part in side] for name, side in sides.items()}
    return rows | {"number": fold.number, "gap": fold.gap, "group": fold.group}


def _fold(facts: Mapping[str, Any]) -> Fold:
    train, test = (tuple(np.array(part, dtype=np.int64) for part in facts[name]) for name in ("train", "test"))
    return Fold(facts["number"], (train[0], train[1]), (test[0], test[1]), facts["gap"], facts["group"])


def work(folder: Path, number: int) -> None:
    """What a process does: one job of a folder."""
    job = parse_json((folder / f"job-{number}.json").read_bytes(), "job")
    plan = Plan(
        models=tuple(Model.from_dict(model) for model in job["models"]),
        configs={name: TrainingConfig.from_dict(config) for name, config in job["configs"].items()},
        level=None if job["level"] is None else tuple(job["level"]),
        quantiles=None if job["quantiles"] is None else tuple(job["quantiles"]),
        intervals=None if job["intervals"] is None else PredictionIntervals.from_dict(job["intervals"]),
        h=job["h"],
        short=job["short"],
        local_scaler=job["local_scaler"],
    )
    schema = DataSchema.from_dict(job["schema"])
    table = TimeSeriesDataFrame(SeriesStore.open(folder / "table"), schema, DataReport(), library=job["library"])
    parts, _ = run_job(plan, table, [_fold(facts) for facts in job["folds"]])
    for position, part in enumerate(parts):
        arrays = {f"values-{i}": np.ascontiguousarray(item.values) for i, item in enumerate(part.found.values())}
        data = safetensors.numpy.save(arrays | {"series": part.series, "time": part.time})
        files.write_bytes(folder / f"found-{number}-{position}.safetensors", data)
    columns = [[name, list(item.columns.names), list(item.columns.levels)] for name, item in parts[0].found.items()]
    files.write_json(folder / f"found-{number}.json", {"columns": columns})


def _read(folder: Path, number: int, job: Sequence[Fold]) -> list[FoldForecasts]:
    listed = parse_json((folder / f"found-{number}.json").read_bytes(), "found")["columns"]
    parts = []
    for position, fold in enumerate(job):
        arrays = safetensors.numpy.load((folder / f"found-{number}-{position}.safetensors").read_bytes())
        found = {
            name: Hindcasts(Columns(tuple(names), tuple(levels)), arrays[f"values-{i}"])
            for i, (name, names, levels) in enumerate(listed)
        }
        parts.append(FoldForecasts(fold, arrays["series"], arrays["time"], found))
    return parts


def main(arguments: list[str]) -> int:
    """Do one job; the exit code says whether it was done."""
    import torch

    torch.set_num_threads(int(arguments[2]))
    try:
        work(Path(arguments[0]), int(arguments[1]))
    except NeuroDivergentError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
