"""What saving costs: an N-HiTS training with a checkpoint every 50 steps against the same training without.

Two batches: the one that the recipe takes for this table, for which the limit holds, and a small one of 256 windows.
Seconds are the best of several trainings, which alternate. The share of the processor counts the time that the two
threads spend on saving, so that it means the same on a busy machine.

python benchmarks/checkpoint.py --steps 1000 --repeats 5
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

import neuro_divergent as nd
from harness import line, write
from neuro_divergent.training.saver import Saver

LIMIT = 0.05
PHASES = ("save", "write")
"""What the training's thread does, and what the thread in the background does."""


class Cost(NamedTuple):
    """One training without its set-up and validation."""

    seconds: float
    processor: float
    """Seconds of all threads."""
    saving: dict[str, float]
    """Seconds of the thread that saved, by phase."""
    batch_size: int


def watched(seconds: dict[str, float], phase: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the processor time of a call to its phase, whichever thread it runs in."""

    def call(*arguments: Any) -> Any:
        begun = time.thread_time()
        try:
            return work(*arguments)
        finally:
            seconds[phase] += time.thread_time() - begun

    return call


def train(data: nd.TimeSeriesDataFrame, steps: int, batch_size: int | str, checkpoints: nd.Checkpoints | None) -> Cost:
    config = nd.TrainingConfig(
        max_steps=steps, batch_size=batch_size, validation_split=None, checkpoints=checkpoints, progress=False
    )
    seconds = dict.fromkeys(PHASES, 0.0)
    methods = {phase: getattr(Saver, phase) for phase in PHASES}
    for phase, method in methods.items():
        setattr(Saver, phase, watched(seconds, phase, method))
    try:
        begun, processor = time.perf_counter(), time.process_time()
        fitted = nd.NHITS(h=24, input_size=168).fit(data, config)
        taken, used = time.perf_counter() - begun, time.process_time() - processor
    finally:
        for phase, method in methods.items():
            setattr(Saver, phase, method)
    return Cost(taken, used, seconds, int(fitted.config.batch_size))


def measure(data: nd.TimeSeriesDataFrame, batch_size: int | str, options: argparse.Namespace) -> float:
    """Print what saving costs with batches of this size; the share of the time."""
    train(data, 10, batch_size, None)
    plain, saving = [], []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for number in range(options.repeats):
            plain.append(train(data, options.steps, batch_size, None))
            path = Path(folder) / str(number)
            checkpoints = nd.Checkpoints(path, every_n_epochs=None, every_n_steps=options.every, keep_last=2)
            saving.append(train(data, options.steps, batch_size, checkpoints))
        newest = sorted((Path(folder) / "0" / "checkpoints").iterdir())[-1]
        size = sum(file.stat().st_size for file in newest.iterdir()) / 1e6
    base, best = min(cost.seconds for cost in plain), min(cost.seconds for cost in saving)
    processor = min(cost.processor for cost in plain)
    threads = {phase: min(cost.saving[phase] for cost in saving) for phase in PHASES}
    saves = options.steps // options.every
    print(
        f"\nNHITS, {options.steps} steps of {plain[0].batch_size} windows, {1000 * base / options.steps:.1f} ms each, "
        f"threads: {torch.get_num_threads()}; a checkpoint of {size:.1f} MB every {options.every} steps"
    )
    print(f"without saving {base:8.2f} s\nsaving         {best:8.2f} s   {100 * (best / base - 1):+5.1f} %")
    print(
        f"processor      {processor:8.2f} s   {100 * sum(threads.values()) / processor:+5.1f} %: a save takes "
        f"{1000 * threads['save'] / saves:.1f} ms of the training's thread and "
        f"{1000 * threads['write'] / saves:.1f} ms in the background"
    )
    return best / base - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to save; a temporary folder unless given")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/checkpoint.json")
    options = parser.parse_args()
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel())
    small = measure(data, 256, options)
    share = measure(data, "auto", options)
    if options.write:
        lines = [
            line("time that saving every 50 steps adds, 256 windows per step", 100 * small, unit="%"),
            line("the same with the batch of the recipe", 100 * share, at_most=100 * LIMIT, unit="%"),
        ]
        write("checkpoint", lines, command="python benchmarks/checkpoint.py")
    print(f"\nlimit for the recipe's batch: {100 * LIMIT:.0f} %")
    if share > LIMIT:
        sys.exit(f"saving must cost at most {100 * LIMIT:.0f} % of the time, but costs {100 * share:.1f} %")


if __name__ == "__main__":
    main()
