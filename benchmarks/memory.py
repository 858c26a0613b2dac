"""Peak memory of a whole fit on the last 447 days of M5: 30,490 series, 12.3 million rows.

    python benchmarks/memory.py --data DIRECTORY --peer-python PATH

Each side is a process of its own that reads the Parquet file with polars and fits an MLP for 20 steps; ours also from
the file itself, which the peer cannot. Its peak memory is what the operating system counted; what a process that only
reads the table needs is printed beside it. Both sides pad the 198 series that are shorter than a window.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Line, line, print_table, write

COMMON = """
import logging, resource, sys, warnings
warnings.filterwarnings("ignore"); logging.disable(50)
import polars as pl
{fit}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
READ = """
table = pl.read_parquet(sys.argv[1]).select("unique_id", "ds", "y")
"""
OURS = """
import neuro_divergent as nd
config = nd.TrainingConfig(max_steps=20, max_epochs=None, batch_size=1024, progress=False, validation_split=None)
nd.MLP(h=28, input_size=56).fit(table, config, freq="1d", short="pad")
"""
FROM_FILE = OURS.replace("table, ", "nd.TimeSeriesDataFrame.from_parquet(sys.argv[1], freq='1d'), ").replace(
    ', freq="1d"', ""
)
THEIRS = """
from neuralforecast import NeuralForecast
from neuralforecast.models import MLP
quiet = dict(enable_progress_bar=False, logger=False, enable_model_summary=False, enable_checkpointing=False)
model = MLP(h=28, input_size=56, hidden_size=512, max_steps=20, windows_batch_size=1024,
            start_padding_enabled=True, **quiet)
NeuralForecast(models=[model], freq="1d").fit(table)
"""


def megabytes(python: str, fit: str, file: Path, folder: str) -> float:
    command = [python, "-c", COMMON.format(fit=fit), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        sys.exit(f"{python} failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where m5_tail_train.parquet is")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has neuralforecast and polars")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/memory.json")
    arguments = parser.parse_args()
    file = (arguments.data / "m5_tail_train.parquet").resolve()
    if not file.exists():
        print(f"{file} is not there: nothing to measure")
        return
    with tempfile.TemporaryDirectory() as folder:
        table = megabytes(sys.executable, READ, file, folder)
        ours = megabytes(sys.executable, READ + OURS, file, folder)
        direct = megabytes(sys.executable, FROM_FILE, file, folder)
        lines: list[Line] = [
            line("the table alone, read with polars", table, unit="MB"),
            line("peak memory of our fit", ours, unit="MB"),
            line("the same from the file, without a table in between", direct, unit="MB"),
        ]
        peer = [arguments.peer_python, "-c", "import neuralforecast, polars"]
        if subprocess.run(peer, capture_output=True, check=False).returncode:
            print(f"neuralforecast and polars cannot be imported by {arguments.peer_python}: no comparison")
        else:
            theirs = megabytes(arguments.peer_python, READ + THEIRS, file, folder)
            note = f"{theirs:,.0f} MB there"
            for what, peak in (("our peak over neuralforecast's", ours), ("the same from the file", direct)):
                lines.append(line(what, peak / theirs, at_most=1 / 3, target="<= 1/3", note=note))
    print_table(lines)
    if arguments.write:
        write("memory", lines, command="python benchmarks/memory.py --peer-python PATH")


if __name__ == "__main__":
    main()
