"""Time per training step: against neuralforecast with the same arguments, and against what the arithmetic alone takes.

    python benchmarks/steps.py --peer-python PATH                    # the models of the table of targets
    python benchmarks/steps.py --peer-python PATH --models all       # every model that both sides have

Both sides run the same script: the same classes by name (ours through neuro_divergent.compat.neuralforecast), the same
sizes, 400 series of 800 points, lookback 96, horizon 24, 1024 windows per step (128 for recurrent models and TFT). The
time of a step is that of a training of many steps less that of a short one, so that fixed costs fall out. Processes of
both sides alternate; the best of each counts. Beside it stand a bare loop (the same network, loss and optimizer on one
prepared batch), the MLPs with compile=True, and the limit: the number of floating-point operations of forward and
backward pass over the rate of a large matrix product in the same process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

OURS, PEER = "neuro_divergent.compat.neuralforecast", "neuralforecast"
TARGETS = {"MLP": 4.0, "DLinear": 6.0, "NHITS": 1.15, "NBEATS": 1.15, "LSTM": 1.3, "TFT": 1.3, "small MLP": 10.0}
LIMITED = ("MLP", "NHITS", "NBEATS")
LIMIT = 1.25
COMPILED = ("MLP", "small MLP")
"""Also measured with compile=True; the target is for the faster way."""
SMALL_WINDOWS = {"LSTM", "GRU", "RNN", "DilatedRNN", "DeepAR", "TFT", "xLSTM", "TimesNet", "Autoformer", "FEDformer"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "MLP": {"hidden_size": 256, "num_layers": 2},
    "LSTM": {"encoder_hidden_size": 64},
    "TFT": {"hidden_size": 32},
}
OTHERS = (
    "NBEATSx", "TiDE", "NLinear", "KAN", "TSMixer", "TSMixerx", "MLPMultivariate", "RMoK", "SOFTS", "iTransformer",
    "TimeMixer", "StemGNN", "RNN", "GRU", "DilatedRNN", "DeepAR", "DeepNPTS", "TCN", "BiTCN", "TimesNet",
    "VanillaTransformer", "Informer", "Autoformer", "FEDformer", "PatchTST", "TimeXer", "xLSTM",
)  # fmt: skip
TOGETHER = {
    "TSMixer",
    "TSMixerx",
    "MLPMultivariate",
    "RMoK",
    "SOFTS",
    "iTransformer",
    "TimeMixer",
    "StemGNN",
    "TimeXer",
}


def worker(prefix: str, names: list[str]) -> dict[str, float]:
    """Milliseconds per step of each model; runs under the Python of either side."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    models, core = (importlib.import_module(f"{prefix}.{name}") for name in ("models", "core"))
    found = {}
    for name in names:
        found[name] = _step(models, core, name)
        print(f"{prefix.split('.')[0]} {name} {found[name]:.2f} ms", file=sys.stderr, flush=True)
    if prefix == OURS:
        found |= {f"limit {name}": _limit(name) for name in names if name in LIMITED}
        found |= {f"bare {name}": _bare(models, name) for name in names if name in TARGETS}
        found |= {f"compiled {name}": _compiled(models, name) for name in names if name in COMPILED}
    return found


def _table(series: int, length: int) -> Any:
    import numpy as np
    import pandas as pd

    times = pd.date_range("2024-01-01", periods=length, freq="h")
    hour = np.arange(length)
    rng = np.random.default_rng(0)
    y = np.sin(hour * 2 * np.pi / 24) + 0.3 * rng.standard_normal((series, length)) + rng.random((series, 1)) * 5
    ids = np.repeat([f"s{number:04}" for number in range(series)], length)
    return pd.DataFrame({"unique_id": ids, "ds": np.tile(times, series), "y": y.reshape(-1)})


def _time(models: Any, core: Any, name: str, table: Any, steps: int, freq: Any, **arguments: Any) -> float:
    quiet = {
        "enable_progress_bar": False,
        "logger": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    model = getattr(models, name)(max_steps=steps, val_check_steps=10_000, **arguments, **quiet)
    forecast = core.NeuralForecast(models=[model], freq=freq)
    begin = time.perf_counter()
    forecast.fit(table)
    return time.perf_counter() - begin


def _slope(run: Any, few: int, target: float) -> float:
    """Milliseconds per step from trainings of two lengths, the longer one of about `target` seconds."""
    run(2)
    first = min(run(few) for _ in range(2))
    guess = max(first / few, 1e-4)
    many = few + max(4 * few, min(2000, int(target / guess)))
    return max(1e-6, (min(run(many) for _ in range(2)) - first) / (many - few)) * 1000


def _arguments(name: str) -> dict[str, Any]:
    if name == "small MLP":
        return {"h": 12, "input_size": 24, "hidden_size": 64, "num_layers": 2, "windows_batch_size": 32}
    arguments = {"h": 24, "input_size": 96} | ARGUMENTS.get(name, {})
    if name in TOGETHER:
        return arguments | {"n_series": 40, "batch_size": 40, "windows_batch_size": 32}
    return arguments | {"windows_batch_size": 128 if name in SMALL_WINDOWS else 1024}


def _data(name: str) -> tuple[Any, str]:
    return (_passengers(), "ME") if name == "small MLP" else (_table(40 if name in TOGETHER else 400, 800), "h")


def _passengers() -> Any:
    import numpy as np
    import pandas as pd

    return pd.DataFrame(
        {
            "unique_id": "air",
            "ds": pd.date_range("1949-01-31", periods=144, freq="ME"),
            "y": 100 + np.arange(144) * 2.0 + 30 * np.sin(np.arange(144) * np.pi / 6),
        }
    )


def _step(models: Any, core: Any, name: str) -> float:
    (table, freq), arguments, small = _data(name), _arguments(name), name == "small MLP"
    kind = "MLP" if small else name
    few, target = (20, 1.5) if small else (4, 3.0)
    return _slope(lambda steps: _time(models, core, kind, table, steps, freq, **arguments), few, target)


def _compiled(models: Any, name: str) -> float:
    """The same training with compile=True; each run compiles anew (from the cache of the first), so runs are long."""
    (table, freq), arguments = _data(name), _arguments(name)

    def run(steps: int) -> float:
        model = models.MLP(max_steps=steps, **arguments)
        config = model.member.config.replace(compile=True, progress=False)
        begin = time.perf_counter()
        model.description.fit(table, config, freq=freq)
        return time.perf_counter() - begin

    few, many = (2000, 12_000) if name == "small MLP" else (200, 1200)
    run(few)
    times = [[run(steps) for steps in (few, many)] for _ in range(2)]
    return (min(long for _, long in times) - min(short for short, _ in times)) / (many - few) * 1000


def _bare(models: Any, name: str) -> float:
    """Five lines of torch on one prepared batch: the same network, loss and optimizer, and nothing else."""
    import torch

    from neuro_divergent.core.batch import Batch, InputSpec

    arguments = _arguments(name)
    h, lookback, windows = arguments["h"], arguments["input_size"], arguments["windows_batch_size"]
    model = getattr(models, "MLP" if name == "small MLP" else name)(**arguments)
    network = model.description.build(InputSpec(horizon=h, lookback=lookback))
    batch, target = Batch(torch.randn(windows, lookback, 1)), torch.randn(windows, h, 1, 1)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    best = float("inf")
    for _ in range(5):
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < 0.5:
            optimizer.zero_grad(set_to_none=True)
            (network(batch) - target).abs().mean().backward()
            optimizer.step()
            steps += 1
        best = min(best, (time.perf_counter() - begin) / steps)
    return best * 1000


def _limit(name: str) -> float:
    """Milliseconds that forward and backward pass of 1024 windows take at the rate of a large matrix product."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from neuro_divergent.compat.neuralforecast import models
    from neuro_divergent.core.batch import Batch, InputSpec

    model = getattr(models, name)(h=24, input_size=96, **ARGUMENTS.get(name, {}))
    network = model.description.build(InputSpec(horizon=24, lookback=96))
    with FlopCounterMode(display=False) as counter:
        network(Batch(torch.randn(1024, 96, 1))).sum().backward()
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best = float("inf")
    for _ in range(30):
        begin = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begin)
    return counter.get_total_flops() / (2 * 1024**3 / best) * 1000


def _run(python: str, prefix: str, names: list[str], folder: str) -> dict[str, float]:
    command = [python, str(Path(__file__).resolve()), "--worker", prefix, "--models", ",".join(names)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=folder)
    if done.returncode:
        sys.exit(f"{python} failed")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has neuralforecast")
    parser.add_argument("--models", default=",".join(TARGETS), help="names with commas, or all")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/steps.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = [*TARGETS, *OTHERS] if arguments.models == "all" else arguments.models.split(",")
    if arguments.worker:
        print(json.dumps(worker(arguments.worker, names)))
        return
    from harness import Line, line, print_table, write

    best: dict[str, dict[str, float]] = {OURS: {}, PEER: {}}
    with tempfile.TemporaryDirectory() as folder:
        sides = {OURS: sys.executable, PEER: arguments.peer_python}
        if subprocess.run([arguments.peer_python, "-c", "import neuralforecast"], capture_output=True).returncode:
            print(f"neuralforecast cannot be imported by {arguments.peer_python}: only our own times are measured.")
            del sides[PEER]
        for _ in range(arguments.repeats):
            for prefix, python in sides.items():
                for name, milliseconds in _run(python, prefix, names, folder).items():
                    best[prefix][name] = min(best[prefix].get(name, float("inf")), milliseconds)
    lines: list[Line] = []
    for name in names:
        ours, theirs = best[OURS][name], best[PEER].get(name)
        compiled = best[OURS].get(f"compiled {name}")
        bare = best[OURS].get(f"bare {name}")
        if theirs is not None:
            note = f"{theirs:.3g} ms and {ours:.3g} ms"
            if bare is not None:
                note += f"; a bare loop takes {bare:.3g} ms, {theirs / bare:.3g} times"
            if compiled is not None:
                note += f" (compile=True: {compiled:.3g} ms, {theirs / compiled:.3g} times)"
            fastest = ours if compiled is None else min(ours, compiled)
            lines.append(line(f"{name}: times faster", theirs / fastest, at_least=TARGETS.get(name, 1.0), note=note))
        if bare is not None:
            lines.append(line(f"{name}: over the bare loop", ours / bare, note=f"{ours:.3g} ms and {bare:.3g} ms"))
        if name in LIMITED:
            limit = best[OURS][f"limit {name}"]
            fastest = ours if compiled is None else min(ours, compiled)
            note = f"{fastest:.3g} ms and {limit:.3g} ms"
            if bare is not None:
                note += f"; a bare loop is at {bare / limit:.3g}"
            lines.append(line(f"{name}: over the arithmetic alone", fastest / limit, at_most=LIMIT, note=note))
    print_table(lines)
    if arguments.write:
        write("steps", lines, command="python benchmarks/steps.py --peer-python PATH", packages=["neuralforecast"])


if __name__ == "__main__":
    main()
