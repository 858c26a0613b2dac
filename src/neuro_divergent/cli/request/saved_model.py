"""The saved model that a command names."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.cli.request.hints import resume_hint
from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.runs.names import CHECKPOINTS, MODEL

if TYPE_CHECKING:
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.several.ensemble import Ensemble


def load_model(path: Path, method: str) -> Forecaster | Ensemble:
    """A saved model, the model of a run, or a saved ensemble that has the method which the command needs."""
    from neuro_divergent.core import files
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.several.ensemble import Ensemble
    from neuro_divergent.forecasting.storage.save_load import load

    if not files.present(path).exists():
        raise StorageError(
            f"{path} must be the directory of a saved model or of a run, but there is none. Check the path"
        )
    if not files.present(path).is_dir():
        raise ConfigError(
            f"{path} must be the directory of a saved model or of a run, but it is a file. "
            f"Name the model first, then the table: neuro-divergent predict runs/NAME {shlex.quote(str(path))}"
        )
    if (path / CHECKPOINTS).is_dir() and not files.present(path / MODEL).is_dir():
        raise StorageError(
            f"{path} must be a run with a trained model, but its training was stopped or is still running. Resume "
            f"it: {resume_hint(path)}"
        )
    loaded: Any = load(path)
    if not isinstance(loaded, Forecaster) and not (isinstance(loaded, Ensemble) and hasattr(loaded, method)):
        raise ConfigError(f"{path} must be one saved model, but it has several. Name the directory of one of them")
    return loaded
