"""Trains with a divided optimizer, saves between steps on request, and goes on from there; writes hashes of weights.

torchrun --nproc-per-node=2 distributed_checkpoints.py FOLDER
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import neuro_divergent as nd
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.run import Run


def new_run() -> Run:
    config = nd.TrainingConfig(
        max_steps=8,
        batch_size=16,
        seed=1,
        early_stopping=None,
        refit=None,
        progress=False,
        distributed=nd.Distributed(exact=True, strategy="zero"),
    )
    table = nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel(2, 80))
    return prepare(Job(nd.MLP(h=4, input_size=12, hidden_size=8), table, config))


def finished(run: Run) -> str:
    weights = run.finish().network.state_dict().values()
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in weights)).hexdigest()


def main(folder: Path) -> None:
    run = new_run()
    run.save_checkpoint(folder / "at-0")
    run.advance(3)
    run.save_checkpoint(folder / "at-3")
    found = [finished(run), *(finished(new_run().load_checkpoint(folder / name)) for name in ("at-0", "at-3"))]
    (folder / f"found-{os.environ['RANK']}").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
