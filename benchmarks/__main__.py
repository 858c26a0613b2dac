"""`make bench`: every measurement in its short form, one after the other, each in a process of its own.

python -m benchmarks                                   # all
python -m benchmarks windows engine                    # some
python -m benchmarks --peer-python peer/bin/python     # beside neuralforecast, installed elsewhere
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SHORT = {"accuracy": ["--quick"], "recipes": ["--quick"], "out_of_core": ["--rows", "5000000"]}
"""Arguments that keep the long ones short; without them they take many minutes."""


def main() -> int:
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py") if path.stem != "harness")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(known)}")
    parser.add_argument("--data", type=Path, help="a folder of the real data sets")
    parser.add_argument("--peer-python", help="a Python that has neuralforecast")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"there is no benchmark named {', '.join(unknown)}; known are: {', '.join(known)}")
    failed = []
    for name in options.names or known:
        text = (HERE / f"{name}.py").read_text(encoding="utf-8")
        arguments = list(SHORT.get(name, []))
        for flag, value in (("--data", options.data), ("--peer-python", options.peer_python)):
            if value is not None and f'"{flag}"' in text:
                arguments += [flag, str(value)]
        print(f"\n== {name} {' '.join(arguments)}".rstrip(), flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py"), *arguments]).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
