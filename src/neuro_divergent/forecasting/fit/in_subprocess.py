"""Training a model in a watched process of its own: what it is to do is written as files, never pickled."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neuro_divergent.core import errors, files
from neuro_divergent.core.errors import (
    ConfigError,
    DeviceError,
    NeuroDivergentError,
    NonFiniteError,
    StorageError,
    TrainingError,
)
from neuro_divergent.core.json import parse_json
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.config.checkpoints import is_remote
from neuro_divergent.training.config.other_process import not_in_files
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.process.supervisor import POINTLESS, supervise
from neuro_divergent.training.runs.checkpoint_store import forget, step_name
from neuro_divergent.training.runs.resume import Resume

if TYPE_CHECKING:
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.training.state.state import TrainState

JOB = "job"
ERROR = "error.json"
"""In the job's folder: the error that ended its process, for the process that waits for it."""


def supervised(config: TrainingConfig) -> bool:
    """Whether the training is to run in a watched process."""
    tolerance = config.fault_tolerance
    return tolerance is not None and tolerance.retries > 0


def train_supervised(
    model: Model,
    table: TimeSeriesDataFrame,
    config: TrainingConfig,
    resume: Resume,
    *,
    validation: Any,
    short: Literal["error", "drop", "pad"],
) -> Resume:
    """Train in a watched process; what it gives says how this process takes over the finished run."""
    settings = config.checkpoints
    if settings is None or is_remote(settings.directory):
        raise ConfigError(
            "fault_tolerance restarts from the last checkpoint, so it needs checkpoints=Checkpoints(...) with a local "
            f"directory, but got checkpoints={settings!r}"
        )
    if resume.source not in (None, "auto"):
        raise ConfigError(
            f"a watched training goes on from its own directory: use resume='auto', not {resume.source!r}"
        )
    tolerance = config.fault_tolerance
    assert tolerance is not None
    alone = tolerance.replace(retries=0)  # what is left of it inside the process: batches halved for a small memory
    own = config.replace(fault_tolerance=alone, progress=False, checkpoints=settings.replace(on_stop=True))
    _refuse_callables(own)
    folder = Path(settings.directory) / JOB
    if validation is not None:
        from neuro_divergent.forecasting.fit.fit import later_rows

        validation = later_rows(table, validation)
    job = {
        "model": model.to_dict(),
        "config": own.to_dict(),
        "short": short,
        "resume_with": sorted(resume.changes or {}),
        "tables": {"data": _facts(table)} | ({} if validation is None else {"validation": _facts(validation)}),
    }
    try:
        for name, part in (("data", table), ("validation", validation)):
            if part is not None:
                part.store.save(folder / name, overwrite=True)
        files.write_json(folder / "job.json", job)
        if resume.source is None:
            forget(settings)
        command = [sys.executable, "-m", "neuro_divergent.forecasting.fit.in_subprocess", str(folder)]
        for sentence in supervise(command, tolerance, settings.directory):
            logging.getLogger(__name__).warning("the training was restarted: %s", sentence)
    except ConfigError as error:
        raise _error_of(folder) or error from None
    finally:  # however it ended: this is a copy of the whole table
        files.remove_directory(folder)
    return Resume("auto", resume.changes, finished=True)


def work(folder: Path) -> None:
    """What the watched process does: the job in a folder, from its last checkpoint if there is one."""
    from neuro_divergent.forecasting.fit.fit import fit
    from neuro_divergent.forecasting.model.model import Model

    job = parse_json((folder / "job.json").read_bytes(), "job.json")
    config = TrainingConfig.from_dict(job["config"])
    config = config.replace(callbacks=(*config.callbacks, _HandOver()))
    tables = {name: _table(folder / name, facts) for name, facts in job["tables"].items()}
    fit(
        Model.from_dict(job["model"]),
        tables["data"],
        config,
        validation=tables.get("validation"),
        short=job["short"],
        resume="auto",
        resume_with={name: getattr(config, name) for name in job["resume_with"]},
    )


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


def _refuse_callables(config: TrainingConfig) -> None:
    found = not_in_files(config)
    if found:
        raise ConfigError(
            "a watched training is described to its process by files, which cannot hold your own callables, but got "
            f"{', '.join(found)}. Use fault_tolerance=FaultTolerance(retries=0), or run your own script "
            "with neuro_divergent.training.process.supervisor.supervise"
        )


def _facts(table: TimeSeriesDataFrame) -> dict[str, Any]:
    return {"schema": table.schema.to_dict(), "library": table.library}


def _table(folder: Path, facts: dict[str, Any]) -> TimeSeriesDataFrame:
    schema = DataSchema.from_dict(facts["schema"])
    return TimeSeriesDataFrame(SeriesStore.open(folder), schema, DataReport(), library=facts["library"])


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
            files.write_json(folder / ERROR, {"kind": kind.__name__, "sentence": str(error)})
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


def _error_of(folder: Path) -> NeuroDivergentError | None:
    """The error that a process left behind, of the class that it had there; only classes of our own are looked up."""
    try:
        left = parse_json((folder / ERROR).read_bytes(), ERROR)
        kind, sentence = getattr(errors, left["kind"]), str(left["sentence"])
    except (OSError, NeuroDivergentError, AttributeError, KeyError, TypeError):
        return None
    return kind(sentence) if isinstance(kind, type) and issubclass(kind, NeuroDivergentError) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
