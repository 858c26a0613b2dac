"""Stands in for neuralforecast's building blocks, of which only its perceptron is here: the rest is for its plugins."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from neuro_divergent.compat.neuralforecast.common._base_model import __getattr__ as __getattr__
from neuro_divergent.core.errors import ConfigError

ACTIVATIONS = ("ReLU", "Softplus", "Tanh", "SELU", "LeakyReLU", "PReLU", "Sigmoid", "GELU", "ELU", "SiLU")


class MLP(nn.Module):
    """Linear layers with an activation and dropout between them.

    Args:
        in_features: width of the input.
        out_features: width of the output.
        activation: name of a class of torch.nn.
        hidden_size: width of the layers between.
        num_layers: number of linear layers.
        dropout: share that is dropped after each activation.
    """

    def __init__(
        self, in_features: int, out_features: int, activation: str, hidden_size: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        if num_layers >= 2 and hidden_size < 1:
            raise ConfigError(f"hidden_size must be positive when num_layers>=2, got {hidden_size}")
        if num_layers >= 2 and activation not in ACTIVATIONS:
            raise ConfigError(f"activation must be one of {', '.join(ACTIVATIONS)}, but got {activation!r}")
        widths = [in_features, *[hidden_size] * (num_layers - 1), out_features]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths[:-1]):
            layers += [nn.Linear(before, after), getattr(nn, activation)(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] → [..., out_features]"""
        found: Tensor = self.layers(x)
        return found
