"""`make bench`: every measurement in its short form, one after the other, each in a process of its own.

    python -m benchmarks                                   # all
    python -m benchmarks windows engine                    # some
    python -m benchmarks --full --write                    # the long forms too; the results go to benchmarks/results

At the end comes one table over everything that ran: benchmark, figure, target and verdict. A target that was missed is
shown and is no error: the exit code says only whether every benchmark could run. A short form is shown and never
written, since its figures are not those that the results file promises.

Peers are found through the environment, each defaults to the running interpreter, and one that is not there is left out
with a message: ND_PEER_PYTHON (neuralforecast; --peer-python is the same), ND_PEER_DARTS, ND_PEER_GLUONTS and
ND_PEER_PYTORCH_FORECASTING are the Pythons that have them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import RESULTS, Line, peer_python, print_summary

HERE = Path(__file__).parent
SHORT = {
    "accuracy": ["--quick"],
    "doctor": ["--only", "cost"],
    "out_of_core": ["--rows", "5000000"],
    "peers": ["--quick"],
    "recipes": ["--quick"],
    "search": ["--quick"],
    "time_to_accuracy": ["--seeds", "1", "--only", "M4 hourly, NHITS, its defaults"],
}
"""Arguments that keep the long ones short; without them they take many minutes."""


def main() -> int:
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py") if path.stem != "harness")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(known)}")
    parser.add_argument("--data", type=Path, help="a folder of the real data sets")
    parser.add_argument("--peer-python", default=peer_python(), help="a Python that has neuralforecast")
    parser.add_argument("--full", action="store_true", help="the long forms")
    parser.add_argument("--write", action="store_true", help="keep the results in benchmarks/results")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"there is no benchmark named {', '.join(unknown)}; known are: {', '.join(known)}")
    peer = options.peer_python if has_neuralforecast(options.peer_python) else None
    found: dict[str, list[Line]] = {}
    silent, failed = [], []
    for name in options.names or known:
        short = [] if options.full else SHORT.get(name, [])
        with tempfile.TemporaryDirectory() as folder:
            arguments = [*short, *given(name, options.data, peer, Path(folder))]
            print(f"\n== {name} {' '.join(short)}".rstrip(), flush=True)
            code = run(name, arguments, Path(folder))
            lines = collected(Path(folder), None if short or not options.write else RESULTS)
        if lines:
            found[name] = lines
        elif code:
            failed.append(name)
        else:
            silent.append(name)
    print()
    print_summary(found)
    if silent:
        print(f"without figures, as said above: {', '.join(silent)}")
    if failed:
        print(f"could not run: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def has_neuralforecast(python: str) -> bool:
    """Whether the interpreter has the peer of most benchmarks; says how to get it if not."""
    try:
        code = subprocess.run([python, "-c", "import neuralforecast"], capture_output=True, check=False).returncode
    except OSError:
        code = 1
    if code:
        print(f"neuralforecast cannot be imported by {python}: comparisons with it are left out. To have them:")
        print("  pip install 'neuro-divergent[bench]', or name a Python that has it with ND_PEER_PYTHON=PATH")
    return code == 0


def given(name: str, data: Path | None, peer: str | None, folder: Path) -> list[str]:
    """The arguments that a benchmark knows, of those that we have for all."""
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    arguments = []
    for flag, value in (("--data", data), ("--peer-python", peer)):
        if value is not None and f'"{flag}"' in text:
            arguments += [flag, str(value)]
    if '"--write"' in text:
        return [*arguments, "--write"]
    return [*arguments, "--json", str(folder / f"{name}.json")] if '"--json"' in text else arguments


def run(name: str, arguments: list[str], folder: Path) -> int:
    """The exit code of a benchmark whose results go into a folder."""
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    environment = os.environ | {"ND_BENCH_RESULTS": str(folder)}
    return subprocess.run(command, env=environment, check=False).returncode


def collected(folder: Path, kept: Path | None) -> list[Line]:
    """The lines of the results in a folder, which are copied where they are kept."""
    lines: list[Line] = []
    written = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and "lines" in document:
            lines += document["lines"]
            written += [path.name, *document.get("plots", [])]
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        for name in written:
            shutil.copyfile(folder / name, kept / name)
    return lines


if __name__ == "__main__":
    sys.exit(main())
