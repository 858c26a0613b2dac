"""What if the machine is switched off in the middle of a training? Nothing: it goes on, to the same bits.

This trains once without interruption, then starts the same training in another process, kills that process without
warning, resumes it, and compares the two models number by number.

    python examples/resume_after_kill.py
    python examples/resume_after_kill.py --data sales.csv      # columns unique_id, ds, y
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

import neuro_divergent as nd


def train(directory: Path, data: str | None, epochs: int) -> nd.Forecaster:
    """The training, the same every time: it goes on from the newest checkpoint if there is one."""
    frame = nd.samples.air_passengers() if data is None else pl.read_csv(data, try_parse_dates=True)
    config = nd.TrainingConfig(
        max_epochs=epochs,
        early_stopping=None,
        checkpoints=nd.Checkpoints(directory, every_n_steps=20, every_n_epochs=None),
    )
    model = nd.NHITS(h=12, input_size=36, hidden_sizes=(64, 64))
    return model.fit(nd.TimeSeriesDataFrame.from_frame(frame), config, resume="auto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a CSV with the columns unique_id, ds and y")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)  # the process that will be killed
    options = parser.parse_args()
    if options.run is not None:
        train(options.run, options.data, options.epochs)
        return
    with tempfile.TemporaryDirectory() as folder:
        whole = train(Path(folder) / "whole", options.data, options.epochs)
        print(f"without interruption: {len(whole.history)} epochs")

        again = Path(folder) / "killed"
        command = [sys.executable, __file__, "--run", str(again), "--epochs", str(options.epochs)]
        process = subprocess.Popen(command + (["--data", options.data] if options.data else []))
        while process.poll() is None and not list(again.glob("checkpoints/step-*")):
            time.sleep(0.01)
        process.kill()
        process.wait()
        kept = sorted(path.name for path in again.glob("checkpoints/step-*"))
        print(f"killed, with {len(kept)} checkpoints, the newest {kept[-1]}")

        resumed = train(again, options.data, options.epochs)
        same = resumed.predict().equals(whole.predict()) and resumed.history.train_loss == whole.history.train_loss
        print(f"resumed: {len(resumed.history)} epochs, {'the same bits' if same else 'OTHER NUMBERS'}")
        sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
