"""`make stress`: the long fault tests, and a table of what was survived; exits non-zero on any miss.

python tests/faults/stress_table.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fault_tools import FIGURES

HERE = Path(__file__).parent
ORDER = [
    "kills survived",
    "crash points survived",
    "truncations refused",
    "bit flips refused",
    "hostile model files refused",
]


def collect(path: Path) -> dict[str, tuple[int, int]]:
    """The sums of what the test processes wrote down."""
    found: dict[str, tuple[int, int]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        what, good, tried = json.loads(line)
        before = found.get(what, (0, 0))
        found[what] = before[0] + good, before[1] + tried
    return found


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.jsonl"
        figures.touch()
        environment = os.environ | {FIGURES: str(figures), "OMP_NUM_THREADS": "1"}
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", "2"]
        runs = (["-m", "stress", str(HERE.parent)], ["-m", "not stress", str(HERE)])
        codes = [subprocess.run([*pytest, *run], env=environment, check=False).returncode for run in runs]
        found = collect(figures)
    say(f"\n{'':<30}{'good':>8}{'tried':>8}")
    for what in ORDER:
        good, tried = found.get(what, (0, 0))
        say(f"{what:<30}{good:>8}{tried:>8}{'' if good == tried > 0 else '   MISSED'}")
    missed = [what for what in ORDER if found.get(what, (0, 0))[0] != found.get(what, (0, 1))[1]]
    return 1 if missed or any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
