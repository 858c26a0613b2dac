"""Trains a model on all rows, after validation has chosen its best weights without the newest ones."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from neuro_divergent.core.runs.names import STOPPED_ON_REQUEST
from neuro_divergent.forecasting.fit.problem import STARTS_FROM, Problem
from neuro_divergent.forecasting.fit.training import training_of
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.validated import REFIT_EVENT
from neuro_divergent.optim import CosineAnnealing, Optimizer, ScheduleFreeAdamW
from neuro_divergent.training.config.training_config import EarlyStopping, TrainingConfig
from neuro_divergent.training.runs.checkpoint_store import REFIT, inside, place_of
from neuro_divergent.training.runs.lock import run_lock
from neuro_divergent.training.runs.resume import FREE, Resume, differences, newest
from neuro_divergent.training.state.history import History
from neuro_divergent.training.state.state import TrainState

FINE_TUNE_STEPS = 0.3
"""A fine-tuning on all rows has this share of the steps that the best weights took (benchmarks/refit.py)."""
FINE_TUNE_RATE = 0.5
"""Its learning rate begins at this share of the training's, and falls to 0 along a half cosine."""

HELD_OUT_FIELDS = ("validation_split", "early_stopping", "refit")
"""Fields of a configuration that need held-out rows."""


def refit_state(problem: Problem, config: TrainingConfig, found: TrainState, resume: Resume) -> TrainState | None:
    """The state of a second training, on all rows; None if a stop was requested in it.

    Its history is that of the first training, with an event about the second one.

    Args:
        problem: the learning problem of the first training.
        config: the resolved configuration; `refit` says how.
        found: the end of the first training, with its best weights.
        resume: how the first training was resumed.
    """
    lengths = problem.store.lengths
    problem = replace(problem, rows=lengths, indexed={})  # now all rows are trained on
    if config.refit == "fine_tune":
        weights = {name: tensor.detach().cpu().clone() for name, tensor in found.module.state_dict().items()}
        problem = replace(problem, begin_with=_beginning(weights), starts_from=_digest(weights))
    again = _second_config(config, found)
    with run_lock(config.checkpoints):  # a new run in the directory would also move the refit away
        begin = _begin(again, resume, problem.starts_from)
        title = f"{problem.model.name} refit on all rows"
        state = training_of(problem, again, (np.zeros_like(lengths), lengths), None, begin, title=title).complete()
    if state.history.stopped == STOPPED_ON_REQUEST:
        return None
    event = refit_record(str(config.refit), again, state.history, state.step)
    first = found.history
    first.events.append({"step": found.step, "epoch": len(first)} | event)
    state.history, state.config = first, config
    return state


def _second_config(config: TrainingConfig, found: TrainState) -> TrainingConfig:
    """The configuration of the second training: the epochs that validation found best, or a few steps from there."""
    fields: dict[str, Any] = {}
    if config.checkpoints is not None:  # a second run, inside the run
        fields["checkpoints"] = config.checkpoints.replace(directory=inside(config.checkpoints, REFIT))
    if config.refit == "all":
        epochs = _epochs(config, found.history)
        return config.replace(**fields, **dict.fromkeys(HELD_OUT_FIELDS), max_epochs=epochs)
    return fine_tuning(config, found.history, found.step).replace(**fields)


def fine_tuning(config: TrainingConfig, history: History, steps: int) -> TrainingConfig:
    """The configuration of a fine-tuning on all rows, after a training of some steps.

    It has FINE_TUNE_STEPS of the steps that the weights took, and begins at FINE_TUNE_RATE of the learning rate.
    """
    optimizer = config.optimizer
    assert isinstance(optimizer, Optimizer)
    best = steps * _epochs(config, history) / max(1, len(history))
    return config.replace(
        **dict.fromkeys(HELD_OUT_FIELDS),
        max_epochs=None,
        max_steps=max(1, round(best * FINE_TUNE_STEPS)),
        optimizer=optimizer.at_rate(optimizer.learning_rate * FINE_TUNE_RATE),
        schedule=None if isinstance(optimizer, ScheduleFreeAdamW) else CosineAnnealing(),
        curriculum=None,  # the weights are good already
        metrics=(),
        callbacks=tuple(item for item in config.callbacks if getattr(item, "engine", False)),
    )


def _epochs(config: TrainingConfig, history: History) -> int:
    """How many epochs the weights of the first training took: up to the best one, if its weights were restored."""
    rule = config.early_stopping
    restored = not isinstance(rule, EarlyStopping) or rule.restore_best_weights
    return (history.best_epoch if restored else None) or len(history)


def refit_record(how: str, config: TrainingConfig, history: History, steps: int) -> dict[str, Any]:
    """What the history of the first training records about the second one."""
    return {
        "event": REFIT_EVENT,
        "how": how,
        "epochs": len(history),
        "steps": steps,
        "learning_rate": _rate(config),
        "train_loss": history.train_loss,
    }


def _rate(config: TrainingConfig) -> float:
    assert isinstance(config.optimizer, Optimizer)
    return float(config.optimizer.learning_rate)


def _beginning(weights: dict[str, Tensor]) -> Any:
    def begin(module: ForecastModule) -> None:
        module.load_state_dict(weights)

    return begin


def _digest(weights: dict[str, Tensor]) -> str:
    """Names the weights with which a fine-tuning starts: one from other weights is another run."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode() + b"|" + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _begin(config: TrainingConfig, resume: Resume, starts_from: str | None) -> Resume:
    """Where the second training resumes. It starts again if what it depends on was changed."""
    if resume.source is None or config.checkpoints is None:
        return Resume(None)
    found, _ = newest(place_of(config.checkpoints.directory))
    kept = {} if found is None else found.document["config"]
    wanted = config.replace(callbacks=()).to_dict()  # live callbacks are not in a file
    changed = {"max_epochs", "max_steps", *(resume.changes or ())} - FREE
    other = any(differences(kept[name], wanted[name]) for name in changed & kept.keys())
    other = other or (found is not None and found.document["identity"].get(STARTS_FROM) != starts_from)
    return Resume(None if other else "auto", finished=resume.finished and not other)
