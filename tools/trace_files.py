"""Count how many files and rooms a training goes through, before and after a refactor.

    python tools/trace_files.py                          # the source on the path
    python tools/trace_files.py --before /path/to/old/src

Two runs are traced: `fit` of three steps of an MLP in a warm process (an equal training was done before), and
`neuro-divergent train` of a small CSV in a cold one, imports included. A file counts when a Python function, class body
or module of it is entered. Its room is the first folder below `neuro_divergent`. A change of room is a call into
another room than the call before. Calls of the main thread are counted, so that the counts are the same every time.

Only public names are used, so that one copy of this file runs with both sources.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = f"{os.sep}neuro_divergent{os.sep}"


class Trace:
    """The calls into files of the package, in order."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.rooms: set[str] = set()
        self.changes = 0
        self._last: str | None = None
        self._places: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note one call."""
        if event != "call":
            return
        name = frame.f_code.co_filename
        if name not in self._places:
            _, found, below = name.rpartition(PACKAGE)
            self._places[name] = below if found else None
        place = self._places[name]
        if place is None:
            return
        room = place.partition(os.sep)[0] if os.sep in place else "neuro_divergent"
        self.calls[place] += 1
        self.rooms.add(room)
        self.changes += self._last not in (None, room)
        self._last = room

    def counts(self) -> dict[str, int]:
        """The figures of the table."""
        facts = {"files": len(self.calls), "rooms": len(self.rooms), "room changes": self.changes}
        return facts | {"calls": sum(self.calls.values())}


def traced(work: Callable[[], object]) -> Trace:
    """What a piece of work goes through."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return trace


def fit() -> Trace:
    """`fit` of three steps, the second time."""
    import neuro_divergent as nd

    model = nd.MLP(h=4, input_size=8, hidden_size=8)
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.air_passengers())
    config = nd.TrainingConfig(max_steps=3)
    model.fit(data, config)
    return traced(lambda: model.fit(data, config))


def train() -> Trace:
    """`neuro-divergent train` of three steps; nothing of the package is imported before."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"2024-{month:02d}-01,{10 + month % 5}" for month in range(1, 13)]
        rows += [row.replace("2024", str(year)) for year in (2025, 2026, 2027) for row in rows[:12]]
        table = Path(folder) / "sales.csv"
        table.write_text("ds,y\n" + "\n".join(rows) + "\n")
        request = ["train", str(table), "--model", "mlp", "--h", "4", "--input-size", "8", "--out", f"{folder}/run"]

        def command() -> None:
            from neuro_divergent.cli.main import main

            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                code = main([*request, "--set", "training.max_steps=3"])
            if code:
                raise SystemExit(said.getvalue())

        return traced(command)


RUNS = {"fit": fit, "train": train}
TITLES = {"fit": "fit, 3 steps, warm", "train": "neuro-divergent train, cold"}


def counted(run: str, source: str | None) -> dict[str, int]:
    """The counts of one run in a process of its own, with another source if one is given."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": source} if source else {})
    done = subprocess.run(
        [sys.executable, __file__, "--run", run], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table; with --run, count one run in this process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--before", metavar="SRC", help="an older source to compare with")
    parser.add_argument("--run", choices=RUNS, help="count one run here and print JSON")
    parser.add_argument("--files", action="store_true", help="with --run: print every file with its number of calls")
    asked = parser.parse_args()
    if asked.run:
        trace = RUNS[asked.run]()
        if asked.files:
            for name, calls in sorted(trace.calls.items()):
                print(f"{calls:8,}  {name}")
        print(json.dumps(trace.counts()))
        return
    sources = ([("before", asked.before)] if asked.before else []) + [("after" if asked.before else "now", None)]
    print(f"{'run':<28} {'source':<7} {'files':>6} {'rooms':>6} {'room changes':>13} {'calls':>7}")
    for run, title in TITLES.items():
        for name, source in sources:
            found = counted(run, source)
            figures = f"{found['files']:>6} {found['rooms']:>6} {found['room changes']:>13,} {found['calls']:>7,}"
            print(f"{title:<28} {name:<7} {figures}")


if __name__ == "__main__":
    main()
