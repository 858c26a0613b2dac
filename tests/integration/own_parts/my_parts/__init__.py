"""One of each kind of part, written with the documentation alone."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

import neuro_divergent as nd


class Hold(nd.Model):
    """The last value, plus a learned step for each horizon."""

    group: ClassVar[str] = "mlp"
    capabilities: ClassVar[nd.Capabilities] = nd.Capabilities()
    paper: ClassVar[str] = "none: an example"

    gain: Annotated[float, Field(gt=0)] = 1.0
    """Factor of the learned step."""

    def build(self, spec: nd.InputSpec) -> nn.Module:
        """The network for these sizes."""
        return _HoldNetwork(self.gain, spec)


class _HoldNetwork(nn.Module):
    def __init__(self, gain: float, spec: nd.InputSpec) -> None:
        super().__init__()
        self.gain, self.spec = gain, spec
        self.step = nn.Parameter(torch.zeros(spec.horizon, 1, spec.outputs))

    def forward(self, batch: nd.Batch) -> Tensor:
        return batch.y[:, -1:, :, None] + self.gain * self.step


class Fourth(nd.Loss):
    """The fourth power of the error, softened to stay finite."""

    width: float = Field(default=1.0, gt=0)
    """Where the power ends, in scaled units."""

    def values(self, output: Tensor, target: Tensor, context: nd.Batch | None = None) -> Tensor:
        """One value per target."""
        nd_check(output, target)
        square = (output[..., 0] - target).square()
        return square * square / (square + self.width**2)


def nd_check(output: Tensor, target: Tensor) -> None:
    from neuro_divergent.losses import check_shapes

    check_shapes(output, target)


class Halving(nd.Schedule):
    """Half the rate after every `every` steps."""

    every: int = Field(default=10, ge=1)
    """How many steps."""

    def factor_at(self, step: int, context) -> float:
        """0.5 to the number of halvings."""
        return 0.5 ** (step // self.every)


class Signed(nd.Optimizer):
    """Steps of the sign of the gradient."""

    def create(self, groups) -> torch.optim.Optimizer:
        """torch's own Rprop has other rules: this is the plain sign."""
        return _SignedSteps(groups)


class _SignedSteps(torch.optim.Optimizer):
    def __init__(self, groups) -> None:
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * parameter.grad.sign())


class Exceeded(nd.metrics.Metric):
    """Share of forecasts above what happened."""

    def values(self, actual: Tensor, forecast: Tensor) -> Tensor:
        """1 where the forecast was above."""
        return (forecast > actual).double()


class CountSteps(nd.CallbackSettings):
    """Write the number of steps into the history."""

    every: int = Field(default=5, ge=1)
    """How often."""

    def build(self) -> nd.Callback:
        """The live callback."""
        return _CountSteps(self.every)


class _CountSteps(nd.Callback):
    looks_at = frozenset()

    def __init__(self, every: int) -> None:
        self.every = every

    def on_batch_end(self, state) -> None:
        if state.step % self.every == 0:
            state.log(counted=state.step)


class PeakOne(nd.WindowScaler):
    """The largest observed magnitude becomes 1."""

    def measure(self, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        seen = y.abs() if mask is None else torch.where(mask, y.abs(), 0.0)
        peak = seen.amax(1, keepdim=True)
        return torch.zeros_like(peak), torch.where(peak > 0, peak, 1.0)


class EveryOther(nd.StrategySettings):
    """Takes every other step only; the steps between leave the weights as they are."""

    def build(self):
        """The live strategy."""
        from neuro_divergent.training.step.eager import Eager
        from neuro_divergent.training.step.strategy import Step

        class _EveryOther(Eager):
            def refuses(self, config, module):
                return "its steps have no averages" if config.averaging is not None else None

            def step(self, task, state, batch):
                if state.step % 2:
                    return Step(state.loss, state.gradient_norm, True)
                return super().step(task, state, batch)

        return _EveryOther()
