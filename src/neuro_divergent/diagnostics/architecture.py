"""The architecture of a network: its modules with shapes, parameters, multiply-adds and share of time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from neuro_divergent.core import files
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.diagnostics.aside import evaluating
from neuro_divergent.diagnostics.frames import frame_of
from neuro_divergent.diagnostics.module_facts import ModuleFacts, cut, short_count, str_of
from neuro_divergent.diagnostics.training_batches import training_batches

if TYPE_CHECKING:
    import polars as pl

    from neuro_divergent.forecasting.predict.forecaster import Forecaster

REPEATS = 5
"""Timed passes."""


class Architecture(Description):
    """The modules of a network, in the order in which they are called. `print` shows a table."""

    modules: tuple[ModuleFacts, ...]
    """The whole network first, each module before its parts."""
    rows: int = 1
    """Rows of the batch that was passed through."""
    title: str = ""
    """The name of the model."""

    @property
    def parameters(self) -> int:
        """Number of parameters of the network."""
        return self.modules[0].parameters

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of a forward pass for one row of the batch."""
        return self.modules[0].multiply_adds

    def to_polars(self) -> pl.DataFrame:
        """One row per module."""
        import polars as pl

        shapes = {side: [str_of(getattr(item, side)) for item in self.modules] for side in ("input", "output")}
        return frame_of(self.modules, without=shapes).with_columns(pl.Series(k, v) for k, v in shapes.items())

    def shown(self, depth: int | None = None) -> Iterator[ModuleFacts]:
        """The modules up to a depth; None for all."""
        return (item for item in self.modules if depth is None or item.depth <= depth)

    def text(self, depth: int | None = None) -> str:
        """The table as text, up to a depth."""
        head = f"{'module':<46}{'type':<24}{'output':<24}{'parameters':>12}{'mult-adds':>12}{'time':>6}"
        return "\n".join([self.title, head, *(_line(item) for item in self.shown(depth))])

    def __str__(self) -> str:
        return self.text()

    def svg(self, depth: int | None = None) -> str:
        """The picture as an SVG document; it needs no other package."""
        from neuro_divergent.diagnostics.architecture_picture import svg_of

        return svg_of(self, depth)

    def drawn(self, path: str | os.PathLike[str] | None, depth: int | None = None) -> Architecture:
        """Write the picture to an .svg file, or to a .png or .pdf file with the extra `plots`. Returns itself.

        Args:
            path: the file; None writes nothing.
            depth: draw the modules up to this depth.
        """
        if path is None:
            return self
        if Path(path).suffix.lower() == ".svg":
            files.write_bytes(path, self.svg(depth).encode())
        else:
            from neuro_divergent.diagnostics.architecture_picture import figure_of
            from neuro_divergent.plotting import save

            save(figure_of(self, depth), path)
        return self

    def _repr_html_(self) -> str:
        return self.svg()


def _line(item: ModuleFacts) -> str:
    name = "  " * item.depth + (item.name.rpartition(".")[2] or item.type)
    share = "" if item.share is None else f"{item.share:.0%}"
    shapes = cut(str_of(item.output), 23)
    work = short_count(item.multiply_adds) if item.multiply_adds else ""
    return f"{cut(name, 45):<46}{cut(item.type, 23):<24}{shapes:<24}{item.parameters:>12,}{work:>12}{share:>6}"


def architecture_of(fitted: Forecaster) -> Architecture:
    """The architecture of a fitted model, measured on one batch of its windows."""
    batch = next(training_batches(fitted, most=32))
    batch = batch._replace(target=None, target_mask=None, weight=None)
    return architecture(fitted.module, (batch,), title=fitted.model.name, rows=batch.size)


def architecture(module: nn.Module, example: Any, *, title: str | None = None, rows: int | None = None) -> Architecture:
    """The architecture of any torch module, measured with an example of its input. The module does not change.

    Args:
        module: the module.
        example: its input: a tensor, or a tuple with the arguments of `forward`.
        title: a name; None for the module's class.
        rows: rows of the example; None takes the first dimension of its first tensor.
    """
    given = example if isinstance(example, tuple) and not hasattr(example, "_fields") else (example,)
    first = next(tensors_in(given), None)
    if first is None:
        raise ConfigError(f"example must be a tensor or a tuple of tensors, but got {type(example).__name__}")
    count = rows or (first.shape[0] if first.ndim else 1)
    buffers = {name: tensor.clone() for name, tensor in module.named_buffers()}
    try:
        with evaluating(module), _parts_called(), torch.no_grad():
            calls = _calls(module, given)
            operations = _operations(module, given)
            seconds = _seconds(module, given)
    finally:
        with torch.no_grad():
            for name, tensor in module.named_buffers():
                tensor.copy_(buffers[name])
    facts = [_facts(name, part, calls, operations, seconds, count) for name, part in module.named_modules()]
    order = {name: number for number, name in enumerate(calls)}
    return Architecture(modules=tuple(_in_order(facts, order)), rows=count, title=title or type(module).__name__)


@contextmanager
def _parts_called() -> Iterator[None]:
    """Context in which torch's transformer layers call their parts: their fast path is one operation."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


Calls = dict[str, tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], int]]
"""Input shapes, output shapes and number of calls of each module, in the order of the first calls."""


def _calls(module: nn.Module, given: tuple[Any, ...]) -> Calls:
    calls: Calls = {}

    def entering(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, kwargs: Any) -> None:
            shapes, outputs, count = calls.get(name, (_shapes((args, kwargs)), (), 0))
            calls[name] = shapes, outputs, count + 1

        return hook

    def leaving(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            shapes, outputs, count = calls[name]
            calls[name] = shapes, outputs or _shapes(output), count

        return hook

    with ExitStack() as stack:
        for name, part in module.named_modules():
            stack.callback(part.register_forward_pre_hook(entering(name), with_kwargs=True).remove)
            stack.callback(part.register_forward_hook(leaving(name)).remove)
        module(*given)
    return calls


def _operations(module: nn.Module, given: tuple[Any, ...]) -> dict[str, int]:
    """Floating-point operations by module name, as torch counts them: two for a multiply-add."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)  # a recurrent layer is one operation in oneDNN, which is not counted
    try:
        # An attention kernel of a processor is not counted; written out, it is two products of matrices.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            module(*given)
    finally:
        torch._C._set_mkldnn_enabled(enabled)
    root = type(module).__name__
    counts: dict[str, int] = {}
    for name, operations in counter.flop_counts.items():
        own = "" if name in ("Global", root) else name.removeprefix(f"{root}.")
        counts[own] = max(counts.get(own, 0), sum(operations.values()))
    return counts


def _seconds(module: nn.Module, given: tuple[Any, ...]) -> dict[str, float]:
    """Time of each module, its parts included: the fastest of a few passes, because other processes disturb some."""
    passes = [_timed(module, given) for _ in range(REPEATS)]
    return {name: min(spent[name] for spent in passes) for name in passes[0]}


def _timed(module: nn.Module, given: tuple[Any, ...]) -> dict[str, float]:
    spent: dict[str, float] = {}
    begun: list[float] = []

    def leaving(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, ___: Any) -> None:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begun.pop()

        return hook

    def entering(_: nn.Module, __: Any) -> None:
        begun.append(time.perf_counter())

    with ExitStack() as stack:
        for name, part in module.named_modules():
            stack.callback(part.register_forward_pre_hook(entering).remove)
            stack.callback(part.register_forward_hook(leaving(name)).remove)
        module(*given)
    return spent


def _facts(
    name: str, part: nn.Module, calls: Calls, operations: dict[str, int], seconds: dict[str, float], rows: int
) -> ModuleFacts:
    inputs, outputs, count = calls.get(name, ((), (), 0))
    parameters = list(part.parameters())
    return ModuleFacts(
        name=name,
        type=type(part).__name__,
        depth=name.count(".") + 1 if name else 0,
        parameters=sum(parameter.numel() for parameter in parameters),
        frozen=sum(parameter.numel() for parameter in parameters if not parameter.requires_grad),
        input=inputs,
        output=outputs,
        calls=count,
        multiply_adds=operations.get(name, 0) // (2 * rows),
        share=seconds[name] / seconds[""] if name in seconds and seconds[""] > 0 else None,
    )


def _in_order(facts: list[ModuleFacts], order: dict[str, int]) -> Iterator[ModuleFacts]:
    """The modules as a tree: the parts of each in the order of their first call, those that are not called last."""
    children: dict[str, list[ModuleFacts]] = {}
    for item in facts[1:]:
        children.setdefault(item.name.rpartition(".")[0], []).append(item)

    def first(item: ModuleFacts) -> int:
        """The first call of the module or of one of its parts: a list of modules is never called itself."""
        inside = [number for name, number in order.items() if name == item.name or name.startswith(f"{item.name}.")]
        return min(inside, default=len(order))

    def walk(item: ModuleFacts) -> Iterator[ModuleFacts]:
        yield item
        for child in sorted(children.get(item.name, ()), key=first):
            yield from walk(child)

    return walk(facts[0])


def _shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for tensor in tensors_in(value))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
