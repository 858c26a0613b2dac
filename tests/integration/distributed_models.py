"""Trains models in exact mode, in whatever processes run this script, and writes hashes of the results.

torchrun --nproc-per-node=2 distributed_models.py RESULT.json NHITS LSTM ...
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import polars as pl
from torch import Tensor

import neuro_divergent as nd
from neuro_divergent.optim import state_tensors
from neuro_divergent.training.state.state import TrainState

H, LOOKBACK = 6, 24
SMALL = {"hidden_size": 8, "n_layers": 1, "encoder_layers": 1, "heads": 2}
STRATEGY = os.environ.get("ND_TEST_STRATEGY", "ddp")


def table() -> pl.DataFrame:
    """Four hourly series; a part of the values is missing."""
    frame = nd.samples.hourly_panel(4, 160)
    number = pl.int_range(pl.len()).over("unique_id")
    return frame.filter((number == pl.len().over("unique_id") - 1) | ((number * 7919) % 31 != 0))


def digest(tensors: dict[str, Tensor]) -> str:
    """One hash of all tensors and their names."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return found.hexdigest()


class KeepOptimizer(nd.Callback):
    """Keeps the state of the optimizer after the last step of the selection run."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def on_batch_end(self, state: TrainState) -> None:
        found = state_tensors(state.optimizer)
        self.tensors = {f"optimizer/{name}": tensor.clone() for name, tensor in found.items()}


def described(kind: str) -> nd.Model:
    """A small model of this kind, with dropout where it has some."""
    cls = getattr(nd, kind)
    fields = {name: value for name, value in SMALL.items() if name in cls.model_fields}
    if "dropout" in cls.model_fields:
        fields["dropout"] = 0.1
    return cls(h=H, input_size=LOOKBACK, **fields)


def trained(kind: str) -> dict[str, str]:
    data = nd.TimeSeriesDataFrame.from_frame(table(), gaps="mask")
    model = described(kind)
    keep = KeepOptimizer()
    config = nd.TrainingConfig(
        max_epochs=3,
        steps_per_epoch=4,
        batch_size=11,  # 22 rows are no multiple of the shards
        accumulate_gradients=2,
        early_stopping=nd.EarlyStopping(patience=1),
        refit="fine_tune",
        progress=False,
        distributed=nd.Distributed(exact=True, strategy=STRATEGY, batch_norm="per_process", processes=1),
        callbacks=(keep,),
    )
    fitted = model.fit(data, config)
    forecast = fitted.predict().select(pl.exclude("unique_id", "ds")).to_numpy().tobytes()
    return {
        "weights": digest(fitted.network.state_dict()),
        "optimizer": digest(keep.tensors),
        "losses": json.dumps(fitted.history.step_loss),
        "forecast": hashlib.sha256(forecast).hexdigest(),
    }


def main(path: str, kinds: list[str]) -> None:
    results = {}
    for kind in kinds:
        try:
            results[kind] = trained(kind)
        except nd.NeuroDivergentError as error:
            results[kind] = {"refused": f"{type(error).__name__}: {error}"}
    if int(os.environ.get("RANK", "0")) == 0:
        Path(path).write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
