"""The watched process of a supervised training: do the job of a folder, from its last checkpoint if there is one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from neuro_divergent.core import errors, files
from neuro_divergent.core.errors import (
    DeviceError,
    NeuroDivergentError,
    NonFiniteError,
    StorageError,
    TrainingError,
)
from neuro_divergent.forecasting.fit.in_subprocess import ERROR
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.process.supervisor import POINTLESS
from neuro_divergent.training.runs.checkpoint_store import step_name

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState


def work(folder: Path) -> None:
    """Train the job of a folder to its end."""
    job = Job.read(folder)
    prepare(replace(job, config=job.config.replace(callbacks=(*job.config.callbacks, _HandOver())))).finish()


class _HandOver(Callback):
    """The other process takes the newest checkpoint for the end of the run: then it must be that of the last step."""

    engine: ClassVar[bool] = True

    def on_fit_end(self, state: TrainState) -> None:
        assert state.saver is not None
        if step_name(state.step) not in state.saver.place.names():
            failed = [event["why"] for event in state.history.events if event.get("event") == "checkpoint_failed"]
            raise TrainingError(
                "a watched training hands over its result as its last checkpoint, but that of step "
                f"{state.step} could not be written: {failed[-1] if failed else 'it is not there'}"
            )


def main(arguments: list[str], run: Callable[[Path], None] = work) -> int:
    """Do a job; the exit code says whether trying again could help."""
    folder = Path(arguments[0])
    (folder / ERROR).unlink(missing_ok=True)  # of an earlier attempt
    try:
        run(folder)
    except NeuroDivergentError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        kind = next(one for one in type(error).__mro__ if one.__module__ == errors.__name__)
        with suppress(StorageError):  # of a full disk the exit code must be enough
            files.write_json(folder / ERROR, {"kind": kind.__name__, "sentence": str(error), "facts": error.facts})
        return POINTLESS if _would_come_again(error) else 1
    return 0


def _would_come_again(error: NeuroDivergentError) -> bool:
    """Whether nothing that another attempt finds changed, such as room on the disk, could make it succeed."""
    if isinstance(error, StorageError):
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__
        return cause is None
    return isinstance(error, NonFiniteError) or not isinstance(error, TrainingError | DeviceError)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
