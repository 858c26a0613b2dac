"""Start the processes of a training on this machine, with torch's elastic agent, and wait for them.

The processes are programs of their own (`python -m ...`). So a script needs no `__main__` guard, and a notebook works.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from neuro_divergent.core import files
from neuro_divergent.core.errors import NeuroDivergentError, TrainingError
from neuro_divergent.core.executors.processes import error_from
from neuro_divergent.core.json import parse_json
from neuro_divergent.core.plain_files import plain_bytes
from neuro_divergent.distributed.settings import Distributed
from neuro_divergent.training.process.signals import WATCHED, raise_as

FAILED = "failed-{rank}.json"
"""In the job's folder: the error that ended a process."""
POINTLESS = "pointless"
"""In the job's folder, if another attempt would fail in the same way."""
STARTER = "NEURO_DIVERGENT_STARTER"
"""Environment variable with the number of the process that started the others."""
GRACE_SECONDS = 25
"""How long the processes may take to save after a signal."""


def launch(module: str, folder: Path, settings: Distributed, logs: Path) -> None:
    """Run `python -m module folder` in all processes until they have ended well; start them again after a fault.

    Args:
        module: the program; it reads the environment variables of torchrun.
        folder: the folder of its job, where a process that fails writes its error.
        settings: how many processes, how many restarts, and when one counts as lost.
        logs: a directory for what the processes print.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    _forget(folder)
    world = settings.wanted
    files.make_directories(logs)
    # The first process may show its progress line where this process shows its own.
    quiet = dict.fromkeys(range(0 if not sys.stderr.isatty() else 1, world), Std.ALL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=world,
        run_id=f"nd-{os.getpid()}-{time.monotonic_ns()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=settings.max_restarts,
        monitor_interval=0.05,
        logs_specs=DefaultLogsSpecs(log_dir=str(logs), redirects=quiet),
        shutdown_timeout=GRACE_SECONDS,
    )
    with _environment(settings), _handlers_kept(), _quiet_agent():
        try:
            elastic_launch(config, sys.executable)("-m", module, str(folder))
        except SignalException as error:
            raise_as(int(error.sigval))
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            raise _what_happened(folder, world, settings, failure.local_rank, failure.exitcode, logs) from None


def _what_happened(
    folder: Path, world: int, settings: Distributed, rank: int, code: int, logs: Path
) -> NeuroDivergentError:
    """The error to raise: that of the process that failed first, or what ended it."""
    found = [failure for number in range(world) if (failure := Failure.read(folder, number)) is not None]
    # Those that lost another process fail, too, but later and for no reason of their own.
    found.sort(key=lambda failure: (failure.kind == "DistributedError", failure.time))
    if found:
        first = found[0]
        own = error_from({"kind": first.kind, "sentence": first.sentence, "facts": {}})
        if own is not None:
            return own
        return TrainingError(
            f"process {first.rank} of {world} raised an error: {first.sentence}\n\n{first.traceback.rstrip()}"
        )
    ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return TrainingError(
        f"process {rank} of {world} {ended}, and {settings.max_restarts} restarts did not help. The output of all "
        f"processes is in {logs}. Continue from the last checkpoint with resume='auto'"
    )


@dataclass(frozen=True)
class Failure:
    """Why a process failed."""

    rank: int
    kind: str
    sentence: str
    traceback: str
    time: float

    def write(self, folder: Path) -> None:
        """Leave it for the process that waits. A full disk must not hide the error itself."""
        with suppress(NeuroDivergentError, OSError):
            files.write_json(folder / FAILED.format(rank=self.rank), dict(vars(self)))

    @classmethod
    def read(cls, folder: Path, rank: int) -> Failure | None:
        """What a process left; None if it left nothing."""
        try:
            left = parse_json(plain_bytes(folder / FAILED.format(rank=rank), 1 << 20), FAILED)
            kind, sentence, traceback = (str(left[name]) for name in ("kind", "sentence", "traceback"))
            return cls(int(left["rank"]), kind, sentence, traceback, float(left["time"]))
        except (NeuroDivergentError, OSError, KeyError, TypeError, ValueError):
            return None


def _forget(folder: Path) -> None:
    for path in (*folder.glob(FAILED.format(rank="*")), folder / POINTLESS):
        path.unlink(missing_ok=True)


@contextmanager
def _environment(settings: Distributed) -> Iterator[None]:
    """Context with what the processes inherit: where modules are found, threads, devices."""
    values = {
        "PYTHONPATH": os.pathsep.join(part for part in sys.path if part),
        "OMP_NUM_THREADS": str(settings.threads),
        # Otherwise a restart looks for the processes at the address of the earlier attempt.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        STARTER: str(os.getpid()),
    }
    if settings.devices is not None:
        values["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, settings.devices))
    # The agent sets the last one and leaves it.
    before = {name: os.environ.get(name) for name in (*values, "TORCHELASTIC_SIGNALS_TO_HANDLE")}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Context at whose end the signal handlers are those from before: the agent sets its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = {*WATCHED, *(getattr(signal, name) for name in ("SIGHUP", "SIGQUIT") if hasattr(signal, name))}
    before = {number: signal.getsignal(number) for number in names}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


@contextmanager
def _quiet_agent() -> Iterator[None]:
    """Context in which the agent's own log is silent: what matters is in the error that is raised."""
    log = logging.getLogger("torch.distributed")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def end_with_starter(seconds: float = 0.5) -> None:
    """Watch the process that started this one, and end when it is gone: nobody would take the result.

    The training gets SIGTERM first, to save. A thread does this, because the training may wait for another process.
    """
    starter = int(os.environ.get(STARTER, "0"))
    if not starter or os.name == "nt":
        return

    def watch() -> None:
        while os.getppid() == starter:
            time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="nd-starter", daemon=True).start()
