"""A table larger than memory becomes a store and trains, under a hard limit on anonymous memory.

Generates a Parquet directory with ten value columns, streams it into a store, and trains 100 steps of a small linear
network on windows of it, all in a child process whose private writable memory is limited by RLIMIT_DATA (file-backed
pages, which the system can drop at any time, do not count).

    python benchmarks/out_of_core.py                      # 100 million rows, 4 GB as float32
    python benchmarks/out_of_core.py --rows 5_000_000 [--write]

Promised: 100 million rows and 100 steps under 1.5 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from harness import Line, line, print_table, write

COLUMNS = [f"x{number}" for number in range(9)]
SERIES_LENGTH = 50_000
FILE_ROWS = 5_000_000


def generate(folder: Path, rows: int) -> None:
    """Hourly series, sorted by id and time, in files of five million rows."""
    import polars as pl

    rng = np.random.default_rng(0)
    for number, begin in enumerate(range(0, rows, FILE_ROWS)):
        place = np.arange(begin, min(begin + FILE_ROWS, rows))
        hours = (place % SERIES_LENGTH) * 3_600_000_000
        season = np.sin(2 * np.pi * (place % 24) / 24).astype(np.float32)
        columns = {
            "unique_id": (place // SERIES_LENGTH).astype(np.int64),
            "ds": hours.view("datetime64[us]"),
            "y": season + rng.normal(0, 0.1, len(place)).astype(np.float32),
        }
        columns |= {name: rng.standard_normal(len(place), dtype=np.float32) for name in COLUMNS}
        pl.DataFrame(columns).write_parquet(folder / f"part-{number:04d}.parquet", row_group_size=500_000)


class Peak:
    """The largest anonymous resident memory of this process, watched by a thread."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.bytes = max(self.bytes, anonymous())

    def stop(self) -> int:
        """The peak in bytes."""
        self._stop.set()
        self._thread.join()
        return max(self.bytes, anonymous())


def anonymous() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def work(source: Path, target: Path, limit: int, steps: int) -> dict[str, float]:
    """What happens under the limit: create, gather, train. Gives seconds, steps and bytes."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    peak = Peak()
    import torch

    from neuro_divergent.data.store.store import SeriesStore
    from neuro_divergent.data.windows.samplers import Shuffled
    from neuro_divergent.data.windows.windows import Windows

    begin = time.perf_counter()
    store = SeriesStore.create(target, source, freq="1h", future=COLUMNS[:4], historical=COLUMNS[4:])
    created = time.perf_counter() - begin
    create_peak = max(peak.bytes, anonymous())
    print(f"  store     {len(store.y):,} rows, {store.nbytes / 1e9:.2f} GB, in {created:.1f} s")
    windows = Windows(store, lookback=96, horizon=24)
    sampler = Shuffled(len(windows), 1024, seed=0)
    network = torch.nn.Linear(96, 24)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    begin, losses = time.perf_counter(), []
    for step in range(steps):
        batch = windows.gather(sampler.numbers(0, step))
        assert batch.target is not None
        assert batch.future is not None
        loss = (network(batch.y.squeeze(2)) - batch.target.squeeze(2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    trained = time.perf_counter() - begin
    print(f"  training  {steps} steps of 1024 windows of {len(windows):,} in {trained:.1f} s")
    whole = peak.stop()
    print(f"  loss      {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"  RssAnon   {create_peak / 1e6:.0f} MB peak while creating, {whole / 1e6:.0f} MB peak in all")
    print(f"  ratio     {whole / limit:.2f} of the limit of {limit / 1e9:.2f} GB (RLIMIT_DATA)")
    return {"created": created, "trained": trained, "steps": len(losses), "store": store.nbytes, "peak": whole}


def lines_of(found: dict[str, float], rows: int, limit: float) -> list[Line]:
    """The figures of a run that came to its end under the limit, which the system enforced."""
    held = f"{found['store'] / 1e9:.2f} GB of store"
    return [
        line(f"{rows:,} rows to a store", found["created"], unit="s", note=held),
        line("steps trained under the limit", found["steps"], at_least=100, note=f"{found['trained']:.1f} s"),
        line("peak of anonymous memory", found["peak"] / 1e9, at_most=limit, unit="GB"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--limit", type=float, default=1.5, help="gigabytes of anonymous memory")
    parser.add_argument("--directory", type=Path, default=None, help="where the files go; a temporary one by default")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/out_of_core.json")
    parser.add_argument("--inside", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    limit = int(arguments.limit * 1e9)
    if arguments.inside:
        source, target = arguments.inside
        found = work(source, target, limit, arguments.steps)
        (target.parent / "figures.json").write_text(json.dumps(found), encoding="utf-8")
        return
    folder = Path(tempfile.mkdtemp(prefix="nd-out-of-core-", dir=arguments.directory))
    try:
        source = folder / "table"
        source.mkdir()
        begin = time.perf_counter()
        generate(source, arguments.rows)
        size = sum(path.stat().st_size for path in source.iterdir())
        print(f"  Parquet   {arguments.rows:,} rows, {size / 1e9:.2f} GB, in {time.perf_counter() - begin:.1f} s")
        command = [sys.executable, __file__, "--inside", str(source), str(folder / "store")]
        command += ["--limit", str(arguments.limit), "--steps", str(arguments.steps)]
        environment = os.environ | {"MALLOC_ARENA_MAX": "2"}
        sys.stdout.flush()
        code = subprocess.run(command, env=environment, check=False).returncode
        if code:
            sys.exit(code)
        found = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = lines_of(found, arguments.rows, arguments.limit)
    print_table(lines)
    if arguments.write:
        write("out_of_core", lines, f"python benchmarks/out_of_core.py --rows {arguments.rows}")


if __name__ == "__main__":
    main()
