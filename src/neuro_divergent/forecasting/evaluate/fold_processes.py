"""Runs folds in other processes. Each job and each result is written as files.

Only the path of the files is passed between the processes.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from neuro_divergent.core import files
from neuro_divergent.core.errors import TrainingError
from neuro_divergent.core.executors.processes import WorkerDiedError, WorkError
from neuro_divergent.core.executors.workers import Workers
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
from neuro_divergent.training.config.other_process import own_modules, refuse_to_leave
from neuro_divergent.training.config.training_config import TrainingConfig


def run_jobs(
    plan: Plan, table: TimeSeriesDataFrame, jobs: Sequence[Sequence[Fold]], workers: Workers
) -> list[FoldForecasts]:
    """Run every job in a worker. The results are in the order of the jobs."""
    document = _described(plan)
    modules = sorted(own_modules([*plan.models, *plan.configs.values(), plan.intervals]))
    with workers, tempfile.TemporaryDirectory(prefix="neuro-divergent-folds-") as name:
        folder = Path(name)
        workers.probe(folder, modules)
        document |= {"table": write_table(table, folder / "table"), "modules": modules}
        for number, job in enumerate(jobs):
            files.write_json(folder / f"job-{number}.json", document | {"folds": [fold_facts(fold) for fold in job]})
        tasks = [(str(folder.resolve()), str(number)) for number in range(len(jobs))]
        for number, found in enumerate(workers.run(f"{__name__}:work", tasks, stop=lambda _: True)):
            if found is not None and not isinstance(found, str):
                raise _failure(found, number, len(jobs))
        return [part for number, job in enumerate(jobs) for part in _read(folder, number, job, table)]


def _failure(error: WorkError | WorkerDiedError, number: int, count: int) -> TrainingError:
    """The error of a fold that failed in its worker."""
    if isinstance(error, WorkerDiedError):
        return TrainingError(
            f"a worker of the cross-validation ended too early, twice: {error}. If the machine ran out of memory, use "
            "fewer jobs"
        )
    facts = {} if error.error is None else error.error.facts
    return TrainingError(f"training {number + 1} of {count} of a cross-validation failed: {error}", **facts)


def _described(plan: Plan) -> dict[str, Any]:
    for config in plan.configs.values():
        refuse_to_leave(config, *plan.models, plan.local_scaler, instead="Use n_jobs=1 and no executor")
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


def work(place: str, number: str) -> str:
    """Run one job of a folder in a worker; its forecasts are written to the folder."""
    folder = Path(place)
    job = parse_json((folder / f"job-{number}.json").read_bytes(), "job")
    for module in job["modules"]:  # those of the user's own models register themselves
        importlib.import_module(module)
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
    return ""


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
