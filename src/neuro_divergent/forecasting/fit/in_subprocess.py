"""Trains in a supervised process. The job is written as files, never pickled."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.training.config.other_process import not_in_files
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.process.supervisor import checkpoints_to_restart_from, supervise
from neuro_divergent.training.process.worker import error_of
from neuro_divergent.training.runs.checkpoint_store import forget
from neuro_divergent.training.runs.resume import Resume

FOLDER = "job"
"""In the run's directory: the job of the supervised process, while it runs."""
WORKER = "neuro_divergent.forecasting.fit.worker"


def supervised(config: TrainingConfig) -> bool:
    """Whether the training runs in a supervised process."""
    tolerance = config.fault_tolerance
    return tolerance is not None and tolerance.retries > 0


def train_supervised(job: Job) -> Resume:
    """Train in a supervised process. The result says how this process loads the finished run."""
    config, resume = job.config, job.resume
    settings = checkpoints_to_restart_from(config.checkpoints, resume.source)
    tolerance = config.fault_tolerance
    assert tolerance is not None
    alone = tolerance.replace(retries=0)  # inside the process only out-of-memory handling is left
    own = config.replace(fault_tolerance=alone, progress=False, checkpoints=settings.replace(on_stop=True))
    _refuse_callables(own, job)
    folder = Path(settings.directory) / FOLDER
    try:
        replace(job, config=own).write(folder)
        if resume.source is None:
            forget(settings)
        command = [sys.executable, "-m", WORKER, str(folder)]
        for sentence in supervise(command, tolerance, settings.directory):
            logging.getLogger(__name__).warning("the training was restarted: %s", sentence)
    except ConfigError as error:
        raise error_of(folder) or error from None
    finally:  # always removed: it is a copy of the whole table
        files.remove_directory(folder)
    return Resume("auto", resume.changes, finished=True)


def _refuse_callables(config: TrainingConfig, job: Job) -> None:
    found = not_in_files(config, job.model, job.local_scaler)
    if found:
        raise ConfigError(
            "a supervised process gets its job as files, which cannot contain your own callables, but got "
            f"{', '.join(found)}. Use fault_tolerance=FaultTolerance(retries=0), or run your own script "
            "with neuro_divergent.training.process.supervisor.supervise"
        )
