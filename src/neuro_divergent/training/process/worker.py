"""The worker process of a supervised training: it turns errors into exit codes and a file for the supervisor."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from neuro_divergent.core import files
from neuro_divergent.core.errors import (
    DeviceError,
    NeuroDivergentError,
    NonFiniteError,
    StorageError,
    TrainingError,
)
from neuro_divergent.core.executors.processes import error_from, told_of
from neuro_divergent.core.json import parse_json
from neuro_divergent.core.runs.names import step_name
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.process.supervisor import POINTLESS

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

ERROR = "error.json"
"""In the job's folder: the error that ended its process, for the process that waits for it."""


class HandOver(Callback):
    """The other process takes the newest checkpoint for the end of the run: then it must be that of the last step."""

    engine: ClassVar[bool] = True

    def on_fit_end(self, state: TrainState) -> None:
        """Refuse an end of which no checkpoint tells."""
        if not state.strategy.main:  # the main process of the run hands over
            return
        assert state.saver is not None
        if step_name(state.step) not in state.saver.store.names():
            failed = [event["why"] for event in state.history.events if event.get("event") == "checkpoint_failed"]
            raise TrainingError(
                "a supervised training hands over its result as its last checkpoint, but that of step "
                f"{state.step} could not be written: {failed[-1] if failed else 'it is not there'}"
            )


def main(arguments: list[str], run: Callable[[Path], None]) -> int:
    """Do a job; the exit code says whether trying again could help."""
    folder = Path(arguments[0])
    (folder / ERROR).unlink(missing_ok=True)  # of an earlier attempt
    try:
        run(folder)
    except NeuroDivergentError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        with suppress(StorageError):  # of a full disk the exit code must be enough
            files.write_json(folder / ERROR, told_of(error))
        return POINTLESS if would_come_again(error) else 1
    return 0


def would_come_again(error: NeuroDivergentError) -> bool:
    """Whether nothing that another attempt finds changed, such as room on the disk, could make it succeed."""
    if isinstance(error, StorageError):
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__
        return cause is None
    return isinstance(error, NonFiniteError) or not isinstance(error, TrainingError | DeviceError)


def error_of(folder: Path) -> NeuroDivergentError | None:
    """The error that a process left behind, of the class that it had there."""
    try:
        return error_from(parse_json((folder / ERROR).read_bytes(), ERROR))
    except (OSError, NeuroDivergentError):
        return None
