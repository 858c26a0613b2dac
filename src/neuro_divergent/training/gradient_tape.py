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

Operand = Tensor | str
"""A tensor, or the name of a recorded one."""


class GradientTape:
    """Records operations on named tensors and returns the gradient of any of them, also of intermediate values.

    >>> tape = GradientTape()
    >>> x, w = tape.record("x", [[1.0, 2.0]]), tape.record("w", [[3.0], [4.0]])
    >>> hidden = tape.matmul(x, w, name="hidden")
    >>> y = tape.activation(hidden, "relu", name="y")
    >>> tape.backward("y")
    >>> tape.get_gradient("w").tolist(), tape.get_gradient("hidden").tolist()
    ([[1.0], [2.0]], [[1.0]])

    Operands are tensors or recorded names. `backward` also takes an upstream gradient, such as that of a loss computed
    elsewhere: `tape.backward("y", [[0.5]])`, or in the other order, `tape.backward([[0.5]], "y")`.
    """

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        self.dtype = dtype
        self._values: dict[str, Tensor] = {}
        self._done = False

    @property
    def names(self) -> list[str]:
        """Everything that is recorded, in its order."""
        return list(self._values)

    def record(self, name: str, value: Any) -> Tensor:
        """Add a value under a name and return its tensor. After `backward`, `get_gradient` returns its gradient."""
        return self._named(torch.as_tensor(value, dtype=self.dtype).detach().clone().requires_grad_(), name)

    def matmul(self, a: Operand, b: Operand, *, name: str | None = None) -> Tensor:
        """The matrix product."""
        return self._named(self._value(a) @ self._value(b), name)

    def add(self, a: Operand, b: Operand, *, name: str | None = None) -> Tensor:
        """The sum, broadcast."""
        return self._named(self._value(a) + self._value(b), name)

    def multiply(self, a: Operand, b: Operand, *, name: str | None = None) -> Tensor:
        """The elementwise product, broadcast."""
        return self._named(self._value(a) * self._value(b), name)

    def activation(self, x: Operand, kind: str, *, name: str | None = None) -> Tensor:
        """An activation by its kind: ReLU, GELU, Tanh, Sigmoid, Swish, …"""
        function = ACTIVATIONS.get(kind.lower())
        if function is None:
            near = closest(kind, list(ACTIVATIONS)) or list(ACTIVATIONS)
            raise ConfigError(f"activation must be a known name, but got {kind!r}; try {' or '.join(near)}")
        return self._named(function(self._value(x)), name)

    def value(self, name: str) -> Tensor:
        """The value that is recorded under a name."""
        if name not in self._values:
            raise ConfigError(f"the name must be one of {', '.join(self._values) or 'no values yet'}, but got {name!r}")
        return self._values[name]

    def backward(self, output: Any, gradient: Any = None) -> None:
        """Compute the gradient of an output with respect to every recorded value.

        Args:
            output: a tensor, or the name of a recorded value.
            gradient: the upstream gradient, of the output's shape; None for ones (the gradient of the output's sum).
        """
        if isinstance(gradient, str):  # backward(loss_grad, name)
            output, gradient = gradient, output
        result = self._value(output)
        upstream = torch.ones_like(result) if gradient is None else torch.as_tensor(gradient, dtype=self.dtype)
        if upstream.shape != result.shape:
            raise ConfigError(
                f"an upstream gradient has the shape of the output, {tuple(result.shape)}, but got "
                f"{tuple(upstream.shape)}"
            )
        for value in self._values.values():
            value.grad = None
        result.backward(upstream, retain_graph=True)  # type: ignore[no-untyped-call]
        self._done = True

    def get_gradient(self, name: str) -> Tensor:
        """The gradient of a recorded value; zeros if the output does not depend on it."""
        if not self._done:
            raise NotFittedError("gradients need backward(output), but it has not been called. Call it first")
        value = self.value(name)
        return torch.zeros_like(value) if value.grad is None else value.grad.detach()

    def _value(self, operand: Operand) -> Tensor:
        return self.value(operand) if isinstance(operand, str) else operand

    def _named(self, tensor: Tensor, name: str | None) -> Tensor:
        if name is None:
            return tensor
        if name in self._values:
            raise ConfigError(f"a name can be recorded once, but {name!r} is recorded already. Choose another name")
        tensor.retain_grad()  # of what was computed torch keeps no gradient unless asked
        self._values[name] = tensor
        return tensor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._values.clear()
