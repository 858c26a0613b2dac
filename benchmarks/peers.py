"""Beside darts, gluonts and pytorch-forecasting: time per training step, and what a user waits for.

    python benchmarks/peers.py [--data DIRECTORY] [--quick] [--only TEXT] [--write]

The peers do not live together in one environment: ND_PEER_DARTS, ND_PEER_GLUONTS and ND_PEER_PYTORCH_FORECASTING name
the Pythons that have them; the running one is tried otherwise, and a peer that is not there is left out.

Steps: the same architecture, sizes, windows per step, steps and threads on 400 series of 800 points, lookback 96,
horizon 24 (src/neuro_divergent/cli/peers/steps.py); processes of both sides in turns, the best of each.

Time to accuracy on M4 hourly, from the table to the forecast, imports left out: darts' N-BEATS and gluonts' DeepAR at
their defaults, one seed; ours with the recommended recipe to its own end, medians of three seeds. Our error must not be
above theirs and our time at most half of theirs. A peer stops after --limit seconds of training, and the note says how
far it came: its own end, and perhaps a better error, lie beyond. --quick has fewer steps and no accuracy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from harness import Line, line, peer_python, print_table, write
from neuro_divergent.cli.peers.registry import Comparison, compare, models_of, present, run_script
from time_to_accuracy import OUR_M4, READ_M4, run

VARIABLES = {
    "darts": "ND_PEER_DARTS",
    "gluonts": "ND_PEER_GLUONTS",
    "pytorch-forecasting": "ND_PEER_PYTORCH_FORECASTING",
}
SHARE = 0.5
ACCURACY: dict[str, tuple[str, str]] = {
    "darts": ("NBEATS", OUR_M4),
    "gluonts": ("DeepAR", OUR_M4.replace(', anchor="auto"', "")),
}
"""Peer → our model of the same name, and how it is used. DeepAR has no anchor."""


def steps_lines(peer: str, python: str, steps: int, rounds: int, versions: dict[str, str]) -> list[Line]:
    """Time per step of the peer's models over ours; notes the peer's version."""
    lines = []
    for model in models_of(peer):
        found = compare(peer, model, python, steps=steps, rounds=rounds)
        print(f"{peer} {model}: {said(found)}", flush=True)
        versions |= {peer: found.theirs.version if found.theirs else "-"}
        lines.append(line(f"{peer} {model}: times faster", found.ratio or 0.0, at_least=1, note=said(found)))
    return lines


def said(found: Comparison) -> str:
    """Both times, and both sizes where they differ."""
    ours, theirs = found.ours, found.theirs
    assert theirs is not None
    text = f"{theirs.milliseconds:.3g} ms and {ours.milliseconds:.3g} ms, {found.windows} windows"
    same = theirs.parameters == ours.parameters
    return text if same else f"{text}; {theirs.parameters:,} and {ours.parameters:,} parameters"


def accuracy_lines(
    peer: str, python: str, data: Path, seeds: int, limit: float, versions: dict[str, str]
) -> list[Line]:
    """Error and time on M4 hourly over the peer's; notes the peer's version."""
    model, script = ACCURACY[peer]
    with tempfile.TemporaryDirectory() as folder:
        archive = packed(data, Path(folder))
        scripts = Path(__file__).with_name("_peer_forecasts.py")
        theirs = run_script(python, scripts, [peer, str(archive), "1", str(limit)])
        versions |= {peer: theirs["version"]}
        mine = (READ_M4 + script).replace("{model}", model)
        ours = [run(sys.executable, mine, data, seed, folder) for seed in range(1, seeds + 1)]
    error, seconds = (median(column) for column in zip(*ours, strict=True))
    what, cut = f"M4 hourly, {peer} {model}", stopped(theirs)
    note = f"{error:.4g} and {theirs['error']:.4g}{cut}"
    lines = [line(f"{what}: error over theirs", error / theirs["error"], at_most=1, note=note)]
    note = f"{seconds:.1f} s and {theirs['seconds']:.1f} s{cut}"
    return [*lines, line(f"{what}: time over theirs", seconds / theirs["seconds"], at_most=SHARE, note=note)]


def stopped(theirs: dict[str, Any]) -> str:
    """How far the peer came, if it was stopped."""
    return "" if theirs["share"] > 0.999 else f", stopped after {100 * theirs['share']:.2g} % of its training"


def packed(data: Path, folder: Path) -> Path:
    """M4 hourly as the archive that every peer can read."""
    order = ["unique_id", "ds"]
    known, held = (pl.read_parquet(data / f"m4_hourly_{part}.parquet").sort(order) for part in ("train", "test"))
    lengths = known.group_by("unique_id", maintain_order=True).len()["len"].to_numpy()
    path = folder / "m4.npz"
    np.savez(
        path,
        values=known["y"].to_numpy().astype(np.float32),
        lengths=lengths,
        held=held["y"].to_numpy().reshape(len(lengths), -1),
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the M4 files are")
    parser.add_argument("--only", default="", help="peers whose name has this in it; results of others stay")
    parser.add_argument("--quick", action="store_true", help="few steps, no time to accuracy")
    parser.add_argument("--part", choices=("steps", "accuracy"), help="only this one")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=900, help="seconds of training after which a peer stops")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/peers.json")
    arguments = parser.parse_args()
    wanted = [name for name in VARIABLES if arguments.only in name]
    found, sentences = present(wanted, {name: peer_python(variable) for name, variable in VARIABLES.items()})
    for name, sentence in zip([peer for peer in wanted if found[peer] is None], sentences, strict=True):
        print(sentence.partition(", or name")[0] + f", or name a Python that has it with {VARIABLES[name]}=PATH")
    steps, rounds = (5, 1) if arguments.quick else (arguments.steps, arguments.rounds)
    there = {peer: python for peer, python in found.items() if python is not None}
    lines: list[Line] = []
    versions: dict[str, str] = {}
    if arguments.part != "accuracy":
        for peer, python in there.items():
            lines += steps_lines(peer, python, steps, rounds, versions)
    data = arguments.data.resolve()
    if arguments.part != "steps" and not arguments.quick:
        if not data.is_dir():
            print(f"time to accuracy is left out: {data} is not there, give the folder of the data with --data")
        else:
            for peer in [name for name in ACCURACY if name in there]:
                lines += accuracy_lines(peer, there[peer], data, arguments.seeds, arguments.limit, versions)
    print_table(lines)
    if arguments.write and lines:
        partial = bool(arguments.only or arguments.part)
        write("peers", lines, "python benchmarks/peers.py", more_versions=versions, partial=partial)


if __name__ == "__main__":
    main()
