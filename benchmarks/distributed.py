"""Several processes on one machine: steps per second beside one process and beside a bare DistributedDataParallel loop.

    python benchmarks/distributed.py [--quick] [--write]
    python benchmarks/distributed.py --costs        the table of docs/distributed.md

Every side trains the same NHITS or MLP on the same windows, with the same optimizer and clipping, one thread per
process unless said. A side is a process of its own that reports the wall time of its steps, without start-up and
without the first steps; the sides alternate, and the best of each counts. The bare loop is what a user of torch would
write: DistributedDataParallel, a tensor of prepared windows, backward, clip, step.

The memory of the divided optimizer is counted in bytes. A small model of costs (bandwidth and latency between two
processes, seconds of a step, all measured here) then says what more machines would give.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import neuro_divergent as nd
from harness import Line, line, print_table, write

H, LOOKBACK = 24, 96
MODELS = {
    "MLP": nd.MLP(h=H, input_size=LOOKBACK, hidden_size=512),
    "NHITS": nd.NHITS(h=H, input_size=LOOKBACK),
}
STEPS, WARM = 40, 10


class Clock(nd.Callback):
    """The wall time of the steps after the first ones."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun = 0.0

    def on_batch_end(self, state: Any) -> None:
        """Note the time after the first steps, and after the last one."""
        if state.step == WARM:
            self._begun = time.perf_counter()
        if state.step == WARM + STEPS:
            self.seconds = (time.perf_counter() - self._begun) / STEPS


def ours(kind: str, batch: int, exact: bool, threads: int, alone: bool) -> float:
    """Seconds per step of a training."""
    clock = Clock()
    config = nd.TrainingConfig(
        max_steps=WARM + STEPS,
        batch_size=batch,
        validation_split=None,
        early_stopping=None,
        schedule=None,
        progress=False,
        compile=False,
        threads=threads,
        callbacks=(clock,),
        distributed=None if alone else nd.Distributed(exact=exact, processes=1),
    )
    MODELS[kind].fit(nd.samples.hourly_panel(40, 2000), config)
    return clock.seconds


def bare(kind: str, batch: int) -> float:
    """Seconds per step of a loop with DistributedDataParallel."""
    world = int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    fitted = MODELS[kind].fit(
        nd.samples.hourly_panel(40, 200),
        nd.TrainingConfig(
            max_steps=1, batch_size=4, validation_split=None, progress=False, strategy=None, distributed=LOADED
        ),
    )
    network = fitted.network.train()
    wrapped = DistributedDataParallel(network, find_unused_parameters=kind == "NHITS")
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    values = torch.randn(batch // world, LOOKBACK + H, 1)
    empty = nd.Batch(values[:, :LOOKBACK])
    begun = 0.0
    for step in range(WARM + STEPS):
        if step == WARM:
            begun = time.perf_counter()
        optimizer.zero_grad()
        loss = (wrapped(empty).squeeze(-1) - values[:, LOOKBACK:]).abs().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    seconds = (time.perf_counter() - begun) / STEPS
    dist.barrier()
    dist.destroy_process_group()
    return seconds


LOADED = nd.Distributed(exact=True, processes=1)


def side(processes: int, *arguments: str, threads: int = 1) -> float:
    """The figure that this script prints in `processes` processes."""
    command = [sys.executable]
    if processes > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.json"
        done = subprocess.run(
            [*command, __file__, "--side", str(path), *arguments],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return float(json.loads(path.read_text()))


def best(rounds: int, sides: dict[str, Any]) -> dict[str, float]:
    """The best of several figures of each side, in turns."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            found[name].append(measure())
    return {name: min(values) for name, values in found.items()}


def speed(rounds: int) -> list[Line]:
    lines = []
    for kind, batch in (("MLP", 1024), ("NHITS", 1024), ("MLP", 128)):
        base = (kind, str(batch))
        figures = best(
            rounds,
            {
                "one": lambda base=base: side(1, *base, "alone", "1"),
                "two threads": lambda base=base: side(1, *base, "alone", "2", threads=2),
                "fast": lambda base=base: side(2, *base, "fast", "1"),
                "exact": lambda base=base: side(2, *base, "exact", "1"),
                "bare": lambda base=base: side(2, *base, "bare", "1"),
            },
        )
        name = f"{kind}, batch {batch}"
        note = ", ".join(f"{key} {1000 * value:.1f} ms" for key, value in figures.items())
        judged = batch >= 1024
        lines += [
            line(f"{name}: one process / two, 1 thread each", figures["one"] / figures["fast"],
                 at_least=1.6 if judged else None, note=note),
            line(f"{name}: one process with 2 threads / two with 1", figures["two threads"] / figures["fast"],
                 at_least=0.95 if judged else None),
            line(f"{name}: bare DDP / fast", figures["bare"] / figures["fast"], at_least=0.95 if judged else None),
            line(f"{name}: bare DDP / exact", figures["bare"] / figures["exact"], at_least=0.7 if judged else None),
        ]  # fmt: skip
    return lines


def memory() -> list[Line]:
    """The share of the optimizer's state that the fuller of two processes keeps."""
    from neuro_divergent.distributed.zero import owners

    lines = []
    for name, model in (("NHITS", MODELS["NHITS"]), ("PatchTST", nd.PatchTST(h=H, input_size=LOOKBACK))):
        config = nd.TrainingConfig(max_steps=1, batch_size=4, validation_split=None, progress=False)
        fitted = model.fit(nd.samples.hourly_panel(2, 200), config)
        sizes = [parameter.numel() for parameter in fitted.network.parameters()]
        kept = [sum(s for s, o in zip(sizes, owners(sizes, 2), strict=True) if o == rank) for rank in (0, 1)]
        lines.append(line(f"{name}: optimizer state per process of two, zero", max(kept) / sum(sizes), at_most=0.6))
    return lines


ROWS = 128
"""Windows per process and step in the model of costs."""
SIZES = {"0.1 million": 180, "1 million": 650, "10 million": 2200}
"""Hidden size of a perceptron with about so many weights."""
WORKERS = (8, 32, 128, 512, 1024)


def costs() -> list[Line]:
    """Latency and bandwidth between two processes here, for the model of costs in docs/distributed.md."""
    return [
        line("seconds to add one number of two processes", side(2, "costs", "1", "costs", "1"), unit="s"),
        line("seconds to add 4 MB of two processes", side(2, "costs", str(1 << 20), "costs", "1"), unit="s"),
    ]


def efficiency(workers: int, seconds: float, size: int, latency: float, bandwidth: float) -> float:
    """The share of its time that a worker computes, if each has the same rows per step.

    A tree of messages adds the gradients: each byte is sent and received once, and a message waits 2·log2(workers)
    times for the next machine. The backward pass, two thirds of a step, hides that much of it.
    """
    exchange = 2 * (workers - 1) / workers * size / bandwidth + 2 * math.log2(workers) * latency
    return seconds / (seconds + max(0.0, exchange - seconds * 2 / 3))


def cost_table() -> None:
    """Print the expected efficiency of more machines as a table in Markdown."""
    here = costs()
    small, large = (float(item["figure"] or 0.0) for item in here)
    links = {
        f"as between two processes here ({4 / 1024 / (large - small):.1f} GB/s, {1e6 * small:.0f} µs)":
            ((1 << 22) / (large - small), small),
        "10 Gbit/s, 50 µs (assumed)": (1.25e9, 50e-6),
        "1 Gbit/s, 100 µs (assumed)": (1.25e8, 100e-6),
    }  # fmt: skip
    print(f"| weights | step | link | {' | '.join(map(str, WORKERS))} |")
    print(f"|---|---|---|{'---|' * len(WORKERS)}")
    for name, hidden in SIZES.items():
        seconds, count = _step(hidden)
        for link, (bandwidth, latency) in links.items():
            found = [efficiency(workers, seconds, 4 * count, latency, bandwidth) for workers in WORKERS]
            print(f"| {name} | {1000 * seconds:.1f} ms | {link} | {' | '.join(f'{share:.0%}' for share in found)} |")


def _step(hidden: int) -> tuple[float, int]:
    """Seconds of forward, backward and update of one process with one thread, and the number of weights."""
    torch.set_num_threads(1)
    network = torch.nn.Sequential(
        torch.nn.Linear(LOOKBACK, hidden), torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden), torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, H),
    )  # fmt: skip
    optimizer, x = torch.optim.AdamW(network.parameters()), torch.randn(ROWS, LOOKBACK)
    found = []
    for _ in range(10):
        begun = time.perf_counter()
        optimizer.zero_grad()
        network(x).abs().mean().backward()
        optimizer.step()
        found.append(time.perf_counter() - begun)
    return min(found), sum(parameter.numel() for parameter in network.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--side", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side is not None:
        _as_side(*options.side)
        return
    if options.costs:
        cost_table()
        return
    lines = [*speed(1 if options.quick else 3), *memory(), *costs()]
    print_table(lines)
    if options.write:
        write("distributed", lines, command="python benchmarks/distributed.py")


def _as_side(path: str, kind: str, batch: str, how: str, threads: str) -> None:
    if how == "bare":
        figure = bare(kind, int(batch))
    elif how == "costs":
        figure = _added(int(batch))
    else:
        figure = ours(kind, int(batch), exact=how == "exact", threads=int(threads), alone=how == "alone")
    if int(os.environ.get("RANK", "0")) == 0:
        Path(path).write_text(json.dumps(figure))


def _added(count: int) -> float:
    dist.init_process_group("gloo")
    values = torch.ones(count)
    for _ in range(3):
        dist.all_reduce(values)
    begun = time.perf_counter()
    for _ in range(20):
        dist.all_reduce(values)
    seconds = (time.perf_counter() - begun) / 20
    dist.barrier()
    dist.destroy_process_group()
    return seconds


if __name__ == "__main__":
    main()
