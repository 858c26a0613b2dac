"""Executors: where work runs that may leave this process. All have the interface of `concurrent.futures.Executor`.

A function is handed over by its name, "package.module:function", and its arguments and result are strings, such as JSON
documents and paths. So any engine can run it: this process, another process, or a cluster. Nothing is pickled.

`InlineExecutor` and `ProcessExecutor` have one worker. Tasks of one executor run one after the other, in the same
process, which may keep objects between them. A `ProcessPool` has several, and any of them may get a task. Executors of
other libraries are used through workers.py.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from neuro_divergent.core import errors
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError

THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that the math libraries read when they are loaded."""


class WorkerDiedError(BrokenExecutor):
    """The worker process ended before the task was done."""

    with_executor = False
    """Whether the executor ended with it: then the task may not even have begun."""


class WorkError(Exception):
    """The function raised in the worker process. The text has the type and the message of the error.

    Args:
        text: type and message.
        told: the result of `told_of` in the other process.
    """

    def __init__(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.told = told

    @property
    def error(self) -> NeuroDivergentError | None:
        """The error itself, with its fields; None if it is none of ours."""
        return None if self.told is None else error_from(self.told)


def told_of(error: Exception) -> dict[str, Any] | None:
    """An error as plain data for another process; None if it is none of ours."""
    if not isinstance(error, NeuroDivergentError):
        return None
    kind = next(one for one in type(error).__mro__ if one.__module__ == errors.__name__)
    return {"kind": kind.__name__, "sentence": str(error), "facts": error.facts}


def error_from(told: Mapping[str, Any]) -> NeuroDivergentError | None:
    """The error from the result of `told_of`; only classes of our own are looked up. None for anything else."""
    try:
        kind = getattr(errors, told["kind"])
        known = isinstance(kind, type) and issubclass(kind, NeuroDivergentError)
        return kind(str(told["sentence"]), **told["facts"]) if known else None
    except (AttributeError, KeyError, TypeError):
        return None


LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_ID")
"""Environment variables by which a launcher says that a process trains together with others. A worker does not."""


def _without_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in LAUNCHER}


class InlineExecutor(Executor):
    """Runs each task at once, in this process: `submit` returns when the task is done."""

    def submit(self, fn: str | Callable[..., str], /, *arguments: str, **_: Any) -> Future[str]:  # type: ignore[override]
        """Run a function of strings and return its future, which is done."""
        future: Future[str] = Future()
        try:
            future.set_result((named(fn) if isinstance(fn, str) else fn)(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def kill(self) -> None:
        """Do nothing: a task never runs while this process does something else."""


class ProcessExecutor(Executor):
    """Runs tasks in one other process, which starts with the first task. A script needs no `__main__` guard.

    Args:
        threads: the number of threads of the math libraries in the process.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._last: threading.Thread | None = None

    def submit(self, fn: str | Callable[..., str], /, *arguments: str, **_: Any) -> Future[str]:  # type: ignore[override]
        """Run a function of strings, named "package.module:function", in the process."""
        future: Future[str] = Future()
        if not isinstance(fn, str):
            fn = f"{fn.__module__}:{fn.__qualname__}"
        process = self._started()
        before = self._last
        self._last = threading.Thread(target=self._do, args=(process, future, fn, arguments, before), daemon=True)
        self._last.start()
        return future

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            limits = dict.fromkeys(THREAD_LIMITS, str(self._threads))
            # The worker finds the package and its plugins where this process finds them.
            path = os.pathsep.join(part for part in sys.path if part)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "neuro_divergent.core.executors.processes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**_without_launcher(os.environ), **limits, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C reaches this process, which ends the worker
            )
        return self._process

    def _do(
        self,
        process: subprocess.Popen[bytes],
        future: Future[str],
        function: str,
        arguments: tuple[str, ...],
        before: threading.Thread | None,
    ) -> None:
        if before is not None:
            before.join()  # tasks run in the order in which they were submitted
        with self._lock:
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps([function, *arguments]).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line.endswith(b"\n"):
                    raise OSError("no answer")
                good, text, told = json.loads(line)
            except (OSError, ValueError):
                code = _code(process)
                _close(process)
                future.set_exception(WorkerDiedError(f"its process ended with exit code {code}"))
                return
        if good:
            future.set_result(text)
        else:
            future.set_exception(WorkError(text, told))

    def kill(self) -> None:
        """End the process at once. The running task fails with WorkerDiedError; the next task starts a new process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            with self._lock:  # a running task sees the end of the pipe first
                _close(process)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the process after its task; with cancel_futures at once."""
        process = self._process
        if process is None:
            return
        if cancel_futures:
            self.kill()
            return
        with self._lock, suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()  # the worker ends when there is nothing more to read
        if wait:
            process.wait()
            _close(process)
        self._process = None


class ProcessPool(Executor):
    """Runs tasks in several other processes, each task in any of them.

    Args:
        processes: how many there are. Each starts with its first task.
        threads: the number of threads of the math libraries in each process.
    """

    def __init__(self, processes: int, threads: int = 1) -> None:
        self.processes, self.threads = processes, threads
        self._all = [ProcessExecutor(threads) for _ in range(processes)]
        self._idle: queue.SimpleQueue[ProcessExecutor] = queue.SimpleQueue()
        for process in self._all:
            self._idle.put(process)
        self._waiting = ThreadPoolExecutor(processes, thread_name_prefix="process-pool")

    def submit(self, fn: str | Callable[..., str], /, *arguments: str, **_: Any) -> Future[str]:  # type: ignore[override]
        """Run a function of strings, named "package.module:function", in the process that is free first."""
        return self._waiting.submit(self._run, fn, arguments)

    def _run(self, fn: str | Callable[..., str], arguments: tuple[str, ...]) -> str:
        process = self._idle.get()
        try:
            return process.submit(fn, *arguments).result()
        finally:
            self._idle.put(process)

    def kill(self) -> None:
        """End all processes at once. Their tasks fail with WorkerDiedError."""
        for process in self._all:
            process.kill()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes after their tasks; with cancel_futures at once."""
        self._waiting.shutdown(wait=wait and not cancel_futures, cancel_futures=cancel_futures)
        for process in self._all:
            process.shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            self._waiting.shutdown()


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _code(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def named(function: str) -> Callable[..., str]:
    """The module-level function with a name "package.module:function"."""
    module, _, name = function.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        raise ConfigError(f"a task must name a function as package.module:function, but got {function!r}")
    return found  # type: ignore[no-any-return]


def _end_with_parent() -> None:
    """End this process when its parent is gone: nobody would read the answer, and another one may do the task."""
    parent = os.getppid()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _serve() -> None:
    """Read tasks from the parent process, one line each, until it closes the pipe; answer one line each."""
    _end_with_parent()
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a task prints must not reach the answers
    for line in tasks:
        function, *arguments = json.loads(line)
        try:
            answer: tuple[bool, str, Any] = True, named(function)(*arguments), None
        except Exception as error:
            answer = False, f"{type(error).__name__}: {error}", told_of(error)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
