"""Compiling the network for the time of a training."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn

log = logging.getLogger(__name__)


@contextmanager
def compiled(module: nn.Module, wanted: bool | Literal["auto"]) -> Iterator[bool]:
    """While the context is open the network runs compiled, if that is asked for and possible; tells whether it does.

    What is compiled is the module's `network` if it has one, else the module itself. "auto" stays eager: for the sizes
    of forecasting networks on a CPU compiling takes longer than it saves. Names of parameters do not change, and
    afterwards the module is as before. Where there is no compiler the training goes on eagerly and the log says so.
    """
    network = getattr(module, "network", module)
    if wanted is not True or not isinstance(network, nn.Module):
        yield False
        return
    network._compiled_call_impl = _Cautious(network)
    try:
        yield True
    finally:
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
            if not _of_the_compiler(error):
                raise
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            log.warning("the network could not be compiled, so it runs eagerly: %s", reason)
            self.call, output = self.eager, self.eager(*inputs, **named)
        self.proven = True
        return output


def _of_the_compiler(error: BaseException) -> bool:
    """Whether torch's compiler raised, and not the network inside of it."""
    from torch._dynamo.exc import TorchDynamoException
    from torch._inductor.exc import CppCompileError, InvalidCxxCompiler

    return isinstance(error, TorchDynamoException | CppCompileError | InvalidCxxCompiler)
