"""Facts about a training, from its history or from the log of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from neuro_divergent.core.runs.record import RunRecord
from neuro_divergent.diagnostics.doctor.evidence import TrainingFacts
from neuro_divergent.training.state.history import History


def of_history(history: History, error: str = "", newest: int | None = None) -> TrainingFacts:
    """The facts of a live or a finished history; of the steps only the newest ones, if their number is given."""
    first = 0 if newest is None else -newest
    return _facts(
        history.epochs,
        history.step_loss[first:],
        history.gradient_norm[first:],
        history.events,
        best_epoch=history.best_epoch,
        stopped=history.stopped,
        error=error,
    )


def of_run(record: RunRecord) -> TrainingFacts:
    """The facts of a run directory."""
    steps, events = record.steps, record.log.events
    best = record._history.get("best_epoch")
    error = next((str(line.get("error")) for line in reversed(events) if line["event"] == "error"), "")
    return _facts(
        record.epochs,
        steps.get("loss", []),
        steps.get("gradient_norm", []),
        events,
        best_epoch=best if isinstance(best, int) else None,
        stopped=record.stopped,
        error=error,
    )


def _facts(
    epochs: Sequence[Mapping[str, float]],
    losses: Sequence[float],
    norms: Sequence[float],
    events: Sequence[Mapping[str, Any]],
    *,
    best_epoch: int | None,
    stopped: str,
    error: str,
) -> TrainingFacts:
    return TrainingFacts(
        train_loss=[float(record["train_loss"]) for record in epochs if "train_loss" in record],
        validation_loss=[float(record["validation_loss"]) for record in epochs if "validation_loss" in record],
        learning_rate=[float(record["learning_rate"]) for record in epochs if "learning_rate" in record],
        step_loss=list(losses),
        gradient_norm=list(norms),
        best_epoch=best_epoch,
        skipped=[str(event.get("what", "loss")) for event in events if event.get("event") == "skipped"],
        error=error,
        stopped=stopped,
    )
