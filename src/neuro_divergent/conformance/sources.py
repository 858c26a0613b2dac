"""The conformance suite of sources: batches by number, as a pure function."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import torch

from neuro_divergent.conformance.suite import Suite, require
from neuro_divergent.losses import MSE
from neuro_divergent.training.arrays import Rows, each
from neuro_divergent.training.own_source import PlacedSource
from neuro_divergent.training.state.task import Source

SOURCES: Suite[Any] = Suite("source", lambda cls: tuple(cls.examples()) if hasattr(cls, "examples") else (cls(),))
"""The checks of sources; `check_source` runs one of them."""

EPOCHS, STEPS = 2, 4
"""How many epochs are checked, and how many steps of each at most."""


@SOURCES.check
def gives_batches(source: Source) -> None:
    """Every batch is (x, y) or (x, y, weight), finite, with the same number of rows in each."""
    for epoch, step in _numbers(source):
        _batch(source, epoch, step)


@SOURCES.check
def is_a_pure_function(source: Source) -> None:
    """The batch of (epoch, step) is always the same, in any order of calls: resuming needs this."""
    numbers = list(_numbers(source))
    first = {number: _batch(source, *number) for number in numbers}
    for number in reversed(numbers):
        _same(first[number], _batch(source, *number), number, "asked for a second time, in another order")


@SOURCES.check
def leaves_global_randomness_alone(source: Source) -> None:
    """Batches neither depend on torch's global generator nor change it: use one seeded by epoch and step."""
    for number in _numbers(source):
        torch.manual_seed(1)
        before = torch.get_rng_state()
        one = _batch(source, *number)
        require(
            torch.equal(before, torch.get_rng_state()),
            f"a batch must not use torch's global generator, but that of {number} drew from it",
        )
        torch.manual_seed(2)
        _same(one, _batch(source, *number), number, "with another state of the global generator")


@SOURCES.check
def threads_agree(source: Source) -> None:
    """Batches are the same if several threads request them at once (`num_workers`)."""
    numbers = list(_numbers(source))
    alone = [_batch(source, *number) for number in numbers]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda number: _batch(source, *number), numbers))
    for number, one, other in zip(numbers, alone, together, strict=True):
        _same(one, other, number, "from another thread")


def _numbers(source: Source) -> Iterator[tuple[int, int]]:
    return product(range(EPOCHS), range(min(STEPS, source.steps_per_epoch)))


def _batch(source: Source, epoch: int, step: int) -> Rows:
    placed = PlacedSource(source, MSE(), torch.device("cpu"), torch.float64)
    x, y, weight = placed.batch(epoch, step)
    return Rows(each(x, torch.clone), y.clone(), None if weight is None else weight.clone())


def _same(one: Rows, other: Rows, number: tuple[int, int], when: str) -> None:
    for name, first, second in zip(Rows._fields, one, other, strict=True):
        same = _equal(first, second)
        require(same, f"the batch of (epoch, step) = {number} must be a pure function, but its {name} differs {when}")


def _equal(first: Any, second: Any) -> bool:
    """Whether two parts of a batch are equal: tensors, several by name, or none."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    return first is second if first is None or second is None else torch.equal(first, second)
