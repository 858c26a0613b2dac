"""Callbacks that show a training as pictures and lines: `nd.Visualizer` and `nd.Monitor`."""

from __future__ import annotations

import html
import importlib.util
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, field_validator

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.core.field_types import AnyPath, default
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings
from neuro_divergent.training.callbacks.logs import Logs
from neuro_divergent.training.callbacks.progress import in_notebook

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from neuro_divergent.training.state.state import TrainState

log = logging.getLogger(__name__)

PURPOSE = "A picture of a training"
METRICS, ARCHITECTURE, PAGE = "metrics.png", "architecture.png", "index.html"
DEFAULT = ("train_loss", "validation_loss", "mae", "mape", "learning_rate")


class Visualizer(CallbackSettings):
    """Draws the metrics of a training and the layers of its network as pictures, while it runs and at its end.

    The directory gets metrics.png, architecture.png, and index.html, a page that shows them and reloads itself while
    the training runs. In a notebook the figure is redrawn below the cell. A metric that the training does not have is
    left out, with a line in the log. It needs the extra `plots`.
    """

    writes: ClassVar[tuple[str, ...]] = ("directory",)

    directory: AnyPath = default(Path("training_plots"))
    """Directory of the pictures."""
    live: bool = True
    """Redraw while the training runs; False draws at the end only."""
    metrics: tuple[str, ...] = DEFAULT
    """Columns of the history; "mae" means validation_mae, or train_mae if no rows are held out."""
    every_n_epochs: Annotated[int, Field(ge=1)] = 50
    """Redraw after every n-th epoch."""
    architecture: bool = True
    """Draw the layers of the network."""
    save_plots: bool = True
    """Write files. False shows the figure in a notebook only."""

    @field_validator("metrics")
    @classmethod
    def _some(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(value)

    def build(self) -> Callback:
        """The live callback."""
        return _Pictures(self)


class Monitor(CallbackSettings):
    """Prints chosen metrics every few epochs, and draws them now and then.

    The lines go to the error stream, such as "epoch 10/100  train_loss 0.51  validation_loss 0.62". Pictures need the
    extra `plots`; without it only lines are printed.
    """

    writes: ClassVar[tuple[str, ...]] = ("directory",)

    metrics: tuple[str, ...] = ("train_loss", "validation_loss")
    """Columns of the history; "mae" means validation_mae, or train_mae if no rows are held out."""
    log_every: Annotated[int, Field(ge=1)] = 10
    """Print a line after every n-th epoch, and after the last one."""
    plot_every: Annotated[int, Field(ge=1)] = 50
    """Draw after every n-th epoch, and at the end."""
    save_plots: bool = True
    """Write the picture; False only prints."""
    directory: AnyPath = default(Path("training_plots"))
    """Directory of the picture metrics.png."""

    def __init__(self, metrics: Any = None, /, **fields: Any) -> None:
        # The metrics are what everybody names first.
        super().__init__(**({} if metrics is None else {"metrics": metrics}), **fields)

    @field_validator("metrics")
    @classmethod
    def _some(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(value)

    def build(self) -> Callback:
        """The live callback."""
        return _Monitor(self)


def _checked(metrics: tuple[str, ...]) -> tuple[str, ...]:
    if not metrics or len(set(metrics)) != len(metrics):
        raise ConfigError(f"metrics must be one or more different names, but got {metrics!r}")
    return metrics


def _columns(state: TrainState, metrics: tuple[str, ...]) -> list[str]:
    """The names of the wanted metrics in the records of the history; those that are not there are left out."""
    known = Logs({name: 0.0 for record in state.history.epochs for name in record})
    found = []
    for metric in metrics:
        name = metric.lower().replace("val_", "validation_", 1) if metric.lower().startswith("val_") else metric.lower()
        found += [one for one in (name, f"validation_{name}", f"train_{name}") if one in known][:1]
    return list(dict.fromkeys(found))


class _Shown:
    """A figure below the cell of a notebook, which later figures replace."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, figure: Figure) -> None:
        from IPython.display import DisplayHandle, Image

        from neuro_divergent.plotting import render

        picture = Image(data=render(figure))
        if self._handle is None:
            self._handle = DisplayHandle()
            self._handle.display(picture)
        else:
            self._handle.update(picture)


class _Pictures(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: Visualizer) -> None:
        require("matplotlib", extra="plots", purpose=PURPOSE)
        self.settings = settings
        self._shown = _Shown()
        self._failed = False

    def on_fit_start(self, state: TrainState) -> None:
        if self.settings.architecture and self.settings.save_plots:
            from neuro_divergent.plotting.training import layers_figure
            from neuro_divergent.training.callbacks.layers import layers_of

            self._save(ARCHITECTURE, layers_figure(layers_of(state.module)))
        self._page(state, running=True)

    def on_epoch_end(self, state: TrainState) -> None:
        if self.settings.live and (state.epoch + 1) % self.settings.every_n_epochs == 0:
            self._draw(state, running=True)

    def on_fit_end(self, state: TrainState) -> None:
        self._draw(state, running=False)
        found = _columns(state, self.settings.metrics)
        known = {name for record in state.history.epochs for name in record}
        missing = [name for name in self.settings.metrics if not _columns(state, (name,))]
        if missing and found and self.settings.metrics != DEFAULT:
            log.warning("the pictures are without %s: the history has %s", ", ".join(missing), ", ".join(sorted(known)))

    def on_exception(self, state: TrainState) -> None:
        self._draw(state, running=False)

    def _draw(self, state: TrainState, *, running: bool) -> None:
        from neuro_divergent.plotting import close
        from neuro_divergent.plotting.training import metrics_figure

        names = _columns(state, self.settings.metrics)
        if names:
            figure = metrics_figure(state.history.epochs, names)
            if in_notebook() and self.settings.live:
                self._shown.show(figure)
            if self.settings.save_plots:
                self._save(METRICS, figure)
            close(figure)
        self._page(state, running=running)

    def _save(self, name: str, figure: Figure) -> None:
        from neuro_divergent.plotting import render

        self._write(name, render(figure))

    def _write(self, name: str, data: bytes) -> None:
        """Write a file. A full disk ends no training: it is less important."""
        try:
            files.write_bytes(Path(self.settings.directory) / name, data)
        except Exception as error:
            if not self._failed:
                log.warning("the pictures could not be written, the training continues: %s", error)
            self._failed = True

    def _page(self, state: TrainState, *, running: bool) -> None:
        if not self.settings.save_plots:
            return
        reload = '<meta http-equiv="refresh" content="5">' if running and self.settings.live else ""
        said = f"epoch {len(state.history.epochs)}, step {state.step} of at most {state.total_steps}"
        said += "" if running else f": {state.history.stopped or type(state.error).__name__}"
        known = [METRICS] * bool(state.history.epochs) + [ARCHITECTURE] * self.settings.architecture
        pictures = "".join(
            f'<p><img src="{name}?{state.step}" alt="{name}" style="max-width:100%"></p>' for name in known
        )
        page = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">{reload}<title>Training</title></head>'
            f'<body style="font:16px/1.5 system-ui;max-width:1000px;margin:2rem auto"><h1>Training</h1>'
            f"<p>{html.escape(said)}</p>{pictures}</body></html>\n"
        )
        self._write(PAGE, page.encode())


class _Monitor(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: Monitor) -> None:
        self.settings = settings
        drawing = settings.save_plots and importlib.util.find_spec("matplotlib") is not None
        if settings.save_plots and not drawing:
            log.warning("Monitor prints only: pictures need matplotlib (pip install 'neuro-divergent[plots]')")
        pictures = Visualizer(
            directory=settings.directory,
            metrics=settings.metrics,
            every_n_epochs=settings.plot_every,
            architecture=False,
        )
        self._pictures = _Pictures(pictures) if drawing else None

    def on_epoch_end(self, state: TrainState) -> None:
        last = state.step >= state.total_steps or bool(state.stopping)
        if (state.epoch + 1) % self.settings.log_every == 0 or last:
            record = state.history.epochs[-1]
            values = [f"{name} {record[name]:.5g}" for name in _columns(state, self.settings.metrics) if name in record]
            epochs = max(1, -(-state.total_steps // max(1, state.steps_per_epoch)))
            sys.stderr.write("  ".join([f"epoch {state.epoch + 1}/{epochs}", *values]) + "\n")
            sys.stderr.flush()
        if self._pictures is not None:
            self._pictures.on_epoch_end(state)

    def on_fit_end(self, state: TrainState) -> None:
        if self._pictures is not None:
            self._pictures.on_fit_end(state)
