"""What the units of each layer do on given windows: their outputs, and whether they reach the output of the network.

A unit is dead if the network's outputs do not depend on it on any window: behind a rectifier that is always 0, or
behind weights that are 0. That is measured by a gradient, so it does not matter which activation is used, and where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.seeding import torch_generator
from neuro_divergent.diagnostics.aside import evaluating
from neuro_divergent.diagnostics.layer_stats import effective_rank

SMALL = 1e-7
"""A unit does not reach the output if its gradient is below this share of the layer's largest one."""
WIDEST = 2048
"""The outputs of wider layers are not compared with each other."""
_HAS_UNITS = (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)


@dataclass
class UnitActivity:
    """The units of one layer over all windows. U is their number."""

    units: int
    windows: int
    reached: Tensor
    """[U] on how many windows the network's outputs depend on the unit."""
    total: Tensor
    """[U] sum of the unit's outputs."""
    squares: Tensor
    """[U] sum of their squares."""
    count: int
    """Number of outputs of each unit."""
    products: Tensor | None
    """[U, U] sums of products of outputs, for their effective rank; None for very wide layers."""

    @property
    def dead(self) -> int:
        """Number of units on which no output depends, on any window."""
        return int((self.reached == 0).sum())

    @property
    def utilization(self) -> float:
        """Share of (unit, window) pairs in which the outputs depend on the unit."""
        return float(self.reached.double().mean()) / max(1, self.windows)

    @property
    def mean(self) -> float:
        """Mean of all outputs."""
        return float(self.total.sum()) / max(1, self.count * self.units)

    @property
    def deviation(self) -> float:
        """Standard deviation of all outputs."""
        mean = float(self.squares.sum()) / max(1, self.count * self.units) - self.mean**2
        return math.sqrt(max(0.0, mean))

    @property
    def output_rank(self) -> float | None:
        """Effective rank of the outputs: exp(entropy of the shares of variance of their principal components)."""
        if self.products is None or self.count < 2:
            return None
        mean = self.total / self.count
        covariance = self.products / self.count - torch.outer(mean, mean)
        return effective_rank(torch.linalg.eigvalsh(covariance).clamp(min=0.0))


Record = tuple[str, Tensor, list[Tensor]]
"""The name of a layer, its outputs [B, ..., U], and their gradient when it is known."""


def unit_activity(
    module: nn.Module, batches: Iterable[Any], forward: Callable[[Any], Tensor]
) -> dict[str, UnitActivity]:
    """The activity of the units of every linear, convolutional and recurrent layer that is called.

    The module is in evaluation mode meanwhile. Afterwards it is as before.

    Args:
        module: any torch module.
        batches: its inputs, each a tuple whose first tensor has a row per window.
        forward: the outputs for one of them.
    """
    found: dict[str, UnitActivity] = {}
    wanted = [parameter.requires_grad for parameter in module.parameters()]
    try:
        with evaluating(module):
            module.requires_grad_(True)  # a frozen layer has units, too
            for number, batch in enumerate(batches):
                for name, outputs, gradient in _seen(module, batch, forward, number):
                    _add(found, name, outputs, gradient, len(batch[0]))
    finally:
        for parameter, needed in zip(module.parameters(), wanted, strict=True):
            parameter.requires_grad_(needed)
    return found


def _seen(module: nn.Module, batch: Any, forward: Callable[[Any], Tensor], number: int) -> list[Record]:
    """The outputs of each layer, and the gradient of a random projection of the network's outputs."""
    records: list[Record] = []
    with ExitStack() as stack:
        for name, part in module.named_modules():
            if isinstance(part, _HAS_UNITS):
                stack.callback(part.register_forward_hook(_recorder(records, name, part)).remove)
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # its recurrent layers have no gradient in eval
        result = forward(batch)
        signs = torch.randn(result.shape, generator=torch_generator(number, "projection")).to(result)
        torch.autograd.grad((result * signs).sum(), list(module.parameters()), allow_unused=True)
    return records


def _recorder(records: list[Record], name: str, part: nn.Module) -> Callable[..., None]:
    def hook(_: nn.Module, __: Any, output: Any) -> None:
        tensor = output[0] if isinstance(output, tuple) else output
        if not isinstance(tensor, Tensor) or tensor.ndim < 2:
            return
        gradient: list[Tensor] = []
        records.append((name, _units_last(tensor.detach(), part).clone(), gradient))
        # A hook of the tensor, because a later layer may change the tensor in place.
        tensor.register_hook(lambda grad: gradient.append(_units_last(grad.detach(), part)))  # type: ignore[no-untyped-call]

    return hook


def _units_last(tensor: Tensor, part: nn.Module) -> Tensor:
    """[B, ..., U]"""
    if isinstance(part, nn.modules.conv._ConvNd) and tensor.ndim > 2:
        return tensor.movedim(1, -1)
    if isinstance(part, nn.RNNBase) and not part.batch_first and tensor.ndim == 3:
        return tensor.transpose(0, 1)
    return tensor


@torch.no_grad()
def _add(found: dict[str, UnitActivity], name: str, outputs: Tensor, gradient: list[Tensor], windows: int) -> None:
    units = outputs.shape[-1]
    if name not in found or found[name].units != units:
        zeros = torch.zeros(units, dtype=torch.float64, device=outputs.device)
        products = torch.zeros(units, units, dtype=torch.float64, device=outputs.device) if units <= WIDEST else None
        found[name] = UnitActivity(units, 0, zeros.clone(), zeros.clone(), zeros.clone(), 0, products)
    one, flat = found[name], outputs.reshape(-1, units).double()
    grouped = windows if outputs.shape[0] % windows == 0 else outputs.shape[0]
    reached = torch.zeros(grouped, units, dtype=torch.bool, device=outputs.device)
    for grad in gradient:
        size = grad.abs()
        reached |= (size > SMALL * size.max()).reshape(grouped, -1, units).any(dim=1)
    one.windows, one.count = one.windows + grouped, one.count + len(flat)
    one.reached += reached.sum(dim=0)
    one.total += flat.sum(dim=0)
    one.squares += flat.square().sum(dim=0)
    if one.products is not None:
        one.products += flat.T @ flat
