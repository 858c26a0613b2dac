"""Train any torch module on arrays, frames, a DataLoader or a source: in one call, or epoch by epoch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import ConfigError, NotFittedError, StorageError, TrainingError
from neuro_divergent.data.windows.samplers import Sequential
from neuro_divergent.losses import Loss
from neuro_divergent.optim import to_eval, to_train
from neuro_divergent.training.arrays import ArraySource, ArrayTask, Rows, as_inputs, as_rows, output_of, split_rows
from neuro_divergent.training.config.rules import check_arrays
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.loader_source import LoaderSource, as_pair, check_loader, is_loader
from neuro_divergent.training.own_source import PlacedSource, check_own_source, is_source, source_identity
from neuro_divergent.training.runs.resume import Resume, found_at
from neuro_divergent.training.runs.snapshot import returned_weights
from neuro_divergent.training.state.history import History
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.state.task import Source
from neuro_divergent.training.step.validation import validate
from neuro_divergent.training.supervised_module import built, reference_of, train_in_process
from neuro_divergent.training.trainer import (
    effective_batch,
    module_identity,
    prepare,
    rows_identity,
    steps_cap,
    training_sampler,
)
from neuro_divergent.training.training_run import TrainingRun

ROWS_AT_ONCE = 1024
"""How many rows a validation or a forecast computes at once."""


class Trainer:
    """Trains any torch module on plain arrays, frames or a DataLoader.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    >>> trainer = Trainer(TrainingConfig(max_epochs=2, validation_split=None, progress=False))
    >>> history = trainer.fit(nn.Linear(1, 1), (x, 3 * x + 1))
    >>> len(history), trainer.predict(x).shape
    (2, torch.Size([64, 1]))

    Epoch by epoch, with one's own code in between:

    >>> module, data, trainer = nn.Linear(1, 1), (x, 3 * x + 1), Trainer(trainer.config)
    >>> while not trainer.done:
    ...     figures = trainer.train_epoch(module, data)
    """

    def __init__(self, config: TrainingConfig | None = None) -> None:
        self.config = config or TrainingConfig()
        self.run: TrainingRun | None = None
        """The training that was prepared last; its `state` has the module, the optimizer and the history."""
        self._given: tuple[Any, Any] = (None, None)

    def fit(
        self,
        module: nn.Module | Callable[[], nn.Module],
        data: Any,
        *,
        validation: Any = None,
        resume: str | os.PathLike[str] | None = None,
        resume_with: Mapping[str, Any] | None = None,
    ) -> History:
        """Train the module in place and give the history.

        Args:
            module: any module whose forward takes a batch of x; or a function of an importable Python module that
                builds it, which `fault_tolerance=FaultTolerance(retries=...)` needs to build it in another process
                (the trained module is `trainer.module` then).
            data: (x, y) or (x, y, weight): numpy arrays, tensors, pandas or polars frames, or lists with rows first; x
                may be a dict of them, given to forward by name. Or a DataLoader, whose order of batches is its own. Or
                a `Source` of numbered batches.
            validation: held-out data in any of these forms; without it the last `validation_split` of the rows is held
                out (of a DataLoader or a source nothing is).
            resume: "auto" goes on from the newest checkpoint of the run's directory, or starts if there is none; a path
                goes on from that run or checkpoint.
            resume_with: fields of the configuration that are changed on purpose, such as {"max_epochs": 50}.
        """
        tolerance = self.config.fault_tolerance
        if tolerance is not None and tolerance.retries > 0:
            reference = reference_of(module)
            done = train_in_process(reference, self.config, data, validation, Resume(resume, resume_with))
            alone = self.config.replace(fault_tolerance=tolerance.replace(retries=0))
            return self._prepared(module, data, validation, done, alone).complete().history
        run = self.prepare(module, data, validation=validation, resume=resume, resume_with=resume_with)
        return run.complete().history

    def resume_training(
        self, module: nn.Module, data: Any, path: str | os.PathLike[str], *, validation: Any = None, **changes: Any
    ) -> History:
        """Go on from a run or a checkpoint; `changes` are fields of the configuration, such as max_epochs=50."""
        return self.fit(module, data, validation=validation, resume=path, resume_with=changes or None)

    def prepare(
        self,
        module: nn.Module | Callable[[], nn.Module],
        data: Any,
        *,
        validation: Any = None,
        resume: str | os.PathLike[str] | None = None,
        resume_with: Mapping[str, Any] | None = None,
    ) -> TrainingRun:
        """Everything before the first step: a run to advance, save and finish; the arguments are those of `fit`."""
        return self._prepared(module, data, validation, Resume(resume, resume_with), self.config)

    def _prepared(self, module: Any, data: Any, validation: Any, begin: Resume, config: TrainingConfig) -> TrainingRun:
        given = (module, data)
        config = begin.applied(config)
        if is_source(data) or is_loader(data):  # both decide by themselves how rows become batches
            check_own_source(config) if is_source(data) else check_loader(config)
            config = config.replace(validation_split=None)
        config = config.resolved()
        check_arrays(config)
        if not isinstance(module, nn.Module):
            module = built(module, config.seed)
        loss = config.loss
        assert isinstance(loss, Loss)
        precision = Precision(config.precision, resolve_device(config.device), config.loss_scale)
        parts: dict[str, Rows | None] = {}
        own = {
            name: source_identity(given)
            for name, given in (("training", data), ("validation", validation))
            if is_source(given)
        }
        source, held = self._sources(config, data, validation, precision, parts)
        described = module_identity(module)  # as it was given: the engine may wrap parts of it
        state = prepare(module, config, source, held, precision)
        if held is None and config.metrics:
            state.scored = self._training_rows(config, data, loss, precision, parts)
        task = ArrayTask(loss, config.validation_loss, config.metrics, weights=precision.weights_dtype)

        def identity() -> dict[str, Any]:
            return {"data": rows_identity(parts) | own, "module": described}

        self.run, self._given = TrainingRun(task, state, resume=begin, identity=identity), given
        return self.run

    def _sources(
        self,
        config: TrainingConfig,
        data: Any,
        validation: Any,
        precision: Precision,
        parts: dict[str, Rows | None],
    ) -> tuple[Source, Source | None]:
        """What is trained on and what is validated on; `parts` is told the rows of both, as far as they are known."""
        loss = config.loss
        assert isinstance(loss, Loss)
        held = None if validation is None else _source_of(validation, config, loss, precision, parts)
        placed = (loss, precision.device, precision.dtype)
        if is_source(data):
            return PlacedSource(data, *placed, steps_per_epoch=steps_cap(config)), held
        if is_loader(data):
            return LoaderSource(data, *placed, seed=config.seed, steps_per_epoch=steps_cap(config)), held
        rows = as_rows(data, *placed)
        if validation is None and isinstance(config.validation_split, float):
            rows, last = split_rows(rows, config.validation_split)
            held = _in_order(last, config)
            parts["validation"] = last
        parts["training"] = rows
        parts.setdefault("validation", None)
        sampler = training_sampler(config, rows.size)
        return ArraySource(rows, sampler, steps_cap(config), reuse=config.num_workers == 0), held

    def _training_rows(
        self, config: TrainingConfig, data: Any, loss: Loss, precision: Precision, parts: dict[str, Rows | None]
    ) -> Source:
        """The training rows in their own order, for metrics."""
        rows = parts.get("training")
        return _source_of(data, config, loss, precision, {}) if rows is None else _in_order(rows, config)

    @property
    def module(self) -> nn.Module:
        """The module that is trained."""
        return self._current().state.module

    @property
    def history(self) -> History:
        """What happened so far."""
        return self._current().state.history

    @property
    def done(self) -> bool:
        """Whether a training was prepared and has no epoch left: all are done, or it was stopped early."""
        if self.run is None:
            return False
        state = self.run.state
        return state.step >= state.total_steps or bool(state.stopping or state.history.stopped)

    def train_epoch(self, module: Any = None, data: Any = None, *, validation: Any = None) -> dict[str, float]:
        """Train one more epoch and return its record: train_loss, learning_rate, validation_loss, metrics, ...

        The first call prepares the training, as `fit` does; later ones go on with it (schedule, optimizer, early
        stopping), whatever is done in between. `finish()` gives the module its best weights.
        """
        fresh = self.run is None or self.run.state.history.stopped
        if fresh and module is None:
            raise NotFittedError("the first train_epoch needs the module and the data: train_epoch(module, data)")
        if fresh:
            self.prepare(module, data, validation=validation)
        elif (module is not None and module is not self._given[0]) or (data is not None and not self._knows(data)):
            raise ConfigError(
                "train_epoch goes on with the module and the arrays of its first call, but got others. Call it without "
                "arguments, or begin anew with prepare(module, data)"
            )
        run = self._current()
        state = run.state
        if self.done:
            why = state.stopping or f"all {len(state.history)} epochs are done"
            raise TrainingError(f"there is no epoch left to train: {why}. Call finish(), or raise max_epochs")
        run.advance((state.epoch + 1) * state.steps_per_epoch)
        return dict(state.history.epochs[-1])

    def validate_epoch(self, module: Any = None, data: Any = None) -> dict[str, float]:
        """Score the held-out rows, or the given ones, with the weights as they are: validation_loss and the metrics.

        Args:
            module: the module that is trained, which may be left out: `validate_epoch(data)`. Before a training, any
                module.
            data: the rows; None for the held-out ones.
        """
        if module is not None and not isinstance(module, nn.Module):
            module, data = None, module if data is None else data
        if module is not None and data is not None and self.run is None:
            apart = Trainer(self.config.unsaved())  # a training that begins later may have other rows
            apart.prepare(module, data)
            return apart.validate_epoch(data)
        run = self._current()
        if module is not None and module is not self._given[0]:
            raise ConfigError(
                "validate_epoch scores the module that is trained, but got another one. Leave it out, or use a Trainer "
                "of its own"
            )
        state = run.state
        source = state.validation_source
        if data is not None:
            assert isinstance(state.config.loss, Loss)
            source = _source_of(data, state.config, state.config.loss, state.precision, {})
        if source is None:
            raise ConfigError("nothing is held out. Give the rows: validate_epoch((x, y)), or set validation_split")
        training, generator = state.module.training, torch.get_rng_state()
        to_eval(state.optimizer)
        try:
            figures = validate(run.task, state, source)
        finally:
            if not state.history.stopped:  # what is finished stays as it is to be used
                to_train(state.optimizer)
            state.module.train(training)
            torch.set_rng_state(generator)
        return figures or {}

    def finish(self) -> History:
        """End a training of single epochs: the last checkpoint, the best weights for the module, the last hooks."""
        return self._current().finish().history

    def predict(self, x: Any, rows: Any = None, *, module: nn.Module | None = None) -> Tensor:
        """The module's outputs for rows (for classes: their logits), computed in evaluation mode, on the CPU.

        Args:
            x: as in `fit`: an array, a frame, a dict of arrays, or a DataLoader of which only the inputs are used. Or
                the module, and the rows after it: `predict(module, x)`.
            rows: the rows, if the module came first.
            module: instead of the trained one.
        """
        if isinstance(x, nn.Module):
            x, module = rows, x
        used = self.module if module is None else module
        config = self.config.resolved()
        precision = Precision(config.precision, resolve_device(config.device), config.loss_scale)
        training = used.training
        used.eval()
        try:
            with torch.no_grad(), precision.autocast():
                parts = _input_parts(x, precision)
                found = [output_of(used, part, precision.weights_dtype).float().cpu() for part in parts]
        finally:
            used.train(training)
        return torch.cat(found)

    def save_checkpoint(self, path: str | os.PathLike[str]) -> Path | str:
        """Write the training as it is now to a directory and return it; see `TrainingRun.save_checkpoint`."""
        return self._current().save_checkpoint(path)

    def load_checkpoint(self, path: str | os.PathLike[str], module: nn.Module | None = None) -> Trainer:
        """Go back to a checkpoint with the prepared training; or give its weights to a module.

        Args:
            path: a checkpoint, or a run of which the newest one is taken.
            module: is given the weights that the training would have returned there; None goes on with the training.
        """
        if module is None:
            self._current().load_checkpoint(path)
            return self
        try:
            module.load_state_dict(returned_weights(found_at(path)))
        except RuntimeError as error:
            raise StorageError(f"the weights of {path} are those of another module: {error}") from None
        return self

    def _knows(self, data: Any) -> bool:
        """Whether data are the very arrays of the first call: `(x, y)` is a new tuple in every call."""
        known = self._given[1]
        both = isinstance(data, tuple | list) and isinstance(known, tuple | list) and len(data) == len(known)
        return data is known or (both and all(a is b for a, b in zip(data, known, strict=True)))

    def _current(self) -> TrainingRun:
        if self.run is None:
            raise NotFittedError(
                "there is no training yet. Call fit, prepare or train_epoch with a module and data first"
            )
        return self.run


def _in_order(rows: Rows, config: TrainingConfig) -> ArraySource:
    return ArraySource(rows, Sequential(n=rows.size, batch_size=max(ROWS_AT_ONCE, effective_batch(config))))


def _source_of(
    data: Any, config: TrainingConfig, loss: Loss, precision: Precision, parts: dict[str, Rows | None]
) -> Source:
    if is_source(data):
        return PlacedSource(data, loss, precision.device, precision.dtype)
    if is_loader(data):
        return LoaderSource(data, loss, precision.device, precision.dtype, seed=config.seed)
    rows = as_rows(data, loss, precision.device, precision.dtype)
    parts["validation"] = rows
    return _in_order(rows, config)


def _input_parts(x: Any, precision: Precision) -> Iterable[Any]:
    """The inputs in pieces that are computed at once."""
    if is_loader(x):
        for item in x:
            pair = as_pair(item)
            yield as_inputs(pair[0] if isinstance(pair, tuple | list) else pair, precision.device, precision.dtype)
        return
    inputs = as_inputs(x, precision.device, precision.dtype)
    tensors = list(inputs.values()) if isinstance(inputs, dict) else [inputs]
    for first in range(0, tensors[0].shape[0], ROWS_AT_ONCE):
        last = first + ROWS_AT_ONCE
        yield {k: v[first:last] for k, v in inputs.items()} if isinstance(inputs, dict) else inputs[first:last]
