"""What saving costs: an N-HiTS training with a checkpoint every 50 steps against the same training without.

python benchmarks/checkpoint.py --steps 1000 --repeats 3
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

import neuro_divergent as nd

LIMIT = 0.05


def train(data: nd.TimeSeriesDataFrame, steps: int, checkpoints: nd.Checkpoints | None) -> float:
    """Seconds of one training without its set-up and validation."""
    config = nd.TrainingConfig(
        max_steps=steps, batch_size=256, validation_split=None, checkpoints=checkpoints, progress=False
    )
    begun = time.perf_counter()
    nd.NHITS(h=24, input_size=168).fit(data, config)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to save; a temporary folder unless given")
    arguments = parser.parse_args()
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel())
    train(data, 10, None)
    plain, saving, waiting = [], [], []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        # Alternating, so that a busy machine slows all of them alike.
        for number in range(arguments.repeats):
            for times, asynchronous in ((plain, None), (saving, True), (waiting, False)):
                checkpoints = None
                if asynchronous is not None:
                    path = Path(folder) / f"{number}-{asynchronous}"
                    checkpoints = nd.Checkpoints(
                        path, every_n_epochs=None, every_n_steps=arguments.every, keep_last=2, asynchronous=asynchronous
                    )
                times.append(train(data, arguments.steps, checkpoints))
        newest = sorted((Path(folder) / "0-True" / "checkpoints").iterdir())[-1]
        size = sum(file.stat().st_size for file in newest.iterdir()) / 1e6
    print(
        f"NHITS, {arguments.steps} steps of 256 windows on {torch.get_num_threads()} threads, a checkpoint of "
        f"{size:.1f} MB every {arguments.every} steps; best of {arguments.repeats}"
    )
    base = min(plain)
    print(f"without          {base:7.2f} s")
    for label, times in (("in the background", saving), ("waiting for each", waiting)):
        print(f"{label:<17}{min(times):7.2f} s  {100 * (min(times) / base - 1):+5.1f} %")
    share = min(saving) / base - 1
    print(f"limit: {100 * LIMIT:.0f} %")
    if share > LIMIT:
        sys.exit(f"saving must cost at most {100 * LIMIT:.0f} % of the time, but costs {100 * share:.1f} %")


if __name__ == "__main__":
    main()
