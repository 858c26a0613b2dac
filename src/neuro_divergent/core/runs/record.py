"""The contents of a run, a checkpoint or a saved model, read without torch, numpy, polars or pydantic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from neuro_divergent.core.errors import ConfigError, CorruptFileError, StorageError
from neuro_divergent.core.json import dump_json, parse_json
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.log import RunLog, read_log
from neuro_divergent.core.runs.process import RunProcess, process_of, request_stop
from neuro_divergent.core.runs.saved import Saved

MAX_TAGS, MAX_TAG, MAX_NOTE = 20, 60, 10_000
"""Limits of tags and notes: number of tags, characters of a tag, characters of a note."""
KILLED = "its process was killed, or the machine went down"


class RunCommand(NamedTuple):
    """The train command of the shell that began or last resumed a run."""

    arguments: tuple[str, ...]
    """Everything after `neuro-divergent`, without --resume and --overwrite."""
    folder: str
    """The directory in which it was typed: relative paths start there."""


@dataclass(frozen=True)
class RunRecord:
    """A run, several runs, a checkpoint, a saved model, or several models saved together. `nd.read_run` returns it.

    Each part is read on first use and then cached. Call `nd.read_run` again to see later changes. A damaged part raises
    CorruptFileError.
    """

    what: Literal["run", "runs", "checkpoint", "model", "models"]
    """What the path contains."""
    path: str
    """The directory or address."""
    checkpoints: tuple[Saved, ...] = ()
    """The checkpoints of a run, oldest first. Their `document` and `verify()` read the files."""
    models: tuple[Saved, ...] = ()
    """The trained model. For several models saved together: their index, then the models."""
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
            raise CorruptFileError(f"{self.path}/{names.CONFIG} must be a JSON object, but is not")
        return found

    @cached_property
    def command(self) -> RunCommand | None:
        """The train command of the shell; None for a training in Python, or if the file cannot be read."""
        try:
            data = None if self.source is None else self.source.command()
            found = {} if data is None else parse_json(data, f"{self.path}/{names.COMMAND}")
        except StorageError:
            return None
        arguments, folder = (found.get("arguments"), found.get("folder")) if isinstance(found, dict) else (None, None)
        if not isinstance(arguments, list) or not isinstance(folder, str) or arguments[:1] != ["train"]:
            return None
        return RunCommand(tuple(map(str, arguments)), folder)

    @cached_property
    def log(self) -> RunLog:
        """The event log of the run; empty if there is none."""
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
        """The process that trains in the run now."""
        return RunProcess(None) if self.source is None or self.source.folder is None else process_of(self.source.folder)

    @property
    def running(self) -> bool | None:
        """Whether a process trains in the run now; None if that is unknown (Windows, remote directories)."""
        return self.process.running if self.what == "run" else False

    @property
    def last_beat(self) -> float | None:
        """Time of the last event or heartbeat of the run, in seconds since 1970."""
        return max((time for time in (self.log.time, self.process.last_beat) if time is not None), default=None)

    @property
    def finished(self) -> bool:
        """Whether the training is complete: not interrupted, stopped on request or failed. Includes `refit`."""
        if self.what == "runs":
            return all(run.finished for run in self.runs)
        ended = self.stopped not in ("", names.STOPPED_ON_REQUEST) and not self._failed
        return ended and (self.refit is None or self.refit.finished)

    @property
    def stopped(self) -> str:
        """Why the training ended, in words; empty while it runs."""
        if self.running:  # the reason of an earlier session does not count
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
        """The run inside this one that trains on all rows, for `refit_on_all`; None if there is none."""
        return None if self.source is None else self.source.refit()

    @property
    def newest(self) -> Saved | None:
        """The newest readable checkpoint; None if there is none."""
        return next((item for item in reversed(self.checkpoints) if _readable(item)), None)

    @cached_property
    def about(self) -> dict[str, Any]:
        """Facts that the training wrote at its start: `model`, `data`, `scored` and `naive`; empty without any."""
        return self._document(names.ABOUT)

    @cached_property
    def details(self) -> dict[str, Any]:
        """Longer facts of the same kind: `layers` of the network, `series` of the table; empty without any."""
        return self._document(names.DETAILS)

    @cached_property
    def notes(self) -> dict[str, Any]:
        """The tags and the note of the user: {"tags": [...], "note": "..."}."""
        found = self._document(names.NOTES)
        tags, note = found.get("tags"), found.get("note")
        return {
            "tags": [tag for tag in tags if isinstance(tag, str)][:MAX_TAGS] if isinstance(tags, list) else [],
            "note": note[:MAX_NOTE] if isinstance(note, str) else "",
        }

    def annotate(self, *, tags: list[str] | None = None, note: str | None = None) -> RunRecord:
        """Replace the tags or the note of a run, and return the new record. None leaves them as they are."""
        if self.source is None or self.source.write is None:
            raise ConfigError(f"only a run has tags and a note, but {self.path} is {_words(self)}")
        found = self.notes | ({} if tags is None else {"tags": _tags(tags)}) | ({} if note is None else {"note": note})
        if len(found["note"]) > MAX_NOTE:
            raise ConfigError(f"a note must have at most {MAX_NOTE} characters, but has {len(found['note'])}")
        self.source.write(names.NOTES, dump_json(found, names.NOTES))
        return self.source.again()

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The epochs after which `nd.ForecastSnapshots` wrote forecasts, oldest first."""
        found = [] if self.source is None else self.source.names(names.SNAPSHOTS)
        return tuple(sorted(epoch for epoch in map(names.snapshot_of, found) if epoch >= 0))

    def snapshot(self, epoch: int) -> dict[str, Any]:
        """The forecasts of held-out rows after an epoch, as plain data; empty if there are none."""
        return self._document(f"{names.SNAPSHOTS}/{names.snapshot_name(epoch)}")

    def _document(self, name: str) -> dict[str, Any]:
        data = None if self.source is None else self.source.file(name)
        found = {} if data is None else parse_json(data, f"{self.path}/{name}")
        if not isinstance(found, dict):
            raise CorruptFileError(f"{self.path}/{name} must be a JSON object, but is not")
        return found

    def stop(self, *, wait: bool = True, timeout: float = 60.0, save: bool = True) -> RunRecord:
        """Stop the training, and return the new record. The training finishes its step, saves a checkpoint and ends.

        It can be resumed later with the same bits as an uninterrupted training.

        Args:
            save: whether it saves a checkpoint. False keeps the ones that are there: a resumed training repeats the
                steps since the newest one.
            wait: whether to wait until the training has ended. False only leaves the request.
            timeout: seconds to wait. TrainingError after that; the request stays.
        """
        folder = None if self.source is None else self.source.folder
        if self.source is None or folder is None:
            raise ConfigError(f"only a run in a local directory can be stopped, but {self.path} is {_words(self)}")
        if process_of(folder).running is False:
            why = f". The last training there ended: {self.stopped}" if self.stopped else ""
            raise ConfigError(f"only a running training can be stopped, but no process trains in {self.path}{why}")
        request_stop(folder, wait=wait, timeout=timeout, save=save)
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
        """The training history in the newest saved file."""
        saved = self.models[-1] if self.models and self.what in ("model", "models") else self.newest
        history = None if saved is None or not _readable(saved) else saved.document.get("history")
        return history if isinstance(history, dict) else {}


@dataclass(frozen=True)
class Source:
    """Functions that read the parts of a run."""

    config: Callable[[], bytes | None]
    events: Callable[[], tuple[bytes, bool]]
    """Returns the newest lines, and whether these are all."""
    again: Callable[[], RunRecord]
    refit: Callable[[], RunRecord | None] = lambda: None
    command: Callable[[], bytes | None] = lambda: None
    folder: Path | None = None
    """The directory of a local run."""
    file: Callable[[str], bytes | None] = lambda _: None
    """Returns a small file of the run by its name; None if there is none."""
    names: Callable[[str], list[str]] = lambda _: []
    """Returns the names in a directory of the run."""
    write: Callable[[str, bytes], None] | None = None
    """Writes a small file of the run."""


def _tags(tags: list[str]) -> list[str]:
    found = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if len(found) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in found):
        raise ConfigError(
            f"a run has at most {MAX_TAGS} tags of at most {MAX_TAG} characters, but got {len(found)} tags with up to "
            f"{max(map(len, found))} characters"
        )
    return found


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
