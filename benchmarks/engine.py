"""What the engine costs: time per step of `Trainer.fit`, divided by a bare loop over the same work.

    python benchmarks/engine.py [--rounds N] [--write]

Both sides train a perceptron with two hidden layers of 256 by the same optimizer. The bare loop is five lines
(zero_grad, forward, loss, backward, step) over batches that were prepared beforehand; it neither clips nor looks at the
loss. Ours is the default configuration without validation: shuffled batches, schedule, clipping, gradient norms,
history, guards against non-finite values, and the default callbacks (the progress line, forced on although nobody
looks). One thread; both sides alternate in one run and the best epoch of each counts. What is judged is CPU time, which
other work on the machine disturbs least; the ratio of the best wall times is shown beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

import neuro_divergent as nd
from harness import line, write

TARGETS = {1024: 1.10, 32: 1.25}
"""Batch size → the largest ratio that passes."""

WIDTH, INPUTS = 256, 64
STEPS = {1024: 20, 32: 100}
"""Steps of one timed epoch: short, so that some are not disturbed."""


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))


class Clock(nd.Callback):
    """CPU and wall seconds from one epoch's start to the next one's: everything that an epoch costs is inside."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def on_epoch_start(self, state: Any) -> None:  # noqa: ARG002
        """Note the time."""
        self.marks.append((time.process_time(), time.perf_counter()))

    def spans(self) -> list[tuple[float, float]]:
        """CPU and wall seconds of each epoch."""
        return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(self.marks)]


def bare(batch: int, steps: int, epochs: int) -> Callable[[], Clock]:
    x, y = data(batch * steps)
    batches = list(zip(x.split(batch), y.split(batch), strict=True))
    module = network()
    optimizer = nd.AdamW().build(module)

    def run() -> Clock:
        clock = Clock()
        for _ in range(epochs + 1):
            clock.on_epoch_start(None)
            for inputs, target in batches:
                optimizer.zero_grad(set_to_none=True)
                loss = ((module(inputs) - target) ** 2).mean()
                loss.backward()
                optimizer.step()
        return clock

    return run


def engine(batch: int, steps: int, epochs: int) -> Callable[[], Clock]:
    x, y = data(batch * steps)
    module = network()

    def run() -> Clock:
        clock = Clock()
        config = nd.TrainingConfig(
            max_epochs=epochs + 1, batch_size=batch, validation_split=None, progress=True, callbacks=(clock,)
        )
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
            nd.Trainer(config).fit(module, (x, y))
        return clock

    return run


def data(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, INPUTS, generator=generator)
    return x, x[:, :4].sum(dim=1, keepdim=True).sin()


def measure(batch: int, rounds: int) -> dict[str, Any]:
    steps, epochs = STEPS[batch], 8
    sides = {"bare": bare(batch, steps, epochs), "engine": engine(batch, steps, epochs)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in sorted(sides, reverse=bool(number % 2)):
            found[name] += sides[name]().spans()
    micro = 1e6 / steps
    cpu = {name: min(cpu for cpu, _ in times) * micro for name, times in found.items()}
    wall = {name: min(wall for _, wall in times) * micro for name, times in found.items()}
    ratio = cpu["engine"] / cpu["bare"]
    return {
        "benchmark": "engine",
        "batch": batch,
        "bare_us": round(cpu["bare"], 1),
        "engine_us": round(cpu["engine"], 1),
        "wall_ratio": round(wall["engine"] / wall["bare"], 3),
        "figure": round(ratio, 3),
        "target": TARGETS[batch],
        "passed": ratio <= TARGETS[batch],
    }


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/engine.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(f"a perceptron of 2 × {WIDTH}, microseconds of CPU time per optimizer step, {arguments.rounds} rounds")
    print(f"{'batch':>6} {'bare':>8} {'engine':>8} {'ratio':>7} {'wall':>7} {'target':>7}")
    results = []
    for batch in TARGETS:
        row = measure(batch, arguments.rounds)
        results.append(row)
        verdict = "reached" if row["passed"] else "missed"
        print(
            f"{batch:>6} {row['bare_us']:>8.1f} {row['engine_us']:>8.1f} {row['figure']:>7.3f} "
            f"{row['wall_ratio']:>7.3f} {row['target']:>7.2f}  {verdict}"
        )
    if arguments.write:
        lines = [
            line(
                f"CPU time of a step over the bare loop, batch {row['batch']}",
                row["figure"],
                at_most=row["target"],
                note=f"{row['engine_us']:.0f} and {row['bare_us']:.0f} µs",
            )
            for row in results
        ]
        write("engine", lines, command="python benchmarks/engine.py")
    return results


if __name__ == "__main__":
    sys.exit(0 if all(row["passed"] for row in main()) else 1)
