"""The model zoo: one file per model, its description and its network together."""

from neuro_divergent.models.dlinear import DLinear
from neuro_divergent.models.lstm import LSTM
from neuro_divergent.models.mlp import MLP
from neuro_divergent.models.nhits import NHITS

__all__ = ["LSTM", "MLP", "NHITS", "DLinear"]
