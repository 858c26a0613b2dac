"""Numerical gradients, float64 sums of gradients, penalties, and `check_gradients`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import Advice, TrainingError
from neuro_divergent.training.state.batch_norm_stats import frozen_statistics
from neuro_divergent.training.step.reduction import weighted_mean

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState
    from neuro_divergent.training.state.task import Task

log = logging.getLogger(__name__)


def numerical(task: Task, state: TrainState, batch: Any, method: Literal["central", "one_sided"]) -> float:
    """Set the gradients to finite differences, (f(w+d) − f(w−d)) / 2d or (f(w+d) − f(w)) / d; return the loss."""
    generator_state = torch.get_rng_state()

    def loss() -> float:
        torch.set_rng_state(generator_state)  # dropout draws the same mask for every difference
        values, weights = task(state.module, batch)
        return float(task.loss.finish(weighted_mean(values, weights, in_float64=True)))

    _warn_if_long(state)
    with torch.no_grad():
        here = loss()
        with frozen_statistics([state.module]):
            for parameter in state.module.parameters():
                if parameter.requires_grad:
                    parameter.grad = numerical_gradient(loss, parameter, method, here)
    return here


def _warn_if_long(state: TrainState) -> None:
    count = sum(parameter.numel() for parameter in state.module.parameters() if parameter.requires_grad)
    if count > 10_000 and state.step == 0:
        log.warning(
            "numerical gradients run the network at least %d times per step; gradient_method='autograd' runs it once",
            count,
            extra={"advice": [Advice("training.gradient_method", "autograd")]},
        )


def numerical_gradient(
    function: Callable[[], float],
    tensor: Tensor,
    method: Literal["central", "one_sided"] = "central",
    here: float | None = None,
) -> Tensor:
    """The gradient of a function with respect to a tensor that it reads, element by element.

    The step is eps^(1/3) (central) or eps^(1/2) (one-sided) of the element's magnitude. There, truncation error and
    rounding error are about equal.
    """
    eps = torch.finfo(tensor.dtype).eps
    relative = eps ** (1 / 3) if method == "central" else eps**0.5
    flat, gradient = tensor.data.view(-1), torch.zeros(tensor.numel(), dtype=tensor.dtype)
    here = function() if here is None and method == "one_sided" else here
    for index in range(flat.numel()):
        value = float(flat[index])
        step = relative * max(1.0, abs(value))
        flat[index] = value + step
        above = function()
        if method == "central":
            flat[index] = value - step
            slope = (above - function()) / (2 * step)
        else:
            assert here is not None
            slope = (above - here) / step
        flat[index] = value
        gradient[index] = slope
    return gradient.view_as(tensor).to(tensor.device)


class Float64Sums:
    """Adds the gradients of micro-batches in float64; the sum has the format of the weights."""

    def __init__(self, module: nn.Module) -> None:
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.sums: list[Tensor | None] = [None] * len(self.parameters)

    def add(self) -> None:
        """Add the present gradients to the sums and remove them from the parameters."""
        for index, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                continue
            before, now = self.sums[index], parameter.grad.double()
            self.sums[index] = now if before is None else before + now
            parameter.grad = None

    def give_back(self) -> None:
        """Set the gradients of the parameters to the sums."""
        for parameter, summed in zip(self.parameters, self.sums, strict=True):
            parameter.grad = None if summed is None else summed.to(parameter.dtype)


def add_penalties(module: nn.Module, l1: float, l2: float) -> None:
    """Add the gradient of l1·Σ|w| + l2·Σw² over the weight matrices, without biases and norms."""
    for parameter in module.parameters():
        if parameter.grad is not None and parameter.ndim > 1:
            with torch.no_grad():
                parameter.grad.add_(l1 * parameter.sign() + 2.0 * l2 * parameter)


def check_gradients(network: nn.Module, batch: Any, *, tolerance: float = 1e-4, samples: int = 20) -> dict[str, float]:
    """Compare autograd with central differences in float64; return the largest relative difference by parameter name.

    The network is copied. The differentiated function is a fixed random projection of its output.

    >>> differences = check_gradients(nn.Linear(2, 1), torch.ones(4, 2))
    >>> sorted(differences)
    ['bias', 'weight']

    Args:
        network: any module that takes `batch` and returns a tensor.
        batch: one input (a Batch or a tensor), or a tuple of several.
        tolerance: the largest accepted relative difference.
        samples: number of compared elements per parameter.

    Raises:
        TrainingError: if a difference is larger than the tolerance. The message names the parameters.
    """
    import copy

    network = copy.deepcopy(network).double().eval()
    inputs = _to_float64(batch)
    projection: list[Tensor] = []

    def scalar() -> Tensor:
        # A tuple or list is several arguments; a Batch is one.
        output = network(*inputs) if type(inputs) in (tuple, list) else network(inputs)
        if not projection:
            generator = torch.Generator().manual_seed(0)
            projection.append(torch.randn(output.shape, generator=generator, dtype=torch.float64))
        projected: Tensor = (output * projection[0]).sum()
        return projected

    scalar().backward()  # type: ignore[no-untyped-call]
    worst: dict[str, float] = {}
    for name, parameter in network.named_parameters():
        if parameter.grad is None:
            worst[name] = 0.0
            continue
        worst[name] = _largest_difference(scalar, parameter, samples)
    wrong = {name: value for name, value in worst.items() if value > tolerance}
    if wrong:
        shown = ", ".join(f"{name} ({value:.2g})" for name, value in wrong.items())
        raise TrainingError(f"gradients must agree with finite differences to {tolerance:g}, but these do not: {shown}")
    return worst


def _largest_difference(scalar: Callable[[], Tensor], parameter: nn.Parameter, samples: int) -> float:
    assert parameter.grad is not None
    flat, exact = parameter.data.view(-1), parameter.grad.reshape(-1)
    picked = torch.linspace(0, flat.numel() - 1, min(samples, flat.numel())).long().unique()  # type: ignore[no-untyped-call]
    largest = 0.0
    with torch.no_grad():
        for index in picked.tolist():
            value, step = float(flat[index]), 6e-6 * max(1.0, abs(float(flat[index])))
            flat[index] = value + step
            above = float(scalar())
            flat[index] = value - step
            below = float(scalar())
            flat[index] = value
            slope, true = (above - below) / (2 * step), float(exact[index])
            largest = max(largest, abs(slope - true) / max(1e-3, abs(slope), abs(true)))
    return largest


def _to_float64(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_to_float64(item) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(_to_float64(item) for item in value)
    return value
