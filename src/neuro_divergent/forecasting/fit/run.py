"""A training of a forecaster as an object: prepare it, advance it step by step, finish it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError
from neuro_divergent.core.runs.names import STOPPED_ON_REQUEST
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.split import common_cutoff
from neuro_divergent.data.windows.windows import Range
from neuro_divergent.distributed.check import check
from neuro_divergent.distributed.settings import Distributed
from neuro_divergent.forecasting.fit.elsewhere.in_processes import starts_processes, train_in_processes
from neuro_divergent.forecasting.fit.in_subprocess import supervised, train_supervised
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.problem import Problem
from neuro_divergent.forecasting.fit.refit import refit_state
from neuro_divergent.forecasting.fit.shown.about import FORECASTING, about_run
from neuro_divergent.forecasting.fit.training_rows import note_held_out, trained_rows
from neuro_divergent.forecasting.model.model import learns_after_fit
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.calibrate_intervals import calibration_of
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.kept import keep_forecasts
from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
from neuro_divergent.forecasting.predict.quantile_calibration import QuantileCalibration
from neuro_divergent.forecasting.predict.validated import How
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.loop.loop import returned_weights
from neuro_divergent.training.runs.lock import run_lock
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.trainer import effective_batch
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
        bounds: Bounds | None = None,
    ) -> None:
        self.job, self.problem, self.config, self.training = job, problem, config, training
        self._table, self._held_out, self._whole, self._local = table, held_out, whole, local
        self._bounds = bounds
        self.temporary: Path | None = None
        """A directory that is removed at the end; None if the run has its own."""
        training.state.context = self._context
        training.state.about = self._about
        training.state.shared[FORECASTING] = self

    def advance(self, until: int | None = None) -> Run:
        """Train until `until` steps are done (None: all of them), or until the run is stopped.

        A supervised training cannot be divided: it runs to its end in another process.
        """
        self._train_elsewhere()
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
        """Train the remaining steps, then on all rows if `refit` says so, and return the forecaster.

        If a stop was requested, it is the model of the first training; `resume="auto"` goes on.
        """
        self._train_elsewhere()
        state = self.training.complete()
        if self.config.refit is None or state.history.stopped == STOPPED_ON_REQUEST:
            return self._handed_over(self.forecaster(state))
        return self._handed_over(self._refit(state))

    def _train_elsewhere(self) -> None:
        """Train in another process, or in several, if the configuration says so. Only the loading is left then."""
        if self.training.resume.finished:
            return
        if supervised(self.config):
            self._supervise()
        elif starts_processes(self.config):
            assert isinstance(self.config.distributed, Distributed)
            check(self.config.distributed, effective_batch(self.config))
            applied = self.job.resume.applied(self.job.config)
            with run_lock(applied.checkpoints):
                pass  # refuse before anything is written; later the main process has the lock
            try:
                self.training.resume = train_in_processes(replace(self.job, config=applied))
            except BaseException:
                self._forget_temporary()
                raise

    def _handed_over(self, fitted: Forecaster) -> Forecaster:
        """The forecaster without the temporary directory through which it came."""
        if self.temporary is not None:
            fitted.config = fitted.config.replace(checkpoints=None)
            self._forget_temporary()
        return fitted

    def _forget_temporary(self) -> None:
        if self.temporary is not None:
            files.remove_directory(self.temporary)

    def forecaster(self, state: TrainState | None = None) -> Forecaster:
        """The forecaster of a finished training."""
        state = state or self.training.state
        if self._held_out is not None:
            # Recorded for a later search of held-out rows: the table has training and validation rows.
            lengths, cutoff, rows = self._table.store.lengths, self.cutoff, self.held_out_rows
            assert rows is not None
            share = round(float(rows.sum() / lengths.sum()), 3)
            split: How = "series" if cutoff is None else "date"
            how: How = "given" if self.job.validation is not None else split
            note_held_out(state.history, rows, how, cutoff, share)
        fitted = self._with(state)
        if self.job.begin_with is None:  # given weights already include what is learned after the last step
            self.problem.model.after_fit(fitted)
        if self._local is not None:
            fitted.local = self._local
        if self._whole is not None:
            fitted.data = self._whole
        fitted.calibration = self._calibration(fitted)
        fitted.begin_lineage()
        return fitted

    def _calibration(self, fitted: Forecaster) -> QuantileCalibration | None:
        """The correction of the intervals, from the held-out rows of a model that was not trained on them."""
        wanted = self.config.calibrate
        if wanted is False or not fitted.loss.probabilistic or self._held_out is None:
            return None
        if wanted == "auto" and fitted.model.joint is not None:
            return None  # its quantiles are those of coherent draws
        return calibration_of(fitted, fitted.data, self._unseen(fitted.data, self._held_out), wanted)

    def _unseen(self, table: TimeSeriesDataFrame, held_out: Range) -> npt.NDArray[np.int64]:
        """[S] the first held-out row of each series that no model was trained on from which this one has learned."""
        seen = [trained_rows(model, table) for model in self.job.learned_from]
        return np.asarray(np.max([np.asarray(held_out[0]), *seen], axis=0))

    @contextmanager
    def so_far(self) -> Iterator[Forecaster]:
        """Context with the forecaster that the run would return if it ended now. Afterwards the run can go on."""
        state = self.training.state
        with returned_weights(state):
            fitted = self._with(state)
            self.problem.model.after_fit(fitted)
            if self._local is not None:
                fitted.local = self._local
            yield fitted

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
            bounds=self._bounds,
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

    def _about(self) -> Mapping[str, Any]:
        """Facts about the table and its scores. Folds and trials, of which there may be thousands, have none."""
        if not self.job.may_refit:
            return {}
        try:
            return about_run(self)
        except Exception as error:  # only the dashboard shows them: the training must not end here
            log.warning("the facts about the table could not be written: %s", error)
            return {}

    @property
    def table(self) -> TimeSeriesDataFrame:
        """The table of the training, with the rows that it holds out."""
        return self._table

    @property
    def held_out(self) -> Range | None:
        """The held-out rows of each series; None if there are none."""
        return self._held_out

    @property
    def local(self) -> LocalScaling | None:
        """The scaling of the series before the training."""
        return self._local

    @property
    def held_out_rows(self) -> npt.NDArray[np.int64] | None:
        """[S] how many rows at the end of each series are held out; None if none are."""
        return None if self._held_out is None else self._table.store.lengths - np.asarray(self._held_out[0])

    @property
    def cutoff(self) -> Any:
        """The time from which the rows of every series are held out; None without such a time."""
        store, share = self._table.store, self.config.validation_split
        if self.config.split_by != "date" or not isinstance(share, float) or self.job.validation is not None:
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

    def _refit(self, found: TrainState) -> Forecaster:
        """The forecaster of a second training on all rows. It keeps the held-out forecasts of the first one."""
        selected, problem, local = self.forecaster(found), self.problem, self._local
        if local is not None and self._whole is not None:  # series that the first training had no rows of
            local = local.including(self._whole, self._whole.store.lengths)
            problem = replace(problem, store=taken_columns(problem.model, local.scaled(self._whole).store))
        begins = None if self._held_out is None else self._unseen(selected.data, self._held_out)
        kept = None if begins is None else keep_forecasts(selected, begins)
        state = refit_state(problem, self.config, found, self.training.resume)
        if state is None:  # stopped in the second training: the model of the first one, and the run is not finished
            found.history.stopped = STOPPED_ON_REQUEST
            return selected
        fitted = self._with(state)
        if self.job.begin_with is None and self.config.refit == "all":
            problem.model.after_fit(fitted)
        fitted.data, fitted.local, fitted.kept = selected.data, local, kept
        fitted.calibration = selected.calibration  # by weights that had not seen the held-out rows
        fitted.begin_lineage()
        return fitted
