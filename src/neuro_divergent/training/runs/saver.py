"""Save checkpoints during a training: decide when, write in the background, delete old ones."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import NeuroDivergentError, StorageError
from neuro_divergent.core.json import from_plain, parse_json
from neuro_divergent.training.config.checkpoints import Checkpoints
from neuro_divergent.training.runs import snapshot as checkpoint
from neuro_divergent.training.runs.checkpoint_store import CheckpointStore, forget, place_of, step_name, step_of
from neuro_divergent.training.runs.retention import Kept, superfluous

if TYPE_CHECKING:
    from neuro_divergent.training.callbacks.base import CallbackList
    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)


class Saver:
    """Saves the checkpoints of one run.

    A snapshot is taken between two steps. A thread writes it, reads it back, and only then deletes old checkpoints. At
    most one write is active. A failed write is reported at the next step.
    """

    def __init__(self, settings: Checkpoints, facts: Mapping[str, Any]) -> None:
        self.settings = settings
        self.store: CheckpointStore = place_of(settings.directory)
        self._facts = facts
        self._kept: list[Kept] = []
        self._room = checkpoint.SnapshotBuffer()
        self._count = 0
        self._saved_step = -1
        self._saved_time = time.monotonic()
        self._writing: threading.Thread | None = None
        self._failure: Exception | None = None

    def begin(self, resumed_step: int | None) -> None:
        """Prepare the store: remove unfinished checkpoints, and move those that do not belong to this run."""
        self.store.clean()
        if resumed_step is None:
            forget(self.settings)
            return
        names = self.store.names()
        past = [name for name in names if step_of(name) <= resumed_step]
        later = [name for name in names if step_of(name) > resumed_step]
        if later:
            folder = self.store.set_aside(later)
            where, count = self.store.address, len(later)
            log.warning("%s had %d checkpoints after step %d: moved to %s", where, count, resumed_step, folder)
        self._kept = [self._known(name) for name in past]
        self._count = max((item.number for item in self._kept), default=0)
        self._saved_step = resumed_step

    def due(self, state: TrainState) -> bool:
        """Whether to save now, between two steps or two epochs."""
        settings = self.settings
        if state.step == self._saved_step:
            return False
        if settings.every_n_steps is not None and state.step % settings.every_n_steps == 0:
            return True
        if (
            settings.every_n_minutes is not None
            and time.monotonic() - self._saved_time >= 60 * settings.every_n_minutes
        ):
            return True
        if state.position > 0 or state.epoch == 0:
            return False
        by_epochs = settings.every_n_epochs is not None and state.epoch % settings.every_n_epochs == 0
        return by_epochs or (settings.on_best and _is_best(state))

    def epoch_ended(self) -> None:
        """Allow another save of the same step: a checkpoint from before the end of the epoch is incomplete."""
        self._saved_step = -1

    def save(self, state: TrainState, callbacks: CallbackList) -> None:
        """Take a snapshot and start writing it, unless this step is already saved."""
        if state.step == self._saved_step:
            self.join(state)
        if state.step == self._saved_step:
            return
        callbacks("on_checkpoint_start", state)
        self.join(state)
        self._count += 1
        score = _score(state)
        facts = dict(self._facts) | {"number": self._count, "score": score}
        self._saved_step, self._saved_time = state.step, time.monotonic()
        kept = Kept(step_name(state.step), self._count, score)
        with self._failures(state.step):
            snapshot = checkpoint.take(state, callbacks, facts, self._room)
            if self.settings.asynchronous:
                arguments = (snapshot, kept)
                self._writing = threading.Thread(target=self.write, args=arguments, name="nd-saver", daemon=True)
                self._writing.start()
            else:
                self.write(snapshot, kept)
        if self._writing is None:
            self.check(state)
        callbacks("on_checkpoint_end", state)

    def check(self, state: TrainState) -> None:
        """Report a failed write: raise or warn, as configured in `on_failure`."""
        if self._failure is None:
            return
        failure, self._failure = self._failure, None
        self._saved_step = -1  # not saved: the same step may be tried again
        self.report(failure, state)

    def report(self, failure: Exception, state: TrainState) -> None:
        """Raise a write error or log a warning, as configured in `on_failure`."""
        if self.settings.on_failure == "stop":
            raise failure
        log.warning("a checkpoint was not saved, the training continues: %s", failure)
        state.log(event="checkpoint_failed", why=str(failure))

    def join(self, state: TrainState | None = None) -> None:
        """Wait for the active write. If `state` is given, report its failure."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if state is not None:
            self.check(state)

    def write(self, snapshot: checkpoint.Snapshot, kept: Kept) -> None:
        """Write and read back, then delete old checkpoints. A failure is stored for `check`."""
        with self._failures(snapshot.step):
            self.store.write(kept.name, snapshot.contents(self.settings.compression))
            self._kept = [*(item for item in self._kept if item.name != kept.name), kept]
            self._remove_superfluous()

    @contextmanager
    def _failures(self, step: int) -> Iterator[None]:
        """Context that stores an error for `check`."""
        try:
            yield
        except NeuroDivergentError as error:
            self._failure = error
        except Exception as error:
            what = f"the checkpoint of step {step}"
            self._failure = StorageError(f"{what} could not be written: {error}", rule="writable", got=what)
            self._failure.__cause__ = error

    def _remove_superfluous(self) -> None:
        """Delete old checkpoints. One that cannot be deleted is logged and tried again later."""
        for name in superfluous(self.settings, self._kept):
            try:
                self.store.remove(name)
            except StorageError as error:
                log.warning("an old checkpoint could not be deleted: %s", error)
                continue
            self._kept = [item for item in self._kept if item.name != name]

    def _known(self, name: str) -> Kept:
        """Number and score of a checkpoint from an earlier session; if it cannot be read, 0 and None."""
        try:
            # Only the JSON file: the tensors may be large and remote.
            state = self.store.read(name, only=checkpoint.STATE)[checkpoint.STATE]
            document = from_plain(parse_json(state, name))
            return Kept(name, int(document["number"]), document["score"])
        except (StorageError, KeyError, TypeError, ValueError):
            return Kept(name, 0, None)


def _score(state: TrainState) -> float | None:
    """The monitored value, with smaller for better; None unless a validation followed the last step."""
    value = _values(state)[-1:] if state.position == 0 else []
    return None if not value or value[0] is None or math.isnan(value[0]) else value[0]


def _is_best(state: TrainState) -> bool:
    """Whether the epoch that has just ended is the best so far."""
    score, earlier = _score(state), _values(state)[:-1]
    return score is not None and not any(value is not None and value <= score for value in earlier)


def _values(state: TrainState) -> list[float | None]:
    """The monitored value of each epoch, with smaller for better; None where it was not computed."""
    rule = state.config.early_stopping
    if rule is not None and rule != "auto":
        name, sign = rule.monitor, -1.0 if rule.mode == "max" else 1.0
    else:
        name, sign = "validation_loss" if state.validation_source is not None else "train_loss", 1.0
    return [sign * record[name] if name in record else None for record in state.history.epochs]
