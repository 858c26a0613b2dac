"""A gradient tape for teaching and small experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from neuro_divergent.core.errors import ConfigError, NotFittedError
from neuro_divergent.core.registry import closest

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "swish": F.silu,
    "silu": F.silu,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "softplus": F.softplus,
    "mish": F.mish,
    "identity": lambda x: x,
}
"""Activations by name."""


class GradientTape:
    """Records operations on named tensors and returns the gradient of any of them.

    >>> tape = GradientTape()
    >>> x, w = tape.record("x", [[1.0, 2.0]]), tape.record("w", [[3.0], [4.0]])
    >>> y = tape.activation(tape.matmul(x, w), "relu")
    >>> tape.backward(y)
    >>> tape.get_gradient("w").tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        self.dtype = dtype
        self._values: dict[str, Tensor] = {}
        self._done = False

    def record(self, name: str, value: Any) -> Tensor:
        """Add a value under a name and return its tensor. After `backward`, `get_gradient` returns its gradient."""
        if name in self._values:
            raise ConfigError(f"a name can be recorded once, but {name!r} is recorded already. Choose another name")
        tensor = torch.as_tensor(value, dtype=self.dtype).detach().clone().requires_grad_()
        self._values[name] = tensor
        return tensor

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """The matrix product."""
        return a @ b

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """The sum, broadcast."""
        return a + b

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """The elementwise product, broadcast."""
        return a * b

    def activation(self, x: Tensor, name: str) -> Tensor:
        """An activation by name: ReLU, GELU, Tanh, Sigmoid, Swish, …"""
        function = ACTIVATIONS.get(name.lower())
        if function is None:
            near = closest(name, list(ACTIVATIONS)) or list(ACTIVATIONS)
            raise ConfigError(f"activation must be a known name, but got {name!r}; try {' or '.join(near)}")
        return function(x)

    def backward(self, output: Tensor) -> None:
        """Compute the gradient of the output (the sum of its elements) with respect to every recorded value."""
        for value in self._values.values():
            value.grad = None
        output.sum().backward()  # type: ignore[no-untyped-call]
        self._done = True

    def get_gradient(self, name: str) -> Tensor:
        """The gradient of a recorded value; zeros if the output does not depend on it."""
        if not self._done:
            raise NotFittedError("gradients need backward(output), but it has not been called. Call it first")
        if name not in self._values:
            raise ConfigError(f"the name must be one of {', '.join(self._values)}, but got {name!r}")
        value = self._values[name]
        return torch.zeros_like(value) if value.grad is None else value.grad.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._values.clear()
