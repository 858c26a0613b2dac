"""What `treat` tries against a verdict: its remedy first, then stronger ones or the neighbouring value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from neuro_divergent.diagnostics.doctor.verdict import Verdict
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.optim import Optimizer

GOES_ON = ("plateau", "stopped_too_early", "nonfinite_loss", "nonfinite_gradient")
"""Causes whose remedy starts at the best checkpoint. All others spoil the steps from the first one on."""
DROPOUT, WEIGHT_DECAY = 0.2, 0.1
"""Against overfitting, where early stopping alone is not enough."""
OTHER_RATE = {"learning_rate_too_high": 1 / 3, "learning_rate_too_low": 3.0}
"""The second rate that is tried, over the one that the probes found: their rates are ten apart."""
SIZES = ("hidden_size", "hidden_sizes")
"""Fields of a model that say how wide it is."""


@dataclass(frozen=True)
class Attempt:
    """One change to try, and where its branch begins."""

    remedy: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the configuration."""
    model_remedy: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the model."""
    begins: Literal["good", "start", "afresh"] = "start"
    """At the checkpoint of the lowest validation loss, at the first step, or with newly drawn weights."""


def attempts(verdict: Verdict, run: Run) -> list[Attempt]:
    """What is tried against a verdict about a run, in turn; empty if no setting mends it."""
    if not (verdict.remedy or verdict.model_remedy):
        return []
    first = Attempt(verdict.remedy, verdict.model_remedy, "good" if verdict.cause in GOES_ON else "start")
    if verdict.cause == "overfitting":
        return [first, *_stronger(verdict, run)]
    if verdict.cause == "exploding_gradients" and run.job.begin_with is not None:
        clipped = {name: value for name, value in verdict.remedy.items() if name != "learning_rate"}
        return [Attempt(clipped, begins="afresh"), first]
    if verdict.cause in OTHER_RATE:
        rate = OTHER_RATE[verdict.cause] * verdict.remedy["learning_rate"]
        return [first, Attempt({"learning_rate": float(f"{rate:.3g}")})]
    return [first]


def _stronger(verdict: Verdict, run: Run) -> list[Attempt]:
    """Against overfitting: regularization, then a network of a quarter of the width, both with early stopping."""
    model, optimizer = run.job.model.to_dict(), run.training.state.config.optimizer
    remedy = dict(verdict.remedy)
    if isinstance(optimizer, Optimizer):
        remedy["optimizer"] = optimizer.replace(weight_decay=max(WEIGHT_DECAY, optimizer.weight_decay))
    dropout = {"dropout": max(DROPOUT, model["dropout"])} if "dropout" in model else {}
    narrow = {name: _quarter(model[name]) for name in SIZES if model.get(name)}
    return [Attempt(remedy, dropout), *([Attempt(remedy, dropout | narrow, "afresh")] if narrow else [])]


def _quarter(size: Any) -> Any:
    """A quarter of a width, or of each of several widths.

    >>> _quarter(256), _quarter([64, 8])
    (64, [16, 4])
    """
    return max(4, size // 4) if isinstance(size, int) else [_quarter(one) for one in size]
