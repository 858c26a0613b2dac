"""Runs several trainings in other processes: each job is written as files, each result is a saved forecaster."""

from __future__ import annotations

import importlib
import logging
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, TrainingError
from neuro_divergent.core.executors.processes import WorkerDiedError, WorkError
from neuro_divergent.core.executors.workers import Workers
from neuro_divergent.core.json import parse_json
from neuro_divergent.data.join import joined
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import fit_job
from neuro_divergent.forecasting.fit.job import Job, read_table, write_table
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.config.checkpoints import is_remote
from neuro_divergent.training.config.other_process import own_modules, refuse_to_leave
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume

log = logging.getLogger(__name__)


class Wanted(NamedTuple):
    """One training."""

    job: Job
    intervals: PredictionIntervals | None = None


def fit_elsewhere(wanted: Sequence[Wanted], workers: Workers) -> list[Forecaster | NeuroDivergentError]:
    """The forecaster of every training, in order; of one that failed, its error."""
    for job, _ in wanted:
        refuse_to_leave(job.config, job.model, job.local_scaler, instead="Train here, without n_jobs and executor")
        if job.begin_with is not None or job.scaling is not None or job.learned_from:
            raise ConfigError("a training that begins with given weights runs in this process: leave executor out")
    modules = sorted(own_modules([[job.model, job.config, intervals] for job, intervals in wanted]))
    with workers, tempfile.TemporaryDirectory(prefix="neuro-divergent-fit-") as name:
        folder = Path(name).resolve()
        workers.probe(folder, modules)
        _write(wanted, folder, modules)
        count = len(wanted)
        found = workers.run(
            f"{__name__}:work",
            [(str(folder), str(number)) for number in range(count)],
            done=lambda number: log.info("training %d of %d has ended", number + 1, count),
        )
        return [
            _read(wanted[number].job, folder, number) if isinstance(item, str) else _error_of(item)
            for number, item in enumerate(found)
            if item is not None
        ]


def _write(wanted: Sequence[Wanted], folder: Path, modules: Sequence[str]) -> None:
    """Write all jobs to a folder. A table that several share is written once."""
    known: dict[int, tuple[str, dict[str, Any]]] = {}
    for number, (job, intervals) in enumerate(wanted):
        tables = {}
        for name, table in job.tables.items():
            if id(table) not in known:
                place = f"table-{len(known)}"
                known[id(table)] = place, write_table(table, folder / place)
            tables[name] = known[id(table)]
        document = replace(job, config=_for_worker(job.config)).facts() | {
            "tables": tables,
            "modules": modules,
            "source": None if job.resume.source is None else _absolute(os.fspath(job.resume.source)),
            "intervals": None if intervals is None else intervals.to_dict(),
        }
        files.write_json(folder / f"job-{number}.json", document)


def _for_worker(config: TrainingConfig) -> TrainingConfig:
    """The configuration without a progress line, whose directory any process finds."""
    settings = config.checkpoints
    if settings is not None and not is_remote(settings.directory):
        config = config.replace(checkpoints=settings.replace(directory=_absolute(os.fspath(settings.directory))))
    return config.replace(progress=False)


def _absolute(path: str) -> str:
    return path if path == "auto" or is_remote(path) else os.path.abspath(path)


def _error_of(error: WorkError | WorkerDiedError) -> NeuroDivergentError:
    if isinstance(error, WorkerDiedError):
        return TrainingError(
            f"the worker of a training ended too early, twice: {error}. If its machine ran out of memory, run fewer "
            "trainings at the same time"
        )
    return error.error or TrainingError(f"a training failed in its worker: {error}")


def _read(job: Job, folder: Path, number: int) -> Forecaster:
    """The forecaster that a worker saved, with the whole table and configuration of its job."""
    fitted = Forecaster.load(folder / f"model-{number}", device=job.config.device)
    table = job.table if job.validation is None else joined(job.table, job.validation)[0]
    fitted.data = fitted.in_own_codes(table)
    kept = {name: getattr(job.config, name) for name in ("callbacks", "checkpoints", "progress")}
    fitted.config = fitted.config.replace(**kept)
    return fitted


def work(place: str, number: str) -> str:
    """Train a job of a folder in a worker, and save the forecaster there. A second attempt resumes if it can."""
    folder = Path(place)
    document = parse_json((folder / f"job-{number}.json").read_bytes(), "job")
    for module in document["modules"]:  # those of the user's own classes register themselves
        importlib.import_module(module)
    tables: dict[str, TimeSeriesDataFrame] = {
        name: read_table(folder / where, facts) for name, (where, facts) in document["tables"].items()
    }
    job = Job.from_facts(document, tables)
    begun, source = folder / f"begun-{number}", document["source"]
    if begun.exists() and job.config.checkpoints is not None:
        source = "auto"
    files.write_bytes(begun, b"")
    job = replace(job, resume=Resume(source, job.resume.changes if source else None))
    settings = document["intervals"]
    fitted = fit_job(job, None if settings is None else PredictionIntervals.from_dict(settings))
    fitted.save(folder / f"model-{number}", overwrite=True)
    return ""
