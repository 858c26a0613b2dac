"""What a run, a checkpoint or a saved model holds. Nothing here needs torch, numpy, polars or pydantic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from neuro_divergent.core.errors import ConfigError, CorruptFileError, StorageError
from neuro_divergent.core.json import parse_json
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.log import RunLog, read_log
from neuro_divergent.core.runs.process import RunProcess, process_of, request_stop
from neuro_divergent.core.runs.saved import Saved

KILLED = "its process ended without a word: it was killed, or the machine went down"


@dataclass(frozen=True)
class RunRecord:
    """What is at a path: a run, several runs, a checkpoint, a saved model, or several models saved together.

    A part is read when it is first asked for, and kept: read the run again to see what has happened since. A part that
    is damaged raises CorruptFileError with one sentence.
    """

    what: Literal["run", "runs", "checkpoint", "model", "models"]
    path: str
    checkpoints: tuple[Saved, ...] = ()
    """The checkpoints of a run by their names, oldest first. `document` and `verify()` of each read it."""
    models: tuple[Saved, ...] = ()
    """The trained model, or the index of several models and these."""
    runs: tuple[RunRecord, ...] = ()
    """The runs in a directory of several."""
    source: Source | None = field(default=None, repr=False, compare=False)

    @cached_property
    def config(self) -> dict[str, Any] | None:
        """The training's resolved configuration as plain data; None if it was not written."""
        data = None if self.source is None else self.source.config()
        if data is None:
            return None
        found = parse_json(data, f"{self.path}/{names.CONFIG}")
        if not isinstance(found, dict):
            raise CorruptFileError(f"{self.path}/{names.CONFIG} must hold an object, but does not")
        return found

    @cached_property
    def log(self) -> RunLog:
        """What the run's events say; empty where there are none."""
        return read_log(b"") if self.source is None else _log(self.source)

    @property
    def epochs(self) -> list[dict[str, float]]:
        """One record per finished epoch: losses, metrics, learning rate, seconds."""
        found = self.log.epochs or self._history.get("epochs", [])
        return [dict(record) for record in found if isinstance(record, dict)] if isinstance(found, list) else []

    @property
    def steps(self) -> dict[str, list[float]]:
        """The columns step, loss, gradient_norm and learning_rate, a row per optimizer step."""
        return self.log.steps

    @cached_property
    def process(self) -> RunProcess:
        """Who trains in the run now."""
        return RunProcess(None) if self.source is None or self.source.folder is None else process_of(self.source.folder)

    @property
    def running(self) -> bool | None:
        """Whether it is being trained; None where that cannot be known (Windows, remote directories)."""
        return self.process.running if self.what == "run" else False

    @property
    def last_beat(self) -> float | None:
        """When the run gave its last sign of life, in seconds since 1970: an event, or a beat for its supervisor."""
        return max((time for time in (self.log.time, self.process.last_beat) if time is not None), default=None)

    @property
    def finished(self) -> bool:
        """Whether the training came to its own end, and so did the one on all rows if there is one."""
        if self.what == "runs":
            return all(run.finished for run in self.runs)
        ended = self.stopped not in ("", names.STOPPED_ON_REQUEST) and not self._failed
        return ended and (self.refit is None or self.refit.finished)

    @property
    def stopped(self) -> str:
        """Why the training ended, in words; empty while it goes on."""
        if self.running:  # what an earlier session of the run said is over
            return ""
        last = self._last_session
        if last is None:
            why = self._history.get("stopped")
            return why if isinstance(why, str) else ""
        if last["event"] != "fit_start":
            return str(last.get("why") or last.get("error") or "")
        return KILLED if self.running is False else ""

    @cached_property
    def refit(self) -> RunRecord | None:
        """The run inside this one that trains on all rows, for `refit_on_all`."""
        return None if self.source is None else self.source.refit()

    @property
    def newest(self) -> Saved | None:
        """The newest checkpoint whose state can be read."""
        return next((item for item in reversed(self.checkpoints) if _readable(item)), None)

    def stop(self, *, wait: bool = True, timeout: float = 60.0) -> RunRecord:
        """Stop the training: it finishes its step, saves a checkpoint and ends, and can be resumed to the same bits.

        Args:
            wait: until the training has ended; without it the request is only left for it.
            timeout: for how many seconds to wait. TrainingError after that, but the request stays.
        """
        folder = None if self.source is None else self.source.folder
        if self.source is None or folder is None:
            raise ConfigError(f"only a run in a local directory can be stopped, but {self.path} is {_words(self)}")
        if process_of(folder).running is False:
            why = f". The last training there ended: {self.stopped}" if self.stopped else ""
            raise ConfigError(f"only a training that runs can be stopped, but nobody trains in {self.path}{why}")
        request_stop(folder, wait=wait, timeout=timeout)
        return self.source.again()

    @property
    def _last_session(self) -> dict[str, Any] | None:
        ends = ("fit_start", "fit_end", "error")
        return next((line for line in reversed(self.log.events) if line["event"] in ends), None)

    @property
    def _failed(self) -> bool:
        last = self._last_session
        return last is not None and last["event"] != "fit_end"

    @cached_property
    def _history(self) -> dict[str, Any]:
        """The history as what was saved last tells it."""
        saved = self.models[-1] if self.models and self.what in ("model", "models") else self.newest
        history = None if saved is None or not _readable(saved) else saved.document.get("history")
        return history if isinstance(history, dict) else {}


@dataclass(frozen=True)
class Source:
    """Where the parts of a run come from; each is read by a call."""

    config: Callable[[], bytes | None]
    events: Callable[[], tuple[bytes, bool]]
    """The newest lines, and whether these are all."""
    again: Callable[[], RunRecord]
    refit: Callable[[], RunRecord | None] = lambda: None
    folder: Path | None = None
    """Of a local run."""


def _log(source: Source) -> RunLog:
    data, complete = source.events()
    return read_log(data, complete=complete)


def _readable(saved: Saved) -> bool:
    try:
        return bool(saved.document)
    except StorageError:
        return False


def _words(record: RunRecord) -> str:
    return {
        "run": "a remote run",
        "runs": "a directory of several runs. Name one of them",
        "checkpoint": "a checkpoint",
        "model": "a saved model",
        "models": "several saved models",
    }[record.what]
