"""Going on with several runs, each in a directory of its own: what cannot go on is refused before any of them does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from neuro_divergent.core.errors import ConfigError, NoCheckpointError
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.conformal import fit_model
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.config.checkpoints import Checkpoints
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.checkpoint_store import inside, place_of
from neuro_divergent.training.runs.resume import Resume
from neuro_divergent.training.state.state import TrainState

Source = str | os.PathLike[str] | None
Beginning = tuple[TrainingConfig, Resume]
"""A configuration with its changes made, and where its run begins."""


def beginnings(
    configs: Mapping[str, TrainingConfig], source: Source, changes: Mapping[str, Any] | None
) -> dict[str, Beginning]:
    """How each of several runs begins, by name.

    Args:
        configs: how each is trained, in a directory of its own.
        source: None, "auto" for the directory of each, or one that holds a folder for each.
        changes: fields that are changed on purpose, for all or by name.
    """
    own = _changes_of(configs, changes)
    changed = {name: Resume(source, own[name]).applied(config) for name, config in configs.items()}
    if source == "auto":
        bare = [name for name, config in configs.items() if config.checkpoints is None]
        if bare:
            raise ConfigError(
                "resume='auto' looks into the directory of each run, so each needs checkpoints=Checkpoints(...), but "
                f"there is none for {', '.join(bare)}"
            )
    if source is None or source == "auto" or len(configs) == 1:
        return {name: (config, Resume(source, own[name])) for name, config in changed.items()}
    folders = {name: inside(Checkpoints(directory=os.fspath(source)), name) for name in configs}
    begun = {name for name, folder in folders.items() if place_of(folder).names()}
    if not begun:
        raise NoCheckpointError(
            f"{source} must hold a folder for each run ({', '.join(configs)}), but there is no checkpoint in any. Use "
            "resume='auto' to start afresh then"
        )
    return {
        name: (config, Resume(folders[name], own[name]) if name in begun else Resume())
        for name, config in changed.items()
    }


def _changes_of(
    names: Mapping[str, TrainingConfig], changes: Mapping[str, Any] | None
) -> dict[str, Mapping[str, Any] | None]:
    by_name = names.keys() & (changes or {}).keys()
    if changes is None or not by_name:
        return dict.fromkeys(names, changes)
    unknown = sorted(changes.keys() - by_name)
    if unknown:
        raise ConfigError(
            f"changes belong to models by name ({', '.join(names)}), but got {', '.join(unknown)} as well"
        )
    return {name: changes.get(name) for name in names}


def fit_each(members: Sequence[tuple[Model, TimeSeriesDataFrame, Beginning]], **options: Any) -> list[Forecaster]:
    """Train one after the other, each from its own beginning."""
    for model, table, beginning in members[1:]:  # the first one is about to begin
        _rehearse(model, table, *beginning, **options)
    return [
        fit_model(model, table, config, resume=begin.source, resume_with=begin.changes, **options)
        for model, table, (config, begin) in members
    ]


def _rehearse(model: Model, table: TimeSeriesDataFrame, config: TrainingConfig, begin: Resume, **options: Any) -> None:
    """Begin a run that is to go on, without a step and without a file: another model or other data are refused here.

    The trainings before it may take hours, and would be done by the time it has its turn.
    """
    own = None if config.checkpoints is None else config.checkpoints.directory
    source = own if begin.source == "auto" else begin.source
    if source is None or not place_of(os.fspath(source)).names():
        return
    still = config.unsaved().replace(callbacks=(Stop(),), progress=False, refit_on_all=False)
    fit_model(model, table, still, resume=source, resume_with=begin.changes, **options)


class Stop(Callback):
    """Ends a training before its first step, and keeps its state: prepared by the very code that would train it."""

    engine: ClassVar[bool] = True

    def __init__(self) -> None:
        self.state: TrainState | None = None

    def on_fit_start(self, state: TrainState) -> None:
        """Keep the state; there is no first step."""
        self.state = state
        state.stop("prepared")
