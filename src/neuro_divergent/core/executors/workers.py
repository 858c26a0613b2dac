"""Workers: any executor with the interface of `concurrent.futures`, used in one way.

`Workers(executor).run(function, tasks)` hands over the name of a function, and strings. Nothing else travels, so that
processes of this machine, dask, Ray and MPI are all the same. A task whose worker dies is tried once more. If the
executor itself ends, the remaining tasks run in processes of this machine.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from neuro_divergent._version import __version__
from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, first_line
from neuro_divergent.core.executors.in_worker import PERFORM, TOKEN, look_around, perform
from neuro_divergent.core.executors.processes import ProcessPool, WorkerDiedError, WorkError

log = logging.getLogger(__name__)

PROBE = f"{look_around.__module__}:look_around"


class Workers:
    """The workers of an executor.

    Args:
        executor: anything with the interface of `concurrent.futures.Executor`; None for processes of this machine.
        processes: without an executor, how many processes.
        threads: without an executor, the threads of each process.
    """

    def __init__(self, executor: Any = None, *, processes: int = 1, threads: int = 1) -> None:
        self._own: ProcessPool | None = None
        if executor is None:
            self._own = ProcessPool(processes, threads)
        self._given = executor
        self.count = processes if executor is None else count_of(executor)
        """How many tasks run at the same time."""
        self.threads = threads if executor is None else threads_of(executor, self.count)
        """The threads of the math libraries for one task."""
        self._given_out: set[Future[str]] = set()

    @property
    def local(self) -> bool:
        """Whether the tasks run in processes that were started here."""
        return self._own is not None

    def submit(self, function: str, *arguments: str) -> Future[str]:
        """Run a function of strings, named "package.module:function", in a worker.

        The future has the result, or WorkError if the function raised, or WorkerDiedError if its worker ended.
        """
        future: Future[str] = Future()
        settings = json.dumps({"threads": self.threads})
        try:
            inner = self._submitted(settings, function, arguments)
        except (BrokenExecutor, RuntimeError) as error:  # it broke, or was shut down
            self._fall_back(error)
            inner = self._submitted(settings, function, arguments)
        self._given_out.add(inner)
        inner.add_done_callback(self._given_out.discard)
        inner.add_done_callback(lambda done: _hand_on(done, future))
        return future

    def _submitted(self, settings: str, function: str, arguments: Sequence[str]) -> Future[str]:
        if self._own is not None:
            return self._own.submit(PERFORM, settings, function, *arguments)
        return self._given.submit(perform, settings, function, *arguments)  # type: ignore[no-any-return]

    def _fall_back(self, error: Exception) -> None:
        if self._own is not None:
            raise error
        self.count = max(1, min(self.count, cores() // self.threads))
        self._own = ProcessPool(self.count, self.threads)
        log.warning(
            "the executor takes no more work (%s): the rest runs in %d process%s of this machine",
            first_line(error), self.count, "" if self.count == 1 else "es",
        )  # fmt: skip

    def run(
        self,
        function: str,
        tasks: Sequence[Sequence[str]],
        *,
        stop: Callable[[Exception], bool] = lambda _: False,
        done: Callable[[int], None] = lambda _: None,
    ) -> list[str | WorkError | WorkerDiedError | None]:
        """Run all tasks; the results, or errors, in their order; None for a task that was left out.

        Args:
            function: the name of the function.
            tasks: its arguments for each task.
            stop: whether an error ends the whole: then the other tasks are left out.
            done: called with the number of each task that has ended.
        """
        found: dict[int, str | WorkError | WorkerDiedError | None] = dict.fromkeys(range(len(tasks)))
        running = {self.submit(function, *task): number for number, task in enumerate(tasks)}
        again: set[int] = set()
        while running:
            finished, _ = wait(running, return_when="FIRST_COMPLETED")
            for future in finished:
                number = running.pop(future)
                error = future.exception()
                if error is None:
                    found[number] = future.result()
                elif isinstance(error, WorkerDiedError) and (error.with_executor or number not in again):
                    if not error.with_executor:
                        again.add(number)
                        log.warning("a worker ended in the middle (%s): its work begins again elsewhere", error)
                    running[self.submit(function, *tasks[number])] = number
                    continue
                else:
                    assert isinstance(error, WorkError | WorkerDiedError)
                    found[number] = error
                    if stop(error):
                        self.close(at_once=True)
                        return list(found.values())
                done(number)
        return list(found.values())

    def probe(self, folder: Path, modules: Iterable[str] = ()) -> None:
        """Refuse an executor whose workers cannot do the work: no shared disk, another version, modules that they lack.

        Args:
            folder: the folder of the tasks. Every worker must see it under the same path.
            modules: the modules of the user's own classes.
        """
        if self._given is None:
            return
        token = uuid.uuid4().hex
        files.write_bytes(folder / TOKEN, token.encode())
        asked = [str(folder.resolve()), token, __version__, json.dumps(sorted(modules))]
        for found in self.run(PROBE, [asked] * self.count, stop=lambda _: True):
            if isinstance(found, WorkError):
                raise (found.error or ConfigError(f"a worker of the executor cannot work: {found}"))
            if isinstance(found, WorkerDiedError):
                raise ConfigError(
                    f"the workers of an executor must be able to import neuro_divergent, but got: {found}. Install "
                    "the same version there"
                )
        if self.local:
            self.close(at_once=True)
            raise ConfigError(
                "an executor must take work, but this one takes none: it was shut down, or its processes end at once. "
                'A script that uses ProcessPoolExecutor needs if __name__ == "__main__": around the call'
            )

    def close(self, *, at_once: bool = False) -> None:
        """End the processes that were started here. An executor that was given stays; at_once cancels its tasks."""
        for future in list(self._given_out) if at_once else []:
            future.cancel()
        if self._own is not None:
            self._own.shutdown(wait=True, cancel_futures=at_once)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(at_once=kind is not None)


def workers_for(executor: Any, n_jobs: int, *, threads: int, most: int | None = None) -> Workers | None:
    """The workers for the arguments `executor` and `n_jobs`; None if the work stays in this process.

    Args:
        executor: as the user gave it.
        n_jobs: processes of this machine; -1 for one per core.
        threads: threads of this process, which the processes share.
        most: how many tasks there are.
    """
    check_executor(executor, n_jobs)
    if executor is not None:
        return Workers(executor)
    jobs = n_jobs if n_jobs > 0 else cores()
    jobs = jobs if most is None else min(jobs, most)
    return None if jobs <= 1 else Workers(processes=jobs, threads=max(1, threads // jobs))


def check_executor(executor: Any, n_jobs: int = 1) -> None:
    """Refuse an object that is no executor, and an executor beside `n_jobs`."""
    if n_jobs == 0 or n_jobs < -1:
        raise ConfigError(f"n_jobs must be -1 or at least 1, but got n_jobs={n_jobs}")
    if executor is None:
        return
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ConfigError(
            "executor must have the interface of concurrent.futures, such as ProcessPoolExecutor(4), "
            f"client.get_executor() of dask, or nd.RayExecutor(), but got {executor!r}, which has no submit"
        )
    if hasattr(executor, "get_executor"):
        raise ConfigError(
            f"executor must have the interface of concurrent.futures, but got {executor!r}, which gives one: write "
            "executor=client.get_executor()"
        )
    if n_jobs != 1:
        raise ConfigError(
            f"n_jobs are processes of this machine, and an executor brings its own workers, but got n_jobs={n_jobs} "
            "and an executor. Leave one of them out"
        )


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_of(executor: Any) -> int:
    """How many tasks an executor runs at the same time; the cores of this machine if it does not tell."""
    client = getattr(executor, "_client", None)  # of dask
    if client is not None and callable(getattr(client, "nthreads", None)):
        return max(1, int(sum(client.nthreads().values())))
    for name in ("workers", "num_workers", "_max_workers"):  # Ray, MPI, the standard library
        value = getattr(executor, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return cores()


def threads_of(executor: Any, count: int) -> int:
    """The threads of one task: the executor's own number, or this machine's cores divided; elsewhere 1."""
    own = getattr(executor, "threads", None)
    if isinstance(own, int) and own > 0:
        return own
    here = isinstance(executor, ProcessPoolExecutor | ThreadPoolExecutor)
    return max(1, cores() // count) if here else 1


def _hand_on(done: Future[str], future: Future[str]) -> None:
    """The answer of `perform` as the result, or the error, of a future. Any other error is one of the executor."""
    try:
        good, text, told = json.loads(done.result())
    except WorkError as error:
        future.set_exception(error)
    except WorkerDiedError as error:
        future.set_exception(error)
    except CancelledError:
        future.set_exception(WorkerDiedError("it was cancelled"))
    except BaseException as error:  # of the executor's library: its worker was lost, or cannot read the task
        died = WorkerDiedError(f"{type(error).__name__}: {first_line(error)}")
        died.with_executor = isinstance(error, BrokenExecutor)
        future.set_exception(died)
    else:
        if good:
            future.set_result(text)
        else:
            future.set_exception(WorkError(text, told))
