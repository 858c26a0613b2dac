"""Losses. They return elementwise values; the training engine applies masks, weights and the mean."""

from neuro_divergent.losses.base import Loss, check_shapes
from neuro_divergent.losses.classification import BinaryCrossEntropy, CrossEntropy
from neuro_divergent.losses.custom import CustomLoss
from neuro_divergent.losses.distribution import (
    CRPS,
    GMM,
    NBMM,
    PMM,
    DistributionLoss,
    NegativeBinomialMixture,
    NormalMixture,
    PoissonMixture,
)
from neuro_divergent.losses.implicit import HuberImplicitQuantile, ImplicitQuantile
from neuro_divergent.losses.point import (
    MAE,
    MAPE,
    MASE,
    MSE,
    RMSE,
    SMAPE,
    FreDF,
    Huber,
    LogCosh,
    RelativeMSE,
    Tukey,
)
from neuro_divergent.losses.quantile import HuberMQLoss, HuberQuantile, MQLoss, Quantile
from neuro_divergent.losses.weighting import Weighted

__all__ = [
    "CRPS",
    "GMM",
    "MAE",
    "MAPE",
    "MASE",
    "MSE",
    "NBMM",
    "PMM",
    "RMSE",
    "SMAPE",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "CustomLoss",
    "DistributionLoss",
    "FreDF",
    "Huber",
    "HuberImplicitQuantile",
    "HuberMQLoss",
    "HuberQuantile",
    "ImplicitQuantile",
    "LogCosh",
    "Loss",
    "MQLoss",
    "NegativeBinomialMixture",
    "NormalMixture",
    "PoissonMixture",
    "Quantile",
    "RelativeMSE",
    "Tukey",
    "Weighted",
    "check_shapes",
]
