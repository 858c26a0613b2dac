"""A run is a directory: config.json, events.jsonl, and later its checkpoints, model and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from neuro_divergent.core import files
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.callbacks.writers import JsonLines

if TYPE_CHECKING:
    from neuro_divergent.training.state import TrainState


class RunDirectory:
    """The places inside a run's directory."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.json"

    @property
    def events(self) -> Path:
        """One line per logged fact."""
        return self.path / "events.jsonl"

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.path / "model"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    def callback(self, state: TrainState) -> Callback:
        """Write the configuration now, and give the callback that writes the events."""
        files.write_text(self.config, state.config.to_json() + "\n")
        state.run_directory = self.path
        return JsonLines(path=self.events).build()
