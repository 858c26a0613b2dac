"""The watched process of a Trainer: build the module, train it from its last checkpoint if there is one."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

from neuro_divergent.training.module_trainer import Trainer
from neuro_divergent.training.process import worker
from neuro_divergent.training.process.worker import HandOver
from neuro_divergent.training.supervised_module import imported, read_job


def work(folder: Path, factory: str) -> None:
    """Train the job of a folder to its end."""
    config, data, validation, resume = read_job(folder)
    trainer = Trainer(config.replace(callbacks=(*config.callbacks, HandOver())))
    trainer.fit(
        imported(factory), data, validation=validation, resume=resume.source, resume_with=resume.changes or None
    )


def main(arguments: list[str]) -> int:
    """Do a job: its folder, the name of the factory, and where modules are looked for."""
    sys.path += [place for place in json.loads(arguments[2]) if place not in sys.path]
    return worker.main(arguments, partial(work, factory=arguments[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
