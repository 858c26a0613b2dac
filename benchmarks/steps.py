"""Time per training step: against neuralforecast with the same arguments, and against what the arithmetic alone takes.

    python benchmarks/steps.py --peer-python PATH                    # the models of the table of targets
    python benchmarks/steps.py --peer-python PATH --models all       # every model that both sides have

Both sides run the same script: the same classes by name (ours through neuro_divergent.compat.neuralforecast), the same
sizes, 400 series of 800 points, lookback 96, horizon 24, 1024 windows per step (128 for recurrent models and TFT). The
time of a step is that of a training of many steps less that of a short one, so that fixed costs fall out. Processes of
both sides alternate; the best of each counts. The limit is the number of floating-point operations of forward and
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
        found[name] = _small(models, core) if name == "small MLP" else _step(models, core, name)
        print(f"{prefix.split('.')[0]} {name} {found[name]:.2f} ms", file=sys.stderr, flush=True)
    if prefix == OURS:
        found |= {f"limit {name}": _limit(name) for name in names if name in LIMITED}
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


def _step(models: Any, core: Any, name: str) -> float:
    together = name in TOGETHER
    table = _table(40 if together else 400, 800)
    arguments = {"h": 24, "input_size": 96} | ARGUMENTS.get(name, {})
    if together:
        arguments |= {"n_series": 40, "batch_size": 40, "windows_batch_size": 32}
    else:
        arguments["windows_batch_size"] = 128 if name in SMALL_WINDOWS else 1024
    return _slope(lambda steps: _time(models, core, name, table, steps, "h", **arguments), 4, 3.0)


def _small(models: Any, core: Any) -> float:
    import numpy as np
    import pandas as pd

    table = pd.DataFrame(
        {
            "unique_id": "air",
            "ds": pd.date_range("1949-01-31", periods=144, freq="ME"),
            "y": 100 + np.arange(144) * 2.0 + 30 * np.sin(np.arange(144) * np.pi / 6),
        }
    )
    arguments = {"h": 12, "input_size": 24, "hidden_size": 64, "num_layers": 2, "windows_batch_size": 32}
    return _slope(lambda steps: _time(models, core, "MLP", table, steps, "ME", **arguments), 20, 1.5)


def _limit(name: str) -> float:
    """Milliseconds that forward and backward pass of 1024 windows take at the rate of a large matrix product."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    import neuro_divergent as nd
    from neuro_divergent.core.batch import Batch, InputSpec

    sizes = {"MLP": {"hidden_size": 256, "layers": 2}}.get(name, {})
    network = getattr(nd, name)(h=24, input_size=96, **sizes).build(InputSpec(horizon=24, lookback=96))
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
        if theirs is not None:
            note = f"{theirs:.3g} ms and {ours:.3g} ms"
            lines.append(line(f"{name}: times faster", theirs / ours, at_least=TARGETS.get(name, 1.0), note=note))
        if name in LIMITED:
            limit = best[OURS][f"limit {name}"]
            note = f"{ours:.3g} ms and {limit:.3g} ms"
            lines.append(line(f"{name}: over the arithmetic alone", ours / limit, at_most=LIMIT, note=note))
    print_table(lines)
    if arguments.write:
        write("steps", lines, command="python benchmarks/steps.py --peer-python PATH", packages=["neuralforecast"])


if __name__ == "__main__":
    main()
