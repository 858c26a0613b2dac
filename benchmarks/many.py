"""Sixteen small trainings as one computation, divided by the same sixteen one after the other.

    python benchmarks/many.py [--rounds N] [--write] [--crossover]

Perceptrons of 2 × 64 on the airline passengers (24 months in, 12 out, batches of 32), sixteen seeds, `nd.fit_many` with
stacked=True and stacked=False: everything from the table to the forecasters is inside, on both sides. Once 300 steps
without validation, once the recipe as it is, with validation after every epoch and early stopping. One thread; both
sides alternate and the best of each counts. What is judged is CPU time, which other work on the machine disturbs least;
the ratio of the best wall times is shown beside it.

Agreement: the largest relative difference, in norm, between a member's gradients in the stack and in a run of its own,
over 20 steps of both.

--crossover shows the ratio for larger networks and batches: where it nears 1, `LARGEST_WORK` ends stacking by itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

import neuro_divergent as nd
from harness import Line, line, print_table, write
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.rows_task import RowsForecastTask
from neuro_divergent.training.stacked.stacked_loop import StackedLoop
from neuro_divergent.training.stacked.strategy import StackedSteps
from neuro_divergent.training.stacked.weights import named_parameters_of
from neuro_divergent.training.step.eager import Eager

MEMBERS = 16
TIME_TARGET, GRADIENT_TARGET = 0.25, 1e-5
PLAIN = nd.TrainingConfig(max_steps=300, batch_size=32, validation_split=None, progress=False)
RECIPE = nd.TrainingConfig(batch_size=32, progress=False)


def perceptron(width: int = 64) -> nd.Model:
    return nd.MLP(h=12, input_size=24, hidden_size=width, layers=2)


def seconds(
    model: nd.Model, data: Any, config: nd.TrainingConfig, members: int, rounds: int
) -> dict[bool, tuple[float, float]]:
    """The best CPU and wall seconds of either side."""
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(rounds):
        for stacked in (False, True) if number % 2 else (True, False):
            cpu, wall = time.process_time(), time.perf_counter()
            nd.fit_many(model, data, config, seeds=members, stacked=stacked)
            found[stacked].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {side: (min(c for c, _ in spans), min(w for _, w in spans)) for side, spans in found.items()}


def timing(name: str, config: nd.TrainingConfig, rounds: int) -> Line:
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    best = seconds(perceptron(), data, config, MEMBERS, rounds)
    ratio = best[True][0] / best[False][0]
    wall = best[True][1] / best[False][1]
    note = f"{best[True][0]:.3g} s and {best[False][0]:.3g} s of CPU time; wall {wall:.3f}"
    return line(f"{name}: time over one after the other", ratio, at_most=TIME_TARGET, note=note)


def agreement(steps: int = 20) -> Line:
    """Both sides step by step from the same weights, each going its own way."""
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    configs = [PLAIN.replace(seed=seed) for seed in range(1, MEMBERS + 1)]
    alone, rows = ([prepared(perceptron(), data, config) for config in configs] for _ in range(2))
    stack = StackedSteps([(item.task, item.state) for item in rows])
    loop = StackedLoop(stack, "benchmark")
    worst = 0.0
    for _ in range(steps):
        own = [one_step(item.task, item.state) for item in alone]
        loop.train_step(list(range(MEMBERS)))
        for row, gradients in enumerate(own):
            stacked = stack.slab.gradients[row, : len(gradients)]
            worst = max(worst, float((stacked - gradients).norm() / gradients.norm()))
        for item in (*alone, *rows):
            next_epoch(item.state)
    return line(f"gradients over {steps} steps: relative difference", worst, at_most=GRADIENT_TARGET)


def prepared(model: nd.Model, data: Any, config: nd.TrainingConfig) -> Any:
    """The engine's run before its first step."""
    return prepare(job_of(model, data, config, task=RowsForecastTask)).training


def one_step(task: Any, state: Any) -> torch.Tensor:
    """A step of a member by itself; its gradients after clipping."""
    from neuro_divergent.training.loop.loop import train_step

    state.module.train()
    train_step(task, state, state.source.batch(state.epoch, state.position), Eager())
    return torch.cat([parameter.grad.flatten() for parameter in named_parameters_of(state).values()])


def next_epoch(state: Any) -> None:
    if state.position == state.steps_per_epoch:
        state.epoch, state.position = state.epoch + 1, 0


def crossover(rounds: int) -> list[dict[str, Any]]:
    """Ratios by width of the perceptron and size of the batch, five members."""
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel(20, 600))
    rows = []
    print(f"{'width':>6} {'batch':>6} {'weights × batch':>16} {'ratio':>7}")
    for width, batch in ((64, 32), (64, 256), (256, 32), (64, 1024), (256, 128), (512, 64), (256, 512), (512, 512)):
        config = PLAIN.replace(max_steps=40, batch_size=batch)
        best = seconds(perceptron(width), data, config, 5, rounds)
        work = batch * (24 * width + width * width + 12 * width)
        rows.append({"width": width, "batch": batch, "work": work, "ratio": round(best[True][0] / best[False][0], 3)})
        print(f"{width:>6} {batch:>6} {work:>16,} {rows[-1]['ratio']:>7.3f}")
    return rows


def main(argv: Sequence[str] | None = None) -> list[Line]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/many.json")
    parser.add_argument("--crossover", action="store_true", help="measure where stacking stops to pay")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    if arguments.crossover:
        crossover(arguments.rounds)
        return []
    lines = [timing("300 steps", PLAIN, arguments.rounds), timing("recipe", RECIPE, arguments.rounds), agreement()]
    print(f"{MEMBERS} perceptrons of 2 × 64, batches of 32: stacked / one after the other, {arguments.rounds} rounds")
    print_table(lines)
    if arguments.write:
        write("many", lines, "python benchmarks/many.py")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
