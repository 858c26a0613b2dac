"""The list of checks: one function per cause, and users' own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.verdict import Verdict

CheckFunction = Callable[[Evidence], Verdict | None]

CHECKS: dict[str, CheckFunction] = {}
"""The checks of the library, by cause."""


def check(function: CheckFunction) -> CheckFunction:
    """Add a function to the checks of the library. Its name is the cause."""
    CHECKS[function.__name__] = function
    return function


class Check(Description):
    """Base class of checks with settings. A subclass overrides `look`.

    >>> class LongTraining(Check):
    ...     epochs: int = 100
    ...
    ...     def look(self, evidence):
    ...         if evidence.training is None or len(evidence.training.train_loss) <= self.epochs:
    ...             return None
    ...         return Verdict(cause="long_training", what="the training was long", certainty=0.5)
    """

    family: ClassVar[str] = "check"

    def look(self, evidence: Evidence) -> Verdict | None:  # noqa: ARG002
        """The verdict of this check; None if the evidence does not show its cause."""
        raise ConfigError(f"{self.kind} must override look(evidence)")


AnyCheck = Check | CheckFunction
