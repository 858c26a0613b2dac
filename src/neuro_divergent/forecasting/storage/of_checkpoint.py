"""Loads the forecaster of a run or a checkpoint: the description from the run, the weights from the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import CorruptFileError, NoCheckpointError, StorageError
from neuro_divergent.core.runs.names import CHECKPOINTS, CONTEXT, MODEL_DOCUMENT, REFIT
from neuro_divergent.forecasting.model.model import learns_after_fit
from neuro_divergent.forecasting.predict.ahead import context_rows
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.optim import Optimizer, load_state, to_eval
from neuro_divergent.training.runs import snapshot as checkpoint
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints
from neuro_divergent.training.runs.requested import is_checkpoint
from neuro_divergent.training.runs.resume import newest
from neuro_divergent.training.runs.snapshot import Snapshot
from neuro_divergent.training.state.history import History

WHOLE_TABLE = "whole_table"
"""Key in model.json: whether the table has all rows of the training, not only the last ones."""


@dataclass(frozen=True)
class Found:
    """A checkpoint, and the description of the model that its run wrote."""

    place: Path
    snapshot: Snapshot
    context: Mapping[str, bytes]

    def weights(self) -> dict[str, Tensor]:
        """The weights that the run would return if it ended here."""
        return checkpoint.returned_weights(self.snapshot)

    def finish(self, forecaster: Forecaster) -> None:
        """Give the forecaster its history, and the evaluation weights if the optimizer has two kinds of weights."""
        forecaster.history = self._history()
        optimizer = forecaster.config.optimizer
        if isinstance(optimizer, Optimizer) and not checkpoint.part(self.snapshot.weights, "best/"):
            live = optimizer.build(forecaster.module)
            if hasattr(live, "eval"):
                load_state(live, self.snapshot.optimizer)
                to_eval(live)
        if learns_after_fit(forecaster.model):
            self._learn(forecaster)

    def _learn(self, forecaster: Forecaster) -> None:
        """Learn what a training learns after its last step, on the table of the run."""
        if not bundle.parse_json(self.context[MODEL_DOCUMENT], MODEL_DOCUMENT).get(WHOLE_TABLE):
            raise StorageError(
                f"{forecaster.model.kind} measures its errors after the last step, and {self.place} does not have the "
                "rows for that: an earlier version wrote it. End the run with nd.resume_training(path, data)"
            )
        table, local = forecaster.data, forecaster.local
        if local is not None:  # the network was trained on scaled series
            forecaster.data, forecaster.local = local.scaled(table), None
        forecaster.model.after_fit(forecaster)
        forecaster.data, forecaster.local = table.tail(context_rows(forecaster.model, table.schema)), local

    def _history(self) -> History:
        data = {name: value for name, value in self.snapshot.document["history"].items() if hasattr(History(), name)}
        steps = {"step_loss": self.snapshot.step_loss, "gradient_norm": self.snapshot.gradient_norm}
        try:
            return History.from_dict(data | steps)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptFileError(f"{self.place} must hold the history of a run, but does not: {error!r}") from None


def find_checkpoint(path: Path) -> Found | None:
    """The checkpoint at a path, or the newest one of a run; None if there is neither."""
    folder = files.present(path)
    if is_checkpoint(folder):
        snapshot, contents = _read(folder)
        if MODEL_DOCUMENT in contents:
            return Found(path, snapshot, contents)
        return Found(path, snapshot, _context(folder.parent.parent, path))
    if not (folder / CHECKPOINTS).is_dir():
        return None
    refit = folder / REFIT
    if (refit / CHECKPOINTS).is_dir():  # the run returns the weights of the refit
        return _newest(refit, folder)
    return _newest(folder, folder)


def _newest(run: Path, of: Path) -> Found:
    snapshot, damaged = newest(LocalCheckpoints(run))
    if snapshot is None and damaged:
        raise CorruptFileError(f"{run} must hold a good checkpoint, but all {len(damaged)} are damaged: {damaged[0]}")
    if snapshot is None:
        raise NoCheckpointError(f"{run} must have a model or a checkpoint, but has neither yet. Train it first")
    return Found(run, snapshot, _context(of, run))


def _read(path: Path) -> tuple[Snapshot, Mapping[str, bytes]]:
    contents = bundle.read(path)
    return checkpoint.read(contents, str(path)), contents


def _context(run: Path, asked: Path) -> Mapping[str, bytes]:
    """The files about the model that the run wrote before its first step."""
    if not files.present(run / CONTEXT).is_dir():
        raise StorageError(
            f"a checkpoint needs the description that its run writes to {CONTEXT} to become a forecaster, but {asked} "
            "has none. If it is of your own module, use Trainer.load_checkpoint(module, path). If an earlier version "
            "wrote it, use nd.resume_training(path, data)"
        )
    return bundle.read(run / CONTEXT)
