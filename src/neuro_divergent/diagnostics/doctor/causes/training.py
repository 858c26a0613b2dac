"""Causes in the course of the training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from neuro_divergent.diagnostics.doctor import limits
from neuro_divergent.diagnostics.doctor.catalogue import check
from neuro_divergent.diagnostics.doctor.evidence import Evidence, TrainingFacts
from neuro_divergent.diagnostics.doctor.verdict import Verdict


def _bad(training: TrainingFacts, what: str) -> int:
    """How many steps had a loss, or a gradient, that was not finite."""
    named = f"the {what} must be finite" in training.error
    values = training.step_loss if what == "loss" else training.gradient_norm
    unseen = sum(not math.isfinite(value) for value in values) if what == "loss" else 0
    return max(sum(item == what for item in training.skipped), unseen, int(named))


def _nonfinite(evidence: Evidence, what: str) -> Verdict | None:
    training = evidence.training
    if training is None or not (count := _bad(training, what)):
        return None
    return Verdict(
        cause=f"nonfinite_{what}",
        what=f"the {what} became NaN or infinite",
        certainty=0.995,
        evidence={"steps": count, "steps before": len(training.step_loss)}
        | ({"error": training.error} if training.error else {}),
        remedy={"gradient_clipping": 1.0} | evidence.times_rate(0.1),
        advice="Check the table and the loss for logarithms, roots and divisions",
    )


@check
def nonfinite_loss(evidence: Evidence) -> Verdict | None:
    """The loss was NaN or infinite."""
    return _nonfinite(evidence, "loss")


@check
def nonfinite_gradient(evidence: Evidence) -> Verdict | None:
    """A gradient was NaN or infinite while the loss was finite."""
    return _nonfinite(evidence, "gradient")


def oscillation(losses: Sequence[float]) -> float:
    """Size of the changes from step to step over the mean loss, in the second half.

    >>> oscillation([1.0, 1.0, 1.0, 1.0]), oscillation([1.0, 3.0] * 20)
    (0.0, 1.0)
    """
    tail = np.asarray([value for value in losses[len(losses) // 2 :] if math.isfinite(value)], dtype=np.float64)
    if len(tail) < 10:
        return 0.0
    return float(np.mean(np.abs(np.diff(tail))) / max(1e-12, float(np.mean(np.abs(tail)))) / 1.0)


def divergence(losses: Sequence[float]) -> float:
    """Mean loss of the last tenth of the steps over that of the first steps."""
    known = [value for value in losses if math.isfinite(value)]
    if len(known) < 20:
        return 0.0
    first, last = float(np.mean(known[:5])), float(np.mean(known[-max(5, len(known) // 10) :]))
    return last / first if first > 0 else 0.0


def _own(evidence: Evidence) -> float:
    """The progress of the probe at the run's own rate."""
    network = evidence.network
    return 0.0 if network is None else evidence.progress(network.from_start.get("1.0", float("nan")))


@check
def learning_rate_too_high(evidence: Evidence) -> Verdict | None:
    """A lower rate reaches in a few steps what the run did not, or the loss diverged."""
    training, network, rate = evidence.training, evidence.network, evidence.rate
    if training is None or rate is None:
        return None
    figures: dict[str, float] = {}
    certainty, factor = 0.0, 0.1
    if network is not None and network.from_start and evidence.same_start:
        tried = {float(name): value for name, value in network.from_start.items() if float(name) < 1}
        factor, lowest = min(tried.items(), key=lambda item: item[1])
        run, other = evidence.progress(evidence.reached), evidence.progress(lowest)
        if run < limits.PROGRESS and other > run + limits.MORE_PROGRESS and _own(evidence) < 0.75 * other:
            certainty = min(0.98, 0.85 + 0.13 * (other - run))
            figures = {
                "loss after the run": evidence.reached,
                f"after {network.probe_steps} steps at {factor:g} of the rate": lowest,
            }
    grown = divergence(training.step_loss)
    if grown > 2.0:
        certainty = max(certainty, 0.9)
        figures["last over first loss"] = grown
    if not figures:
        return None
    return Verdict(
        cause="learning_rate_too_high",
        what="the learning rate is too high",
        certainty=certainty,
        evidence=figures | {"learning rate": rate, "change from step to step": oscillation(training.step_loss)},
        remedy=evidence.times_rate(factor),
    )


@check
def learning_rate_too_low(evidence: Evidence) -> Verdict | None:
    """A higher rate reaches in a few steps what the whole run did not."""
    network, rate = evidence.network, evidence.rate
    if network is None or rate is None or not network.from_start or not evidence.same_start:
        return None
    tried = {float(name): value for name, value in network.from_start.items() if float(name) > 1}
    factor, lowest = min(tried.items(), key=lambda item: item[1])
    run, other = evidence.progress(evidence.reached), evidence.progress(lowest)
    if run > limits.PROGRESS or other < run + limits.MORE_PROGRESS or _own(evidence) > 0.5 * other:
        return None
    return Verdict(
        cause="learning_rate_too_low",
        what="the learning rate is too low",
        certainty=min(0.96, 0.8 + 0.16 * (other - run)),
        evidence={
            "learning rate": rate,
            "loss after the run": evidence.reached,
            f"after {network.probe_steps} steps at {factor:g} times the rate": lowest,
        },
        remedy=evidence.times_rate(factor),
    )


def late_fall(losses: Sequence[float]) -> float:
    """By what share the second half of the epochs lowers the training loss.

    >>> late_fall([4.0, 3.0, 2.0, 1.0])
    0.5
    """
    known = [value for value in losses if math.isfinite(value)]
    if len(known) < 4 or known[len(known) // 2] <= 0:
        return 0.0
    return 1.0 - known[-1] / known[len(known) // 2]


@check
def plateau(evidence: Evidence) -> Verdict | None:
    """The loss stopped falling because the rate had fallen; more steps at the first rate lower it."""
    training, network, rate = evidence.training, evidence.network, evidence.rate
    if training is None or network is None or rate is None or not math.isfinite(network.go_on):
        return None
    rates = list(training.learning_rate)
    idle = float(np.mean([value < 0.02 * rate for value in rates])) if rates else 0.0
    run, later = evidence.progress(evidence.reached), evidence.progress(network.go_on)
    if idle < 0.5 or later < run + limits.MORE_ON_PLATEAU:
        return None
    return Verdict(
        cause="plateau",
        what="the loss stands still because the schedule has lowered the learning rate too early",
        certainty=0.94,
        evidence={
            "share of epochs with less than 2 % of the rate": idle,
            "fall in the second half": late_fall(training.train_loss),
            "loss after the run": evidence.reached,
            f"after {network.probe_steps} more steps at {rate:g}": network.go_on,
        },
        remedy={"schedule": {"kind": "CosineAnnealing"}, "learning_rate": rate},
    )


@check
def stopped_too_early(evidence: Evidence) -> Verdict | None:
    """The loss was still falling when the training ended, and a few more steps lower it further."""
    training, network = evidence.training, evidence.network
    if training is None or network is None or not math.isfinite(network.go_on):
        return None
    steps = len(training.step_loss)
    run, later = evidence.progress(evidence.reached), evidence.progress(network.go_on)
    better = not math.isfinite(network.final_validation) or network.go_on_validation < network.final_validation
    if run > limits.FINISHED or later < run + limits.MORE_PROGRESS or not better:
        return None
    epochs = len(training.train_loss)
    return Verdict(
        cause="stopped_too_early",
        what="the training ended while the loss was still falling",
        certainty=min(0.92, 0.8 + 0.12 * (later - run)),
        evidence={
            "steps": steps,
            "loss after the run": evidence.reached,
            f"after {network.probe_steps} more steps": network.go_on,
        },
        remedy={"max_epochs": max(4 * epochs, 20), "max_steps": None},
    )


@check
def overfitting(evidence: Evidence) -> Verdict | None:
    """The validation loss rose while the training loss fell."""
    training = evidence.training
    if training is None or len(training.validation_loss) < 4 or len(training.train_loss) < 4:
        return None
    losses = [value for value in training.validation_loss if math.isfinite(value)]
    if len(losses) < 4 or min(losses) <= 0:
        return None
    best, last = min(losses), losses[-1]
    place = losses.index(best)
    fell = training.train_loss[-1] < 0.9 * training.train_loss[min(place, len(training.train_loss) - 1)]
    restored = training.best_epoch is not None
    rise = float(np.median(losses[-3:])) / best
    apart = training.train_loss[-1] < 0.5 * last
    limit = limits.OVERFIT_HISTORY if restored else limits.OVERFIT_APART if apart else limits.OVERFIT_RISE
    if not fell or rise < limit:
        return None
    return Verdict(
        cause="overfitting",
        what="the network learns the training rows by heart: the validation loss rises while the training loss falls",
        certainty=min(0.97, 0.8 + 0.2 * (rise - 1)),
        evidence={
            "lowest validation loss": best,
            "at epoch": place + 1,
            "last validation loss": last,
            "last training loss": training.train_loss[-1],
        },
        remedy={"early_stopping": {"kind": "EarlyStopping", "patience": 5}},
    )
