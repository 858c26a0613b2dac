"""The worker process of a supervised training: it turns errors into exit codes and a file for the supervisor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from neuro_divergent.core import errors, files
from neuro_divergent.core.errors import (
    DeviceError,
    NeuroDivergentError,
    NonFiniteError,
    StorageError,
    TrainingError,
)
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
        kind = next(one for one in type(error).__mro__ if one.__module__ == errors.__name__)
        with suppress(StorageError):  # of a full disk the exit code must be enough
            files.write_json(folder / ERROR, {"kind": kind.__name__, "sentence": str(error), "facts": error.facts})
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
    """The error that a process left behind, of the class that it had there; only classes of our own are looked up."""
    try:
        left = parse_json((folder / ERROR).read_bytes(), ERROR)
        return known_error(left["kind"], str(left["sentence"]), left["facts"])
    except (OSError, NeuroDivergentError, KeyError, TypeError):
        return None


def known_error(kind: str, sentence: str, facts: Mapping[str, Any] | None = None) -> NeuroDivergentError | None:
    """The error of this class of ours with this text; None if there is no such class."""
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, NeuroDivergentError)):
        return None
    return found(sentence, **(facts or {}))
