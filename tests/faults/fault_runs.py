"""Small runs that the fault tests interrupt, and what must be equal after all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from neuro_divergent.core.json import to_plain
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.models import LSTM, MLP, NHITS
from neuro_divergent.optim import EMA, AdamW, CosineAnnealing, ReduceOnPlateau
from neuro_divergent.training.config.checkpoints import Checkpoints
from neuro_divergent.training.config.training_config import EarlyStopping, TrainingConfig
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints
from neuro_divergent.training.state.history import History

TIME_COLUMNS = {"seconds", "validation_seconds", "time"}
TIME_EVENTS = {"training_seconds", "time"}


def table() -> TimeSeriesDataFrame:
    import polars as pl

    steps = np.arange(60)
    frames = [
        pl.DataFrame({"unique_id": [name] * 60, "ds": steps, "y": np.sin(steps * speed) + 0.01 * steps})
        for name, speed in (("a", 0.5), ("b", 0.8))
    ]
    return TimeSeriesDataFrame.from_frame(pl.concat(frames))


MODELS: dict[str, tuple[Model, dict[str, Any]]] = {
    "mlp": (MLP(h=3, input_size=8, hidden_size=8, layers=1), {"schedule": CosineAnnealing()}),
    "nhits": (NHITS(h=3, input_size=8, hidden_sizes=(8,)), {"schedule": None}),
    "lstm": (LSTM(h=3, input_size=8, hidden_size=4, layers=2, dropout=0.3), {"num_workers": 2}),
    "averaged": (
        MLP(h=3, input_size=8, hidden_size=8, layers=1),
        {"averaging": EMA(decay=0.9), "schedule": ReduceOnPlateau(patience=0, factor=0.5, min_delta=0.05)},
    ),
}


def config_of(name: str, directory: Path | None, **fields: Any) -> TrainingConfig:
    """Four epochs of seven steps, saved at every step."""
    checkpoints = None if directory is None else Checkpoints(directory, every_n_steps=1, keep_last=2)
    base: dict[str, Any] = {
        "max_epochs": 4,
        "batch_size": 10,
        "steps_per_epoch": 7,
        "optimizer": AdamW(learning_rate=1e-2),
        "early_stopping": EarlyStopping(patience=3, min_delta=0.0),
        "checkpoints": checkpoints,
        "progress": False,
    }
    return TrainingConfig(**base | MODELS[name][1] | fields)


def fingerprint(module: nn.Module, history: History) -> str:
    """sha256 over the weights and the history without its time columns."""
    digest = hashlib.sha256()
    for key, tensor in module.state_dict().items():
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    digest.update(json.dumps(to_plain(timeless(history)), sort_keys=True).encode())
    return digest.hexdigest()


def timeless(history: History) -> dict[str, Any]:
    """The history without what depends on the clock."""
    data = history.to_dict()
    data["epochs"] = [
        {key: value for key, value in record.items() if key not in TIME_COLUMNS} for record in data["epochs"]
    ]
    data["events"] = [event for event in data["events"] if not TIME_EVENTS & set(event)]
    return data


def last_optimizer(directory: Path) -> str:
    """sha256 of the optimizer's state in the newest checkpoint."""
    place = LocalCheckpoints(directory)
    return hashlib.sha256(place.read(place.names()[-1])["optimizer.safetensors"]).hexdigest()


def train_and_report(name: str, directory: Path, resume: str | None, **fields: Any) -> dict[str, str]:
    """Run to the end; what must be the same whatever happened on the way."""
    model, _ = MODELS[name]
    fitted = model.fit(table(), config_of(name, directory, **fields), resume=resume)
    return {"run": fingerprint(fitted.module, fitted.history), "optimizer": last_optimizer(directory)}
