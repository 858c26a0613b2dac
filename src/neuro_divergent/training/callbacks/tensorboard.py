"""The TensorBoard callback: scalars, histograms, hyperparameters, pictures of forecasts."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from neuro_divergent.core.extras import require
from neuro_divergent.core.field_types import AnyPath
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

SNAPSHOT = "forecast_snapshot"
"""Key of `TrainState.shared` with the newest forecasts of `nd.ForecastSnapshots`."""
MOST_SETTINGS = 200


class TensorBoard(CallbackSettings):
    """Writes scalars for TensorBoard: loss and gradient norm of steps, and every column of the history.

    Histograms of the weights, the settings of the training with its best scores (the tab HPARAMS), and, beside
    `nd.ForecastSnapshots`, pictures of the forecasts after each validation are written, too.
    """

    writes: ClassVar[tuple[str, ...]] = ("directory",)

    directory: AnyPath
    """Directory of the event files."""
    every: Annotated[int, Field(ge=1)] = 10
    """Write loss and gradient norm of every n-th step."""
    histograms: Annotated[int, Field(ge=1)] | None = None
    """Write a histogram of every parameter after every n-th epoch; None for none."""
    hyperparameters: bool = True
    """Write the settings and the best scores at the end."""
    forecasts: bool = True
    """Write pictures of the forecasts that `nd.ForecastSnapshots` makes. They need the extra `plots`."""

    def build(self) -> Callback:
        """The live callback."""
        return _TensorBoard(self)


class _TensorBoard(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: TensorBoard) -> None:
        require("tensorboard", extra="tensorboard", purpose="The TensorBoard callback")
        from torch.utils.tensorboard import SummaryWriter

        self.settings = settings
        self.writer = SummaryWriter(str(Path(settings.directory)))
        self.every = settings.every
        self._drawn: Any = None

    def on_batch_end(self, state: TrainState) -> None:
        if state.step % self.every == 0:
            self._scalar("step/loss", state.loss, state.step)
            self._scalar("step/gradient_norm", state.gradient_norm, state.step)

    def on_epoch_end(self, state: TrainState) -> None:
        for name, value in state.history.epochs[-1].items():
            self._scalar(f"epoch/{name}", value, state.epoch + 1)
        if self.settings.histograms is not None and (state.epoch + 1) % self.settings.histograms == 0:
            for name, parameter in state.module.named_parameters():
                if bool(parameter.isfinite().all()):  # a histogram of other values is refused
                    self.writer.add_histogram(f"weights/{name}", parameter.detach().cpu(), state.epoch + 1)
        self._forecasts(state)

    def on_fit_end(self, state: TrainState) -> None:
        if self.settings.hyperparameters and state.history.epochs:
            self._hyperparameters(state)
        self.writer.close()

    def on_exception(self, state: TrainState) -> None:  # noqa: ARG002
        self.writer.close()

    def _forecasts(self, state: TrainState) -> None:
        found = state.shared.get(SNAPSHOT) if self.settings.forecasts else None
        if found is None or found is self._drawn or importlib.util.find_spec("matplotlib") is None:
            return
        from neuro_divergent.plotting import close
        from neuro_divergent.plotting.training import snapshot_figure

        self._drawn = found
        figure = snapshot_figure(found)
        self.writer.add_image("forecasts", _pixels(figure), state.epoch + 1, dataformats="HWC")
        close(figure)

    def _hyperparameters(self, state: TrainState) -> None:
        """Write settings and best scores into this directory. `add_hparams` would make a directory of its own."""
        from torch.utils.tensorboard.summary import hparams

        best = _best(state)
        settings = dict(list(_flat(state.config.replace(callbacks=()).to_dict()))[:MOST_SETTINGS])
        for summary in hparams(settings, {f"best/{name}": value for name, value in best.items()}):
            self.writer.file_writer.add_summary(summary)
        for name, value in best.items():
            self._scalar(f"best/{name}", value, state.step)

    def _scalar(self, name: str, value: float, step: int) -> None:
        self.writer.add_scalar(name, value, step)


def _best(state: TrainState) -> dict[str, float]:
    """The scores of the epoch whose weights are returned."""
    epochs = state.history.epochs
    chosen = next((record for record in epochs if record["epoch"] == state.history.best_epoch), epochs[-1])
    return {
        name: value
        for name, value in chosen.items()
        if name.startswith(("train_", "validation_")) and not name.endswith("seconds") and math.isfinite(value)
    }


def _flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their path, as numbers, texts and booleans; what is not set is left out."""
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{path}{name}.")
        elif isinstance(item, bool | int | float | str):
            yield f"{path}{name}", item
        elif item:
            yield f"{path}{name}", str(item)


def _pixels(figure: Any) -> Any:
    """[height, width, 3] the figure as bytes."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]
