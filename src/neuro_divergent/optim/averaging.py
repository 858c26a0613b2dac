"""Averages of the weights over training: exponential (EMA) and stochastic weight averaging (SWA).

`build(module)` returns an `Averager`. The engine calls `update` after each optimizer step, evaluates inside `swap`, and
stores `state_tensors` in its checkpoints. Buffers are not averaged: the module keeps their newest values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, StorageError

_COUNT = "#count"


class Averaging(Description):
    """Base class of weight averages. A subclass defines `counts` and `kept`."""

    family: ClassVar[str] = "averaging"

    every: int = Field(default=1, ge=1)
    """Optimizer steps between two updates of the average."""

    def build(self, module: nn.Module, *, total_steps: int | None = None) -> Averager:
        """An `Averager` that starts as a copy of the module's weights."""
        return Averager(self, module, total_steps)

    @abstractmethod
    def counts(self, step: int, total_steps: int | None) -> bool:
        """Whether the weights after this step (counted from 0) enter the average."""

    @abstractmethod
    def kept(self, count: int) -> float:
        """The weight of the old average in an update; `count` updates came before."""


class EMA(Averaging):
    """Exponential moving average: a ← d a + (1 - d) w, with d = min(decay, (1 + n) / (10 + n)) while warming up.

    n is the number of earlier updates. The small d at the start removes the influence of the initial weights.
    """

    decay: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """Weight of the old average in each update."""
    warmup: bool = True
    """Whether d starts small and rises to `decay` over the first updates."""

    def counts(self, step: int, total_steps: int | None) -> bool:  # noqa: ARG002
        """True at every `every`-th step."""
        return (step + 1) % self.every == 0

    def kept(self, count: int) -> float:
        """d."""
        return min(self.decay, (1 + count) / (10 + count)) if self.warmup else self.decay


class SWA(Averaging):
    """Stochastic weight averaging (Izmailov et al. 2018): the mean of the weights from step `start` on."""

    start: int | float = 0.75
    """When averaging begins: a share of the run (below 1) or an optimizer step (a whole number)."""

    def counts(self, step: int, total_steps: int | None) -> bool:
        """True at every `every`-th step from `start` on."""
        since = step - self._first(total_steps)
        return since >= 0 and since % self.every == 0

    def _first(self, total_steps: int | None) -> int:
        if not self.start >= 0 or (self.start >= 1 and self.start != int(self.start)):
            raise ConfigError(
                f"start must be a share of the run in [0, 1) or a whole number of steps, but got start={self.start}"
            )
        if isinstance(self.start, int) or self.start >= 1:
            return int(self.start)
        if total_steps is None:
            raise ConfigError(
                f"SWA needs the total number of steps, but got start={self.start} and an open-ended run. "
                "Set max_epochs or max_steps, or give start in steps."
            )
        return round(self.start * total_steps)

    def kept(self, count: int) -> float:
        """n / (n + 1), which gives the plain mean."""
        return count / (count + 1)


class Averager:
    """A live average of a module's parameters.

    >>> module = nn.Linear(1, 1)
    >>> averager = EMA(decay=0.5, warmup=False).build(module)
    >>> averager.update(step=0)
    >>> averager.count
    1
    """

    def __init__(self, description: Averaging, module: nn.Module, total_steps: int | None = None) -> None:
        self.description = description
        self.total_steps = total_steps
        self.count = 0
        """Updates so far."""
        # Collected once: iterating over a module's names at every step would cost more than the average itself.
        self._weights = {name: parameter.detach() for name, parameter in module.named_parameters()}
        self.tensors: dict[str, Tensor] = {name: weight.clone() for name, weight in self._weights.items()}
        """The averaged parameters by name."""
        description.counts(0, total_steps)  # raises for an invalid `start` before the training begins

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the module's weights after this step (counted from 0) to the average, if the step `counts`."""
        if not self.description.counts(step, self.total_steps):
            return
        new = 1.0 - self.description.kept(self.count)
        torch._foreach_lerp_(list(self.tensors.values()), list(self._weights.values()), new)
        self.count += 1

    @contextmanager
    def swap(self) -> Iterator[None]:
        """Context in which the module has the averaged weights. Before the first update it does nothing."""
        own = {name: weight.clone() for name, weight in self._weights.items()} if self.count else {}
        try:
            self.copy_to_module()
            yield
        finally:
            _copy(own, self._weights)

    def copy_to_module(self) -> None:
        """Copy the averaged weights to the module. Before the first update it does nothing."""
        if self.count:
            _copy(self.tensors, self._weights)

    def state_tensors(self) -> dict[str, Tensor]:
        """The tensors for a checkpoint: the live averages by name, and the number of updates."""
        return self.tensors | {_COUNT: torch.tensor(self.count, dtype=torch.int64)}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the tensors that `state_tensors` returned."""
        expected = self.tensors.keys() | {_COUNT}
        if tensors.keys() != expected:
            odd = sorted(tensors.keys() ^ expected)
            raise StorageError(f"the averaged weights must fit the module, but these names differ: {', '.join(odd)}")
        _copy({name: tensors[name] for name in self.tensors}, self.tensors)
        self.count = int(tensors[_COUNT].item())


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in source.items():
        target[name].copy_(tensor)
