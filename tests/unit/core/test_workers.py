"""Any executor of `concurrent.futures` runs named functions of strings; workers die, executors end, disks differ."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import neuro_divergent as nd
from neuro_divergent.core.executors.processes import ProcessPool, WorkerDiedError, WorkError
from neuro_divergent.core.executors.workers import Workers, check_executor, count_of, threads_of, workers_for

PATH = str(Path(__file__).resolve().parent)


def die_once(place: str) -> str:
    """Kill this process at the first call, and work at the second."""
    mark = Path(place)
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def process_and_threads() -> str:
    import torch

    time.sleep(0.2)
    return f"{os.getpid()} {torch.get_num_threads()}"


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which workers import this file."""
    monkeypatch.syspath_prepend(PATH)
    return Path(__file__).stem


def test_threads_of_a_pool_work_in_processes_of_their_own(importable: str) -> None:
    """Two trainings in one process would share its random state."""
    with ThreadPoolExecutor(2) as pool:
        workers = Workers(pool)
        workers.threads = 1
        found = workers.run(f"{importable}:process_and_threads", [()] * 4)
    assert {str(one).split()[1] for one in found} == {"1"}
    processes = {str(one).split()[0] for one in found}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes


def test_a_task_whose_worker_dies_is_tried_again(importable: str, tmp_path: Path) -> None:
    with Workers(processes=1) as workers:
        assert workers.run(f"{importable}:die_once", [(str(tmp_path / "a"),)]) == ["done"]


def test_an_executor_that_ends_in_the_middle_is_replaced(
    importable: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One dead process breaks the whole pool of the standard library."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, Workers(pool) as workers:
        tasks = [(str(tmp_path / name),) for name in "ab"]
        assert workers.run(f"{importable}:die_once", tasks) == ["done"] * 2
    assert "the executor takes no more work" in caplog.text


def test_an_error_of_ours_arrives_with_its_fields() -> None:
    with Workers(processes=1) as workers:
        error = workers.run("neuro_divergent.core.executors.in_worker:look_around", [("/", "x", "0.0", "[]")])[0]
    assert isinstance(error, WorkError)
    assert isinstance(error.error, nd.ConfigError)
    assert "need the same version" in str(error.error)


class Here(Executor):
    """An executor that runs each task at once, as if on another machine that sees no disk of this one."""

    def submit(self, fn: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*[one.replace("/tmp", "/elsewhere") for one in arguments]))
        return future


def test_workers_without_the_disk_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(nd.StorageError, match=r"does not see .* on a disk that all machines share"):
        Workers(Here()).probe(Path("/tmp"))
    with pytest.raises(nd.ConfigError, match="import your module no_such_module"):
        Workers(ThreadPoolExecutor(1)).probe(tmp_path, ["no_such_module"])


def test_an_executor_that_was_shut_down_is_refused(tmp_path: Path) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(nd.ConfigError, match="an executor must take work, but this one takes none"):
        Workers(pool).probe(tmp_path)


def test_what_is_no_executor_is_refused() -> None:
    class Client:
        def submit(self) -> None: ...
        def get_executor(self) -> None: ...

    for wrong in (3, "processes", ThreadPoolExecutor, object()):
        with pytest.raises(nd.ConfigError, match="has no submit"):
            check_executor(wrong)
    with pytest.raises(nd.ConfigError, match=r"write executor=client\.get_executor"):
        check_executor(Client())
    with pytest.raises(nd.ConfigError, match="Leave one of them out"):
        check_executor(ThreadPoolExecutor(1), n_jobs=2)
    with pytest.raises(nd.ConfigError, match="n_jobs must be -1 or at least 1"):
        workers_for(None, 0, threads=1)


def test_cores_are_divided() -> None:
    """Eight threads for three processes are two each; an executor of a cluster has its own number."""
    workers = workers_for(None, 3, threads=8)
    assert workers is not None
    assert (workers.count, workers.threads) == (3, 2)
    assert workers_for(None, 3, threads=8, most=1) is None

    class Cluster:
        workers, threads = 5, 4

    assert (count_of(Cluster()), threads_of(Cluster(), 5)) == (5, 4)
    with ProcessPoolExecutor(3) as pool:
        assert count_of(pool) == 3


def test_a_pool_can_be_ended_at_once() -> None:
    pool = ProcessPool(1)
    hung = pool.submit("time:sleep", "60")  # a string is no number: the function raises, the process stays
    with pytest.raises(WorkError, match="TypeError"):
        hung.result(timeout=60)
    hung = pool.submit("builtins:input", "")
    time.sleep(0.2)
    pool.shutdown(cancel_futures=True)
    with pytest.raises(WorkerDiedError):
        hung.result(timeout=10)


def test_ray_that_is_missing_or_asked_for_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is connected before the first task."""
    for wrong in ({"cpus": -1}, {"gpus": "all"}, {"workers": 0}):
        with pytest.raises(nd.ConfigError, match=r"must be a number of at least .*, but got"):
            nd.RayExecutor(**wrong)  # type: ignore[arg-type]
    executor = nd.RayExecutor(cpus=4)
    assert executor.threads == 4
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit("os:getcwd")
    for name in ("ray", "ray.tune"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(nd.MissingExtraError, match=r"neuro-divergent\[ray\]"):
        nd.RayExecutor()
    with pytest.raises(nd.MissingExtraError, match=r"neuro-divergent\[ray\]"):
        nd.search.ray_trainable(nd.MLP(h=2, input_size=4), nd.samples.air_passengers())
