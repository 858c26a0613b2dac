"""Compile the network during a training. full_step.py compiles the whole step."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn

from neuro_divergent.core.errors import first_line

log = logging.getLogger(__name__)


@contextmanager
def compiled(module: nn.Module, wanted: bool | Literal["auto"]) -> Iterator[bool]:
    """Context in which the network runs compiled, if `wanted` is True and it is possible; yields whether it does.

    It compiles the module's `network` if it has one, else the module itself. choose.py decides on "auto", which stays
    eager here. Names of parameters do not change, and afterwards the module is unchanged. Without a compiler the
    training continues eagerly, and the log says so.
    """
    on = wanted is True and use_compiled(module)
    try:
        yield on
    finally:
        stop_compiled(module)


def use_compiled(module: nn.Module) -> bool:
    """Run the network compiled from now on; return whether there is a network to compile."""
    network = getattr(module, "network", module)
    if not isinstance(network, nn.Module):
        return False
    network._compiled_call_impl = _Cautious(network)
    return True


def stop_compiled(module: nn.Module) -> None:
    """Undo `use_compiled`."""
    network = getattr(module, "network", module)
    if isinstance(network, nn.Module) and isinstance(network._compiled_call_impl, _Cautious):
        network._compiled_call_impl = None


@contextmanager
def quiet_imports() -> Iterator[None]:
    """Context that ignores deprecation warnings of torch's compiler about torch itself: users cannot change them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class _Cautious:
    """Calls the compiled network. If the compiler fails in the first call, it uses the eager network from then on."""

    def __init__(self, network: nn.Module) -> None:
        def eager(*inputs: Any, **named: Any) -> Any:
            return network._call_impl(*inputs, **named)  # type: ignore[no-untyped-call]

        # Compile this function, because `network.compile()` skips containers of torch such as Sequential.
        self.eager: Callable[..., Any] = eager
        with quiet_imports():
            # Dropout draws the same numbers as in an eager run, so that compiling changes only rounding.
            self.call: Callable[..., Any] = torch.compile(eager, dynamic=False, options={"fallback_random": True})
        self.proven = False

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if self.proven:
            return self.call(*inputs, **named)
        drawn = torch.get_rng_state()
        try:
            with quiet_imports():
                output = self.call(*inputs, **named)
        except Exception as error:
            # torch's compiler raises many kinds of errors. The eager call raises an error of the network itself again.
            torch.set_rng_state(drawn)
            output = self.eager(*inputs, **named)
            log.warning("the network could not be compiled, so it runs eagerly: %s", first_line(error))
            self.call = self.eager
        self.proven = True
        return output


def no_compiler(error: BaseException) -> bool:
    """Whether the C++ compiler is missing or failed, so that nothing at all can be compiled."""
    from torch._inductor.exc import CppCompileError, InductorError, InvalidCxxCompiler

    inner = getattr(error, "inner_exception", None) or error.__cause__ if isinstance(error, InductorError) else None
    return isinstance(error, CppCompileError | InvalidCxxCompiler) or (inner is not None and no_compiler(inner))
