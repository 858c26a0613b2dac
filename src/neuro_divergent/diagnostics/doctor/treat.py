"""`treat`: train, and where something goes wrong branch with the remedy; the better branch by validation is kept."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.config import encode
from neuro_divergent.core.counts import at_least_one
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, NonFiniteError
from neuro_divergent.core.runs.names import BRANCHES, is_remote
from neuro_divergent.diagnostics.doctor import gather, training_facts
from neuro_divergent.diagnostics.doctor.attempts import Attempt, attempts
from neuro_divergent.diagnostics.doctor.catalogue import AnyCheck
from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.judge import verdicts_of
from neuro_divergent.diagnostics.doctor.verdict import Verdict
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import CHANGEABLE, FREE, Resume

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

log = logging.getLogger("neuro_divergent.doctor")

EARLY = 0.2
"""Share of the steps after which a run is examined for the first time."""
EVENT = "treated"
"""The event that lists the branches, in the history and in events.jsonl."""


@dataclass
class Branch:
    """One training: the first one, or one with the remedy of a verdict."""

    run: Run
    cause: str = ""
    """The verdict that it treats; empty for the first training."""
    remedy: Mapping[str, Any] = field(default_factory=dict)
    from_step: int = 0
    start: Path | None = None
    """The checkpoint of its first step."""
    good: Path | None = None
    """The checkpoint of its lowest validation loss."""
    best: float = math.inf
    """The lowest validation loss."""
    error: str = ""
    mae: float = math.inf
    """Mean absolute error of the forecasts of the held-out rows."""
    found: tuple[Verdict, ...] = ()

    @property
    def loss(self) -> float:
        """The validation loss of the weights that the branch returns: its best ones, or its last ones."""
        state = self.run.training.state
        if state.best_weights is not None or not state.history.validation_loss:
            return self.best
        return state.history.validation_loss[-1]

    def told(self) -> dict[str, Any]:
        """The branch as plain data, for the events."""
        return {
            "cause": self.cause,
            "remedy": {name: encode(value) for name, value in self.remedy.items()},
            "from_step": self.from_step,
            "steps": self.run.training.state.step,
            "validation_loss": self.loss,
            "mae": self.mae,
            "error": self.error,
            "verdicts": [verdict.cause for verdict in self.found],
        }


def treat(
    model: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    rounds: int = 6,
    checks: Sequence[AnyCheck] = (),
    **options: Any,
) -> Forecaster:
    """Train a model, treat what goes wrong, and return the forecaster of the best branch.

    The run is examined after a fifth of its steps and at its end, as by `nd.diagnose`. If a verdict has a remedy, a
    branch begins with it: at the last good checkpoint, at the first step where the cause had spoiled the whole run, or
    with new weights where `begin_with` gave bad ones. For some causes several changes are tried in turn: against
    overfitting early stopping, then regularization, then a narrower network. The branch with the lowest validation loss
    of its returned weights is kept, or with the lowest error on the held-out rows if losses cannot be compared. The
    event "treated" in the history lists all branches.

    Args:
        model: the model to train.
        data: the training table.
        config: the configuration; it needs held-out rows.
        rounds: the largest number of branches.
        checks: your own checks, as for `nd.diagnose`.
        options: further arguments of `Model.fit`.
    """
    rounds = at_least_one("rounds", rounds)
    job = job_of(model, data, config, **options)
    for name in ("fault_tolerance", "distributed"):
        if getattr(job.config, name) is not None:
            raise ConfigError(f"treat trains step by step in one process, but {name} starts others. Set {name}=None")
    with tempfile.TemporaryDirectory() as folder:
        branches = [_first(job, Path(folder))]
        _train(branches[0], Path(folder), checks)
        best, tried = branches[0], set[str]()
        while len(branches) <= rounds:
            verdict = next((item for item in best.found if _mends(item) and item.cause not in tried), None)
            if verdict is None:
                break
            tried.add(verdict.cause)
            sick = best
            for attempt in attempts(verdict, sick.run)[: rounds + 1 - len(branches)]:
                branch = _branched(sick, verdict.cause, attempt, Path(folder), len(branches))
                if branch is None:
                    continue
                branches.append(branch)
                _train(branch, Path(folder), checks)
                best = _better(best, branch)
                log.warning(
                    "%s: %s", verdict.cause, "the remedy helps" if best is branch else "the remedy does not help"
                )
        return _finished(best, branches)


def _first(job: Job, folder: Path) -> Branch:
    run = prepare(job)
    if run.training.state.validation_source is None:
        raise ConfigError(
            "treat compares branches on held-out rows, but this training has none. Set validation_split=0.2"
        )
    return Branch(run, start=_saved(run, folder / "start"))


def _saved(run: Run, path: Path) -> Path:
    return Path(run.save_checkpoint(path))


def _mends(verdict: Verdict) -> bool:
    return bool(verdict.remedy or verdict.model_remedy)


def _train(branch: Branch, folder: Path, checks: Sequence[AnyCheck]) -> None:
    """Train a branch to its end, or until a verdict with a remedy; keep its best checkpoint and its verdicts."""
    run, state = branch.run, branch.run.training.state
    begun, early = state.step, False
    try:
        while state.step < state.total_steps and not state.stopping:
            run.advance(min(state.total_steps, state.step + max(1, state.steps_per_epoch - state.position)))
            _keep_good(branch, folder)
            due = state.step - begun >= EARLY * (state.total_steps - begun)
            if due and not early and not branch.cause and state.step < state.total_steps:
                early = True
                branch.found = _examined(branch, checks)
                if any(_mends(verdict) and verdict.certainty > 0.75 for verdict in branch.found):
                    break
    except NonFiniteError as error:
        branch.error = f"{type(error).__name__}: {error}"
    if branch.error or not branch.found or not early or state.step >= state.total_steps or state.stopping:
        branch.found = _examined(branch, checks)


def _keep_good(branch: Branch, folder: Path) -> None:
    losses = branch.run.training.state.history.validation_loss
    if losses and losses[-1] < branch.best:
        branch.best = losses[-1]
        branch.good = _saved(branch.run, folder / f"good-{id(branch)}")


def _examined(branch: Branch, checks: Sequence[AnyCheck]) -> tuple[Verdict, ...]:
    """The verdicts about a branch as it is now. Its run does not change."""
    run, state = branch.run, branch.run.training.state
    if branch.error:
        facts = training_facts.of_history(state.history, branch.error)
        return tuple(verdicts_of(Evidence(config=state.config.to_dict(), training=facts), checks))
    with run.so_far() as fitted:
        fitted.history = gather.noted(state.history, run)
        if run.job.validation is None:
            fitted.data = run.job.table
        evidence = gather.from_forecaster(fitted)
    if evidence.forecasts is not None:
        branch.mae = evidence.forecasts.mae
    return tuple(verdicts_of(evidence, checks))


def _branched(parent: Branch, cause: str, attempt: Attempt, folder: Path, number: int) -> Branch | None:
    """The branch with the remedy of a verdict; None if the changed settings do not go together."""
    job = parent.run.job
    try:
        config = job.config.replace(**attempt.remedy)
        model = job.model.replace(**attempt.model_remedy)
        if config.checkpoints is not None and not is_remote(config.checkpoints.directory):
            place = Path(job.config.checkpoints.directory) / BRANCHES / f"{number:02d}-{cause}"  # type: ignore[union-attr]
            config = config.replace(checkpoints=config.checkpoints.replace(directory=place))
        begin_with = None if attempt.begins == "afresh" else job.begin_with
        resume = _resumed(parent, attempt)
        run = prepare(replace(job, model=model, config=config, resume=resume, begin_with=begin_with))
        first = _saved(run, folder / f"start-{number}")
    except NeuroDivergentError as error:
        log.warning("%s: its remedy cannot be used here: %s", cause, error)
        return None
    remedy = {**attempt.remedy, **{f"model.{name}": value for name, value in attempt.model_remedy.items()}}
    return Branch(run, cause, remedy, run.training.state.step, first)


def _resumed(parent: Branch, attempt: Attempt) -> Resume:
    """The checkpoint that a branch begins with; none if it has a changed model, or draws its weights anew."""
    if attempt.begins == "afresh" or attempt.model_remedy or not set(attempt.remedy) <= CHANGEABLE | FREE:
        return Resume()
    start = parent.good if attempt.begins == "good" and parent.good is not None else parent.start
    return Resume(start, dict(attempt.remedy))


def _better(one: Branch, other: Branch) -> Branch:
    """The branch whose returned weights have the lower validation loss, or error if losses cannot be compared."""
    alike = one.run.config.loss == other.run.config.loss and one.run.job.model.scaler == other.run.job.model.scaler
    if one.error or other.error:
        return other if one.error and not other.error else one
    if alike:
        return other if other.loss < one.loss else one
    return other if other.mae < one.mae else one


def _finished(best: Branch, branches: Sequence[Branch]) -> Forecaster:
    """The forecaster of the best branch; the runs of all others are closed."""
    told = [branch.told() | {"kept": branch is best} for branch in branches]
    for branch in branches:
        branch.run.training.state.log(event=EVENT, branches=told)
        if branch is not best and not branch.error:
            branch.run.close()
    if best.error:
        raise NonFiniteError(f"no branch could be trained to its end. {best.error}")
    return best.run.finish()
