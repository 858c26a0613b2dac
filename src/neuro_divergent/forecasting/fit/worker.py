"""The supervised process of a training: runs the job of a folder, from its last checkpoint if there is one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.training.process import worker
from neuro_divergent.training.process.worker import HandOver


def work(folder: Path) -> None:
    """Train the job of a folder to its end."""
    job = Job.read(folder)
    prepare(replace(job, config=job.config.replace(callbacks=(*job.config.callbacks, HandOver())))).finish()


def main(arguments: list[str], run: Callable[[Path], None] = work) -> int:
    """Run a job. The exit code says whether a retry could help."""
    return worker.main(arguments, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
