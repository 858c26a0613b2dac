"""A training of a forecaster as an object: prepare it, advance it step by step, finish it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from neuro_divergent.core.errors import Advice, ConfigError, NeuroDivergentError, NotFittedError
from neuro_divergent.core.runs.names import STOPPED_ON_REQUEST
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.split import common_cutoff
from neuro_divergent.data.windows.windows import Range
from neuro_divergent.forecasting.fit.in_subprocess import supervised, train_supervised
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.problem import Problem
from neuro_divergent.forecasting.fit.training import training_of
from neuro_divergent.forecasting.fit.training_rows import note_held_out
from neuro_divergent.forecasting.model.model import learns_after_fit
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
from neuro_divergent.forecasting.predict.validated import How
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.checkpoint_store import REFIT, inside, place_of
from neuro_divergent.training.runs.lock import run_lock
from neuro_divergent.training.runs.resume import FREE, Resume, differences, newest
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.training_run import TrainingRun

log = logging.getLogger(__name__)


class Run:
    """One training of a job, made by `prepare`.

        run = prepare(Job(model, table, config))
        run.advance(500)                 # the first 500 steps
        run.save_checkpoint("half-way")  # whenever you want
        forecaster = run.finish()        # the remaining steps, then the forecaster

    `training` is the engine's run. Its task and state exist before the first step.
    """

    def __init__(
        self,
        job: Job,
        problem: Problem,
        config: TrainingConfig,
        training: TrainingRun,
        table: TimeSeriesDataFrame,
        held_out: Range | None,
        *,
        whole: TimeSeriesDataFrame | None = None,
        local: LocalScaling | None = None,
    ) -> None:
        self.job, self.problem, self.config, self.training = job, problem, config, training
        self._table, self._held_out, self._whole, self._local = table, held_out, whole, local
        training.state.context = self._context

    def advance(self, until: int | None = None) -> Run:
        """Train until `until` steps are done (None: all of them), or until the run is stopped.

        A supervised training cannot be divided: it runs to its end in another process.
        """
        if supervised(self.config) and not self.training.resume.finished:
            self._supervise()
        self.training.advance(until)
        return self

    def save_checkpoint(self, path: str | os.PathLike[str]) -> Path | str:
        """Write the present state to a directory and return its path. `nd.load(path)` makes a forecaster of it."""
        return self.training.save_checkpoint(path)

    def load_checkpoint(self, path: str | os.PathLike[str]) -> Run:
        """Go to the step of a checkpoint of this training. A checkpoint of another training is refused."""
        self.training.load_checkpoint(path)
        return self

    def finish(self) -> Forecaster:
        """Train the remaining steps, then on all rows if `refit_on_all` is set, and return the forecaster."""
        if supervised(self.config) and not self.training.resume.finished:
            self._supervise()
        state = self.training.complete()
        if self.config.refit_on_all:
            _refuse_half(state)
            state = self._refit(state)
        return self.forecaster(state)

    def forecaster(self, state: TrainState | None = None) -> Forecaster:
        """The forecaster of a finished training."""
        state = state or self.training.state
        if self._held_out is not None and not self.config.refit_on_all:
            # Recorded for a later search of held-out rows: the table has training and validation rows.
            rows, cutoff = self._table.store.lengths - np.asarray(self._held_out[0]), self.cutoff
            split: How = "series" if cutoff is None else "date"
            note_held_out(state.history, rows, "given" if self.job.validation is not None else split, cutoff)
        fitted = self._with(state)
        if self.job.begin_with is None:  # given weights already include what is learned after the last step
            self.problem.model.after_fit(fitted)
        if self._local is not None:
            fitted.local = self._local
        if self._whole is not None:
            fitted.data = self._whole
        fitted.begin_lineage()
        return fitted

    def _with(self, state: TrainState) -> Forecaster:
        """The forecaster of a state, before `after_fit`."""
        module = state.module
        assert isinstance(module, ForecastModule)
        return Forecaster(
            model=self.problem.model,
            config=state.config,
            module=module,
            data=self._table,
            history=state.history,
            anchor=self.problem.anchor,
        )

    def _context(self) -> Mapping[str, bytes]:
        """What a checkpoint needs besides its state to be a forecaster: the model's description and the last rows."""
        from neuro_divergent.forecasting.storage.save_load import context_files

        described = self._with(self.training.state)
        described.local = self._local
        described.data = self._table if self._whole is None else self._whole
        try:
            return context_files(described, whole=learns_after_fit(described.model))
        except NeuroDivergentError as error:  # such a model can still be trained and resumed
            log.warning("checkpoints of this run cannot be loaded as a forecaster: %s", error)
            return {}

    @property
    def cutoff(self) -> Any:
        """The time from which the rows of every series are held out; None without such a time."""
        store, share = self._table.store, self.config.validation_split
        if self.config.split_by != "date" or not isinstance(share, float) or self.job.validation is not None:
            return None
        if self.config.refit_on_all:  # in the end all rows are trained on
            return None
        if self._held_out is None or not bool((np.asarray(self._held_out[0]) < store.lengths).any()):
            return None
        return common_cutoff(store, share, self.problem.model.h)

    def close(self) -> None:
        """Abandon the run. If it has a checkpoint, it can be resumed."""
        self.training.close()

    def _supervise(self) -> None:
        if self.job.begin_with is not None:
            raise ConfigError(
                "a supervised training runs in another process, which cannot get the weights to start from. Set "
                "fault_tolerance=None, or FaultTolerance(retries=0)"
            )
        with run_lock(self.job.config.checkpoints):
            pass  # refuse before anything is written; later the supervised process has the lock
        applied = self.job.resume.applied(self.job.config)
        self.training.resume = train_supervised(replace(self.job, config=applied))

    def _refit(self, found: TrainState) -> TrainState:
        """Train again on all rows, for the number of epochs that validation found best."""
        config, lengths = self.config, self.problem.store.lengths
        problem = replace(self.problem, rows=lengths, indexed={})  # now all rows are trained on
        epochs = found.history.best_epoch or len(found.history)
        again = config.replace(max_epochs=epochs, validation_split=None, early_stopping=None, refit_on_all=False)
        if config.checkpoints is not None:  # a second run, inside the run
            again = again.replace(checkpoints=config.checkpoints.replace(directory=inside(config.checkpoints, REFIT)))
        with run_lock(config.checkpoints):  # a new run in the directory would also move the refit away
            resume = _refit_from(again, self.training.resume)
            state = training_of(problem, again, (np.zeros_like(lengths), lengths), None, resume).complete()
            _refuse_half(state)
        state.history.events.insert(0, {"step": 0, "epoch": 0, "event": "refit_on_all", "epochs": epochs})
        state.config = config
        return state


def _refuse_half(state: TrainState) -> None:
    """Refuse to stop between the two trainings of a model with refit_on_all."""
    if state.history.stopped == STOPPED_ON_REQUEST:
        raise NotFittedError(
            "a model with refit_on_all is finished when both of its trainings are done, but a stop was requested "
            f"after step {state.step}. The state is saved in {state.run_directory}: resume with resume='auto'",
            advice=[Advice("resume", "auto")],
        )


def _refit_from(config: TrainingConfig, resume: Resume) -> Resume:
    """Where the refit resumes. It starts again if `resume_with` changed what it depends on."""
    if resume.source is None or config.checkpoints is None:
        return Resume(None)
    found, _ = newest(place_of(config.checkpoints.directory))
    kept = {} if found is None else found.document["config"]
    wanted = config.replace(callbacks=()).to_dict()  # live callbacks are not in a file
    changed = {"max_epochs", *(resume.changes or ())} - FREE
    other = any(differences(kept[name], wanted[name]) for name in changed & kept.keys())
    return Resume(None if other else "auto", finished=resume.finished and not other)
