"""What a refit on all rows does to the error on rows after everything that a model was given, and to the time.

    python benchmarks/refit.py --data DIRECTORY             # the test part: the last horizons of each set
    python benchmarks/refit.py --data DIRECTORY --earlier   # the horizons before them, on which choices are made

Each model is trained by its recipe, with the last fifth of the known rows held out. From its best weights a fine-tuning
on all rows follows (`refit="fine_tune"`, the default), and, separately, a new training on all rows for the epochs found
(`refit="all"`). The error is MASE on the hidden rows, as a share of that without a refit; the time is processor time,
as a share of that of the training. Geometric means over models and seeds.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch

import neuro_divergent as nd
from _refit_sets import Case, cases
from harness import Line, line, print_table, write
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.refit import refit_state

WAYS: tuple[Literal["fine_tune", "all"], ...] = ("fine_tune", "all")
Found = dict[str, list[tuple[float, float]]]
"""For each way, the pairs of error and time, both as shares of those without a refit."""


def models(case: Case) -> list[nd.Model]:
    """Three cheap models; the perceptrons are narrow, so that the whole benchmark takes minutes."""
    size = {"h": case.h, "input_size": case.input_size}
    return [nd.NHITS(**size, hidden_sizes=(128, 128)), nd.MLP(**size, hidden_size=128), nd.NLinear(**size)]


def measure(case: Case, model: nd.Model, seed: int, found: Found) -> None:
    """One training and both refits after it."""
    config = nd.TrainingConfig(seed=seed, refit="fine_tune", compile=False, progress=False)
    begun = time.process_time()
    run = prepare(Job(model, case.table.drop_last(case.hidden), config))
    first = run.training.complete()
    seconds = time.process_time() - begun
    before = score(case, run.forecaster(copy.copy(first)))
    for way in WAYS:
        end = copy.copy(first)
        end.history = copy.deepcopy(first.history)
        begun = time.process_time()
        state = refit_state(run.problem, run.config.replace(refit=way), end, run.training.resume)
        took = time.process_time() - begun
        assert state is not None
        found[way].append((score(case, run.forecaster(state)) / before, 1 + took / seconds))


def score(case: Case, fitted: nd.Forecaster) -> float:
    """MASE on the hidden rows."""
    scores = fitted.evaluate(case.table, n_windows=case.windows, metrics=["mase"], season=case.season)
    return scores[fitted.model.name, "mase"]


def mean(values: Sequence[float]) -> float:
    """The geometric mean of ratios."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the real data sets are")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--earlier", action="store_true", help="score the horizons before the test part")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/refit.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[Line] = []
    everything: Found = {way: [] for way in WAYS}
    for name, case in cases(arguments.data).items():
        case, found = case.earlier() if arguments.earlier else case, {way: [] for way in WAYS}
        for model in models(case):
            for seed in arguments.seeds:
                measure(case, model, seed, found)
        for way, pairs in found.items():
            everything[way] += pairs
            errors = mean([error for error, _ in pairs])
            lines.append(line(f"{name}, {way}: error with refit / without", errors, unit="x"))
        print_table(lines[-len(WAYS) :])
    for way, pairs in everything.items():
        bound = {"at_most": 1.0} if way == "fine_tune" else {}
        errors, times = [mean([pair[side] for pair in pairs]) for side in (0, 1)]
        lines.append(line(f"all sets, {way}: error with refit / without", errors, unit="x", **bound))
        bound = {"at_most": 1.5} if way == "fine_tune" else {}
        lines.append(line(f"all sets, {way}: time with refit / without", times, unit="x", **bound))
        worse = sum(error > 1 for error, _ in pairs)
        lines.append(line(f"all sets, {way}: trainings with a larger error", 100 * worse / len(pairs), unit="%"))
    print_table(lines)
    if arguments.write:
        write("refit", lines, command="python benchmarks/refit.py")


if __name__ == "__main__":
    main()
