"""One of several processes of a training: runs the job of a folder together with the others."""

from __future__ import annotations

import os
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

from neuro_divergent.distributed.launch import POINTLESS, Failure, end_with_starter


def work(folder: Path) -> None:
    """Train the job of a folder to its end."""
    from neuro_divergent.distributed.group import leave
    from neuro_divergent.forecasting.fit.job import Job
    from neuro_divergent.forecasting.fit.prepare import prepare
    from neuro_divergent.training.process.worker import HandOver

    job = Job.read(folder)
    run = prepare(replace(job, config=job.config.replace(callbacks=(*job.config.callbacks, HandOver()))))
    run.finish()
    leave()


def main(folder: Path) -> int:
    """Run a job; an error is written for the process that waits."""
    from neuro_divergent.core.errors import NeuroDivergentError
    from neuro_divergent.training.process.worker import would_come_again

    if (folder / POINTLESS).exists():  # an earlier attempt found that another one would fail, too
        return 2
    end_with_starter()
    rank = int(os.environ["RANK"])
    try:
        work(folder)
    except Exception as error:
        kind = type(error).__name__
        Failure(rank, kind, str(error) or kind, traceback.format_exc(), time.time()).write(folder)
        if isinstance(error, NeuroDivergentError) and would_come_again(error):
            (folder / POINTLESS).touch()
            return 2
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
