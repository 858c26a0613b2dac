"""The dashboard on many long runs: first page, first chart, a comparison, memory; TensorBoard beside it.

    python benchmarks/dashboard.py [--runs 1000] [--steps 10000] [--peer-runs 100] [--write]

Every run has the event log of a training of `--steps` steps and 100 epochs. Times are wall times of an HTTP client: the
first page from a request to a server that has just started, with the whole table as JSON; a comparison with the
curves of 20 runs. "first chart" begins with the start of the process and ends with the curve of a run, on both sides.
TensorBoard gets the same three scalars of every step; fewer runs are in its favour. Memory is the largest resident
size.

Loading the page's scripts is measured in Chromium, beside plotly's script if it is installed (pip install plotly).

A training of a small network, alternating in one process with and without an open dashboard that watches it: CPU
seconds per step, and the same weights.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from torch import nn

import neuro_divergent as nd
from harness import Line, line, print_table, write

EPOCHS, COMPARED = 100, 20


def event_log(steps: int) -> str:
    """The lines that a training of so many steps writes."""
    rng = np.random.default_rng(1)
    begun, per_epoch = 1_700_000_000.0, steps // EPOCHS
    lines = [
        {"event": "fit_start", "time": begun, "step": 0, "epoch": 0, "total_steps": steps, "steps_per_epoch": per_epoch}
    ]
    for epoch in range(1, EPOCHS + 1):
        done = epoch * per_epoch
        numbers = list(range(done - per_epoch + 1, done + 1))
        place = {"time": begun + done / 100, "step": done, "epoch": epoch - 1}
        columns = {name: rng.gamma(2.0, 1 / math.sqrt(epoch), per_epoch).tolist() for name in ("loss", "gradient_norm")}
        lines.append(
            {
                "event": "steps",
                **place,
                "steps": numbers,
                **columns,
                "learning_rate": [0.001] * per_epoch,
                "memory": 4e8,
            }
        )
        scores = {"train_loss": 1 / epoch, "validation_loss": 1.1 / epoch, "validation_mae": 2 / epoch, "seconds": 1.0}
        lines.append({"event": "epoch", **place, "epoch": epoch, **scores, "learning_rate": 0.001})
    lines.append(
        {"event": "fit_end", "time": begun + steps / 100, "step": steps, "epoch": EPOCHS, "why": "all epochs were done"}
    )
    return "".join(json.dumps(one) + "\n" for one in lines)


def write_runs(folder: Path, runs: int, steps: int) -> None:
    """Run directories with the same log."""
    log = event_log(steps)
    about = {
        "schema": 1,
        "model": {"kind": "NHITS"},
        "data": {"fingerprint": "a", "series": 1, "rows": 1, "freq": "1h"},
        "scored": {"rows": "a", "h": 24, "loss": {"kind": "MAE"}},
        "naive": {"validation_loss": 1.0},
    }
    for number in range(runs):
        run = folder / f"run-{number:04d}"
        run.mkdir(parents=True)
        (run / "config.json").write_text(nd.TrainingConfig(seed=number).to_json())
        (run / "about.json").write_text(json.dumps(about))
        (run / "events.jsonl").write_text(log)


def memory_mb(pid: int) -> float:
    """The largest resident size of a process so far."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def measure(folder: Path) -> tuple[list[Line], float]:
    """The lines of the server, and the seconds to the first chart."""
    started = time.perf_counter()
    with nd.Dashboard(folder) as board, httpx.Client(base_url=board.url.split("/?")[0], timeout=60) as client:
        client.headers["Authorization"] = f"Bearer {board.token}"
        begun = time.perf_counter()
        client.get("/")
        rows = client.get("/api/runs").json()
        page = time.perf_counter() - begun
        ids = [run["id"] for run in rows["runs"]]
        client.get(f"/api/runs/{ids[0]}/curves?points=900")
        chart = time.perf_counter() - started
        begun = time.perf_counter()
        client.get(f"/api/compare?runs={','.join(ids[1 : COMPARED + 1])}")
        compare = time.perf_counter() - begun
        whole = time.perf_counter()
        with client.stream("GET", "/api/live") as stream:
            for text in stream.iter_lines():
                if text.startswith("data:") and client.get("/api/runs").json()["unread"] == 0:
                    break
                if rows["unread"] == 0:
                    break
        read = time.perf_counter() - whole + page
        assert board._process is not None
        memory = memory_mb(board._process.pid)
    note = f"{len(ids)} runs, {rows['unread']} of them read after the page; all after {read:.1f} s"
    return [
        line("first page of the runs", page, at_most=1.5, unit="s", note=note),
        line(f"comparison of {COMPARED} runs", compare, at_most=1.0, unit="s"),
        line("memory of the server", memory, at_most=200, unit="MB"),
    ], chart


def peer_chart(folder: Path, runs: int, steps: int) -> float:
    """Seconds from the start of TensorBoard to the curve of a run."""
    from torch.utils.tensorboard import SummaryWriter

    rng, first = np.random.default_rng(1), folder / "run-0000"
    with SummaryWriter(str(first)) as writer:
        values = rng.gamma(2.0, 1.0, (3, steps))
        for name, column in zip(("loss", "gradient_norm", "learning_rate"), values, strict=True):
            for step, value in enumerate(column.tolist()):
                writer.add_scalar(name, value, step)
    for number in range(1, runs):
        shutil.copytree(first, folder / f"run-{number:04d}")
    port = 16006
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(folder),
        "--port",
        str(port),
        "--load_fast=false",
    ]
    started = time.perf_counter()
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=run-0000&tag=loss"
        return _until(lambda: _points(address) > 0, started)
    finally:
        server.terminate()
        server.wait()


def _points(address: str) -> int:
    try:
        answer = httpx.get(address, timeout=10)
        return len(answer.json()) if answer.status_code == 200 else 0
    except (httpx.HTTPError, ValueError):
        return 0


def _until(check: Callable[[], bool], started: float) -> float:
    while not check():
        time.sleep(0.02)
        if time.perf_counter() - started > 200:
            return math.nan
    return time.perf_counter() - started


def script_lines() -> list[Line]:
    """How long a browser takes for the page's own scripts, and for plotly's."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    static = Path(nd.__file__).parent / "dashboard" / "static"
    own = sum(path.stat().st_size for path in static.iterdir())
    found = [line("size of the page with its scripts", own / 1024, unit="kB")]
    try:
        import plotly
    except ImportError:
        return found
    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        times = []
        for _ in range(3):
            page.goto("about:blank")
            begun = time.perf_counter()
            page.add_script_tag(path=script)
            times.append(time.perf_counter() - begun)
        browser.close()
    return [*found, line("plotly's script: load", 1000 * statistics.median(times), unit="ms")]


def training_lines(folder: Path, steps: int = 1500, rounds: int = 5) -> list[Line]:
    """The cost of a training with an open dashboard, and whether its weights are the same."""
    x = np.random.default_rng(0).normal(size=(4096, 64)).astype(np.float32)
    used: dict[bool, list[float]] = {True: [], False: []}
    weights: dict[bool, Any] = {}
    for number in range(2 * rounds + 1):
        watched = number % 2 == 1
        run = folder / f"training-{number}"
        checkpoints = nd.Checkpoints(directory=run, on_stop=False)
        config = nd.TrainingConfig(max_steps=steps, batch_size=128, progress=False, threads=1, checkpoints=checkpoints,
                                   validation_split=None, compile=False)  # fmt: skip
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
        board = nd.Dashboard(folder).start() if watched else None
        if board is not None:
            stream = _watching(board)
        begun = time.process_time()
        nd.Trainer(config).fit(module, (x, x[:, :1]))
        spent = time.process_time() - begun
        if number:  # the first one warms up
            used[watched].append(spent / steps)
        weights[watched] = [parameter.detach().clone() for parameter in module.parameters()]
        if board is not None:
            stream.kill()
            stream.wait()
            board.stop()
    same = all(torch.equal(a, b) for a, b in zip(weights[True], weights[False], strict=True))
    ratio = min(used[True]) / min(used[False])
    return [
        line("step of a training with an open dashboard, CPU", ratio, at_most=1.01, unit="x", note="without one: 1"),
        line("same weights", float(same), at_least=1),
    ]


def _watching(board: nd.Dashboard) -> subprocess.Popen[bytes]:
    """A process that listens to changes and asks for the curves of the newest run, as a page does."""
    code = """
import sys, httpx
base, token = sys.argv[1:]
with httpx.Client(base_url=base, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
    with client.stream("GET", "/api/live") as stream:
        for text in stream.iter_lines():
            if text.startswith("data:"):
                runs = client.get("/api/runs").json()["runs"]
                for run in runs:
                    if run["state"] == "running":
                        client.get(f"/api/runs/{run['id']}/curves?points=900")
"""
    return subprocess.Popen([sys.executable, "-c", code, board.url.split("/?")[0], board.token])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--peer-runs", type=int, default=100)
    parser.add_argument("--only", choices=("server", "peer", "training", "script"))
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    lines: list[Line] = []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        if asked.only in (None, "server", "peer"):
            write_runs(Path(folder) / "runs", asked.runs, asked.steps)
            found, chart = measure(Path(folder) / "runs")
            lines += found
            if asked.only != "server":
                peer = peer_chart(Path(folder) / "peer", asked.peer_runs, asked.steps)
                note = f"{chart:.2f} s, TensorBoard {peer:.2f} s with {asked.peer_runs} runs"
                lines.append(
                    line("first chart, TensorBoard / dashboard", peer / chart, at_least=5, unit="x", note=note)
                )
        if asked.only in (None, "training"):
            lines += training_lines(Path(folder))
        if asked.only in (None, "script"):
            lines += script_lines()
    print_table(lines)
    if asked.write:
        write("dashboard", lines, "python benchmarks/dashboard.py", packages=("starlette", "uvicorn", "tensorboard"))


if __name__ == "__main__":
    main()
