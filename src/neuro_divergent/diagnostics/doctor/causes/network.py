"""Causes in the network and in the steps."""

from __future__ import annotations

import math

import numpy as np

from neuro_divergent.diagnostics.doctor import limits
from neuro_divergent.diagnostics.doctor.catalogue import check
from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.verdict import Verdict


@check
def frozen_weights(evidence: Evidence) -> Verdict | None:
    """Weights that have their initial values after the training."""
    network, training = evidence.network, evidence.training
    if network is None or training is None or not training.step_loss:
        return None
    matrices = [layer for layer in network.layers if layer["matrix"]]
    still = [layer for layer in matrices if not layer["changed"]]
    total = sum(layer["values"] for layer in matrices)
    share = sum(layer["values"] for layer in still) / total if total else 0.0
    if share < 0.1:
        return None
    return Verdict(
        cause="frozen_weights",
        what="weights have exactly their initial values: they were not trained",
        certainty=0.985,
        evidence={"share of the weights": share, "weights": [str(layer["name"]) for layer in still]},
        remedy={"freeze": ()},
    )


@check
def dead_units(evidence: Evidence) -> Verdict | None:
    """Units that are 0 for every window."""
    network = evidence.network
    if network is None or not network.dead:
        return None
    worst = max(network.dead, key=lambda name: network.dead[name])
    if network.dead[worst] < limits.DEAD:
        return None
    return Verdict(
        cause="dead_units",
        what="most units of a layer are 0 for every window: they no longer learn",
        certainty=min(0.96, 0.6 + 0.36 * network.dead[worst]),
        evidence={"layer": worst, "share of dead units": network.dead[worst]},
        remedy=evidence.times_rate(0.1),
        model_remedy={"activation": "leaky_relu"} if "activation" in evidence.model else {},
    )


@check
def vanishing_gradients(evidence: Evidence) -> Verdict | None:
    """The gradient of the first layers is tiny beside that of the last ones."""
    network = evidence.network
    if network is None:
        return None
    layers = [layer for layer in network.layers if layer["matrix"] and layer["trainable"]]
    sizes = [(max(layer["gradient_start"], layer["gradient_end"]), str(layer["name"])) for layer in layers]
    sizes = [item for item in sizes if math.isfinite(item[0]) and item[0] > 0]
    if len(sizes) < 3:
        return None
    smallest, largest = min(sizes), max(sizes)
    ratio = smallest[0] / largest[0]
    if ratio > limits.VANISHED:
        return None
    return Verdict(
        cause="vanishing_gradients",
        what="the gradient vanishes on its way to the first layers: they hardly learn",
        certainty=min(0.97, 0.85 + 0.03 * math.log10(limits.VANISHED / ratio)),
        evidence={"smallest over largest gradient": ratio, "layer": smallest[1]},
        model_remedy={"activation": "relu"} if evidence.model.get("activation") in ("sigmoid", "tanh") else {},
        advice="Use fewer layers, another activation or batch_norm=True",
    )


@check
def exploding_gradients(evidence: Evidence) -> Verdict | None:
    """Gradients are huge beside loss and weights, or jump by orders of magnitude."""
    training = evidence.training
    norms = [] if training is None else [norm for norm in training.gradient_norm if math.isfinite(norm)]
    if len(norms) < 10:
        return None
    middle = float(np.median(norms))
    size = min(20, len(norms))
    blocks = np.asarray(norms[: len(norms) // size * size]).reshape(-1, size)
    largest = float(np.median(blocks, axis=1).max())
    score = max(largest / limits.EXPLODED, max(norms) / max(middle, 1e-12) / limits.SPIKE)
    if score < 1:
        return None
    return Verdict(
        cause="exploding_gradients",
        what="gradients explode: a small change of the weights changes the loss by far too much",
        certainty=min(0.97, 0.85 + 0.04 * math.log10(score)),
        evidence={
            "largest gradient norm": max(norms),
            "median": middle,
            "largest median of 20 steps": largest,
        },
        remedy={"gradient_clipping": 1.0} | evidence.times_rate(0.1),
    )


@check
def underfitting(evidence: Evidence) -> Verdict | None:
    """A linear regression on the same windows is better, on training and on held-out rows."""
    network = evidence.network
    if network is None or len(network.linear) < 2 or len(network.own) < 2:
        return None
    train, later = (own / max(line, 1e-12) for own, line in zip(network.own, network.linear, strict=True))
    train *= evidence.reached / network.final if network.final > 0 else 1.0  # the best weights may be early ones
    if min(train, later) < limits.UNDERFIT:
        return None
    return Verdict(
        cause="underfitting",
        what="the network learns less than a linear regression on the same windows",
        certainty=min(0.9, 0.7 + 0.2 * (train - limits.UNDERFIT)),
        evidence={
            "error over that of the regression, training rows": train,
            "held-out rows": later,
        },
        advice="Use a wider network, less dropout and regularization, or a longer training",
    )


@check
def batch_too_small(evidence: Evidence) -> Verdict | None:
    """A few steps with a large batch lower the loss of the finished run."""
    network = evidence.network
    if network is None or not math.isfinite(network.large_batches) or not 0 < evidence.batch <= 4:
        return None
    if network.large_batches > limits.LESS_NOISE * network.go_on:
        return None
    return Verdict(
        cause="batch_too_small",
        what="batches are too small for the learning rate: steps are mostly noise",
        certainty=min(0.97, 0.9 + 0.1 * (1 - network.large_batches / max(network.go_on, 1e-12))),
        evidence={
            "batch size": evidence.batch,
            f"loss after {network.probe_steps} more steps": network.go_on,
            "the same with batches of 128": network.large_batches,
        },
        remedy={"batch_size": 64},
    )


@check
def batch_too_large(evidence: Evidence) -> Verdict | None:
    """Few steps, each with many windows: small batches reach more in as many steps."""
    network, training = evidence.network, evidence.training
    if network is None or training is None or not math.isfinite(network.small_batches):
        return None
    steps = len(training.step_loss)
    most = 0 if evidence.table is None else evidence.table.windows // 4
    run, other = evidence.progress(evidence.reached), evidence.progress(network.small_batches)
    if steps > limits.FEW_STEPS or evidence.batch < most or run > limits.FINISHED or other < run + 0.15:
        return None
    return Verdict(
        cause="batch_too_large",
        what="batches are too large: the run has too few steps",
        certainty=0.95,
        evidence={
            "batch size": evidence.batch,
            "steps": steps,
            "loss after the run": network.final,
            f"after {network.probe_steps} steps with batches of {network.small_size}": network.small_batches,
        },
        remedy={"batch_size": max(network.small_size, 32)},
    )


@check
def idle_steps_ahead(evidence: Evidence) -> Verdict | None:
    """Steps of the horizon whose error the training did not lower, while it lowered that of the others."""
    network = evidence.network
    if network is None or len(network.step_start) < 4:
        return None
    start, final = np.asarray(network.step_start), np.asarray(network.step_final)
    better = 1.0 - final / np.where(np.abs(start) > 0, np.abs(start), 1.0)
    top = float(np.quantile(better, 0.75))
    idle = np.flatnonzero(better < limits.LEARNED * top)
    if top < 0.15 or len(idle) < 2 or len(idle) > 0.75 * len(better):
        return None
    return Verdict(
        cause="idle_steps_ahead",
        what="some steps of the horizon were not learned while others were",
        certainty=min(0.96, 0.86 + 0.1 * (top - float(better[idle].min()))),
        evidence={
            "steps ahead": (idle + 1).tolist(),
            "their improvement": float(better[idle].mean()),
            "improvement of the others": top,
        },
        remedy={"curriculum": None},
        advice="Check the weights of the steps in the loss, and whether a curriculum reaches them",
    )
