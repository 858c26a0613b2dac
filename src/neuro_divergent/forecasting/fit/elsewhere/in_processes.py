"""Trains in several processes that this one starts. The job is written as files, never pickled."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.distributed.launch import launch
from neuro_divergent.distributed.launched import launched
from neuro_divergent.distributed.settings import Distributed
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.training.config.checkpoints import Checkpoints, is_remote
from neuro_divergent.training.config.other_process import not_in_files
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.checkpoint_store import forget
from neuro_divergent.training.runs.resume import Resume

FOLDER = "job"
"""In the run's directory: the job of the processes, while they run."""
LOGS = "processes"
"""In the run's directory: what the processes printed."""
WORKER = "neuro_divergent.forecasting.fit.elsewhere.rank"
TEMPORARY = "neuro-divergent-"


def starts_processes(config: TrainingConfig) -> bool:
    """Whether this process starts others that train."""
    settings = config.distributed
    return isinstance(settings, Distributed) and launched() is None and settings.wanted > 1


def with_checkpoints(config: TrainingConfig) -> TrainingConfig:
    """The configuration with a directory through which the processes hand over their result; a temporary one."""
    folder = Path(tempfile.gettempdir()) / f"{TEMPORARY}{uuid.uuid4().hex}"
    return config.replace(checkpoints=Checkpoints(directory=folder, every_n_minutes=5, keep_last=1))


def train_in_processes(job: Job) -> Resume:
    """Train in several processes. The result says how this process loads the finished run."""
    config, settings, kept = job.config, job.config.distributed, job.config.checkpoints
    assert isinstance(settings, Distributed)
    assert kept is not None
    if is_remote(kept.directory):
        raise ConfigError(
            "several processes are restarted from the last checkpoint, so they need a local directory, but got "
            f"{kept.directory}. Use torchrun with your own script for a remote one"
        )
    if job.resume.source not in (None, "auto"):
        raise ConfigError(
            f"a training in several processes is resumed from its own directory: use resume='auto', not "
            f"{job.resume.source!r}"
        )
    own = config.replace(checkpoints=kept.replace(on_stop=True))
    _refuse_callables(own, job)
    folder = Path(kept.directory) / FOLDER
    try:
        replace(job, config=own).write(folder)
        if job.resume.source is None:
            forget(kept)
        launch(WORKER, folder, settings, Path(kept.directory) / LOGS)
    finally:  # always removed: it is a copy of the whole table
        files.remove_directory(folder)
    return Resume("auto", job.resume.changes, finished=True)


def _refuse_callables(config: TrainingConfig, job: Job) -> None:
    found = not_in_files(config, job.model, job.local_scaler)
    if job.begin_with is not None:
        found = [*found, "weights to start from"]
    if found:
        raise ConfigError(
            "other processes get their job as files, which cannot contain your own callables, but got "
            f"{', '.join(found)}. Run your own script with torchrun: there every process has them"
        )
