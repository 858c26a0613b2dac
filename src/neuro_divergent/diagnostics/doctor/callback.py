"""`Doctor`: a callback that says during a training what goes wrong."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from neuro_divergent.diagnostics.doctor import training_facts
from neuro_divergent.diagnostics.doctor.evidence import Evidence, TableFacts
from neuro_divergent.diagnostics.doctor.judge import verdicts_of
from neuro_divergent.diagnostics.doctor.table_facts import table_facts
from neuro_divergent.diagnostics.doctor.verdict import Verdict
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger("neuro_divergent.doctor")

EVENT = "verdict"
"""The event of a verdict in the history and in events.jsonl."""


class Doctor(CallbackSettings):
    """Says during the training what goes wrong: one line per cause, and an event in the history and in events.jsonl.

    It reads the history after epochs and the table once, and changes nothing of the training. What needs the trained
    network (a better rate, dead units, forecasts worse than naive ones) is found by `nd.diagnose` after it.
    """

    every: Annotated[int, Field(ge=1)] = 1
    """Look after every n-th epoch."""
    table: bool = True
    """Look at the training rows before the first step, too."""
    stop: bool = False
    """End the training at the first verdict that is as certain as `certainty`."""
    certainty: Annotated[float, Field(ge=0.0, le=1.0)] = 0.75
    """Verdicts that are less certain are not said."""

    def build(self) -> Callback:
        """The live callback."""
        return _Doctor(self)


class _Doctor(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: Doctor) -> None:
        self.settings = settings
        self.told: set[str] = set()
        self._config: dict[str, Any] | None = None
        self._table: TableFacts | None = None

    def on_fit_start(self, state: TrainState) -> None:
        windows = getattr(state.source, "windows", None)
        if self.settings.table and windows is not None and windows.store is not None:
            sizes = {"lookback": windows.lookback, "h": windows.horizon, "windows": len(windows)}
            self._table = table_facts(windows.store, _training_rows(windows), **sizes, most=20)
            self._look(state, Evidence(config=self._plain(state), table=self._table))

    def on_epoch_end(self, state: TrainState) -> None:
        if (state.epoch + 1) % self.settings.every == 0:
            self._examine(state)

    def on_exception(self, state: TrainState) -> None:
        self._examine(state, "" if state.error is None else f"{type(state.error).__name__}: {state.error}")

    def _examine(self, state: TrainState, error: str = "") -> None:
        facts = training_facts.of_history(state.history, error, newest=2000)
        self._look(state, Evidence(config=self._plain(state), training=facts))

    def _plain(self, state: TrainState) -> dict[str, Any]:
        if self._config is None:
            self._config = state.config.replace(callbacks=()).to_dict()
        return self._config

    def _look(self, state: TrainState, evidence: Evidence) -> None:
        found = [item for item in verdicts_of(evidence) if item.certainty >= self.settings.certainty]
        for verdict in found:
            if verdict.cause not in self.told:
                self.told.add(verdict.cause)
                self._say(state, verdict)

    def _say(self, state: TrainState, verdict: Verdict) -> None:
        log.warning("step %d: %s", state.step, verdict.line())
        state.log(event=EVENT, **verdict.to_dict())
        if self.settings.stop:
            state.stop(f"the doctor found {verdict.cause}: {verdict.what}")

    def state_dict(self) -> dict[str, Any]:
        """The causes that were said."""
        return {"told": sorted(self.told)}

    def load_state_dict(self, data: dict[str, Any]) -> None:
        """A resumed run does not say them again."""
        self.told = set(data.get("told", ()))


def _training_rows(windows: Any) -> Any:
    """[S] the row of each series after its last training window; 0 for a series without one."""
    if windows.multivariate:
        return windows.store.lengths
    ends = windows.boundaries[1:]
    some = np.diff(windows.boundaries) > 0
    rows = np.zeros_like(ends)
    rows[some] = windows.locate(ends[some] - 1)[1] + windows.horizon
    return rows
