"""`make stress`: the long fault tests, and a table of what was survived; exits non-zero on any miss.

python tests/faults/stress_table.py                  # all: estimated at 13 to 18 minutes on two idle cores
python tests/faults/stress_table.py --share 0.1      # a tenth of kills, flipped bits and tampered models, faults only
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fault_tools import FIGURES, SHARE

HERE = Path(__file__).parent
LEAST = {
    "kills survived": 1000,
    "crash points survived": 200,
    "truncations refused": 2000,
    "bit flips refused": 10_000,
    "hostile model files refused": 30,
    "tampered models harmless": 5000,
    "search kills survived": 200,
    "shared trials found once": 200,
    "causes found": 350,
    "healthy runs without alarm": 100,
    "trainings mended by treat": 24,
    "random trainings right": 5000,
}
"""The rows of the table, and how much must have been tried at least."""
SHARED = ("kills survived", "bit flips refused", "tampered models harmless", "search kills survived")
WHOLE = ("random trainings right",)
"""Rows whose tests are no fault tests: they run only when everything does."""
RIGHT = {"causes found": 0.95, "healthy runs without alarm": 0.98, "trainings mended by treat": 0.85}
"""The share that must be right, where it is not all of them. These rows need the folder of real data."""
DATA = HERE.parents[2] / "shared" / "data"

Figures = dict[str, tuple[int, int]]


def collect(path: Path) -> Figures:
    """The sums of what the test processes wrote down so far; a line that is being written does not count yet."""
    found: Figures = {}
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            what, good, tried = json.loads(line)
            before = found.get(what, (0, 0))
            found[what] = before[0] + good, before[1] + tried
    return found


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def watch(process: subprocess.Popen[bytes], figures: Path, begun: float) -> int:
    """Tell every new figure until the tests end; their exit code."""
    told = collect(figures)
    while True:
        code = process.poll()
        found = collect(figures)
        for what, (good, tried) in found.items():
            if told.get(what) != (good, tried):
                say(f"{(time.monotonic() - begun) / 60:6.1f} min  {what}: {good} of {tried}")
        told = found
        if code is not None:
            return code
        time.sleep(1.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="how much of the kills and flips to do")
    share = parser.parse_args().share
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.jsonl"
        figures.touch()
        environment = os.environ | {FIGURES: str(figures), SHARE: str(share), "OMP_NUM_THREADS": "1"}
        # The long tests differ in length: whoever is done takes over what waits for the other one.
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal"]
        long = HERE.parent if share >= 1 else HERE
        runs = (["-m", "stress", str(long)], ["-m", "not stress", str(HERE)])
        codes = [watch(subprocess.Popen([*pytest, *run], env=environment), figures, begun) for run in runs]
        found = collect(figures)
    say(f"\n{'':<30}{'good':>8}{'tried':>8}   {(time.monotonic() - begun) / 60:.1f} minutes")
    missed = False
    for what, least in LEAST.items():
        if (share < 1 and what in WHOLE) or (what in RIGHT and not DATA.is_dir()):
            continue
        good, tried = found.get(what, (0, 0))
        short = good < RIGHT.get(what, 1.0) * tried or tried < least * (share if what in SHARED else 1)
        missed |= short
        say(f"{what:<30}{good:>8}{tried:>8}{'   MISSED' if short else ''}")
    return 1 if missed or any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
