"""Searches: trials per CPU minute beside neuralforecast's Auto and plain Optuna, CPU time to a score, fixed costs.

    python benchmarks/search.py [--quick] [--part PART ...] [--peer-python PYTHON] [--write]

Trials per CPU minute (per_minute): the same number of steps, windows per step, widths and learning rates on all sides,
one thread. One peer is neuralforecast's Auto with backend "optuna"; it trains the winner once more, which counts as a
training. The other is plain Optuna: `study.optimize` on SQLite with an objective that fits and evaluates our model.
Ours is `nd.RandomSearch` with its checkpoints, its database and its score on unseen rows, one trial after the other
(stacked=False) and stacked.

CPU seconds to a score (to_score): random search, one trial after the other, ends with a validation score. How much CPU
time does `nd.TPESearch` with successive halving need to reach it, and how much plain Optuna's TPE? The winners' errors
on the last rows, which no trial saw, are compared. Three tables, three seeds, trials of about a second.

Fixed costs (overhead): a trial that does nothing, beyond Optuna's own ask and tell on SQLite; and by how much a search
with a trial that hangs in a step ends after its timeout, in another process and in this one.
"""

from __future__ import annotations

import argparse
import contextlib
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
from _sleeping_model import Sleeps, absolute
from harness import Line, line, peer_python, print_table, write
from neuro_divergent.search.engine.loop import Engine
from neuro_divergent.search.engine.work import Order, Outcome
from neuro_divergent.search.plan import make_plan

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


def ours(model: nd.Model, data: Any, trials: int, steps: int, stacked: Any = False) -> float:
    """Trainings per CPU minute of a random search."""
    with tempfile.TemporaryDirectory() as folder:
        search = nd.RandomSearch(
            SPACE, model=model, config=fixed_steps(steps), n_trials=trials, directory=Path(folder) / "study",
            stacked=stacked, progress=False,
        )  # fmt: skip
        begun = cpu_seconds()
        search.fit(data)
        return 60 * trials / (cpu_seconds() - begun)


def plain_study(folder: str, sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    return optuna.create_study(storage=f"sqlite:///{folder}/plain.db", sampler=sampler)


def plain(model: nd.Model, data: nd.TimeSeriesDataFrame, trials: int, steps: int) -> float:
    """The same of plain Optuna, as a user writes it: fit on the rows before, score the last horizon."""
    scores = make_plan(nd.RandomSearch(SPACE, model=model), model, data)[0].scores[0]

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
        return scores.of(model.fit(scores.past, fixed_steps(steps, learning_rate=rate)))["mae"]

    with tempfile.TemporaryDirectory() as folder:
        begun = cpu_seconds()
        plain_study(folder, optuna.samplers.RandomSampler(seed=1)).optimize(objective, n_trials=trials)
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


def per_minute(python: str, quick: bool) -> list[Line]:
    trials, steps = (4, 100) if quick else (10, 300)
    frame = nd.samples.hourly_panel(20, 600)
    data = nd.TimeSeriesDataFrame.from_frame(frame)
    small = nd.MLP(h=H, input_size=24, hidden_size=32)
    lines, auto = [], {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        frame.write_csv(table)
        for kind, model in MODELS.items():
            own, by_hand = ours(model, data, trials, steps), plain(model, data, trials, steps)
            auto[kind] = peer(python, kind, table, trials, steps)
            text = "trials per CPU minute, one by one, over"
            if auto[kind] is not None:
                note = f"{own:.0f} and {auto[kind]:.0f} trainings per CPU minute, {steps} steps each"
                lines.append(line(f"{kind}: {text} Auto's", own / auto[kind], at_least=RATIOS[kind], note=note))
            note = f"{by_hand:.0f} trainings per CPU minute"
            lines.append(line(f"{kind}: {text} plain Optuna's", own / by_hand, note=note))
    stacked, alone = ours(small, data, 2 * trials, steps, "auto"), ours(small, data, 2 * trials, steps)
    note = f"{stacked:.0f} trainings per CPU minute, {alone:.0f} one by one"
    if auto["MLP"] is not None:
        text = "small MLPs, stacked: trials per CPU minute over Auto's"
        lines.append(line(text, stacked / auto["MLP"], at_least=STACKED_RATIO, note=note))
    return [*lines, line("small MLPs: trials per CPU minute, stacked over one by one", stacked / alone, note=note)]


def tables() -> dict[str, Any]:
    """Three tables of different kinds that every machine has."""
    return {
        "air passengers": nd.samples.air_passengers(),
        "20 hourly series": nd.samples.hourly_panel(20, 500),
        "one hourly series": nd.samples.hourly_panel(1, 1344, seed=3),
    }


def to_score(quick: bool) -> list[Line]:
    """CPU time of our search to the score with which plain random search ends, in shares of its CPU time."""
    seeds, trials, steps = (1, 8, 200) if quick else (3, 30, 600)
    found: list[tuple[float, float, float]] = []
    for name, frame in tables().items():
        data = nd.TimeSeriesDataFrame.from_frame(frame)
        for seed in range(1, seeds + 1):
            one = one_race(data, seed, trials, steps)
            print("{}, seed {}: CPU time {:.2f}, plain Optuna {:.2f}, nested error {:.3f}".format(name, seed, *one))
            sys.stdout.flush()
            found.append(one)
    share, by_hand, error = (sum(values) / len(values) for values in zip(*found, strict=True))
    shares = ", ".join(f"{one[0]:.2f}" for one in found)
    return [
        line("CPU time to the score of random search", share, at_most=SEARCH_RATIO, unit="x", note=shares),
        line("the same of plain Optuna's TPE", by_hand, unit="x"),
        line("error of the winner on unseen rows over random search's", error, at_most=1.0, unit="x"),
    ]


def race_space(model: nd.Model, config: nd.TrainingConfig) -> nd.SearchSpace:
    """The default space of the model, without networks and batches that make single trials take most of the time."""
    space = model.search_space(config)
    smaller = {"hidden_size": nd.choice(64, 128, 256), "batch_size": nd.choice(32, 64), "layers": nd.integers(1, 3)}
    return space.replace(dimensions=dict(space.dimensions) | smaller)


def one_race(data: nd.TimeSeriesDataFrame, seed: int, trials: int, steps: int) -> tuple[float, float, float]:
    """CPU time to the score, of ours and of plain Optuna, and our nested error, all over random search's."""
    model = nd.MLP(h=H, input_size=24, hidden_size=64)
    config = nd.TrainingConfig(max_steps=steps, batch_size=32, threads=1, progress=False)
    space = race_space(model, config)
    usual: dict[str, Any] = {"model": model, "config": config, "n_trials": trials, "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        begun = cpu_seconds()
        random = nd.RandomSearch(space, directory=Path(folder) / "a", seed=seed, stacked=False, **usual).fit(data)
        spent = cpu_seconds() - begun
        goal, reached = random.best.value, list[float]()

        def good_enough(_: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            if trial.values and trial.values[0] <= goal and not reached:
                reached.append(cpu_seconds() - begun)
            return False

        better = nd.TPESearch(
            space, directory=Path(folder) / "b", seed=seed + 100, pruner="successive_halving", callbacks=[good_enough],
            **usual,
        )  # fmt: skip
        begun = cpu_seconds()
        found = better.fit(data)
        own = reached[0] if reached else cpu_seconds() - begun
        by_hand = plain_to_score(data, model, config, goal, seed, trials, spent)
        assert found.nested is not None
        assert random.nested is not None
        return own / spent, by_hand / spent, found.nested.nested / random.nested.nested


def plain_to_score(
    data: nd.TimeSeriesDataFrame, model: nd.Model, config: nd.TrainingConfig, goal: float, seed: int, trials: int,
    limit: float,
) -> float:  # fmt: skip
    """CPU seconds of plain Optuna's TPE over the same space and folds until the score; at most `limit`."""
    space = race_space(model, config)
    search = nd.TPESearch(space, model=model, config=config)
    scores = make_plan(search, model, data)[0].scores[0]

    def objective(trial: optuna.Trial) -> float:
        own, how = space.apply(space.suggest(trial), model, config)
        return scores.of(own.fit(scores.past, how))["mae"]

    def stop(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        if (trial.value is not None and trial.value <= goal) or cpu_seconds() - begun > limit:
            study.stop()

    with tempfile.TemporaryDirectory() as folder:
        begun = cpu_seconds()
        study = plain_study(folder, optuna.samplers.TPESampler(seed=seed + 100))
        study.optimize(objective, n_trials=trials, callbacks=[stop], catch=(nd.NeuroDivergentError,))
        return cpu_seconds() - begun


def overhead(quick: bool) -> list[Line]:
    """Milliseconds of a trial that does nothing, beyond Optuna's own ask and tell."""
    trials, rounds = (50, 1) if quick else (300, 3)
    both = [(plain_trials(trials), our_trials(trials)) for _ in range(rounds)]
    beyond, optunas = min(own - other for other, own in both), min(other for other, _ in both)
    note = f"{1000 * optunas:.1f} ms are Optuna's; study of {trials} trials"
    return [line("overhead of a trial", 1000 * beyond, at_most=5.0, unit="ms", note=note), *overshoot()]


def plain_trials(trials: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        study = plain_study(folder, optuna.samplers.RandomSampler(seed=1))
        begun = time.perf_counter()
        for _ in range(trials):
            trial = study.ask()
            trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)
            study.tell(trial, 1.0)
        return (time.perf_counter() - begun) / trials


def our_trials(trials: int) -> float:
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    model = nd.NLinear(h=1, input_size=2)

    def nothing(order: Order) -> dict[int, Outcome]:
        return {one.number: Outcome(scores={"mae": 1.0}, by_part=[{"mae": 1.0}], finished=True) for one in order.trials}

    with tempfile.TemporaryDirectory() as folder:
        search = nd.RandomSearch(SPACE, model=model, n_trials=trials, stacked=False, progress=False)
        engine = Engine(search, make_plan(search, model, data)[0], Path(folder), do=nothing)
        begun = time.perf_counter()
        engine.run()
        spent = time.perf_counter() - begun
        engine.close()
        return spent / trials


def overshoot() -> list[Line]:
    """Seconds after its timeout at which a search ends whose trial hangs in a step."""
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    lines = []
    for where, loss in (("another process", "mae"), ("this process", absolute)):
        config = fixed_steps(100, loss=loss)
        timeout = 8.0  # the other process starts in that time
        search = nd.RandomSearch(SPACE, model=Sleeps(h=4, input_size=8), config=config, n_trials=2, timeout=timeout)
        begun = time.perf_counter()
        with contextlib.suppress(nd.TrainingError):  # no trial has ended
            search.fit(data)
        late = time.perf_counter() - begun - timeout
        lines.append(line(f"timeout overshoot, a trial hangs in {where}", late, at_most=2.0, unit="s"))
    return lines


def main(argv: Sequence[str] | None = None) -> list[Line]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few trials and one seed")
    parser.add_argument("--part", action="append", choices=["per_minute", "to_score", "overhead"], help="only this")
    parser.add_argument("--peer-python", default=peer_python(), help="a Python that has neuralforecast")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/search.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    quick = arguments.quick
    parts = {
        "per_minute": lambda: per_minute(arguments.peer_python, quick),
        "to_score": lambda: to_score(quick),
        "overhead": lambda: overhead(quick),
    }
    lines = [one for name in arguments.part or parts for one in parts[name]()]
    print_table(lines)
    if arguments.write:
        write("search", lines, "python benchmarks/search.py", packages=("optuna",), partial=bool(arguments.part))
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
