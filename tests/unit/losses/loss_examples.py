"""One or more examples of every registered loss, and data that fits each: a loss without an example fails the suite."""

from __future__ import annotations

import torch
from torch import Tensor

from neuro_divergent.core.batch import Batch
from neuro_divergent.losses import (
    CRPS,
    MAE,
    MAPE,
    MASE,
    MSE,
    RMSE,
    SMAPE,
    BinaryCrossEntropy,
    CrossEntropy,
    CustomLoss,
    DistributionLoss,
    FreDF,
    Huber,
    HuberImplicitQuantile,
    HuberMQLoss,
    HuberQuantile,
    ImplicitQuantile,
    LogCosh,
    Loss,
    MQLoss,
    NegativeBinomialMixture,
    NormalMixture,
    PoissonMixture,
    Quantile,
    RelativeMSE,
    Tukey,
    Weighted,
)

DISTRIBUTIONS = ("Normal", "StudentT", "Poisson", "NegativeBinomial", "Bernoulli", "Tweedie", "ISQF")


def quartic(output: Tensor, target: Tensor) -> Tensor:
    return (output - target) ** 4


EXAMPLES: dict[str, list[Loss]] = {
    "MSE": [MSE()],
    "RMSE": [RMSE()],
    "MAE": [MAE()],
    "Huber": [Huber(), Huber(delta=0.3)],
    "Tukey": [Tukey(), Tukey(c=1.5)],
    "LogCosh": [LogCosh()],
    "MAPE": [MAPE()],
    "SMAPE": [SMAPE()],
    "MASE": [MASE(), MASE(seasonality=3)],
    "RelativeMSE": [RelativeMSE()],
    "FreDF": [FreDF(), FreDF(alpha=0.9)],
    "Quantile": [Quantile(q=0.8)],
    "HuberQuantile": [HuberQuantile(q=0.2, delta=0.5)],
    "MQLoss": [MQLoss(), MQLoss(quantiles=[0.1, 0.5, 0.7], weights=[1, 2, 1])],
    "HuberMQLoss": [HuberMQLoss(level=[60], delta=0.4)],
    "ImplicitQuantile": [ImplicitQuantile(width=4)],
    "HuberImplicitQuantile": [HuberImplicitQuantile(width=4, delta=0.5)],
    "DistributionLoss": [DistributionLoss(distribution=name) for name in DISTRIBUTIONS]
    + [DistributionLoss(distribution="ISQF", quantiles=[0.3, 0.6], num_pieces=2)],
    "NormalMixture": [NormalMixture(components=2)],
    "PoissonMixture": [PoissonMixture(components=3)],
    "NegativeBinomialMixture": [NegativeBinomialMixture(components=2)],
    "CRPS": [CRPS()],
    "CrossEntropy": [CrossEntropy(), CrossEntropy(classes=4, label_smoothing=0.1, class_weights=[1, 2, 0.5, 1])],
    "BinaryCrossEntropy": [BinaryCrossEntropy(), BinaryCrossEntropy(label_smoothing=0.2, positive_weight=3)],
    "CustomLoss": [CustomLoss(function=quartic)],
    "Weighted": [
        Weighted(loss=MAE(), by="horizon", decay=0.9),
        Weighted(loss=DistributionLoss(distribution="Poisson"), by="recency", half_life=5),
        Weighted(loss=CrossEntropy()),
    ],
}

ALL = [loss for examples in EXAMPLES.values() for loss in examples]
PROBABILISTIC = [loss for loss in ALL if loss.probabilistic and not isinstance(loss, ImplicitQuantile)]


def name_of(loss: Loss) -> str:
    return f"{loss.kind}-{getattr(loss, 'distribution', '')}{loss.to_json(indent=None)[-24:-1]}"


def width_of(loss: Loss) -> int:
    """How many numbers per element `values` takes: the head's two for implicit quantiles, four classes if free."""
    inner = loss.loss if isinstance(loss, Weighted) else loss
    return 2 if isinstance(inner, ImplicitQuantile) else inner.outputs or 4


def data_for(
    loss: Loss, *, dtype: torch.dtype = torch.float64, windows: int = 3, horizon: int = 4
) -> tuple[Tensor, Tensor, Batch]:
    """Outputs [B, H, 2, Q], targets [B, H, 2] and a window with masks, at points where no formula has a corner."""
    generator = torch.Generator().manual_seed(0)
    shape = (windows, horizon, 2)
    output = torch.randn(*shape, width_of(loss), generator=generator, dtype=dtype)
    target = torch.randn(shape, generator=generator, dtype=dtype) * 2
    inner = loss.loss if isinstance(loss, Weighted) else loss
    if isinstance(inner, ImplicitQuantile):
        output[..., 1] = torch.rand(shape, generator=generator, dtype=dtype)
    if inner.task == "classification":
        target = torch.randint(0, 2 if isinstance(inner, BinaryCrossEntropy) else 4, shape, generator=generator)
    elif getattr(inner, "distribution", None) == "Bernoulli":
        target = (target > 0).to(dtype)
    elif inner.units == "original" and inner.probabilistic:
        target = target.abs().mul(4).floor()
    y = torch.randn(windows, 8, 2, generator=generator, dtype=dtype)
    window = Batch(
        y=y,
        mask=torch.rand(y.shape, generator=generator) > 0.2,
        target=target,
        target_mask=torch.rand(shape, generator=generator) > 0.3,
        weight=torch.rand(shape, generator=generator, dtype=dtype),
    )
    return output, target, window
