"""Continues the training of a model: on newer rows of the same series, or on another table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError, CorruptFileError, DataError, NoCheckpointError, StorageError
from neuro_divergent.core.runs.names import CHECKPOINTS, is_remote
from neuro_divergent.data.join import joined_tables, later_rows, on_span_of, with_features
from neuro_divergent.data.read.target_range import widened
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows import split as splits
from neuro_divergent.forecasting.fit.fit import fit
from neuro_divergent.forecasting.fit.refit import fine_tuning, refit_record
from neuro_divergent.forecasting.fit.training_rows import (
    note_held_out,
    note_parent,
    rows_to_train,
    selection_rows,
    trained_rows,
    training_rows,
)
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.ahead import check_series
from neuro_divergent.forecasting.predict.calibrate_intervals import LEAST_WINDOWS
from neuro_divergent.forecasting.predict.conformal import refreshed
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.kept import keep_forecasts
from neuro_divergent.forecasting.predict.validated import HELD_OUT, held_out_event
from neuro_divergent.optim import Optimizer
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.requested import is_checkpoint, read_remote
from neuro_divergent.training.runs.resume import Resume, kept_facts

UPDATE_EPOCHS = 5
FINE_TUNE_RATE = 0.1
"""A tenth of the learning rate: the weights are good already."""


def update(forecaster: Forecaster, data: Any, config: TrainingConfig | None = None) -> Forecaster:
    """Continue training in place; see `Forecaster.update`."""
    known = isinstance(data, TimeSeriesDataFrame)
    newer = forecaster.table(data) if known else later_rows(forecaster.data, data, new_series=True)
    # Without context there are no known rows, only a placeholder for each series.
    joined = joined_tables(forecaster.data, newer) if forecaster.has_context else newer
    check_series(forecaster, joined)
    model, recent = forecaster.model, joined
    if forecaster.has_context:
        rows = model.input_size + model.h - 1 + _added(forecaster.data, joined)
        recent = _touched(forecaster.data, joined).tail(rows)
    settings: dict[str, Any] = {
        "max_epochs": UPDATE_EPOCHS,
        "max_steps": None,
        "validation_split": None,
        "early_stopping": None,
    }
    settings |= {"checkpoints": None, "fault_tolerance": None, "refit": None, "curriculum": None}
    if forecaster.config.calibrate is True:
        settings["calibrate"] = "auto"  # no rows are held out; the present correction remains
    trained = continued(forecaster, recent, config or forecaster.config.replace(**settings))
    if trained.config.validation_split is not None:
        # Only the end of the table was split. Many of the rows before it belong to the first training.
        known_rows = np.maximum(trained_rows(forecaster, joined), trained_rows(trained, joined))
        note_held_out(trained.history, joined.store.lengths - known_rows, "update")
    if forecaster.has_context:  # else the rows may be those of the training: their errors would be too small
        forecaster.intervals = refreshed(forecaster, joined, known_part(forecaster.data, joined))
    forecaster.module, forecaster.data, forecaster.has_context = trained.module, joined, True
    forecaster.config, forecaster.history, forecaster.local = trained.config, trained.history, trained.local
    forecaster.kept, forecaster.calibration = trained.kept, trained.calibration
    forecaster.bounds = widened(forecaster.bounds, joined.store, joined.schema)
    forecaster.begin_lineage(forecaster)
    return forecaster


def fine_tune(
    forecaster: Forecaster, data: Any, config: TrainingConfig | None, *, freeze: tuple[str, ...], **columns: Any
) -> Forecaster:
    """A forecaster for another table; see `Forecaster.fine_tune`."""
    if not isinstance(data, TimeSeriesDataFrame):
        columns = columns or {"schema": forecaster.data.schema.replace(freq=None, time_type=None)}
        data = TimeSeriesDataFrame.from_frame(data, **columns)
    own = forecaster.data
    data = with_features(data, forecaster.model.calendar_read(own.freq) if own.schema.features else ())
    data = on_span_of(own, data)  # the feature "time" keeps the scale that the weights have learned
    given, data = data, forecaster.in_own_codes(data)
    if data is not given:
        forecaster.say_unknown(given)
    if config is None:
        optimizer = forecaster.config.optimizer
        assert isinstance(optimizer, Optimizer)
        slower = optimizer.at_rate(optimizer.learning_rate * FINE_TUNE_RATE)
        config = forecaster.config.replace(optimizer=slower, checkpoints=None, fault_tolerance=None)
    if freeze:
        config = config.replace(freeze=freeze)
    return continued(forecaster, data, config)


def refit_on(forecaster: Forecaster, table: TimeSeriesDataFrame, *, most_steps: int | None = None) -> Forecaster:
    """A new forecaster, fine-tuned on all rows of a table that goes on where the forecaster's training ended.

    It is the same fine-tuning as `refit="fine_tune"` has. The forecasts that the given weights make of the later rows
    are kept: scores and intervals come from them.

    Args:
        forecaster: a model that was trained on the first rows.
        table: all rows.
        most_steps: the maximum number of steps; None for as many as `refit="fine_tune"` takes.
    """
    begins = trained_rows(forecaster, table)
    before = copy(forecaster)
    before.data, before.has_context = forecaster.in_own_codes(table), True
    kept = keep_forecasts(before, begins)
    steps = len(forecaster.history.step_loss)
    config = fine_tuning(forecaster.config, forecaster.history, steps)
    if most_steps is not None and config.max_steps is not None:
        config = config.replace(max_steps=max(1, min(most_steps, config.max_steps)))
    fitted = fine_tune(forecaster, table, config.replace(calibrate=False, checkpoints=None), freeze=())
    record = refit_record("fine_tune", config, fitted.history, len(fitted.history.step_loss))
    history = deepcopy(forecaster.history)
    note_held_out(history, fitted.data.store.lengths - begins, "given")
    known = held_out_event(forecaster.history)
    if known is not None:  # validation chose the weights on the first of these rows
        history.events[0] |= {"how": known["how"], "time": known["time"]}
    history.events.append({"step": steps, "epoch": len(history)} | record)
    fitted.history, fitted.kept = history, kept
    fitted.config = forecaster.config
    fitted.calibration = forecaster.calibration  # by weights that had not seen the later rows
    return fitted


def shown(forecaster: Forecaster, table: TimeSeriesDataFrame) -> Forecaster:
    """The same weights after the rows of a longer table, which they were not trained on."""
    begins = trained_rows(forecaster, table)
    fitted = copy(forecaster)
    fitted.data, fitted.has_context = forecaster.in_own_codes(table), True
    fitted.history = deepcopy(forecaster.history)
    fitted.history.events = [one for one in fitted.history.events if one.get("event") != HELD_OUT]
    note_held_out(fitted.history, fitted.data.store.lengths - begins, "given")
    return fitted


def continued(forecaster: Forecaster, table: TimeSeriesDataFrame, config: TrainingConfig) -> Forecaster:
    """A new forecaster, trained on a table from the weights of `forecaster`, which does not change."""
    if config.loss == "auto":
        config = config.replace(loss=forecaster.loss)
    if config.loss != forecaster.loss and config.loss.outputs != forecaster.loss.outputs:  # type: ignore[union-attr]
        raise ConfigError(
            f"the network has {forecaster.loss.outputs} outputs per step for {forecaster.loss.kind}, but "
            f"{config.loss.kind} needs {config.loss.outputs}. Keep the loss"  # type: ignore[union-attr]
        )
    _check_columns(forecaster, table)
    weights = {name: tensor.detach().cpu().clone() for name, tensor in forecaster.module.state_dict().items()}

    def begin(module: ForecastModule) -> None:
        module.load_state_dict(weights)

    # The seasons were inferred from the first data. The weights depend on them.
    model = forecaster.model.replace(anchor=forecaster.anchor or None).decided(forecaster.module.spec.lags)
    local = forecaster.local
    if local is not None:
        local = local.including(table, training_rows(model, table.store, config), least=rows_to_train(model))
    result = fit(model, table, config, short="drop", begin_with=begin, scaling=local, learned_from=(forecaster,))
    result.model = forecaster.model
    result.begin_lineage(forecaster)
    note_parent(result, forecaster)
    if config.calibrate is not False and result.loss.probabilistic and _windows_unseen(result, table) < LEAST_WINDOWS:
        result.calibration = result.calibration or forecaster.calibration  # too little is new to measure it again
    return result


def _windows_unseen(fitted: Forecaster, table: TimeSeriesDataFrame) -> int:
    """How many horizons without a common row lie in the rows that nothing was trained on."""
    rows = np.maximum(table.store.lengths - selection_rows(fitted, table), 0)
    return int((rows // fitted.model.h).sum())


def _check_columns(forecaster: Forecaster, table: TimeSeriesDataFrame) -> None:
    store, spec = taken_columns(forecaster.model, table.store), forecaster.module.spec
    widths = {
        "future": 0 if store.future is None else store.future.shape[1],
        "historical": 0 if store.historical is None else store.historical.shape[1],
        "static": 0 if store.static is None else store.static.shape[1],
        "categories": tuple(len(values) + 1 for values in store.categories.values()),
    }
    for name, found in widths.items():
        if found != getattr(spec, name):
            raise DataError(
                f"the weights were trained for {name}={getattr(spec, name)}, but the table has {found}. "
                "Give a table with the same kinds of columns"
            )
    if forecaster.model.capabilities.multivariate and len(store.ids) != spec.series:
        raise DataError(
            f"{forecaster.model.kind} was built for {spec.series} series, but the table has {len(store.ids)}. "
            "Give the same number, or use a univariate model"
        )


def known_part(known: TimeSeriesDataFrame, joined: TimeSeriesDataFrame) -> npt.NDArray[np.int64]:
    """[S] how many first rows of each joined series lie before the end of the known table; 0 for a new series."""
    number = {name: position for position, name in enumerate(known.ids.tolist())}
    place = np.array([number.get(name, -1) for name in joined.ids.tolist()], dtype=np.int64)
    end = known.store.times(known.store.lengths)
    return np.where(place >= 0, splits.rows_before(joined.store, end[place]), 0)


def _touched(known: TimeSeriesDataFrame, joined: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """The series that have new rows; all series if none has."""
    before = dict(zip(known.ids.tolist(), known.store.lengths.tolist(), strict=True))
    grown = [
        name
        for name, rows in zip(joined.ids.tolist(), joined.store.lengths.tolist(), strict=True)
        if rows > before.get(name, 0)
    ]
    return joined.select(grown) if 0 < len(grown) < joined.n_series else joined


def _added(known: TimeSeriesDataFrame, joined: TimeSeriesDataFrame) -> int:
    """The largest number of rows that a series gained."""
    before = dict(zip(known.ids.tolist(), known.store.lengths.tolist(), strict=True))
    pairs = zip(joined.ids.tolist(), joined.store.lengths.tolist(), strict=True)
    return int(np.max([rows - before.get(name, 0) for name, rows in pairs], initial=1))


def resume_training(
    path: str | os.PathLike[str],
    data: Any,
    *,
    resume_with: Mapping[str, Any] | None = None,
    using: Mapping[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Forecaster:
    """Resume a run from a checkpoint and train it to its end, with the model and the configuration in the checkpoint.

    A run continues in its own directory. A checkpoint of `save_checkpoint` belongs to no run: its training writes no
    checkpoints, unless `resume_with={"checkpoints": nd.Checkpoints(...)}` names a directory.

    Args:
        path: the directory of a run (its newest checkpoint is taken) or one checkpoint.
        data: the table that the run was trained on; another table is refused.
        resume_with: fields of the configuration to change, such as {"max_epochs": 50}.
        using: your own callables that the file names only by reference, such as {"my_loss": my_loss}.
        options: other arguments of the first `fit` call: validation, local_scaler, columns of the frame.
    """
    facts = kept_facts(TrainingConfig(), Resume(path))
    if facts is None:
        raise NoCheckpointError(f"{path} must have a checkpoint to resume from, but has none")
    if "model" not in facts["identity"]:
        raise StorageError(
            f"{path} is a training of your own module, which no file describes. Resume it with "
            "Trainer(config).resume_training(module, data, path)"
        )
    try:
        model = Model.from_saved(facts["identity"]["model"])
        short = facts["identity"].get("short", "error")
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{path} must describe its model, but does not: {error!r}") from None
    config = _in_place(TrainingConfig.from_dict(facts["config"], using=using), path)
    return fit(model, data, config, resume=path, resume_with=resume_with, short=short, **options)


def _in_place(config: TrainingConfig, path: str | os.PathLike[str]) -> TrainingConfig:
    """The configuration with its checkpoints at the present path of the run, which may have been moved."""
    run = _run_of(path)
    if run is None or config.checkpoints is None:
        return config.unsaved()
    return config.replace(checkpoints=config.checkpoints.replace(directory=run))


def _run_of(path: str | os.PathLike[str]) -> str | Path | None:
    """The run that a path names or that contains a checkpoint; None for a checkpoint outside of a run."""
    if is_remote(path):
        run, _, name = str(path).rstrip("/").rpartition(f"/{CHECKPOINTS}/")
        if name:
            return run
        return str(path) if read_remote(str(path)) is None else None
    place = Path(path)
    if not is_checkpoint(place):
        return place
    return place.parent.parent if place.parent.name == CHECKPOINTS else None
