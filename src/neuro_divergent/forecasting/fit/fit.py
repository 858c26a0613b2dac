"""From a description and a table to a fitted forecaster."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from torch import Tensor

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.core.seeding import isolated
from neuro_divergent.data.scaling.per_window import window_scaler
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.time import seasonality
from neuro_divergent.data.windows.samplers import Curriculum as CurriculumSampler
from neuro_divergent.data.windows.samplers import Sampler, Sequential
from neuro_divergent.data.windows.windows import Range, Short, Windows
from neuro_divergent.forecasting.fit.in_subprocess import supervised, train_supervised
from neuro_divergent.forecasting.fit.task import ForecastTask, WindowSource, refuse_classes
from neuro_divergent.forecasting.fit.training_rows import note_validation, training_rows
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.anchor import Anchor, remembered
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses import Loss
from neuro_divergent.training.config.curriculum import EasySeriesFirst, GrowingHorizon
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.checkpoint_store import REFIT, inside, place_of
from neuro_divergent.training.runs.lock import run_lock
from neuro_divergent.training.runs.resume import FREE, Resume, differences, newest
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.trainer import effective_batch, prepare, train, training_sampler

log = logging.getLogger(__name__)

MAX_VALIDATION_WINDOWS = 4096
"""A validation scores at most about this many windows, evenly spread: more would cost time and change little."""


@dataclass(frozen=True)
class Problem:
    """What is to be learned: a model, the columns it can take, and how windows are cut from them."""

    model: Model
    store: SeriesStore
    anchor: tuple[int, ...]
    historical_categorical: tuple[str, ...]
    short: Short
    times: Callable[[], npt.NDArray[np.generic]]
    """The time stamp of every row, for those who need it."""
    task: Callable[..., ForecastTask] = ForecastTask
    """How a batch of windows becomes values to minimise."""
    begin_with: Callable[[ForecastModule], None] | None = None
    """Gives a new module the weights that it starts from."""

    def weighted(self, loss: Loss) -> Problem:
        """The problem with the row weights that the loss asks for (by recency, by a function of time and value)."""
        if type(loss).row_weights is Loss.row_weights:
            return self
        store = self.store
        rows = np.arange(len(store.y)) - np.repeat(store.offsets[:-1], store.lengths)
        age = np.repeat(store.lengths, store.lengths) - 1 - rows
        weights = loss.row_weights(age, self.times(), store.y)
        if weights is None:
            return self
        weights = weights if store.weight is None else weights * store.weight
        return replace(self, store=replace(store, weight=weights.astype(store.y.dtype)))

    def windows(self, target_range: Range, step: int = 1) -> Windows:
        """The windows whose horizon lies in a range."""
        return Windows(
            self.store,
            lookback=self.model.input_size,
            horizon=self.model.h,
            step=step,
            target_range=target_range,
            multivariate=self.model.capabilities.multivariate,
            short=self.short,
            historical_categorical=self.historical_categorical,
        )


def fit(
    model: Model,
    data: Any,
    config: TrainingConfig,
    *,
    validation: Any = None,
    short: Short = "error",
    task: Callable[..., ForecastTask] = ForecastTask,
    resume: str | os.PathLike[str] | None = None,
    resume_with: Mapping[str, Any] | None = None,
    begin_with: Callable[[ForecastModule], None] | None = None,
    **columns: Any,
) -> Forecaster:
    """Train a model on a table; see `Model.fit`."""
    begin = Resume(resume, resume_with)
    config = begin.applied(config)
    table = TimeSeriesDataFrame.from_frame(data, **columns)
    if supervised(config):
        if begin_with is not None:
            raise ConfigError(
                "a watched training begins in another process, which cannot be given the weights to go on from. Set "
                "fault_tolerance=None, or FaultTolerance(retries=0)"
            )
        with run_lock(config.checkpoints):
            pass  # refused before anything is written; the watched process holds it then
        begin = train_supervised(model, table, config, begin, validation=validation, short=short)
    held: Range | None = None
    if validation is not None:
        table, rows = joined(table, later_rows(table, validation))
        trained: Range = (np.zeros_like(rows), rows)
        held = (rows, table.store.lengths)
    else:
        trained = (np.zeros(table.n_series, dtype=np.int64), table.store.lengths)
    store = usable_columns(model, table.store)
    hidden = tuple(name for name in table.schema.historical_categorical if name in store.categories)
    anchor = anchor_lengths(model, store)
    problem = Problem(model, store, anchor, hidden, short, lambda: table.all_times().to_numpy(), task, begin_with)
    resolved = config.resolved(model.recipe(len(problem.windows(trained))))
    if held is None and resolved.validation_split is not None:
        rows = training_rows(model, store, resolved)
        trained, held = (np.zeros_like(rows), rows), (rows, store.lengths)
    if config.early_stopping == "auto" and (held is None or len(problem.windows(held)) == 0):
        resolved = resolved.replace(early_stopping=None)  # the recipe's has nothing to look at; a user's is refused
    state = _train(problem, resolved, trained, held, begin)
    if resolved.refit_on_all:
        state = _refit(problem, resolved, state, begin)
    if validation is not None and held is not None:
        # Whoever looks for rows that were not trained on must know of these: the table holds both.
        note_validation(state.history, table.store.lengths - np.asarray(held[0]))
    module = state.module
    assert isinstance(module, ForecastModule)
    return Forecaster(
        model=model, config=state.config, module=module, data=table, history=state.history, anchor=problem.anchor
    )


def build_module(model: Model, spec: InputSpec, loss: Loss, anchor: tuple[int, ...], seed: int) -> ForecastModule:
    """The module of a description, its weights drawn under the seed."""
    with isolated(seed, "weights"):
        spec = replace(spec, outputs=loss.outputs, anchored=bool(anchor))
        channels = spec.series if model.capabilities.multivariate else 1
        return ForecastModule(
            network=model.build(spec),
            loss=loss,
            scaler=window_scaler(model.scaler, channels),
            spec=spec,
            anchor=Anchor(anchor, model.h) if anchor else None,
        )


def anchor_lengths(model: Model, store: SeriesStore) -> tuple[int, ...]:
    """The season lengths that the model's anchor means for this table; () for none, (1,) for the last value."""
    wanted = model.anchor
    if wanted is None:
        return ()
    if wanted == "last":
        return (1,)
    if isinstance(wanted, tuple):
        too_long = [length for length in wanted if length > model.input_size]
        if too_long:
            raise DataError(
                "an anchor repeats a season of the window, so it must not be longer than "
                f"input_size={model.input_size}, but got anchor={list(wanted)}. Raise input_size to {max(wanted)}"
            )
        return wanted
    found = seasonality.detect(store.y, store.offsets, store.mask, store.freq)
    fitting = tuple(length for length in found if length <= model.input_size)
    if wanted == "seasonal" and not fitting:
        raise DataError(
            f"anchor='seasonal' needs a season that fits into input_size={model.input_size}, but the data shows "
            f"{list(found) or 'none'}. Raise input_size, give the length (anchor=[24]) or use anchor='last'"
        )
    return remembered(fitting[:2], model.input_size) if fitting else (1,)


def usable_columns(model: Model, store: SeriesStore) -> SeriesStore:
    """The store without the columns that the model cannot take; each is named in the log."""
    can = model.capabilities
    dropped: dict[str, tuple[str, ...]] = {}
    if store.future is not None and not can.future:
        dropped |= {"future": store.future_names}
        store = replace(store, future=None, future_names=())
    if store.historical is not None and not can.historical:
        dropped |= {"historical": store.historical_names}
        store = replace(store, historical=None, historical_names=())
    if store.static is not None and not can.static:
        dropped |= {"static": store.static_names}
        store = replace(store, static=None, static_names=())
    if store.categories and not can.categorical:
        dropped |= {"categorical": tuple(store.categories)}
        store = replace(store, categorical=None, static_categorical=None, categories={})
    for role, names in dropped.items():
        log.warning("%s takes no %s columns: %s is left out", model.kind, role, ", ".join(names))
    return store


def _train(problem: Problem, config: TrainingConfig, trained: Range, held: Range | None, resume: Resume) -> TrainState:
    model = problem.model
    device = resolve_device(config.device)
    precision = Precision(config.precision, device, config.loss_scale)
    loss = config.loss
    assert isinstance(loss, Loss)
    refuse_classes(loss)
    # A loss weights the rows by itself: what the training loss says about them is not what the validation's does.
    given, problem = problem, problem.weighted(loss)
    validated = problem if held is None or config.validation_loss is None else given.weighted(config.validation_loss)
    store = problem.store
    windows = problem.windows(trained)
    if len(windows) == 0:
        raise DataError(
            f"no series has a window to train on: input_size={model.input_size} and h={model.h} need "
            f"{model.input_size + model.h} rows before the validation part, but the longest series has "
            f"{int(store.lengths.max(initial=0))} rows. Shorten input_size or h, or set validation_split=None"
        )
    module = build_module(model, windows.spec(), loss, problem.anchor, config.seed)
    module.adapt_columns(*column_statistics(store, np.asarray(trained[1])))
    if problem.begin_with is not None:
        problem.begin_with(module)
    cap = None if config.steps_per_epoch in (None, "auto") else int(config.steps_per_epoch)
    placed: dict[str, Any] = {"device": device, "dtype": precision.dtype}
    sampler = _sampler(config, windows, store, cap)
    source = WindowSource(
        windows, sampler, steps_per_epoch=cap, augmentation=config.augmentation, seed=config.seed, **placed
    )
    validation_source = None if held is None else _validation_source(validated, config, held, placed)
    state = prepare(module, config, source, validation_source, precision)
    horizon = None
    if isinstance(config.curriculum, GrowingHorizon):
        curriculum = config.curriculum
        horizon = lambda: curriculum.horizon(state.step, state.total_steps, model.h)  # noqa: E731
    columns = {"future": store.future_names, "historical": store.historical_names, "static": store.static_names}
    task = problem.task(loss, config.validation_loss, config.metrics, horizon, names=store.ids, columns=columns)
    identity = lambda: _identity(problem, trained, held)  # noqa: E731
    return train(task, state, title=model.name, resume=resume, identity=identity)


def _identity(problem: Problem, trained: Range, held: Range | None) -> dict[str, Any]:
    """What must be the same for a resume: the model, the table, which rows are for what, and which series are used."""
    store = problem.store
    digest = hashlib.sha256(store.fingerprint().encode())
    for rows in (*trained, *(held or ())):
        digest.update(np.ascontiguousarray(rows, dtype=np.int64).tobytes() + b"|")
    data = {"series": len(store.ids), "rows": len(store.y), "freq": store.freq, "fingerprint": digest.hexdigest()}
    return {"data": data, "model": problem.model.to_dict(), "anchor": list(problem.anchor), "short": problem.short}


def _sampler(config: TrainingConfig, windows: Windows, store: SeriesStore, cap: int | None) -> Sampler:
    curriculum = config.curriculum
    if not isinstance(curriculum, EasySeriesFirst):
        return training_sampler(config, len(windows))
    if windows.multivariate:
        raise ConfigError(
            "EasySeriesFirst draws easy series first, but a multivariate model sees all series at once. "
            "Use GrowingHorizon"
        )
    size = effective_batch(config)
    epochs = config.max_epochs if isinstance(config.max_epochs, int) else None
    if epochs is None:
        steps = min(-(-len(windows) // size), cap or len(windows))
        epochs = max(1, -(-int(config.max_steps or 1) // steps))
    return CurriculumSampler(
        windows.boundaries,
        size,
        order=easy_first(store),
        share=lambda epoch: curriculum.series_share(epoch, epochs),
        seed=config.seed,
        drop_last=config.drop_last,
    )


def easy_first(store: SeriesStore) -> np.ndarray:
    """Series numbers from smooth to rough: mean absolute step against mean absolute deviation."""
    roughness = np.empty(len(store.ids))
    for number, (first, last) in enumerate(zip(store.offsets, store.offsets[1:], strict=False)):
        y = np.asarray(store.y[first:last], dtype=np.float64)
        spread = np.abs(y - y.mean()).mean() if len(y) else 0.0
        roughness[number] = np.abs(np.diff(y)).mean() / spread if spread > 0 and len(y) > 1 else 0.0
    return np.argsort(roughness, kind="stable")


def _validation_source(
    problem: Problem, config: TrainingConfig, held: Range, placed: dict[str, Any]
) -> WindowSource | None:
    windows = problem.windows(held)
    if len(windows) == 0:
        log.warning("no series is long enough to hold back a validation part: training without validation")
        return None
    step = max(1, -(-len(windows) // MAX_VALIDATION_WINDOWS))
    if step > 1:
        windows = problem.windows(held, step)
    return WindowSource(windows, Sequential(len(windows), max(1024, effective_batch(config))), **placed)


def _refit(problem: Problem, config: TrainingConfig, found: TrainState, resume: Resume) -> TrainState:
    """Train afresh on everything for the epochs that validation found best."""
    epochs = found.history.best_epoch or len(found.history)
    lengths = problem.store.lengths
    again = config.replace(max_epochs=epochs, validation_split=None, early_stopping=None, refit_on_all=False)
    if config.checkpoints is not None:  # a run of its own, inside the run
        again = again.replace(checkpoints=config.checkpoints.replace(directory=inside(config.checkpoints, REFIT)))
    with run_lock(config.checkpoints):  # a new run in the directory would set the refit aside, too
        state = _train(problem, again, (np.zeros_like(lengths), lengths), None, _refit_from(again, resume))
    state.history.events.insert(0, {"step": 0, "epoch": 0, "event": "refit_on_all", "epochs": epochs})
    state.config = config
    return state


def _refit_from(config: TrainingConfig, resume: Resume) -> Resume:
    """A refit goes on where it stopped, unless what `resume_with` changed makes it another one."""
    if resume.source is None or config.checkpoints is None:
        return Resume(None)
    found, _ = newest(place_of(config.checkpoints.directory))
    kept = {} if found is None else found.document["config"]
    wanted = config.replace(callbacks=()).to_dict()  # live callbacks are nothing that a file could hold
    changed = {"max_epochs", *(resume.changes or ())} - FREE
    other = any(differences(kept[name], wanted[name]) for name in changed & kept.keys())
    return Resume(None if other else "auto", finished=resume.finished and not other)


def column_statistics(store: SeriesStore, rows: np.ndarray) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Mean and spread of each numeric column over the training rows (the first `rows` of each series)."""
    means: dict[str, Tensor] = {}
    scales: dict[str, Tensor] = {}
    for name in ("future", "historical", "static"):
        block = getattr(store, name)
        if block is None:
            continue
        if name != "static":
            block = np.concatenate(
                [block[first : first + count] for first, count in zip(store.offsets[:-1], rows, strict=True)]
            )
        mean, deviation = block.mean(axis=0, dtype=np.float64), block.std(axis=0, dtype=np.float64)
        means[name] = torch.from_numpy(mean.astype(np.float32))
        scales[name] = torch.from_numpy(np.where(deviation > 1e-12, deviation, 1.0).astype(np.float32))
    return means, scales


def later_rows(table: TimeSeriesDataFrame, rows: Any, *, new_series: bool = False) -> TimeSeriesDataFrame:
    """Later rows of a table's series, read as it was; what is asked of whole series is not asked of a part of them.

    Series that the table had to drop are dropped here too, unless new series are welcome.
    """
    if isinstance(rows, TimeSeriesDataFrame):
        later = rows
    else:
        schema = table.schema.replace(min_length=None, constant="keep", all_missing="keep")
        later = TimeSeriesDataFrame.from_frame(rows, schema=schema)
    dropped = set() if new_series else set(table.report().dropped_series) & set(later.ids.tolist())
    return later.select(name for name in later.ids.tolist() if name not in dropped) if dropped else later


def joined(table: TimeSeriesDataFrame, validation: TimeSeriesDataFrame) -> tuple[TimeSeriesDataFrame, np.ndarray]:
    """Training and validation rows as one table, and how many rows of each series are training rows."""
    unknown = sorted(set(validation.ids.tolist()) - set(table.ids.tolist()))
    if unknown:
        raise DataError(f"validation must hold later rows of the training series, but has new ones: {unknown[:5]}")
    both = pl.concat([table.to_polars(), validation.to_polars()], how="vertical_relaxed")
    return read_again(both, table), table.store.lengths


def read_again(rows: pl.DataFrame, table: TimeSeriesDataFrame) -> TimeSeriesDataFrame:
    """Rows of tables that were read already as one table like one of them.

    They were repaired when they were read: what is still empty was masked, and no policy is asked a second time.
    """
    done: dict[str, Any] = {"missing": "mask", "constant": "keep", "all_missing": "keep", "min_length": None}
    whole = TimeSeriesDataFrame.from_frame(rows, schema=table.schema.replace(**done))
    whole.schema = whole.schema.replace(**{name: getattr(table.schema, name) for name in done})
    whole.library = table.library
    return whole
