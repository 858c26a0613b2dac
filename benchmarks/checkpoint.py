"""What saving costs: an N-HiTS training with a checkpoint every 50 steps.

Three batches: the one that the recipe takes for this table, for which the limit holds, one of 256 windows, and one of
1024. The time of a machine drifts by more than the limit between two trainings, so both sides are in one training: the
25 steps after each save, during which it is written, against the 25 steps before the next one, when nothing is. The
share is the difference of the two times over the time of 50 undisturbed steps, the median over all saves of several
trainings, less the same figure of trainings in between that do not save. All steps are one epoch, because the end of an
epoch takes time of its own. One save is known to a tenth of the time only, so that many are looked at where the limit
holds. Beside it stands the processor time that the two threads spend on saving.

python benchmarks/checkpoint.py --steps 600 --repeats 20
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import torch

import neuro_divergent as nd
from harness import line, write
from neuro_divergent.training.runs.saver import Saver

LIMIT = 0.05
PHASES = ("save", "write")
"""What the training's thread does, and what the thread in the background does."""


class Steps(nd.Callback):
    """When each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_batch_end(self, state: Any) -> None:  # noqa: ARG002
        """Note the time."""
        self.ends.append(time.perf_counter())


class Cost(NamedTuple):
    """One training that saves."""

    steps: list[float]
    """Seconds from the end of each step to the end of the next one."""
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
    clock = Steps()
    config = nd.TrainingConfig(
        max_steps=steps,
        steps_per_epoch=steps,
        batch_size=batch_size,
        validation_split=None,
        checkpoints=checkpoints,
        progress=False,
        callbacks=(clock,),
    )
    seconds = dict.fromkeys(PHASES, 0.0)
    methods = {phase: getattr(Saver, phase) for phase in PHASES}
    for phase, method in methods.items():
        setattr(Saver, phase, watched(seconds, phase, method))
    try:
        fitted = nd.NHITS(h=24, input_size=168).fit(data, config)
    finally:
        for phase, method in methods.items():
            setattr(Saver, phase, method)
    return Cost([b - a for a, b in pairwise(clock.ends)], seconds, int(fitted.config.batch_size))


def shares_of(spans: list[float], every: int) -> tuple[list[float], list[float]]:
    """For each save, or each step at which there could be one: its share of the time, and the time of a step."""
    half = every // 2
    saves = range(every - 1, len(spans) - every + 1, every)
    plain = [sum(spans[save + half : save + 2 * half]) for save in saves]
    shares = [(sum(spans[save : save + half]) - rest) / (2 * rest) for save, rest in zip(saves, plain, strict=True)]
    return shares, [rest / half for rest in plain]


def measure(data: nd.TimeSeriesDataFrame, batch_size: int | str, repeats: int, options: argparse.Namespace) -> float:
    """Print what saving costs with batches of this size; the share of the time."""
    every = options.every
    costs: list[Cost] = []
    shares: list[float] = []
    control: list[float] = []
    plain: list[float] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for number in range(repeats):
            path = Path(folder) / str(number)
            checkpoints = nd.Checkpoints(path, every_n_epochs=None, every_n_steps=every, keep_last=2)
            costs.append(train(data, options.steps, batch_size, checkpoints))
            saving, step = shares_of(costs[-1].steps, every)
            shares, plain = shares + saving, plain + step
            control += shares_of(train(data, options.steps, batch_size, None).steps, every)[0]
        newest = sorted((Path(folder) / "0" / "checkpoints").iterdir())[-1]
        size = sum(file.stat().st_size for file in newest.iterdir()) / 1e6
    threads = {phase: min(cost.saving[phase] for cost in costs) for phase in PHASES}
    saves, share = options.steps // every, median(shares) - median(control)
    print(
        f"\nNHITS, steps of {costs[0].batch_size} windows, {1000 * median(plain):.1f} ms each, threads: "
        f"{torch.get_num_threads()}; a checkpoint of {size:.1f} MB every {every} steps, {len(shares)} of them looked at"
    )
    low, _, high = (100 * share for share in quantiles(shares))
    print(
        f"saving adds {100 * share:.1f} % (half of the saves between {low:+.1f} and {high:+.1f} %, and "
        f"{100 * median(control):+.1f} % in trainings without): a save takes {1000 * threads['save'] / saves:.1f} ms "
        f"of the training's thread and {1000 * threads['write'] / saves:.1f} ms in the background"
    )
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=20, help="trainings of each kind; a tenth with larger batches")
    parser.add_argument("--folder", type=Path, help="where to save; a temporary folder unless given")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/checkpoint.json")
    options = parser.parse_args()
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel())
    repeats = {"auto": options.repeats, 256: max(options.repeats // 10, 1), 1024: max(options.repeats // 10, 1)}
    shares = {size: measure(data, size, count, options) for size, count in repeats.items()}
    share = shares["auto"]
    if options.write:
        lines = [
            line(
                "time that saving every 50 steps adds, the recipe's batch", 100 * share, at_most=100 * LIMIT, unit="%"
            ),
            line("the same with 256 windows per step", 100 * shares[256], unit="%"),
            line("the same with 1024 windows per step", 100 * shares[1024], unit="%"),
        ]
        write("checkpoint", lines, command="python benchmarks/checkpoint.py")
    print(f"\nlimit for the recipe's batch: {100 * LIMIT:.0f} %")
    if share > LIMIT:
        sys.exit(f"saving must cost at most {100 * LIMIT:.0f} % of the time, but costs {100 * share:.1f} %")


if __name__ == "__main__":
    main()
