"""Gradient clipping, between the backward pass and the optimizer step.

`apply` changes the gradients in place and returns their total norm before clipping, as a 0-d tensor on the device. The
caller reads the number if it needs it, so that clipping itself never waits for the device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from numbers import Real
from typing import Annotated, Any, ClassVar

import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor
from torch.nn.utils import get_total_norm

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Clipping(Description):
    """Base class of gradient clipping."""

    family: ClassVar[str] = "clipping"

    @abstractmethod
    def apply(self, parameters: Iterable[Tensor]) -> Tensor:
        """Clip the gradients in place; return their total norm before clipping."""


def gradient_norm(parameters: Iterable[Tensor], norm: float = 2.0) -> Tensor:
    """Norm of all gradients as one vector, a 0-d tensor; 0 when there are none.

    >>> parameter = torch.zeros(2, requires_grad=True)
    >>> parameter.grad = torch.tensor([3.0, 4.0])
    >>> gradient_norm([parameter])
    tensor(5.)
    """
    return _total(_gradients(parameters), norm)


@torch.no_grad()
def _total(gradients: list[Tensor], norm: float) -> Tensor:
    if not gradients or len({gradient.device for gradient in gradients}) > 1:
        return get_total_norm(gradients, norm)
    # Same as torch's get_total_norm, without its grouping by device and type, which costs more than the norms.
    total: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, norm)), norm)
    return total


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


class ClipByNorm(Clipping):
    """Scale all gradients together so that their total norm is at most `max_norm`: g ← g · min(1, max_norm / ‖g‖)."""

    max_norm: Positive = Field(default=1.0, kw_only=False)
    """Largest total norm."""
    norm: Annotated[float, Field(ge=1)] = 2.0
    """Which norm: 2 is Euclidean, inf the largest absolute value."""

    def apply(self, parameters: Iterable[Tensor]) -> Tensor:
        """Clip the gradients in place; return their total norm before clipping."""
        gradients = _gradients(parameters)
        total = _total(gradients, self.norm)
        if total.device.type == "cpu" and total.item() + 1e-6 <= self.max_norm:
            return total  # saves a multiplication by 1; on other devices the check would wait for the device
        with torch.no_grad():
            scale = (self.max_norm / (total + 1e-6)).clamp(max=1.0)
            _scale(gradients, scale)
        return total


def _scale(gradients: list[Tensor], scale: Tensor) -> None:
    if len({gradient.device for gradient in gradients}) == 1:
        torch._foreach_mul_(gradients, scale)
    else:
        for gradient in gradients:
            gradient.mul_(scale.to(gradient.device))


class ClipByValue(Clipping):
    """Cut each gradient value to [-bound, bound], or to a range (low, high).

    >>> ClipByValue(0.5).range, ClipByValue(-1, 2).range
    ((-0.5, 0.5), (-1.0, 2.0))
    """

    bound: Positive | tuple[Finite, Finite] = 1.0
    """Largest absolute value, or the range (low, high)."""

    def __init__(self, *bound: float | tuple[float, float], **fields: Any) -> None:
        if len(bound) > 2 or (bound and "bound" in fields):
            raise ConfigError(f"ClipByValue takes one bound, or low and high, but got {bound} and {fields}")
        given = {"bound": bound[0] if len(bound) == 1 else bound} if bound else {}
        super().__init__(**given | fields)

    @model_validator(mode="after")
    def _ordered(self) -> ClipByValue:
        low, high = self.range
        if not low <= 0 <= high or low == high:
            raise ConfigError(f"a range of gradient values must contain zero, but got bound=({low}, {high})")
        return self

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.bound if isinstance(self.bound, tuple) else (-self.bound, self.bound)

    def apply(self, parameters: Iterable[Tensor]) -> Tensor:
        """Clip the gradients in place; return their total norm before clipping."""
        gradients = _gradients(parameters)
        total = _total(gradients, 2.0)
        low, high = self.range
        if gradients:
            with torch.no_grad():
                torch._foreach_clamp_min_(gradients, low)
                torch._foreach_clamp_max_(gradients, high)
        return total


class ClipBoth(Clipping):
    """Clip by value, then by norm."""

    value: ClipByValue = Field(default_factory=ClipByValue)
    """Clipping of single values."""
    norm: ClipByNorm = Field(default_factory=ClipByNorm)
    """Clipping of the total norm, applied second."""

    def apply(self, parameters: Iterable[Tensor]) -> Tensor:
        """Clip the gradients in place; return their total norm before both."""
        parameters = list(parameters)
        total = self.value.apply(parameters)
        self.norm.apply(parameters)
        return total


class AdaptiveClip(Clipping):
    """Adaptive gradient clipping (Brock et al. 2021): limits each unit's gradient norm relative to its weight norm.

    For row i of a weight W with gradient G:  G_i ← G_i · min(1, clipping · max(‖W_i‖, eps) / ‖G_i‖). A unit is an
    output row of a matrix or of a convolution's kernel; vectors and scalars are one unit.
    """

    clipping: Positive = 0.01
    """Largest ratio of a unit's gradient norm to its weight norm."""
    eps: Positive = 1e-3
    """Floor of the weight norm, so that units that start at zero can move."""

    @torch.no_grad()
    def apply(self, parameters: Iterable[Tensor]) -> Tensor:
        """Clip the gradients in place; return their total norm before clipping."""
        with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
        total = gradient_norm(with_gradient)
        for parameter in with_gradient:
            gradient = parameter.grad
            if gradient is not None:
                limit = _unit_norm(parameter).clamp_min(self.eps).mul_(self.clipping)
                gradient.mul_((limit / _unit_norm(gradient).clamp_min(1e-6)).clamp_max(1.0))
        return total


def _unit_norm(tensor: Tensor) -> Tensor:
    dims = tuple(range(1, tensor.ndim)) if tensor.ndim > 1 else None
    norm: Tensor = torch.linalg.vector_norm(tensor, dim=dims, keepdim=True)
    return norm


def as_clipping(value: Any) -> Any:
    """Read a number as `ClipByNorm`, a list [by value, by norm] as `ClipBoth`; anything else is left as it is."""
    if isinstance(value, bool) or not isinstance(value, Real | list | tuple):
        return value
    if isinstance(value, Real):
        return ClipByNorm(max_norm=float(value))
    parts = [part if isinstance(part, Clipping) else _read_clipping(part) for part in value]
    by_value = [part for part in parts if isinstance(part, ClipByValue)]
    by_norm = [part for part in parts if isinstance(part, ClipByNorm)]
    if len(parts) != 2 or len(by_value) != 1 or len(by_norm) != 1:
        raise ConfigError(
            f"a list of clippings must have one ClipByValue and one ClipByNorm (by value first), but got "
            f"{[part.kind for part in parts]}"
        )
    return ClipBoth(value=by_value[0], norm=by_norm[0])


def _read_clipping(part: Any) -> Clipping:
    if isinstance(part, type) and issubclass(part, Clipping):
        return part()
    if not isinstance(part, str | dict):
        raise ConfigError(f"a list of clippings must have ClipByValue and ClipByNorm, but got {part!r}")
    return Clipping.from_dict({"kind": part} if isinstance(part, str) else part)


AnyClipping = Annotated[Clipping, BeforeValidator(as_clipping)]
"""A field that takes a clipping, its class, name or JSON object, a largest norm, or a list of one by value and one by
norm."""
