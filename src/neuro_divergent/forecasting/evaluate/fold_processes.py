"""Runs folds in worker processes. Each job and each result is written as files.

Only the path of the files is passed between the processes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, TrainingError
from neuro_divergent.core.json import parse_json
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.fold_job import FoldForecasts, Plan, run_job
from neuro_divergent.forecasting.evaluate.folds import Fold, Ints
from neuro_divergent.forecasting.evaluate.scores import HistoricalForecasts
from neuro_divergent.forecasting.fit.job import read_table, write_table
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.output_columns import Columns
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.training.config.other_process import not_in_files
from neuro_divergent.training.config.training_config import TrainingConfig


def run_jobs(
    plan: Plan, table: TimeSeriesDataFrame, jobs: Sequence[Sequence[Fold]], n_jobs: int
) -> list[FoldForecasts]:
    """Run every job in a worker process, `n_jobs` at a time. The results are in the order of the jobs."""
    if n_jobs < 1:
        raise ConfigError(f"n_jobs must be at least 1, but got n_jobs={n_jobs}")
    document = _described(plan)
    import torch

    threads = max(1, torch.get_num_threads() // n_jobs)
    with tempfile.TemporaryDirectory(prefix="neuro-divergent-folds-") as name:
        folder = Path(name)
        document["table"] = write_table(table, folder / "table")
        for number, job in enumerate(jobs):
            files.write_json(folder / f"job-{number}.json", document | {"folds": [fold_facts(fold) for fold in job]})
        _in_processes(folder, len(jobs), n_jobs, threads)
        return [part for number, job in enumerate(jobs) for part in _read(folder, number, job, table)]


def _in_processes(folder: Path, count: int, n_jobs: int, threads: int) -> None:
    # Spawn, not fork: a forked process can hang after torch has used threads.
    with ProcessPoolExecutor(min(n_jobs, count), mp_context=get_context("spawn")) as pool:
        try:
            for number, failure in enumerate(
                pool.map(_do, [(str(folder), number, threads) for number in range(count)])
            ):
                if failure is not None:
                    pool.shutdown(cancel_futures=True)
                    sentence, facts = failure
                    raise TrainingError(
                        f"training {number + 1} of {count} of a cross-validation failed: {sentence}", **facts
                    )
        except BrokenProcessPool as error:
            raise TrainingError(
                "a worker process of the cross-validation ended too early. If a script uses n_jobs, put "
                "if __name__ == '__main__': around the call; if the machine ran out of memory, use fewer jobs"
            ) from error


def _do(job: tuple[str, int, int]) -> tuple[str, dict[str, Any]] | None:
    """Run one job in a worker process. Returns None, or the sentence and the facts of its error."""
    import torch

    folder, number, threads = job
    torch.set_num_threads(threads)
    try:
        work(Path(folder), number)
    except NeuroDivergentError as error:
        return f"{type(error).__name__}: {error}", error.facts
    return None


def _described(plan: Plan) -> dict[str, Any]:
    for name, config in plan.configs.items():
        if found := not_in_files(config, *plan.models, plan.local_scaler):
            raise ConfigError(
                "worker processes get their folds as files, which cannot contain your own callables, but the "
                f"configuration of {name} has some ({', '.join(found)}). Use n_jobs=1"
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
    }


def fold_facts(fold: Fold) -> dict[str, Any]:
    """A fold as plain data."""
    sides = {"train": fold.train, "test": fold.test, "hidden": fold.hidden}
    rows = {name: None if side is None else [part.tolist() for part in side] for name, side in sides.items()}
    return rows | {"number": fold.number, "gap": fold.gap, "group": fold.group}


def fold_from(facts: Mapping[str, Any]) -> Fold:
    """The fold from the result of `fold_facts`."""

    def rows(name: str) -> tuple[Ints, Ints]:
        first, last = (np.array(part, dtype=np.int64) for part in facts[name])
        return first, last

    hidden = None if facts["hidden"] is None else rows("hidden")
    return Fold(facts["number"], rows("train"), rows("test"), facts["gap"], facts["group"], hidden)


def work(folder: Path, number: int) -> None:
    """Run one job of a folder in a worker process."""
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
    table = read_table(folder / "table", job["table"])
    parts, _ = run_job(plan, table, [fold_from(facts) for facts in job["folds"]])
    for position, part in enumerate(parts):
        arrays = {f"values-{i}": np.ascontiguousarray(item.values) for i, item in enumerate(part.found.values())}
        data = safetensors.numpy.save(arrays | {"series": part.origins.series, "time": part.origins.time})
        files.write_bytes(folder / f"found-{number}-{position}.safetensors", data)
    columns = [[name, list(item.columns.names), list(item.columns.levels)] for name, item in parts[0].found.items()]
    files.write_json(folder / f"found-{number}.json", {"columns": columns})


def _read(folder: Path, number: int, job: Sequence[Fold], table: TimeSeriesDataFrame) -> list[FoldForecasts]:
    listed = parse_json((folder / f"found-{number}.json").read_bytes(), "found")["columns"]
    parts = []
    for position, fold in enumerate(job):
        arrays = safetensors.numpy.load((folder / f"found-{number}-{position}.safetensors").read_bytes())
        found = {
            name: HistoricalForecasts(Columns(tuple(names), tuple(levels)), arrays[f"values-{i}"])
            for i, (name, names, levels) in enumerate(listed)
        }
        steps = next(iter(found.values())).values.shape[1]
        origins = Origins.at(table, arrays["series"], arrays["time"], steps, gap=fold.gap)
        parts.append(FoldForecasts(fold, origins, found))
    return parts
