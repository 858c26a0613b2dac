"""`diagnose`: what is wrong with a training, with evidence and remedy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.read import read_run
from neuro_divergent.core.runs.record import RunRecord
from neuro_divergent.diagnostics.doctor import gather
from neuro_divergent.diagnostics.doctor.catalogue import AnyCheck
from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.judge import verdicts_of
from neuro_divergent.diagnostics.doctor.verdict import HEALTHY, Diagnosis, Verdict
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.state.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def diagnose(
    trained: Forecaster | RunRecord | History | str | os.PathLike[str],
    data: Any = None,
    *,
    checks: Sequence[AnyCheck] = (),
    probes: bool = True,
) -> Diagnosis:
    """What is wrong with a training, the most certain verdict first. Nothing of the training changes.

    >>> import neuro_divergent as nd
    >>> rising = nd.History(
    ...     epochs=[{"epoch": i, "train_loss": 1 / i, "validation_loss": 0.5 + 0.1 * i} for i in range(1, 9)]
    ... )
    >>> nd.diagnose(rising).verdicts[0].cause
    'overfitting'

    Args:
        trained: a fitted model, the directory of a run, the result of `nd.read_run`, or a history.
        data: the training table. A model that was just fitted has it; a run directory or a loaded model needs it for
            everything besides the course of the training.
        checks: your own checks: functions of the evidence that return a `Verdict` or None, or `Check` descriptions.
        probes: whether to train copies of the network for a few steps, which shows that another learning rate or batch
            size would have served better. It costs about 600 steps.
    """
    return judged(_evidence(trained, data, probes=probes), checks)


def _evidence(trained: Any, data: Any, *, probes: bool) -> Evidence:
    if isinstance(trained, Forecaster):
        return gather.from_forecaster(trained, data, probes=probes)
    if isinstance(trained, History):
        if data is not None:
            raise ConfigError(
                "a table is examined with the model that was trained on it, but got a table and a history, which has "
                "no model. Give the fitted model or the directory of the run"
            )
        return gather.from_history(trained)
    if isinstance(trained, str | os.PathLike):
        trained = read_run(trained)
    if isinstance(trained, RunRecord):
        if trained.what == "runs":
            raise ConfigError(
                f"one run is diagnosed at a time, but {trained.path} has {len(trained.runs)}. Give one of "
                f"{', '.join(run.path for run in trained.runs[:3])}"
            )
        return gather.from_run(trained, data, probes=probes)
    raise ConfigError(
        f"a fitted model, a run directory or a history can be diagnosed, but got {type(trained).__name__}"
    )


def judged(evidence: Evidence, checks: Sequence[AnyCheck] = ()) -> Diagnosis:
    """The diagnosis from evidence that was gathered before."""
    found = verdicts_of(evidence, checks)

    def draw() -> Figure:
        from neuro_divergent.diagnostics.doctor.plots import evidence_figure

        return evidence_figure(evidence, tuple(found))

    return Diagnosis(verdicts=tuple(found) or (_healthy(evidence),), not_examined=evidence.missing, draw=draw)


def _healthy(evidence: Evidence) -> Verdict:
    """The verdict that nothing was found, with the figures that say so."""
    figures: dict[str, Any] = {}
    if evidence.training is not None and evidence.training.train_loss:
        figures["training loss"] = evidence.training.train_loss[-1]
        if evidence.training.validation_loss:
            figures["lowest validation loss"] = min(evidence.training.validation_loss)
    if evidence.forecasts is not None and evidence.forecasts.naive > 0:
        figures["error over that of the naive forecast"] = evidence.forecasts.mae / evidence.forecasts.naive
    whole = evidence.network is not None and evidence.forecasts is not None and not evidence.missing
    what = "nothing is wrong" if whole else "nothing is wrong in what was examined"
    return Verdict(cause=HEALTHY, what=what, certainty=1.0 if whole else 0.5, evidence=figures)
