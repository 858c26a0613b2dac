"""What is paid before anything is trained: import, the way to the first step, process start to first forecast.

    python benchmarks/fixed_costs.py --peer-python PATH

Each figure is the best of several processes, both sides alternating. The way to the first step is the time of a fit
of one step on 400 series of 800 points, less one step (the difference of trainings of 41 and of 1 steps over 40).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time

from harness import Line, line, print_table, write

FIRST_FORECAST = """
import warnings, logging; warnings.filterwarnings("ignore"); logging.disable(50)
from {prefix}.core import NeuralForecast
from {prefix}.models import MLP
from {prefix}.utils import AirPassengersDF
quiet = dict(enable_progress_bar=False, logger=False, enable_model_summary=False, enable_checkpointing=False)
nf = NeuralForecast(models=[MLP(h=12, input_size=24, max_steps=1, **quiet)], freq="ME")
nf.fit(AirPassengersDF)
assert len(nf.predict()) == 12
"""
BEFORE_FIRST_STEP = """
import time
import numpy as np, polars as pl
import neuro_divergent as nd
y = np.random.default_rng(0).standard_normal(400 * 800).cumsum()
table = pl.DataFrame({"unique_id": np.repeat(np.arange(400), 800), "ds": np.tile(np.arange(800), 400), "y": y})
def fit(steps):
    config = nd.TrainingConfig(max_steps=steps, max_epochs=None, batch_size=1024, progress=False, validation_split=None)
    begin = time.perf_counter()
    nd.MLP(h=24, input_size=96).fit(table, config, freq=1)
    return time.perf_counter() - begin
fit(1)
short, long = min(fit(1) for _ in range(5)), min(fit(41) for _ in range(3))
print(short - (long - short) / 40)
"""


def seconds(command: list[str], folder: str) -> float:
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        sys.exit(f"{' '.join(command[:1])} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has neuralforecast")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/fixed_costs.json")
    arguments = parser.parse_args()
    mine, peer = sys.executable, arguments.peer_python
    there = subprocess.run([peer, "-c", "import neuralforecast"], capture_output=True, check=False).returncode == 0
    if not there:
        print(f"neuralforecast cannot be imported by {peer}: the comparisons with it are skipped.")
    imports = {"ours": [mine, "-c", "import neuro_divergent"]}
    whole = {"ours": [mine, "-c", FIRST_FORECAST.format(prefix="neuro_divergent.compat.neuralforecast")]}
    if there:
        imports["theirs"] = [peer, "-c", "import neuralforecast"]
        whole["theirs"] = [peer, "-c", FIRST_FORECAST.format(prefix="neuralforecast")]
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for what, commands in (("import", imports), ("process start to first forecast", whole)):
            best = dict.fromkeys(commands, float("inf"))
            for _ in range(arguments.repeats):
                for side, command in commands.items():
                    best[side] = min(best[side], seconds(command, folder))
            lines.append(line(what, best["ours"], unit="s"))
            if there:
                note = f"{best['theirs']:.2f} s there"
                lines.append(line(f"{what}: times faster", best["theirs"] / best["ours"], at_least=1, note=note))
        done = subprocess.run(
            [mine, "-c", BEFORE_FIRST_STEP], capture_output=True, text=True, check=True, cwd=folder
        ).stdout
    lines.append(line("fit before the first step, 400 series", float(done), at_most=0.2, unit="s"))
    print_table(lines)
    if arguments.write:
        write("fixed_costs", lines, command="python benchmarks/fixed_costs.py --peer-python PATH")


if __name__ == "__main__":
    main()
