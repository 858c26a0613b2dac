"""NLinear: one linear map of the window minus its last value.

Letters: B windows, L lookback, H horizon, C channels, Q outputs.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.forecasting.model.recipes import ModelFamily
from neuro_divergent.nn.last_value import last_observed


class NLinear(Model):
    """Subtracts the last value from the window, maps the result linearly to the horizon, and adds the last value.

    With an anchor, the naive forecast is added instead of the last value.
    """

    group: ClassVar[ModelFamily] = "mlp"
    capabilities: ClassVar[Capabilities] = Capabilities()
    paper: ClassVar[str] = "Zeng, Chen, Zhang & Xu (2023), Are transformers effective for time series forecasting?"

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(spec)


class _Network(nn.Module):
    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.linear = nn.Linear(spec.lookback, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        last = last_observed(batch.y, batch.mask)
        change = batch.y - last
        if batch.mask is not None:
            change = torch.where(batch.mask, change, 0.0)
        output: Tensor = self.linear(change.squeeze(-1))
        output = output.view(-1, self.spec.horizon, 1, self.spec.outputs)
        return output if self.spec.anchored else output + last.unsqueeze(-1)
