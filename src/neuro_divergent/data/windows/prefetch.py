"""Batches computed ahead in background threads: the same results in the same order, only earlier."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

from neuro_divergent.core.errors import ConfigError

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Iterate over function(step) for each step, computed ahead by threads. An error is raised at the step it is from.

    The result must depend on the step alone: with 0, 1 or several workers the results are the same.

    Args:
        function: computes the result of one step.
        steps: the steps, in order.
        workers: number of threads; 0 computes each step on demand.
        ahead: largest number of results in the queue; None for two per worker.
    """

    def __init__(
        self, function: Callable[[int], T], steps: Iterable[int], workers: int = 1, *, ahead: int | None = None
    ) -> None:
        if workers < 0:
            raise ConfigError(f"workers must be at least 0, but got workers={workers}")
        self._function, self._steps, self._workers = function, iter(steps), workers
        self._ahead = max(1, 2 * workers if ahead is None else ahead)
        self._waiting: deque[Future[T]] = deque()
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="nd-prefetch") if workers else None

    def __iter__(self) -> Iterator[T]:
        try:
            while not self._stopped.is_set():
                self._fill()
                if self._pool is None:
                    step = next(self._steps, None)
                    if step is None:
                        return
                    yield self._function(step)
                elif self._waiting:
                    yield self._waiting.popleft().result()
                else:
                    return
        finally:
            self.close()

    def _fill(self) -> None:
        while self._pool is not None and len(self._waiting) < self._ahead:
            step = next(self._steps, None)
            if step is None:
                return
            self._waiting.append(self._pool.submit(self._function, step))

    def close(self) -> None:
        """Cancel the steps that have not started, and wait for those that run."""
        self._stopped.set()
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Prefetch[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
