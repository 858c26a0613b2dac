"""Trains one member of a portfolio in a directory, inside its share of the time. It runs in any process.

The directory has what a killed training needs to go on exactly: the model, its number of steps, and a checkpoint.

Letters: N windows, H steps, K columns of a forecast.
"""

from __future__ import annotations

import importlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from neuro_divergent.core import files
from neuro_divergent.core.errors import DataError, NeuroDivergentError, first_line
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import plain_bytes
from neuro_divergent.core.runs.names import (
    AUTO,
    AUTO_TABLE,
    CHECKPOINTS,
    FINAL,
    HELD_OUT_FORECASTS,
    MEMBER,
    MEMBERS,
    MODEL,
    OUTCOME,
    step_name,
    step_of,
    trial_name,
)
from neuro_divergent.forecasting.fit.continue_training import refit_on, shown
from neuro_divergent.forecasting.fit.job import Job, read_table
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.output_columns import point_column
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.historical import Origins
from neuro_divergent.forecasting.storage.save_load import load
from neuro_divergent.search.auto.budget import LEAST_STEPS, MARGIN, measure
from neuro_divergent.search.auto.held_out import HeldOut
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume

Floats = npt.NDArray[np.float64]

SECONDS_PER_SLICE = 0.5
CHECKPOINT_SECONDS = 10.0
TIME_IS_UP = "the time of this model was used up"
NOT_BEGUN = "there was no time left for it"


@dataclass(frozen=True)
class Wanted:
    """A model of a portfolio, and how it is trained."""

    model: Model
    config: TrainingConfig
    name: str
    source: str = "portfolio"
    """Where it comes from: portfolio, search, or given."""
    point: dict[str, Any] | None = None
    """The point of the search space, for a model of the search."""

    def to_dict(self) -> dict[str, Any]:
        """The model and the training as plain data."""
        own = {"name": self.name, "source": self.source, "point": self.point}
        return own | {"model": self.model.to_dict(), "config": self.config.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Wanted:
        """The result of `to_dict` as an object."""
        own = {name: data[name] for name in ("name", "source", "point")}
        return cls(Model.from_dict(data["model"]), TrainingConfig.from_dict(data["config"]), **own)


@dataclass
class Outcome:
    """What became of a training."""

    seconds: float = 0.0
    steps: int = 0
    total_steps: int = 0
    step_seconds: float = 0.0
    stopped: str = ""
    parameters: int = 0
    error: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, place: Path) -> Outcome | None:
        """The outcome in a member's directory; None if it has not ended."""
        return cls(**_document(place / OUTCOME)) if (place / OUTCOME).exists() else None


def place_of(directory: Path, number: int) -> Path:
    """The directory of a member."""
    return directory / MEMBERS / trial_name(number)


_HELD: dict[str, HeldOut] = {}


def held_out_of(directory: Path) -> HeldOut:
    """The table in a directory, with its held-out rows. This process keeps the last one."""
    key = str(directory)
    if key not in _HELD:
        _HELD.clear()
        document = _document(directory / AUTO)
        _HELD[key] = HeldOut.from_facts(document["held_out"], read_table(directory / AUTO_TABLE, document["table"]))
    return _HELD[key]


def forget(directory: Path) -> None:
    """Drop the table of a directory, which is closed or deleted."""
    _HELD.pop(str(directory), None)


def _document(path: Path) -> dict[str, Any]:
    found = parse_json(plain_bytes(path, MAX_JSON_BYTES), path.name)
    assert isinstance(found, dict)
    return found


def ready() -> str:
    """Do nothing: when this is done, the process has imported what the work needs."""
    return ""


def work(directory: str, text: str) -> str:
    """Train a member in a directory, as a JSON document says, and return its outcome as JSON."""
    order = json.loads(text)
    for module in order.get("modules", ()):  # those of the user's own models register themselves
        importlib.import_module(module)
    begun, place = time.perf_counter(), place_of(Path(directory), order["number"])
    wanted = Wanted.from_dict(_document(place / MEMBER)["wanted"])
    try:
        with quietly():
            outcome = train(held_out_of(Path(directory)), place, wanted, float(order["seconds"]), begun)
    except Exception as error:  # another model may do better: this one is left out
        ours = isinstance(error, NeuroDivergentError)
        sentence = first_line(error) if ours else f"{type(error).__name__}: {first_line(error)}"
        outcome = Outcome(seconds=time.perf_counter() - begun, error=sentence)
    files.write_json(place / OUTCOME, outcome.__dict__)
    return json.dumps(outcome.__dict__)


def final(directory: str, text: str) -> str:
    """Train a member on all rows from its present weights, as a JSON document says; return its seconds as JSON."""
    order = json.loads(text)
    for module in order.get("modules", ()):
        importlib.import_module(module)
    begun, place = time.perf_counter(), place_of(Path(directory), order["number"])
    with quietly():
        found = load(place / MODEL)
        assert isinstance(found, Forecaster)
        table = held_out_of(Path(directory)).table
        fitted = refit_on(found, table, most_steps=order["steps"]) if order["steps"] else shown(found, table)
        fitted.save(place / FINAL, overwrite=True)
    return json.dumps({"seconds": time.perf_counter() - begun})


def train(held: HeldOut, place: Path, wanted: Wanted, seconds: float, begun: float) -> Outcome:
    """Train a member without the held-out rows, forecast these, and write all of it to its directory."""
    spent = float(_document(place / MEMBER).get("spent", 0.0))
    reserve = min(0.15 * seconds, 5.0)  # to forecast the held-out windows and to save
    deadline = begun + seconds - reserve
    run, step = _prepared(held, place, wanted, deadline, seconds - reserve)
    try:
        in_time = _advance(run, place, deadline, begun, spent)
        state = run.training.state
        if not in_time:
            state.stop(TIME_IS_UP)
        if not state.history.stopped:
            run.training.finish()
        fitted = run.forecaster()
    finally:
        run.close()
    first, last = held.selection, held.final
    level = tuple(_document(place.parent.parent / AUTO)["level"])
    arrays = {"selection": forecasts_at(fitted, first, level), "final": forecasts_at(fitted, last, level)}
    fitted.save(place / MODEL, overwrite=True)
    files.write_bytes(place / HELD_OUT_FORECASTS, safetensors.numpy.save(arrays))
    files.remove_directory(place / CHECKPOINTS)
    return Outcome(
        seconds=spent + time.perf_counter() - begun,
        steps=state.step,
        total_steps=state.total_steps,
        step_seconds=step,
        stopped=state.history.stopped,
        parameters=fitted.num_parameters,
    )


def forecasts_at(fitted: Forecaster, origins: Origins, level: Sequence[float]) -> Floats:
    """[N, H, K] the forecasts of a model at some windows: the point, and bounds of intervals if levels are given."""
    columns = fitted.columns(list(level)) if level else point_column(fitted.model.name)
    return np.ascontiguousarray(origins.forecasts(fitted, columns))


def _prepared(held: HeldOut, place: Path, wanted: Wanted, deadline: float, seconds: float) -> tuple[Run, float]:
    """The run of a member, begun or resumed, with as many steps as fit; and the seconds of a step."""
    known = _document(place / MEMBER)
    config = wanted.config.replace(progress=False, compile=False, checkpoints=None)
    if "step_seconds" in known:
        if known["shortened"] is not None:
            config = _limited(config, *known["shortened"])
        return _begun(held, place, wanted, config), float(known["step_seconds"])
    run = _begun(held, place, wanted, config)
    pace = measure(run, seconds)
    total, left = run.training.state.total_steps, deadline - time.perf_counter()
    done = run.training.state.step
    shortened: tuple[int, int] | None = None
    if pace.steps_in(left) < total - done:
        shortened = steps, _ = pace.shortened(left)
        run.close()
        if steps < LEAST_STEPS:
            raise DataError(
                f"{LEAST_STEPS} steps of {wanted.name} take about {MARGIN * LEAST_STEPS * pace.step:.1f} s, but "
                f"{max(0.0, left):.1f} s were left for it"
            )
        run = _begun(held, place, wanted, _limited(config, *shortened))
    files.write_json(place / MEMBER, known | {"shortened": shortened, "step_seconds": pace.step})
    return run, pace.step


def _limited(config: TrainingConfig, steps: int, per_epoch: int) -> TrainingConfig:
    return config.replace(max_steps=steps, max_epochs=None, steps_per_epoch=per_epoch)


def _begun(held: HeldOut, place: Path, wanted: Wanted, config: TrainingConfig) -> Run:
    saved = any(step_of(name) >= 0 for name in files.names(place / CHECKPOINTS))
    resume = Resume(str(place), own=True) if saved else Resume()
    job = Job(wanted.model, held.past, config, validation=held.validation, short="pad", resume=resume, may_refit=False)
    run = prepare(job)
    if saved:
        run.training.begin()  # restores the state
    return run


def _advance(run: Run, place: Path, deadline: float, begun: float, spent: float) -> bool:
    """Train to the last step, with a checkpoint now and then; False if the time was up before."""
    state, saved, size = run.training.state, time.perf_counter(), 1
    while not (state.stopping or state.history.stopped or state.step >= state.total_steps):
        now = time.perf_counter()
        if now >= deadline:
            return False
        before = state.step
        run.advance(min(state.total_steps, before + size))
        if state.step == before:
            break
        after = time.perf_counter()
        slice_seconds = min(SECONDS_PER_SLICE, max(0.02, (deadline - after) / 4))
        size = max(1, min(2 * size, int((state.step - before) * slice_seconds / max(after - now, 1e-6))))
        if after - saved >= CHECKPOINT_SECONDS and state.step < state.total_steps:
            _save(run, place, spent + after - begun)
            saved = time.perf_counter()
    return True


def _save(run: Run, place: Path, spent: float) -> None:
    """Write a checkpoint, then delete the older ones."""
    name = step_name(run.training.state.step)
    run.save_checkpoint(place / CHECKPOINTS / name)
    files.write_json(place / MEMBER, _document(place / MEMBER) | {"spent": spent})
    for other in files.names(place / CHECKPOINTS):
        if step_of(other) >= 0 and other != name:
            files.remove_directory(place / CHECKPOINTS / other)


@contextmanager
def quietly() -> Iterator[None]:
    """Context in which trainings log no warnings: columns that a model does not take are expected in a portfolio."""
    logger = logging.getLogger("neuro_divergent")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
