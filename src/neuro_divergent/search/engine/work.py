"""The work on trials: train them up to a share of their steps, score them, save them. It runs in any process.

A process keeps the runs of its trials between two calls. A trial that it does not have is read from its checkpoint.
"""

from __future__ import annotations

import importlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_divergent.core import files
from neuro_divergent.core.errors import NeuroDivergentError, StorageError, first_line
from neuro_divergent.core.runs.names import CHECKPOINTS, MODEL, TRIALS, step_name, step_of, trial_name, trial_run_name
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.rows_task import RowsForecastTask
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.search.engine.interrupts import StoppedError
from neuro_divergent.search.plan import Plan, read_plan
from neuro_divergent.search.scoring import mean_scores
from neuro_divergent.training.config.other_process import own_modules
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume
from neuro_divergent.training.stacked.stacked_loop import StackedLoop
from neuro_divergent.training.stacked.train_many import Stacked, advance_stacked
from neuro_divergent.training.state.state import TrainState

FIRST_SLICE = 4
"""Steps of the first part of a training. Later parts take about SECONDS_PER_SLICE."""
SECONDS_PER_SLICE = 0.5
TIME_OVER = "its time was over"
"""The error of a trial that took longer than it may."""


@dataclass(frozen=True)
class Wanted:
    """One trial: its number and what is trained."""

    number: int
    model: Model
    config: TrainingConfig

    def to_dict(self) -> dict[str, Any]:
        """The trial as plain data."""
        return {"number": self.number, "model": self.model.to_dict(), "config": self.config.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Wanted:
        """The trial from the result of `to_dict`."""
        return cls(data["number"], Model.from_dict(data["model"]), TrainingConfig.from_dict(data["config"]))


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be done with a group of trials."""

    trials: tuple[Wanted, ...]
    share: float = 1.0
    """The share of its steps up to which each trial is trained."""
    folds: int | None = None
    """Train and score only this many of the folds; None for all."""
    save: bool = False
    """Whether a trial that is not finished is saved at the end, because it may pause there."""
    keep: dict[str, float] | None = None
    """Save the model of a finished trial if a score is not above its bound. The name of a score to maximise begins
    with "-", and its bound has the opposite sign. None saves all."""
    drop: bool = False
    """Whether this process does not keep the trials afterwards: another one may go on with them."""
    forget: tuple[int, ...] = ()
    """Trials that this process need not keep."""
    stacked: Stacked = "auto"
    checkpoint_every: float = 30.0
    seconds: float | None = None
    """How long this may take. Trials that need more are saved, and fail with the time as the reason."""


@dataclass
class Outcome:
    """What became of a trial."""

    scores: dict[str, float] = field(default_factory=dict)
    by_part: list[dict[str, float]] = field(default_factory=list)
    finished: bool = False
    steps: int = 0
    seconds: float = 0.0
    parameters: int = 0
    error: str | None = None
    unwritable: bool = False
    """Whether the error is that the study could not be written. Then the search ends, and the trial can go on later."""


@dataclass
class _Live:
    """A trial whose runs are in this process."""

    wanted: Wanted
    runs: list[Run]
    seconds: float = 0.0


class Workshop:
    """The trials of one study in one process."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        self.directory, self.plan = directory, plan
        self._live: dict[int, _Live] = {}
        self._moving: set[int] = set()  # runs inside of a step, which must not be saved
        self.asked: Callable[[], bool] = lambda: False
        """Whether the work is asked to stop: then it raises StoppedError between two parts of it."""

    def do(self, order: Order) -> dict[int, Outcome]:
        """Do an order. A trial that fails has its error as the outcome, and does not disturb the others."""
        self.forget(order.forget)
        outcomes: dict[int, Outcome] = {}
        live: list[_Live] = []
        for wanted in order.trials:
            try:
                live.append(self._ready(wanted))
            except Exception as error:
                outcomes[wanted.number] = _failure(error)
        try:
            failed = self._advance(live, order)
        except StorageError as error:  # a checkpoint of the group
            failed = {one.wanted.number: error for one in live}
        keep = None if order.keep is None else dict(order.keep)
        for trial in live:
            number = trial.wanted.number
            try:
                if number in failed:
                    raise failed[number]
                outcomes[number] = self._outcome(trial, order, keep)
            except Exception as error:
                outcomes[number] = _failure(error, trial.seconds)
            if order.drop or outcomes[number].error is not None or outcomes[number].finished:
                self._drop(number)
        return outcomes

    def forget(self, numbers: Sequence[int]) -> None:
        """Keep these trials no longer in this process."""
        for number in numbers:
            self._drop(number)

    def save_all(self) -> None:
        """Save every trial of this process that is not finished, unless it was interrupted inside of a step."""
        for trial in self._live.values():
            self._save(trial)

    def drop_moving(self) -> None:
        """Forget the trials that were interrupted inside of a step. They can go on from their last checkpoint."""
        for number in [number for number, trial in self._live.items() if self._moving & set(map(id, trial.runs))]:
            self._drop(number)

    def _stop_if_asked(self) -> None:
        if self.asked():
            raise StoppedError

    def _drop(self, number: int) -> None:
        trial = self._live.pop(number, None)
        for run in [] if trial is None else trial.runs:
            self._moving.discard(id(run))
            run.close()

    def _ready(self, wanted: Wanted) -> _Live:
        """The trial with its runs, each at the step of its newest checkpoint."""
        known = self._live.get(wanted.number)
        if known is not None:
            return known
        runs = []
        for position, (fold, seed) in enumerate(self.plan.parts):
            folder = self._folder(wanted.number, position)
            resume = Resume(str(folder), own=True) if _saved(folder) else Resume()
            job = Job(
                wanted.model, self.plan.scores[fold].past, wanted.config.replace(seed=seed, progress=False),
                task=RowsForecastTask, resume=resume, may_refit=False,
            )  # fmt: skip
            run = prepare(job)
            if resume.source is not None:
                run.training.begin()  # restores the state
            runs.append(run)
        self._live[wanted.number] = _Live(wanted, runs)
        return self._live[wanted.number]

    def _advance(self, live: Sequence[_Live], order: Order) -> dict[int, Exception]:
        """Train the runs of all trials up to the share; return the errors by the number of the trial."""
        here = self.plan.parts
        members = [
            (trial, run)
            for trial in live
            for (fold, _), run in zip(here, trial.runs, strict=True)
            if (order.folds is None or fold < order.folds) and run.training.state.step < _until(run, order.share)
            and not _ended(run)
        ]  # fmt: skip
        failed: dict[int, Exception] = {}
        begun = time.process_time()
        saved = [time.monotonic()]

        def between(loop: StackedLoop, states: list[TrainState]) -> None:
            if states and (self.asked() or time.monotonic() - saved[0] >= order.checkpoint_every):
                loop.up_to_date(states)
                own = {id(state) for state in states}
                for trial, run in members:
                    if id(run.training.state) in own:
                        self._save_run(trial, run)
                saved[0] = time.monotonic()
            self._stop_if_asked()

        self._moving = {id(run) for _, run in members}
        left, errors = advance_stacked(
            [(run.training.task, run.training.state) for _, run in members],
            [_until(run, order.share) for _, run in members],
            stacked=order.stacked,
            between=between,
        )
        self._moving = set()
        for index, error in errors.items():
            failed.setdefault(members[index][0].wanted.number, error)
        stacked = [index for index in range(len(members)) if index not in left]
        for index in stacked:
            members[index][0].seconds += (time.process_time() - begun) / len(stacked)
        for index in left:
            trial, run = members[index]
            if trial.wanted.number in failed:
                continue
            begun = time.process_time()
            try:
                self._alone(trial, run, _until(run, order.share), order.checkpoint_every)
            except Exception as error:
                failed[trial.wanted.number] = error
            trial.seconds += time.process_time() - begun
        return failed

    def _alone(self, trial: _Live, run: Run, until: int, checkpoint_every: float) -> None:
        """Train one run up to a step, with a checkpoint now and then."""
        saved, size, state = time.monotonic(), FIRST_SLICE, run.training.state
        while state.step < until and not _ended(run):
            self._stop_if_asked()
            begun, before = time.monotonic(), state.step
            self._moving = {id(run)}
            run.advance(min(until, state.step + size))
            self._moving = set()
            if state.step == before:
                break
            now = time.monotonic()
            size = max(1, min(2 * size, int(size * SECONDS_PER_SLICE / max(now - begun, 1e-6))))
            if now - saved >= checkpoint_every and state.step < until:
                self._save_run(trial, run)
                saved = time.monotonic()

    def _outcome(self, trial: _Live, order: Order, keep: dict[str, float] | None) -> Outcome:
        """Score a trial as it stands, and save it as the order says. The bounds of `keep` follow the best one."""
        number, finished = trial.wanted.number, all(_ended(run) for run in trial.runs)
        parts = zip(self.plan.parts, trial.runs, strict=True)
        runs = [(fold, run) for (fold, _), run in parts if order.folds is None or fold < order.folds]
        if finished:
            self._moving = {id(run) for run in trial.runs}  # their best weights are restored
        fitted = [_finished(run) for _, run in runs] if finished else []
        scores = [
            self.plan.scores[fold].of(fitted[position]) if finished else self._present_score(fold, run)
            for position, (fold, run) in enumerate(runs)
        ]
        outcome = Outcome(
            scores=mean_scores(scores),
            by_part=scores,
            finished=finished,
            steps=sum(run.training.state.step for run in trial.runs),
            seconds=trial.seconds,
            parameters=sum(weight.numel() for weight in trial.runs[0].training.state.module.parameters()),
        )
        if finished:
            if _worth_keeping(outcome.scores, keep):  # the first seed of the last fold, which saw the most rows
                fitted[-len(self.plan.seeds)].save(self._folder(number) / MODEL, overwrite=True)
        elif order.save:
            self._save(trial)
        return outcome

    def _present_score(self, fold: int, run: Run) -> dict[str, float]:
        with run.so_far() as fitted:
            return self.plan.scores[fold].of(fitted)

    def _save(self, trial: _Live) -> None:
        for run in trial.runs:
            if run.training.state.step and id(run) not in self._moving:
                self._save_run(trial, run)

    def _save_run(self, trial: _Live, run: Run) -> None:
        """Write a checkpoint, then delete the older ones."""
        folder = self._folder(trial.wanted.number, trial.runs.index(run)) / CHECKPOINTS
        name = step_name(run.training.state.step)
        if (folder / name).is_dir():
            return
        run.save_checkpoint(folder / name)
        for other in files.names(folder):
            if step_of(other) >= 0 and other != name:
                files.remove_directory(folder / other)

    def _folder(self, number: int, run: int | None = None) -> Path:
        trial = self.directory / TRIALS / trial_name(number)
        return trial if run is None else trial / trial_run_name(run)


def _until(run: Run, share: float) -> int:
    return math.ceil(share * run.training.state.total_steps)


def _ended(run: Run) -> bool:
    """Whether a run has no more steps to take: all are done, or it was stopped early."""
    state = run.training.state
    return bool(state.stopping) or bool(state.history.stopped) or state.step >= state.total_steps


def _finished(run: Run) -> Forecaster:
    """The forecaster of a run that has ended; the run is closed."""
    state = run.training.state
    if not state.history.stopped:
        run.training.finish()
    return run.forecaster()


def _saved(folder: Path) -> bool:
    return any(step_of(name) >= 0 for name in files.names(folder / CHECKPOINTS))


def _worth_keeping(scores: dict[str, float], keep: dict[str, float] | None) -> bool:
    """Whether a finished trial may be the best; then its score is the new bound."""
    if keep is None:
        return True
    good = False
    for name, bound in keep.items():
        score = -scores[name[1:]] if name.startswith("-") else scores[name]
        if score <= bound:
            keep[name], good = score, True
    return good


def _failure(error: Exception, seconds: float = 0.0) -> Outcome:
    """The outcome of a trial that failed: the first line of the error, with its class if it is none of ours."""
    text = first_line(error)
    text = text if isinstance(error, NeuroDivergentError) else f"{type(error).__name__}: {text}"
    unwritable = isinstance(error, StorageError) and error.rule == "writable"
    return Outcome(error=text, seconds=seconds, unwritable=unwritable)


_WORKSHOPS: dict[str, Workshop] = {}
"""The studies that this process works on."""


def ready() -> str:
    """Do nothing: when this is done, the process has imported all that the work needs."""
    return ""


def work(study: str, text: str) -> str:
    """Do an order, a JSON document, for the study in a directory; return the outcomes as JSON."""
    import torch

    torch.set_num_threads(1)
    if study not in _WORKSHOPS:
        _WORKSHOPS.clear()
        _WORKSHOPS[study] = Workshop(Path(study), read_plan(Path(study)))
    document = json.loads(text)
    for module in document.pop("modules"):  # those of the user's own models register themselves
        importlib.import_module(module)
    trials = tuple(Wanted.from_dict(one) for one in document.pop("trials"))
    order = Order(trials=trials, **document | {"forget": tuple(document["forget"])})
    found = _in_time(_WORKSHOPS[study], order)
    return json.dumps({number: outcome.__dict__ for number, outcome in found.items()})


def _in_time(workshop: Workshop, order: Order) -> dict[int, Outcome]:
    """Do an order. When its time is over, its trials are saved, and their outcome says so."""
    end = None if order.seconds is None else time.monotonic() + order.seconds
    workshop.asked = lambda: end is not None and time.monotonic() > end
    try:
        return workshop.do(order)
    except StoppedError:
        workshop.save_all()
        workshop.forget([one.number for one in order.trials])
        return {one.number: Outcome(error=TIME_OVER) for one in order.trials}


def order_text(order: Order) -> str:
    """The JSON document of an order."""
    fields = dict(order.__dict__) | {"trials": [one.to_dict() for one in order.trials]}
    modules = sorted(own_modules([[one.model, one.config] for one in order.trials]))
    return json.dumps(fields | {"modules": modules})


def outcomes_from(text: str) -> dict[int, Outcome]:
    """The outcomes from the result of `work`."""
    return {int(number): Outcome(**facts) for number, facts in json.loads(text).items()}
