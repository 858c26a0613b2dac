"""RMoK: a mixture of four kinds of Kolmogorov-Arnold layers, weighted by a gate for each window.

Letters: B windows, L lookback, H horizon, C channels (one per series), Q outputs, E experts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn.kan import JacobiLayer, TaylorLayer, WaveletLayer, WaveletName


class RMoK(Model):
    """Each series goes through a Taylor, a Jacobi, a wavelet and a linear expert; a gate mixes their forecasts.

    The window scaler does the reversible normalisation. The wavelet expert omits a weight of the authors' code that is
    never used.
    """

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities(multivariate=True)
    paper: ClassVar[str] = (
        "Han, Zhang, Wu, Zhang & Wu (2024), "
        "KAN4TSF: Are KAN and KAN-based models effective for time series forecasting?"
    )

    scaler: WindowScalerName = "revin"
    """The scaler that is applied to each window."""
    taylor_order: Annotated[int, Field(ge=1)] = 3
    """Number of terms of the Taylor expert's polynomials, including the constant."""
    jacobi_degree: Annotated[int, Field(ge=1)] = 6
    """Highest degree of the Jacobi expert's polynomials."""
    wavelet: WaveletName = "mexican_hat"
    """Shape of the wavelet expert's curves."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate of the window's values."""

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Network(nn.Module):
    def __init__(self, model: RMoK, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        inputs, outputs = spec.lookback, spec.horizon * spec.outputs
        self.dropout = nn.Dropout(model.dropout)
        self.experts = nn.ModuleList(
            [
                TaylorLayer(inputs, outputs, model.taylor_order),
                JacobiLayer(inputs, outputs, model.jacobi_degree),
                WaveletLayer(inputs, outputs, model.wavelet),
                nn.Linear(inputs, outputs),
            ]
        )
        self.gate = nn.Linear(inputs, len(self.experts))

    def forward(self, batch: Batch) -> Tensor:
        B, L, C = batch.y.shape
        x = self.dropout(batch.y).transpose(1, 2).reshape(B * C, L)
        forecasts = torch.stack([expert(x) for expert in self.experts], dim=-1)
        mixed: Tensor = (forecasts @ self.gate(x).softmax(dim=-1).unsqueeze(-1)).squeeze(-1)
        return mixed.view(B, C, self.spec.horizon, self.spec.outputs).transpose(1, 2)
