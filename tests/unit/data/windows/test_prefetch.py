"""Prefetching: the same results in the same order with any number of workers, errors at their own step."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows.prefetch import Prefetch
from neuro_divergent.data.windows.samplers import Shuffled
from neuro_divergent.data.windows.windows import Windows


def test_batches_are_the_same_with_any_number_of_workers() -> None:
    y = np.random.default_rng(0).normal(size=4000).astype(np.float32)
    store = SeriesStore(
        ids=np.arange(2), offsets=np.array([0, 1500, 4000]), y=y, start=np.zeros(2, np.int64), freq="1i"
    )
    windows = Windows(store, lookback=12, horizon=3)
    sampler = Shuffled(len(windows), 16, seed=5)
    steps = range(3, 60)

    def batches(workers: int) -> list[torch.Tensor]:
        return [batch.y for batch in Prefetch(lambda step: windows.gather(sampler.numbers(1, step)), steps, workers)]

    alone = batches(0)
    assert len(alone) == 57
    for workers in (1, 2, 4):
        assert all(torch.equal(a, b) for a, b in zip(alone, batches(workers), strict=True))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_error_is_raised_at_its_own_step(workers: int) -> None:
    def work(step: int) -> int:
        if step == 4:
            raise KeyError("broken")
        return step

    results = iter(Prefetch(work, range(10), workers))
    assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(KeyError, match="broken"):
        next(results)


@pytest.mark.parametrize("workers", [1, 2])
def test_leaving_early_stops_the_threads_and_bounds_the_work(workers: int) -> None:
    begun: list[int] = []
    before = threading.active_count()

    def work(step: int) -> int:
        begun.append(step)
        return step

    for value in Prefetch(work, iter(range(10**9)), workers, ahead=4):
        if value == 10:
            break
    else:
        raise AssertionError("the loop was to be left early")
    with Prefetch(work, range(5), workers):
        pass
    assert threading.active_count() == before
    assert max(begun) <= 10 + 4


def test_no_steps_and_no_negative_workers() -> None:
    assert list(Prefetch(lambda step: step, [], 2)) == []
    with pytest.raises(ConfigError, match="workers must be at least 0"):
        Prefetch(lambda step: step, [], -1)
