"""Compiling the network for the time of a training; full_step.py compiles what is around it, too."""

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
    """While the context is open the network runs compiled, if that is asked for and possible; tells whether it does.

    What is compiled is the module's `network` if it has one, else the module itself. "auto" is for
    choose.py to decide, and stays eager here. Names of parameters do not change, and afterwards the module is as
    before. Where there is no compiler the training goes on eagerly and the log says so.
    """
    on = wanted is True and use_compiled(module)
    try:
        yield on
    finally:
        stop_compiled(module)


def use_compiled(module: nn.Module) -> bool:
    """Let the network run compiled from now on; tells whether there is one."""
    network = getattr(module, "network", module)
    if not isinstance(network, nn.Module):
        return False
    network._compiled_call_impl = _Cautious(network)
    return True


def stop_compiled(module: nn.Module) -> None:
    """Let the network run as it did before `use_compiled`."""
    network = getattr(module, "network", module)
    if isinstance(network, nn.Module) and isinstance(network._compiled_call_impl, _Cautious):
        network._compiled_call_impl = None


@contextmanager
def quiet_imports() -> Iterator[None]:
    """torch's compiler uses things that torch itself calls deprecated: nothing that a user could change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class _Cautious:
    """The compiled call; if the first one fails in the compiler, the eager call from then on."""

    def __init__(self, network: nn.Module) -> None:
        def eager(*inputs: Any, **named: Any) -> Any:
            return network._call_impl(*inputs, **named)  # type: ignore[no-untyped-call]

        # A function of ours, and not `network.compile()`: that one passes over containers of torch such as Sequential.
        self.eager: Callable[..., Any] = eager
        with quiet_imports():
            # Dropout draws as it does eagerly, so that compiling changes nothing but rounding.
            self.call: Callable[..., Any] = torch.compile(eager, dynamic=False, options={"fallback_random": True})
        self.proven = False

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if self.proven:
            return self.call(*inputs, **named)
        try:
            with quiet_imports():
                output = self.call(*inputs, **named)
        except Exception as error:
            if not of_the_compiler(error):
                raise
            log.warning("the network could not be compiled, so it runs eagerly: %s", first_line(error))
            self.call, output = self.eager, self.eager(*inputs, **named)
        self.proven = True
        return output


def no_compiler(error: BaseException) -> bool:
    """Whether the C++ compiler is missing or failed, so that nothing at all can be compiled."""
    from torch._inductor.exc import CppCompileError, InductorError, InvalidCxxCompiler

    inner = getattr(error, "inner_exception", None) or error.__cause__ if isinstance(error, InductorError) else None
    return isinstance(error, CppCompileError | InvalidCxxCompiler) or (inner is not None and no_compiler(inner))


def of_the_compiler(error: BaseException) -> bool:
    """Whether torch's compiler raised, and not the network inside of it."""
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import CppCompileError, InvalidCxxCompiler

    return isinstance(error, TorchDynamoException | CppCompileError | InvalidCxxCompiler)
