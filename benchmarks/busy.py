"""A busy machine: how much slower a training becomes when another process keeps one core busy.

    python benchmarks/busy.py --peer-python PATH

Slowdown is busy time over quiet time, less 1. Both sides train the same MLP (1024 windows per step) in a process of
their own with their own choice of threads; the sides alternate, and each side's quiet and busy runs do, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent))
from steps import OURS, PEER, _table, _time

SPIN = "while True: pass"


def worker(prefix: str, steps: int) -> float:
    """Seconds of a training, after a first short one."""
    import importlib
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    models, core = (importlib.import_module(f"{prefix}.{name}") for name in ("models", "core"))
    table = _table(400, 800)
    arguments = {"h": 24, "input_size": 96, "hidden_size": 256, "windows_batch_size": 1024}
    _time(models, core, "MLP", table, 3, "h", **arguments)
    short = _time(models, core, "MLP", table, 10, "h", **arguments)
    return _time(models, core, "MLP", table, 10 + steps, "h", **arguments) - short


def run(python: str, prefix: str, steps: int, folder: str, busy: bool) -> float:
    other = subprocess.Popen([sys.executable, "-c", SPIN]) if busy else None
    try:
        time.sleep(0.2)
        command = [python, str(Path(__file__).resolve()), "--worker", prefix, "--steps", str(steps)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
        return float(json.loads(done.stdout.strip().splitlines()[-1]))
    finally:
        if other is not None:
            other.kill()
            other.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has neuralforecast")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/busy.json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(worker(arguments.worker, arguments.steps)))
        return
    from harness import Line, line, print_table, write

    sides = {OURS: sys.executable, PEER: arguments.peer_python}
    if subprocess.run(
        [arguments.peer_python, "-c", "import neuralforecast"], capture_output=True, check=False
    ).returncode:
        print(f"neuralforecast cannot be imported by {arguments.peer_python}: only our own slowdown is measured.")
        del sides[PEER]
    found: dict[tuple[str, bool], list[float]] = {(side, busy): [] for side in sides for busy in (False, True)}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repeats):
            for (side, busy), times in found.items():
                times.append(run(sides[side], side, arguments.steps, folder, busy))
    slowdown = {side: median(found[side, True]) / min(found[side, False]) - 1 for side in sides}
    lines: list[Line] = []
    for side, share in slowdown.items():
        note = f"{min(found[side, False]):.2f} s quiet, {median(found[side, True]):.2f} s busy"
        lines.append(line(f"slowdown, {side.split('.')[0]}", share, note=note))
    if PEER in slowdown:
        lines.append(line("our slowdown over neuralforecast's", slowdown[OURS] / slowdown[PEER], at_most=0.5))
    print_table(lines)
    if arguments.write:
        write("busy", lines, command="python benchmarks/busy.py --peer-python PATH")


if __name__ == "__main__":
    main()
