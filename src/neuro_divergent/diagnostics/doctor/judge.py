"""Runs all checks over the evidence and orders their verdicts: causes first, what follows from them behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.diagnostics.doctor.catalogue import CHECKS, AnyCheck, Check
from neuro_divergent.diagnostics.doctor.causes import forecasts as forecasts
from neuro_divergent.diagnostics.doctor.causes import network as network
from neuro_divergent.diagnostics.doctor.causes import table as table
from neuro_divergent.diagnostics.doctor.causes import training as training
from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.verdict import Verdict

SYMPTOMS = ("underfitting", "worse_than_naive", "worse_at_steps", "worse_for_series", "idle_steps_ahead")
"""Verdicts that another one explains: they stand behind it."""
EXPLAINED_BY = {
    "learning_rate_too_high": ("dead_units", "exploding_gradients"),
    "batch_too_small": ("learning_rate_too_high", "dead_units"),
    "batch_too_large": ("stopped_too_early", "learning_rate_too_low"),
    "frozen_weights": ("learning_rate_too_low", "plateau", "stopped_too_early"),
    "vanishing_gradients": ("learning_rate_too_low", "learning_rate_too_high", "plateau", "stopped_too_early"),
    "exploding_gradients": ("plateau", "stopped_too_early"),
    "unscaled_inputs": ("learning_rate_too_high", "learning_rate_too_low", "exploding_gradients", "dead_units"),
    "dominating_series": ("exploding_gradients", "unscaled_inputs", "level_shift", "learning_rate_too_low"),
    "underfitting": ("worse_than_naive", "worse_for_series", "idle_steps_ahead"),
    "idle_steps_ahead": ("worse_at_steps",),
    "worse_at_steps": ("worse_than_naive", "worse_for_series"),
    "leak": ("duplicated_windows", "level_shift"),
    "level_shift": ("overfitting", "intervals_off"),
    "nonfinite_data": ("nonfinite_loss", "nonfinite_gradient", "level_shift", "dominating_series"),
}
"""By cause, the verdicts that follow from it."""


def verdicts_of(evidence: Evidence, own: Sequence[AnyCheck] = ()) -> list[Verdict]:
    """What all checks say about the evidence, the most certain first."""
    functions = [*CHECKS.values(), *(item.look if isinstance(item, Check) else item for item in own)]
    found = []
    for function in functions:
        verdict = function(evidence)
        if verdict is not None and not isinstance(verdict, Verdict):
            raise ConfigError(f"a check returns a Verdict or None, but {function!r} returned {verdict!r}")
        if verdict is not None:
            found.append(verdict)
    return ordered(found)


def ordered(found: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts by certainty. One that follows from another one of them is less certain as a cause."""
    causes = [verdict.cause for verdict in found]
    explained = Counter(effect for cause in causes for effect in EXPLAINED_BY.get(cause, ()))
    if set(causes) - set(SYMPTOMS):
        explained.update(SYMPTOMS)
    ranked = [replace(verdict, certainty=0.8 ** explained[verdict.cause] * verdict.certainty) for verdict in found]
    return sorted(ranked, key=lambda verdict: -verdict.certainty)
