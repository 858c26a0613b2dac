"""An executor on a Ray cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from typing import Any

from neuro_divergent.core.errors import ConfigError, TrainingError, first_line
from neuro_divergent.core.executors.processes import WorkerDiedError, named
from neuro_divergent.core.extras import require


class _Task(Future[Any]):
    """A future whose task is cancelled on the cluster, too, also if it runs."""

    end: Callable[[], None] | None = None

    def cancel(self) -> bool:
        """End the task at once."""
        if self.done() or self.end is None:
            return super().cancel()
        self.end()
        return True


class RayExecutor(Executor):
    """Runs work on a Ray cluster: `executor=nd.RayExecutor()` for searches, folds and `fit_many`.

        with nd.RayExecutor(address="auto", cpus=2) as executor:
            nd.cross_validation(model, data, n_windows=8, refit=True, executor=executor)

    It connects with the first task. `shutdown` ends the connection, and a cluster that was started here; one that was
    already there stays.

    Args:
        address: the address of a running cluster ("auto" for the one of this machine, or "ray://host:port"). None uses
            the connection of this process or the cluster in RAY_ADDRESS, or else starts a cluster on this machine.
        cpus: cores of each task. Its math libraries use as many threads.
        gpus: GPUs of each task; a fraction lets several tasks share one.
        memory: bytes of main memory of each task.
        resources: other resources of each task, as the cluster names them.
        workers: tasks at the same time; None for as many as the cluster has cores and GPUs for.
        init: further arguments of `ray.init`, such as num_cpus or runtime_env.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: float = 1,
        gpus: float = 0,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        workers: int | None = None,
        **init: Any,
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = require("ray", extra="ray", purpose="RayExecutor")
        for name, value, least in (("cpus", cpus, 0), ("gpus", gpus, 0), ("workers", workers, 1)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < least):
                raise ConfigError(f"{name} must be a number of at least {least}, but got {name}={value!r}")
        self._address, self._init, self._wanted = address, init, workers
        self._needs: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": 0}
        self._needs |= {} if memory is None else {"memory": memory}
        self._needs |= {} if resources is None else {"resources": dict(resources)}
        self.threads = max(1, int(cpus))
        """The threads of one task."""
        self._remote: Any = None
        self._own = self._closed = False
        self._lock = threading.Lock()
        self._tasks: set[_Task] = set()

    @property
    def workers(self) -> int:
        """How many tasks run at the same time."""
        self._connect()
        if self._wanted is not None:
            return self._wanted
        total = self._ray.cluster_resources()
        wanted = {"CPU": self._needs["num_cpus"], "GPU": self._needs["num_gpus"]} | self._needs.get("resources", {})
        fits = {name: int(total.get(name, 0) // need) for name, need in wanted.items() if need}
        least = min(fits, key=lambda name: fits[name], default=None)
        if least is None:
            return max(1, int(total.get("CPU", 1)))
        if not fits[least]:
            raise ConfigError(
                f"a task needs {wanted[least]:g} {least}, but the cluster has {total.get(least, 0):g} in all"
            )
        return fits[least]

    def submit(self, fn: str | Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        """Run a module-level function, or one that is named "package.module:function", on the cluster."""
        self._connect()
        name = fn if isinstance(fn, str) else f"{fn.__module__}:{fn.__qualname__}"
        reference = self._remote.remote(name, *arguments)
        task = _Task()
        task.set_running_or_notify_cancel()

        def end() -> None:
            with suppress(Exception):  # it may have ended, or the cluster is gone
                self._ray.cancel(reference, force=True)

        task.end = end
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        reference.future().add_done_callback(lambda done: _settle(task, done))
        return task

    def _connect(self) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._remote is not None:
                return
            if not self._ray.is_initialized():
                self._own = True
                try:
                    self._ray.init(self._address, **self._settings())
                except Exception as error:
                    where = "a local cluster" if self._address is None else repr(self._address)
                    raise TrainingError(f"Ray could not connect to {where}: {first_line(error)}") from error
            # The functions are imported by the workers: only their names travel.
            self._remote = self._ray.remote(_run).options(**self._needs)

    def _settings(self) -> dict[str, Any]:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        elsewhere = self._address is not None or bool(os.environ.get("RAY_ADDRESS"))
        return quiet | ({} if elsewhere else {"include_dashboard": False}) | self._init

    def kill(self) -> None:
        """End all tasks at once. They fail with WorkerDiedError."""
        for task in list(self._tasks):
            task.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the connection after all tasks, or at once; and the cluster, if it was started here."""
        if cancel_futures:
            self.kill()
        if wait:
            _wait(self._tasks)
        with self._lock:
            self._closed, self._remote = True, None
            if self._own and self._ray.is_initialized():
                self._ray.shutdown()
            self._own = False


def _wait(tasks: set[_Task]) -> None:
    wait(list(tasks))


def _settle(task: _Task, done: Future[Any]) -> None:
    try:
        task.set_result(done.result())
    except BaseException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        what = lines[0] if lines else "no reason was given"
        task.set_exception(WorkerDiedError(f"{type(error).__name__}: {what}"))


def _run(name: str, *arguments: Any) -> Any:
    """Run a named function in a Ray worker."""
    return named(name)(*arguments)
