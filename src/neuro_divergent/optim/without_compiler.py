"""torch's optimizers without torch's compiler, which would load at their first step and takes a second to load."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch

Kind = TypeVar("Kind", bound=torch.optim.Optimizer)

_COMPILER = "torch._dynamo"
_REMEMBERED = "__dynamo_disable"
"""Attribute in which torch keeps a function's version without the compiler, once it has made one."""


def light(kind: type[Kind]) -> type[Kind]:
    """A subclass whose step does not load the compiler; the class itself if the compiler is loaded already.

    >>> issubclass(light(torch.optim.AdamW), torch.optim.AdamW)
    True
    """
    return kind if _COMPILER in sys.modules else _lightened(kind)


def _lightened(kind: type[Kind]) -> type[Kind]:
    step: Callable[..., Any] = inspect.unwrap(kind.step)

    @functools.wraps(step)
    def plain(self: torch.optim.Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable", False))):  # Adafactor has no such option
            return step(self, closure)

    return type(kind.__name__, (kind,), {"step": plain, "__doc__": kind.__doc__, "__module__": kind.__module__})


@contextmanager
def without_compiler() -> Iterator[None]:
    """Context in which making an optimizer does not load torch's compiler."""
    inner = getattr(torch.optim.Optimizer.add_param_group, "__wrapped__", None)
    if inner is None or _COMPILER in sys.modules or hasattr(inner, _REMEMBERED):
        yield
        return
    setattr(inner, _REMEMBERED, inner)
    try:
        yield
    finally:
        with suppress(AttributeError):  # another thread made an optimizer at the same time
            delattr(inner, _REMEMBERED)
