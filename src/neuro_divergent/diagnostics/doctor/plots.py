"""The evidence of a diagnosis as a figure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.verdict import Verdict
from neuro_divergent.plotting.style import COLOURS, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def evidence_figure(evidence: Evidence, verdicts: tuple[Verdict, ...]) -> Figure:
    """Loss curves, gradient norms, losses at other rates, errors by step ahead; the verdicts are in the title."""
    figure = new_figure(9.0, 6.0)
    axes = figure.subplots(2, 2)
    _losses(axes[0][0], evidence)
    _gradients(axes[0][1], evidence)
    _rates(axes[1][0], evidence)
    _errors(axes[1][1], evidence)
    figure.suptitle(", ".join(verdict.cause for verdict in verdicts[:4]) or "healthy")
    return figure


def _losses(axes: Axes, evidence: Evidence) -> None:
    tidy(axes, "loss by epoch")
    if evidence.training is None or not evidence.training.train_loss:
        return
    for values, name in ((evidence.training.train_loss, "training"), (evidence.training.validation_loss, "validation")):
        if values:
            axes.plot(range(1, len(values) + 1), values, label=name)
    axes.legend()


def _gradients(axes: Axes, evidence: Evidence) -> None:
    tidy(axes, "gradient norm by step")
    norms = [] if evidence.training is None else [max(norm, 1e-30) for norm in evidence.training.gradient_norm]
    if any(math.isfinite(norm) for norm in norms):
        axes.semilogy(range(1, len(norms) + 1), norms, color=COLOURS[1], linewidth=0.8)


def _rates(axes: Axes, evidence: Evidence) -> None:
    tidy(axes, "loss after a few steps at other rates", xlabel="learning rate")
    network, rate = evidence.network, evidence.rate
    if network is None or rate is None or not network.from_start:
        return
    points = [(float(factor) * rate, loss) for factor, loss in network.from_start.items() if math.isfinite(loss)]
    axes.semilogx([point[0] for point in points], [point[1] for point in points], marker="o")
    axes.axhline(evidence.reached, color=COLOURS[1], label="loss of the run")
    axes.axvline(rate, color=COLOURS[2], linewidth=0.8, label="rate of the run")
    axes.set_ylim(0, 2 * max(network.start, evidence.reached))
    axes.legend()


def _errors(axes: Axes, evidence: Evidence) -> None:
    tidy(axes, "error over that of the naive forecast", xlabel="step ahead")
    facts = evidence.forecasts
    if facts is None:
        return
    axes.bar(range(1, len(facts.by_step) + 1), facts.by_step)
    axes.axhline(1.0, color=COLOURS[1])
