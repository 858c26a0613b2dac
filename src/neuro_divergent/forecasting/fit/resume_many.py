"""Resumes several runs, each in its own directory, and collects their results.

Runs that cannot be resumed are refused before any starts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from neuro_divergent.core.errors import (
    ConfigError,
    MembersFailedError,
    NeuroDivergentError,
    NoCheckpointError,
    StorageError,
    TrainingError,
)
from neuro_divergent.core.executors.workers import Workers
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.elsewhere.fit_elsewhere import Wanted, fit_elsewhere
from neuro_divergent.forecasting.fit.fit import check_resumable, fit, job_of
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.training.config.checkpoints import Checkpoints
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.checkpoint_store import inside, place_of
from neuro_divergent.training.runs.resume import Resume

Source = str | os.PathLike[str] | None
Beginning = tuple[TrainingConfig, Resume]
"""A changed configuration, and the starting point of its run."""


def beginnings(
    configs: Mapping[str, TrainingConfig], source: Source, changes: Mapping[str, Any] | None
) -> dict[str, Beginning]:
    """The starting point of each of several runs, by name.

    Args:
        configs: the configuration of each run, with its own directory.
        source: None, "auto" for the directory of each, or a directory with one folder per run.
        changes: fields to change, for all or by name.
    """
    own = _changes_of(configs, changes)
    changed = {name: Resume(source, own[name]).applied(config) for name, config in configs.items()}
    if source == "auto":
        bare = [name for name, config in configs.items() if config.checkpoints is None]
        if bare:
            raise ConfigError(
                "resume='auto' needs checkpoints=Checkpoints(...) for each run, but "
                f"there is none for {', '.join(bare)}"
            )
    if source is None or source == "auto" or len(configs) == 1:
        return {name: (config, Resume(source, own[name])) for name, config in changed.items()}
    folders = {name: inside(Checkpoints(directory=os.fspath(source)), name) for name in configs}
    begun = {name for name, folder in folders.items() if place_of(folder).names()}
    if not begun:
        raise NoCheckpointError(
            f"{source} must have a folder for each run ({', '.join(configs)}), but there is no checkpoint in any. To "
            "start new runs, use resume='auto'"
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
            f"changes must be given by model name ({', '.join(names)}), but got {', '.join(unknown)} as well"
        )
    return {name: changes.get(name) for name in names}


def fit_each(
    members: Sequence[tuple[Model, TimeSeriesDataFrame, Beginning]],
    *,
    workers: Workers | None = None,
    prediction_intervals: PredictionIntervals | None = None,
    **options: Any,
) -> list[Forecaster | NeuroDivergentError]:
    """Train each from its own starting point: one after the other, or in workers. A failed training gives its error.

    A run that cannot be resumed is refused before the first one is trained: they may take hours.
    """
    if workers is not None:
        wanted = [
            Wanted(
                job_of(model, table, config, resume=begin.source, resume_with=begin.changes, **options),
                prediction_intervals,
            )
            for model, table, (config, begin) in members
        ]
        for model, table, beginning in members:
            _check(model, table, *beginning, prediction_intervals=prediction_intervals, **options)
        return fit_elsewhere(wanted, workers)
    options |= {"prediction_intervals": prediction_intervals}
    for model, table, beginning in members[1:]:  # the first one is checked when it starts
        _check(model, table, *beginning, **options)
    found: list[Forecaster | NeuroDivergentError] = []
    for number, (model, table, (config, begin)) in enumerate(members):
        try:
            found.append(fit(model, table, config, resume=begin.source, resume_with=begin.changes, **options))
        except (TrainingError, StorageError) as error:
            if number == 0 and isinstance(error, StorageError):  # refused, like the others before
                raise
            found.append(error)
    return found


def _check(model: Model, table: TimeSeriesDataFrame, config: TrainingConfig, begin: Resume, **options: Any) -> None:
    """Refuse to resume a run with another model or other data."""
    own = None if config.checkpoints is None else config.checkpoints.directory
    source = own if begin.source == "auto" else begin.source
    if source is not None and place_of(os.fspath(source)).names():
        check_resumable(model, table, config, resume=source, resume_with=begin.changes, **options)


def results(found: Sequence[Forecaster | NeuroDivergentError]) -> list[Forecaster]:
    """The forecasters. If some trainings failed, raise an error that contains the forecasters of the others.

    If all failed, the first error itself is raised.
    """
    failures = {number: item for number, item in enumerate(found) if isinstance(item, NeuroDivergentError)}
    if not failures:
        return [item for item in found if isinstance(item, Forecaster)]
    first, error = next(iter(failures.items()))
    if len(failures) == len(found):
        raise error
    sentence = f"training {first + 1} of {len(found)} failed: {error}"
    more = f" {len(failures) - 1} more failed." if len(failures) > 1 else ""
    sentence = sentence if sentence.endswith(".") else f"{sentence}."
    raise MembersFailedError(
        f"{sentence}{more} The forecasters of the others are in `forecasters` of this error",
        forecasters=[item if isinstance(item, Forecaster) else None for item in found],
        failures=failures,
        **error.facts,
    ) from error
