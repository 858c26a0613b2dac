"""The history of a training: one record per epoch, one number per step."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.config import encode
from neuro_divergent.core.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


@dataclass
class History:
    """The history of a training.

    Per epoch: train_loss, validation_loss, metrics, learning_rate, seconds, time. Per step: loss and gradient norm.

    >>> history = History(epochs=[{"epoch": 1, "train_loss": 2.0}, {"epoch": 2, "train_loss": 1.5}])
    >>> history["train_loss"]
    [2.0, 1.5]
    """

    epochs: list[dict[str, float]] = field(default_factory=list)
    """One record per finished epoch, `epoch` counted from 1; `time` is when it ended, in seconds since 1970."""
    step_loss: list[float] = field(default_factory=list)
    """Training loss of every optimizer step."""
    gradient_norm: list[float] = field(default_factory=list)
    """Total gradient norm of every optimizer step, before clipping."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Values that callbacks logged and events of the engine (skipped steps, early stop), each with its step."""
    best_epoch: int | None = None
    """The epoch with the best monitored value; None if no value was monitored."""
    stopped: str = ""
    """Why the training ended, as a sentence."""

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, name: str) -> list[float]:
        """A column over the epochs, such as history["validation_loss"]."""
        names = {key for record in self.epochs for key in record}
        if name not in names:
            raise ConfigError(f"the column must be one of {', '.join(sorted(names))}, but got {name!r}")
        return [record[name] for record in self.epochs if name in record]

    @property
    def train_loss(self) -> list[float]:
        """Mean training loss of each epoch."""
        return [record["train_loss"] for record in self.epochs]

    @property
    def validation_loss(self) -> list[float]:
        """Validation loss of each epoch that was validated."""
        return [record["validation_loss"] for record in self.epochs if "validation_loss" in record]

    @property
    def timestamps(self) -> list[datetime]:
        """When each epoch ended, in UTC; histories of earlier versions have none."""
        return [datetime.fromtimestamp(record["time"], UTC) for record in self.epochs if "time" in record]

    def to_dict(self) -> dict[str, Any]:
        """The history as plain data, for JSON."""
        return {
            "epochs": self.epochs,
            "step_loss": self.step_loss,
            "gradient_norm": self.gradient_norm,
            "events": self.events,
            "best_epoch": self.best_epoch,
            "stopped": self.stopped,
        }

    def to_json(self) -> str:
        """The whole history as a JSON document; numbers that are not finite become the strings "nan" and "inf"."""
        return json.dumps(encode(self.to_dict()), allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> History:
        """The history from the result of `to_dict`, also after a round trip through JSON."""
        figures = [{name: float(value) for name, value in record.items()} for record in data["epochs"]]
        epochs = [record | {"epoch": int(record["epoch"])} for record in figures]
        return cls(**data | {"epochs": epochs})

    @classmethod
    def from_json(cls, text: str) -> History:
        """The history from the result of `to_json`."""
        return cls.from_dict(json.loads(text))

    def to_polars(self) -> pl.DataFrame:
        """The epochs as a data frame, one row per epoch."""
        import polars as pl

        return pl.DataFrame(self.epochs, infer_schema_length=None)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A figure of the loss curves and the learning rate; saved to `path` if given."""
        from neuro_divergent.plotting import curves, save

        figure = curves.history_figure(self.epochs, best_epoch=self.best_epoch)
        return save(figure, path)

    def __repr__(self) -> str:
        if not self.epochs:
            return "History(no finished epoch)"
        last = self.epochs[-1]
        shown = ", ".join(f"{name}={last[name]:.4g}" for name in ("train_loss", "validation_loss") if name in last)
        return f"History({len(self.epochs)} epochs, {len(self.step_loss)} steps, {shown})"

    def _repr_html_(self) -> str:
        return self.to_polars()._repr_html_()
