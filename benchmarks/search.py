"""Searches: trials per CPU minute beside neuralforecast's Auto, CPU time to a score beside random search, fixed costs.

    python benchmarks/search.py [--quick] [--peer-python PYTHON] [--write]

Trials per CPU minute: the same number of steps, windows per step, widths and learning rates on both sides, one thread.
The peer is neuralforecast's Auto with backend "optuna". It trains the winner once more, which counts as a training.
Ours is `nd.RandomSearch` with its checkpoints, its database and its score on unseen rows. Stacked: the same perceptrons
with stacked="auto" divided by stacked=False.

CPU seconds to a score: random search, one trial after the other, ends with a validation score. How much CPU time does
`nd.TPESearch` with successive halving need to reach it? Both end with the winner's error on the last rows, which
no trial saw.

Fixed costs: a trial of one step on a tiny table, beyond Optuna's own ask and tell on SQLite and beyond one training.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import torch

import neuro_divergent as nd
from harness import Line, line, peer_python, print_table, write

optuna.logging.set_verbosity(optuna.logging.ERROR)

H, LOOKBACK = 12, 48
SPACE = nd.SearchSpace(learning_rate=nd.loguniform(1e-4, 1e-2))
MODELS: dict[str, nd.Model] = {
    "MLP": nd.MLP(h=H, input_size=LOOKBACK, hidden_size=64),
    "DLinear": nd.DLinear(h=H, input_size=LOOKBACK),
    "NHITS": nd.NHITS(h=H, input_size=LOOKBACK),
}
RATIOS = {"MLP": 3.0, "DLinear": 3.0, "NHITS": 1.1}
STACKED_RATIO, SEARCH_RATIO = 6.0, 0.5

PEER = """
import json, logging, sys, time, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
import pandas as pd, torch
torch.set_num_threads(1)
from neuralforecast import NeuralForecast
from neuralforecast.auto import AutoDLinear, AutoMLP, AutoNHITS
from neuralforecast.losses.pytorch import MAE
table, kind, trials, steps, h, lookback = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
frame = pd.read_csv(table, parse_dates=["ds"])
auto = {"MLP": AutoMLP, "DLinear": AutoDLinear, "NHITS": AutoNHITS}[kind]
quiet = dict(enable_progress_bar=False, logger=False, enable_model_summary=False, enable_checkpointing=False,
             accelerator="cpu", devices=1)
def settings(trial):
    own = dict(hidden_size=64, num_layers=2) if kind == "MLP" else {}
    return dict(input_size=lookback, max_steps=steps, batch_size=32, windows_batch_size=32, val_check_steps=steps,
                learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True), random_seed=1,
                scaler_type="standard", **own, **quiet)
model = auto(h=h, loss=MAE(), config=settings, num_samples=trials, backend="optuna", verbose=False)
begun = time.process_time()
NeuralForecast(models=[model], freq="h").fit(frame, val_size=h)
print(json.dumps({"cpu": time.process_time() - begun}))
"""


def cpu_seconds() -> float:
    """CPU time of this process and of its children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def fixed_steps(steps: int, **fields: Any) -> nd.TrainingConfig:
    return nd.TrainingConfig(
        max_steps=steps, batch_size=32, early_stopping=None, validation_split=None, threads=1, progress=False, **fields
    )


def ours(model: nd.Model, data: Any, trials: int, steps: int, stacked: Any = "auto") -> float:
    """Trainings per CPU minute of a random search."""
    with tempfile.TemporaryDirectory() as folder:
        search = nd.RandomSearch(
            SPACE,
            model=model,
            config=fixed_steps(steps),
            n_trials=trials,
            directory=Path(folder) / "study",
            stacked=stacked,
            progress=False,
        )
        begun = cpu_seconds()
        search.fit(data)
        return 60 * trials / (cpu_seconds() - begun)


def peer(python: str, kind: str, table: Path, trials: int, steps: int) -> float | None:
    """The same of neuralforecast's Auto; None if it is not there."""
    arguments = [python, "-c", PEER, table, kind, trials, steps, H, LOOKBACK]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    alone.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, env=alone, cwd=folder)
    if done.returncode:
        print(f"{kind}: the peer could not run: {done.stderr.strip().splitlines()[-1:]}")
        return None
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return 60 * (trials + 1) / float(found["cpu"])


def per_minute(python: str, trials: int, steps: int) -> list[Line]:
    frame = nd.samples.hourly_panel(20, 600)
    data = nd.TimeSeriesDataFrame.from_frame(frame)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        frame.write_csv(table)
        for kind, model in MODELS.items():
            own, other = ours(model, data, trials, steps), peer(python, kind, table, trials, steps)
            if other is not None:
                note = f"{own:.0f} and {other:.0f} trainings per CPU minute, {steps} steps each"
                lines.append(
                    line(f"{kind}: trials per CPU minute over Auto's", own / other, at_least=RATIOS[kind], note=note)
                )
    small = nd.MLP(h=H, input_size=24, hidden_size=32)
    stacked, alone = (ours(small, data, 2 * trials, steps, how) for how in ("auto", False))
    note = f"{stacked:.0f} and {alone:.0f} trials per CPU minute"
    text = "small MLPs: trials per CPU minute, stacked over one by one"
    return [*lines, line(text, stacked / alone, at_least=STACKED_RATIO, note=note)]


def tables() -> dict[str, Any]:
    """Three tables of different kinds that every machine has."""
    return {
        "air passengers": nd.samples.air_passengers(),
        "20 hourly series": nd.samples.hourly_panel(20, 500),
        "one hourly series": nd.samples.hourly_panel(1, 1344, seed=3),
    }


def to_score(seeds: int, trials: int) -> list[Line]:
    """CPU time of our search to the score with which plain random search ends, in shares of its CPU time."""
    shares, errors = [], []
    for name, frame in tables().items():
        data = nd.TimeSeriesDataFrame.from_frame(frame)
        for seed in range(1, seeds + 1):
            share, error = one_race(data, seed, trials)
            print(f"{name}, seed {seed}: CPU time {share:.2f}, nested error {error:.3f} of random search's")
            shares.append(share)
            errors.append(error)
    mean = sum(errors) / len(errors)
    return [
        line("CPU time to the score of random search", sum(shares) / len(shares), at_most=SEARCH_RATIO, unit="x"),
        line("error of the winner on unseen rows over random search's", mean, at_most=1.0, unit="x"),
    ]


def one_race(data: Any, seed: int, trials: int) -> tuple[float, float]:
    model = nd.MLP(h=H, input_size=24, hidden_size=64)
    config = nd.TrainingConfig(max_steps=300, batch_size=32, threads=1, progress=False)
    space = model.search_space(config)
    with tempfile.TemporaryDirectory() as folder:
        plain = nd.RandomSearch(
            space, model=model, config=config, n_trials=trials, directory=Path(folder) / "a", seed=seed, stacked=False,
            progress=False,
        )  # fmt: skip
        begun = cpu_seconds()
        random = plain.fit(data)
        spent = cpu_seconds() - begun
        reached: list[float] = []

        def good_enough(_: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            if trial.values and trial.values[0] <= random.best.value and not reached:
                reached.append(cpu_seconds() - begun)
            return bool(reached)

        better = nd.TPESearch(
            space, model=model, config=config, n_trials=trials, directory=Path(folder) / "b", seed=seed + 100,
            pruner="successive_halving", callbacks=[good_enough], progress=False,
        )  # fmt: skip
        begun = cpu_seconds()
        found = better.fit(data)
        own = reached[0] if reached else cpu_seconds() - begun
        assert found.nested is not None
        assert random.nested is not None
        return own / spent, found.nested.nested / random.nested.nested


def overhead(trials: int) -> Line:
    """Milliseconds of a trial beyond Optuna's own ask and tell, and beyond the training itself."""
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    model, config = nd.NLinear(h=1, input_size=2), fixed_steps(1)
    with tempfile.TemporaryDirectory() as folder:
        study = optuna.create_study(
            storage=f"sqlite:///{folder}/plain.db", sampler=optuna.samplers.RandomSampler(seed=1)
        )
        begun = time.perf_counter()
        for _ in range(trials):
            trial = study.ask()
            trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
            study.tell(trial, 1.0)
        plain = time.perf_counter() - begun
        begun = time.perf_counter()
        for _ in range(trials):
            model.fit(data, config).evaluate(data, metrics=["mae"])
        trained = time.perf_counter() - begun
        search = nd.RandomSearch(
            SPACE, model=model, config=config, n_trials=trials, directory=Path(folder) / "study", progress=False
        )
        begun = time.perf_counter()
        search.fit(data)
        whole = time.perf_counter() - begun
    beyond = 1000 * (whole - plain - trained) / trials
    note = f"{1000 * plain / trials:.0f} ms are Optuna's, {1000 * trained / trials:.0f} ms the training's"
    return line("overhead of a trial", beyond, at_most=5.0, unit="ms", note=note)


def main(argv: Sequence[str] | None = None) -> list[Line]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few trials and one seed")
    parser.add_argument("--peer-python", default=peer_python(), help="a Python that has neuralforecast")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/search.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    trials, steps, seeds = (4, 100, 1) if arguments.quick else (10, 300, 3)
    lines = per_minute(arguments.peer_python, trials, steps)
    lines += to_score(seeds, 8 if arguments.quick else 30)
    lines.append(overhead(10 if arguments.quick else 50))
    print_table(lines)
    if arguments.write:
        write("search", lines, "python benchmarks/search.py", packages=("optuna",))
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
