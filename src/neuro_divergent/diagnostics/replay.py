"""Repeat a run from its last checkpoint to the step at which a value was not finite. Its directory is only read."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from neuro_divergent.core import bundle
from neuro_divergent.core.errors import ConfigError, NonFiniteError, StorageError
from neuro_divergent.core.json import parse_json
from neuro_divergent.core.runs.names import CONTEXT, MODEL_DOCUMENT, is_remote
from neuro_divergent.core.runs.read import read_run
from neuro_divergent.core.runs.record import RunRecord
from neuro_divergent.diagnostics.first_nonfinite import FirstNonfinite
from neuro_divergent.diagnostics.gradients import NONFINITE, GradientAnalyzer
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.training.callbacks.base import CallbackSettings
from neuro_divergent.training.config.training_config import TrainingConfig

NOTHING = GradientAnalyzer(layers=False, flow=False, noise=False, every_n_steps=2**60)
"""An analyzer that waits for the step that is not finite."""


def nonfinite_of_run(path: str | os.PathLike[str], data: Any, **options: Any) -> FirstNonfinite | None:
    """Where the first NaN or infinity of a run arose; None if its log tells of none, or the repeated steps are finite.

    Args:
        path: the run's directory.
        data: the table that the run was trained on.
        options: other arguments of the first `fit` call.
    """
    if is_remote(os.fspath(path)):
        raise ConfigError(f"a run is repeated from a local directory, but got {path}. Copy it first")
    record = read_run(path)
    if record.what != "run" or record.config is None:
        raise ConfigError(f"only a run of a model can be repeated, but {path} is none. Give its directory")
    failed = failed_step(record)
    if failed is None:
        return None
    config = _alone(record.config)
    job = job_of(_model(Path(record.path)), data, config, resume=_start(record, failed), may_refit=False, **options)
    training = prepare(job).training
    with suppress(NonFiniteError), training:
        training.advance(failed + 1)
    found = next((event[NONFINITE] for event in training.state.history.events if NONFINITE in event), None)
    return None if found is None else FirstNonfinite.from_dict(found)


def failed_step(record: RunRecord) -> int | None:
    """How many steps were done before the first one that was not finite; None if all were."""
    for line in record.log.events:
        nonfinite = line["event"] == "error" and str(line.get("error", "")).startswith("NonFiniteError")
        if line["event"] == "skipped" or nonfinite:
            return int(line["step"])
    return None


def _start(record: RunRecord, failed: int) -> str | None:
    """The newest checkpoint from before the failed step; None to begin with the first step."""
    before = [item for item in record.checkpoints if (item.step or 0) <= failed]
    return before[-1].path if before else None


def _alone(document: dict[str, Any]) -> TrainingConfig:
    """The configuration of the run without everything that writes, and with the analyzer."""
    config = TrainingConfig.from_dict(document)
    kept = [item for item in config.callbacks if isinstance(item, CallbackSettings) and not item.writes]
    others = [item for item in kept if not isinstance(item, GradientAnalyzer)]
    return config.unsaved().replace(callbacks=(*others, NOTHING), fault_tolerance=None, progress=False)


def _model(run: Path) -> Model:
    if not (run / CONTEXT).is_dir():
        raise StorageError(f"{run} must have the description of its model in {CONTEXT}, but has none")
    document = parse_json(bundle.read(run / CONTEXT)[MODEL_DOCUMENT], MODEL_DOCUMENT)
    return Model.from_saved(document["model"])
