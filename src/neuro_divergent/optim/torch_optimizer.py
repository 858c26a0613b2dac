"""Use any torch optimizer class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import torch
from pydantic import BeforeValidator

from neuro_divergent.core import registry
from neuro_divergent.core.config import encode
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.optim.optimizers import Groups, Optimizer


def _of_torch() -> dict[str, type[torch.optim.Optimizer]]:
    found = {name: getattr(torch.optim, name) for name in torch.optim.__all__}
    return {
        name: cls
        for name, cls in found.items()
        if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
    }


def _read_class(value: Any) -> Any:
    """The class name for classes of torch.optim, so that a file can contain it; otherwise the class itself."""
    known = _of_torch()
    if isinstance(value, str):
        if value not in known:
            near = registry.closest(value, list(known)) or sorted(known)
            raise ConfigError(f"torch.optim has no optimizer named {value!r}; did you mean {' or '.join(near)}?")
        name = value
    elif inspect.isclass(value) and issubclass(value, torch.optim.Optimizer):
        name = next((name for name, cls in known.items() if cls is value), "")
    else:
        raise ConfigError(f"cls must be a torch optimizer class or the name of one in torch.optim, but got {value!r}")
    if name == "LBFGS":
        raise ConfigError(
            "cls must take one loss per step, but got LBFGS, which evaluates the loss several times. Use another cls"
        )
    return name or value


def _plain(arguments: Any) -> Any:
    """The arguments, checked: they must be plain data, because they go into a file."""
    if isinstance(arguments, dict):
        encode(arguments)
        clash = sorted({"params", "lr", "weight_decay"} & arguments.keys())
        if clash:
            raise ConfigError(
                f"arguments must not repeat the fields of the description, but got {' and '.join(clash)}. Use "
                "learning_rate, weight_decay and groups"
            )
    return arguments


class TorchOptimizer(Optimizer):
    """A torch optimizer class with its own arguments.

    >>> description = TorchOptimizer(cls=torch.optim.Adamax, learning_rate=2e-3, arguments={"eps": 1e-7})
    >>> description.cls
    'Adamax'
    """

    cls: Annotated[Any, BeforeValidator(_read_class)]
    """The class, or the name of one in torch.optim."""
    arguments: Annotated[dict[str, Any], BeforeValidator(_plain)] = {}
    """Keyword arguments of the class, except rate and decay."""

    def create(self, groups: Groups) -> torch.optim.Optimizer:
        """The optimizer of the class, with its arguments and these groups."""
        build: Callable[..., torch.optim.Optimizer] = _of_torch()[self.cls] if isinstance(self.cls, str) else self.cls
        takes = inspect.signature(build).parameters
        if "weight_decay" not in takes and any(group["weight_decay"] for group in groups):
            raise ConfigError(
                f"{build.__name__} has no weight decay, but got weight_decay={self.weight_decay}. Set it to 0."
            )
        arguments = {name: _tuples(value) for name, value in self.arguments.items()}
        if "lr" in takes:
            arguments["lr"] = self.learning_rate
        try:
            return build(groups, **arguments)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{build.__name__} must accept its arguments, but got {self.arguments}: {error}"
            ) from error


def _tuples(value: Any) -> Any:
    """A list as a tuple: JSON has no tuples, but torch's pairs (betas, etas) are tuples."""
    return tuple(value) if isinstance(value, list) else value
