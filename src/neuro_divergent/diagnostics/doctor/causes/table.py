"""Causes in the training rows."""

from __future__ import annotations

from neuro_divergent.diagnostics.doctor import limits
from neuro_divergent.diagnostics.doctor.catalogue import check
from neuro_divergent.diagnostics.doctor.evidence import Evidence
from neuro_divergent.diagnostics.doctor.verdict import Verdict

PERCENTAGES = ("MAPE", "SMAPE", "RelativeMSE")
SQUARES = ("MSE", "RMSE")


@check
def nonfinite_data(evidence: Evidence) -> Verdict | None:
    """Values that are infinite, NaN, or so large that their square overflows."""
    table = evidence.table
    if table is None or not table.bad_columns:
        return None
    return Verdict(
        cause="nonfinite_data",
        what="the table has values that are not finite, or too large for float32",
        certainty=1.0,
        evidence={f"values in {name}": count for name, count in table.bad_columns.items()},
        advice="Correct these values, or leave them empty: a missing target is masked",
    )


@check
def leak(evidence: Evidence) -> Verdict | None:
    """An exogenous column that carries the target."""
    table = evidence.table
    found = {} if table is None else {name: value for name, value in table.leaks.items() if value > limits.LEAK}
    if not found:
        return None
    return Verdict(
        cause="leak",
        what="a column carries the values to forecast: its changes are those of the target",
        certainty=0.98,
        evidence={f"correlation of {name}": value for name, value in found.items()},
        advice=f"Leave out {', '.join(found)}, unless it is really known when the forecast is made",
    )


@check
def duplicated_windows(evidence: Evidence) -> Verdict | None:
    """Series or windows that occur several times."""
    table = evidence.table
    if table is None or table.duplicated < limits.DUPLICATED:
        return None
    return Verdict(
        cause="duplicated_windows",
        what="many training windows repeat other windows exactly",
        certainty=min(0.97, 0.8 + 0.3 * table.duplicated),
        evidence={"share of windows": table.duplicated, "repeated series": table.duplicated_series},
        advice="Remove the repeated series: they count several times in every loss and score",
    )


@check
def constant_inputs(evidence: Evidence) -> Verdict | None:
    """Columns or series that never change."""
    table = evidence.table
    if table is None or not (table.constant_columns or table.constant_series >= 0.2):
        return None
    return Verdict(
        cause="constant_inputs",
        what="columns or series never change, so that nothing can be learned from them",
        certainty=0.9,
        evidence={"columns": list(table.constant_columns), "share of constant series": table.constant_series},
        advice="Leave out the constant columns; from_frame(constant='drop') leaves out constant series",
    )


@check
def level_shift(evidence: Evidence) -> Verdict | None:
    """The held-out rows have another level or another noise than the training rows."""
    table = evidence.table
    if table is None or table.shift < limits.SHIFT:
        return None
    return Verdict(
        cause="level_shift",
        what="the level changes in the held-out rows far more than it ever did in the training rows",
        certainty=min(0.96, 0.7 + 0.1 * (table.shift / limits.SHIFT)),
        evidence={"change over the largest change before": table.shift, "noise over the noise before": table.spread},
        remedy={"validation_split": 0.1},
        advice="Train on rows after the change, or hold out fewer rows so that the new level is learned",
    )


@check
def unscaled_inputs(evidence: Evidence) -> Verdict | None:
    """The network reads values that are far from 1, because windows are not scaled."""
    network = evidence.network
    scaled = evidence.model.get("scaler") not in (None, "identity", "none")
    if network is None or scaled or 1 / limits.UNSCALED < network.input_size < limits.UNSCALED:
        return None
    return Verdict(
        cause="unscaled_inputs",
        what="the network reads values that are not scaled",
        certainty=0.95,
        evidence={"root mean square of the inputs": network.input_size},
        model_remedy={"scaler": "standard"},
    )


@check
def dominating_series(evidence: Evidence) -> Verdict | None:
    """A few series have nearly all of the loss."""
    network, table = evidence.network, evidence.table
    if network is None or table is None or network.top_share < limits.TOP_SHARE:
        return None
    scaled = evidence.model.get("scaler") not in (None, "identity", "none")
    return Verdict(
        cause="dominating_series",
        what="a few series have nearly all of the loss: the others hardly count",
        certainty=0.93,
        evidence={
            "share of the loss": network.top_share,
            "series": list(network.top_series),
            "largest over median spread": table.scale_ratio,
        },
        remedy={"loss": "MAE"} if scaled else {},
        model_remedy={} if scaled else {"scaler": "standard"},
    )


@check
def wrong_loss(evidence: Evidence) -> Verdict | None:
    """A percentage error with zeros, or a squared error with counts."""
    table = evidence.table
    if table is None:
        return None
    if evidence.loss in PERCENTAGES and table.zeros > limits.ZEROS:
        return Verdict(
            cause="wrong_loss",
            what=f"{evidence.loss} divides by the target, which is often zero",
            certainty=0.97,
            evidence={"share of zeros": table.zeros},
            remedy={"loss": "MAE"},
        )
    if evidence.loss in SQUARES and table.counts and table.zeros > limits.ZEROS:
        return Verdict(
            cause="wrong_loss",
            what=f"the target is small counts, for which {evidence.loss} assumes errors of equal size",
            certainty=0.95,
            evidence={"share of zeros": table.zeros, "mean": table.mean},
            remedy={"loss": {"kind": "DistributionLoss", "distribution": "NegativeBinomial"}},
        )
    return None
