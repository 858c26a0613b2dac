"""Builds the network that a file describes, with a limit on its size.

A description is small, but its network may be large: a foreign file could ask for a billion layers. So the network is
first built without memory, with a limit on its modules, and compared with the tensors that are in the file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from neuro_divergent.core.errors import CorruptFileError, NeuroDivergentError, StorageError

M = TypeVar("M", bound=nn.Module)

MAX_INTEGER = 10_000_000
"""Larger sizes in a description are refused."""


def build_bounded(build: Callable[[], M], shapes: Mapping[str, tuple[int, ...]]) -> M:
    """The module that `build` makes, if its parameters and buffers match the tensors of the file.

    Args:
        build: makes the module.
        shapes: the shape of each tensor in the file.
    """
    try:
        check_shapes(_sketch(build, len(shapes)), shapes)
        with _limited(len(shapes)):
            return build()
    except NeuroDivergentError:
        raise
    except Exception as error:
        raise CorruptFileError(f"the file describes a network that cannot be built: {error}") from error


def _sketch(build: Callable[[], M], tensors: int) -> M:
    """The module without memory for its tensors. If that is impossible (a plugin's own kernels), the module itself."""
    try:
        with _limited(tensors), torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError):
        with _limited(tensors):
            return build()


def check_shapes(module: nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse tensors that do not match the parameters and buffers of the module."""
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    if own.keys() != shapes.keys():
        odd = sorted(own.keys() ^ shapes.keys())
        raise StorageError(f"the weights must be those of this model, but differ in: {', '.join(odd[:6])}")
    for name, shape in shapes.items():
        if own[name] != shape:
            raise StorageError(f"{name} must have the shape {own[name]}, but got {shape}")


def check_sizes(value: Any, place: str) -> None:
    """Refuse integers that are too large for a real description."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            check_sizes(item, f"{place}.{key}")
    elif isinstance(value, list):
        for item in value:
            check_sizes(item, place)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise CorruptFileError(f"{place} must be at most {MAX_INTEGER}, but is {value}")


@contextmanager
def _limited(tensors: int) -> Iterator[None]:
    """Stop building modules as soon as there are more than this many tensors can explain."""
    limit, made, mine = 1000 + 100 * tensors, 0, threading.get_ident()

    def count(*_: Any) -> None:
        nonlocal made
        if threading.get_ident() == mine:
            made += 1
            if made > limit:
                raise CorruptFileError(
                    f"the file describes a network of more than {limit} parts, but has {tensors} tensors"
                )

    registrations = (
        register_module_parameter_registration_hook,
        register_module_buffer_registration_hook,
        register_module_module_registration_hook,
    )
    handles = [register(count) for register in registrations]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
