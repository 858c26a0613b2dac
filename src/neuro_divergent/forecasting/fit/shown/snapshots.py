"""`nd.ForecastSnapshots`: forecasts of held-out windows after validations, written into the run directory.

Letters: N windows, L lookback, H horizon, P probability levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.json import dump_json, to_plain
from neuro_divergent.core.registry import closest
from neuro_divergent.core.runs.names import SNAPSHOTS, is_remote, snapshot_name, snapshot_of
from neuro_divergent.data.time import seasonality
from neuro_divergent.forecasting.fit.shown.about import FORECASTING, naive_season
from neuro_divergent.forecasting.network.anchor import Anchor
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.losses import Loss
from neuro_divergent.losses.distribution import Distributional
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings
from neuro_divergent.training.callbacks.tensorboard import SNAPSHOT
from neuro_divergent.training.runs.checkpoint_store import place_of

if TYPE_CHECKING:
    from neuro_divergent.forecasting.fit.run import Run
    from neuro_divergent.training.state.state import TrainState

Doubles = npt.NDArray[np.float64]

FORMAT = 1
PAST = 3
"""Rows of the past that are shown, in horizons."""
MOST_RANKED = 5
"""Number of worst and of best series that are named."""


class ForecastSnapshots(CallbackSettings):
    """Writes forecasts of held-out windows after validations, beside the truth and the seasonal naive forecast.

    The run directory gets a file per validation: forecast and intervals of the last held-out window of some series, the
    error by step ahead, the worst and the best series. The dashboard shows them. Without checkpoints there is no run
    directory, and nothing is written.
    """

    series: tuple[str, ...] | Annotated[int, Field(ge=1, le=100)] = 6
    """The series to show, by name; a number takes the first ones. The worst and the best series are added."""
    every: Annotated[int, Field(ge=1)] = 1
    """Write after every n-th validation, and after the last one."""
    level: tuple[Annotated[float, Field(gt=0.0, lt=100.0)], ...] | Literal["auto"] = "auto"
    """Intervals in percent, for losses that have any; "auto" shows those of 80 and 95 % that the loss has learned."""
    keep: Annotated[int, Field(ge=2)] = 100
    """How many files are kept. Older ones are thinned out; the first and the newest stay."""

    def build(self) -> Callback:
        """The live callback."""
        return _Snapshots(self)


class _Snapshots(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, settings: ForecastSnapshots) -> None:
        self.settings = settings
        self._validations = 0
        self._season = 1
        self._level: tuple[float, ...] = ()

    def on_fit_start(self, state: TrainState) -> None:
        run = state.shared.get(FORECASTING)
        if run is None:
            raise ConfigError(
                "ForecastSnapshots forecasts held-out windows of a table, but this training has no table. Use it with "
                "model.fit, not with a Trainer on arrays"
            )
        store = run.problem.store
        self._shown = _numbers(self.settings.series, [str(name) for name in store.ids])
        assert isinstance(state.module, ForecastModule)
        self._level = _levels(self.settings.level, state.module.loss)
        seasons = seasonality.detect(store.y, store.offsets, store.mask, store.freq, rows=run.problem.rows)
        self._season = naive_season(seasons, run.problem.model.input_size)

    def on_validation_end(self, state: TrainState) -> None:
        self._validations += 1
        last = state.step >= state.total_steps
        if state.validation_source is None or (self._validations % self.settings.every and not last):
            return
        run: Run = state.shared[FORECASTING]
        found = snapshot(run, state, self._shown, self._season, self._level)
        state.shared[SNAPSHOT] = found
        self._write(state, found)

    def _write(self, state: TrainState, found: dict[str, Any]) -> None:
        checkpoints = state.config.checkpoints
        if checkpoints is None:
            return
        name = f"{SNAPSHOTS}/{snapshot_name(found['epoch'])}"
        place = place_of(checkpoints.directory)
        place.write_text(name, dump_json(to_plain(found), name, indent=None).decode() + "\n")
        if not is_remote(checkpoints.directory) and state.run_directory is not None:
            folder = state.run_directory / SNAPSHOTS
            known = sorted(path for path in folder.iterdir() if snapshot_of(path.name) >= 0)
            if len(known) > self.settings.keep:
                known[1 + (len(known) - 3) // 2].unlink(missing_ok=True)

    def state_dict(self) -> dict[str, Any]:
        return {"validations": self._validations}

    def load_state_dict(self, data: dict[str, Any]) -> None:
        self._validations = int(data.get("validations", 0))


def _numbers(wanted: tuple[str, ...] | int, names: list[str]) -> list[int]:
    if isinstance(wanted, int):
        return list(range(min(wanted, len(names))))
    unknown = [name for name in wanted if name not in names]
    if unknown:
        near = closest(unknown[0], names)
        hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"The first ones are {', '.join(names[:5])}"
        raise ConfigError(f"series must be names of the table, but got {unknown[0]!r}. {hint}")
    return [names.index(name) for name in wanted]


def _levels(wanted: tuple[float, ...] | str, loss: Loss) -> tuple[float, ...]:
    """The intervals to show; ConfigError if the loss has not learned one of them."""
    if not loss.probabilistic:
        return ()
    bounded = bool(loss.levels) and not isinstance(loss, Distributional)  # a distribution has every quantile
    lowest, highest = (min(loss.levels), max(loss.levels)) if bounded else (0.0, 1.0)
    learned = [
        level
        for level in (wanted if isinstance(wanted, tuple) else (80.0, 95.0))
        if lowest - 1e-6 <= (1 - level / 100) / 2 and (1 + level / 100) / 2 <= highest + 1e-6
    ]
    if isinstance(wanted, tuple) and len(learned) < len(wanted):
        missing = next(level for level in wanted if level not in learned)
        raise ConfigError(
            f"ForecastSnapshots shows intervals that the loss has learned, but {loss.kind} has quantiles from "
            f"{lowest:g} to {highest:g}, and got level={missing:g}. Train with MQLoss(level=[{missing:g}]), or leave "
            "level out"
        )
    return tuple(learned)


class _Windows:
    """The held-out windows and their forecasts in original units; a window of several channels counts for each."""

    def __init__(self, parts: list[dict[str, Any]]) -> None:
        self.series, self.time, self.past, self.truth, self.point, self.naive, self.bands = (
            np.concatenate([part[name] for part in parts])
            for name in ("series", "time", "past", "truth", "point", "naive", "bands")
        )

    @property
    def errors(self) -> Doubles:
        """[N, H] absolute errors; NaN where the truth is missing."""
        return np.asarray(np.abs(self.truth - self.point))

    @property
    def naive_errors(self) -> Doubles:
        """[N, H] absolute errors of the seasonal naive forecast."""
        return np.asarray(np.abs(self.truth - self.naive))


def snapshot(run: Run, state: TrainState, shown: Sequence[int], season: int, level: Sequence[float]) -> dict[str, Any]:
    """The forecasts of the held-out windows with the present weights, as plain data."""
    windows = _forecast(run, state, season, level)
    own, naive = _by_series(windows, windows.errors), _by_series(windows, windows.naive_errors)
    names = [str(name) for name in run.problem.store.ids]
    order = sorted(
        (number for number in own if math.isfinite(own[number])), key=lambda number: -_relative(own, naive, number)
    )
    ranked = [{"id": names[number], "error": own[number], "naive_error": naive.get(number)} for number in order]
    some = list(dict.fromkeys([*shown, *order[:2], *order[-1:]]))
    return {
        "schema": FORMAT,
        "model": run.problem.model.name,
        "epoch": state.epoch + 1,
        "step": state.step,
        "h": run.problem.model.h,
        "season": season,
        "windows": len(windows.series),
        "error": _mean(windows.errors),
        "naive_error": _mean(windows.naive_errors),
        "by_step": {"model": _columns(windows.errors), "naive": _columns(windows.naive_errors)},
        "worst": ranked[:MOST_RANKED],
        "best": ranked[: -MOST_RANKED - 1 : -1],
        "series": [_series(run, windows, number, level) for number in some if (windows.series == number).any()],
    }


def _relative(own: dict[int, float], naive: dict[int, float], number: int) -> float:
    """The error as a share of the naive one, so that large series are not the worst ones because they are large."""
    other = naive.get(number, math.nan)
    return own[number] / other if other > 0 else own[number]


def _forecast(run: Run, state: TrainState, season: int, level: Sequence[float]) -> _Windows:
    module, source = state.module, state.validation_source
    assert isinstance(module, ForecastModule)
    assert source is not None
    anchor = Anchor((season,), module.spec.horizon)
    training, averaged = module.training, state.averager.swap() if state.averager is not None else nullcontext()
    module.eval()
    # A network may draw random numbers: the training must not notice it.
    with torch.random.fork_rng(devices=[]), averaged, torch.no_grad(), state.precision.autocast():
        torch.default_generator.manual_seed(0)
        parts = [_part(run, module, source.batch(0, step), anchor, level) for step in range(source.steps_per_epoch)]
    module.train(training)
    return _Windows(parts)


def _part(run: Run, module: ForecastModule, batch: Batch, anchor: Anchor, level: Sequence[float]) -> dict[str, Any]:
    assert batch.target is not None
    assert batch.series is not None
    assert batch.time is not None
    output = module(batch)
    loss, channels = module.loss, batch.y.shape[2]
    point = loss.point(output)
    found = {"point": point, "naive": anchor(batch.y, batch.mask), "truth": _seen(batch.target, batch.target_mask)}
    found["past"] = _seen(batch.y, batch.mask)
    series = batch.series.repeat(batch.size) if channels > 1 else batch.series
    number = np.asarray(series.cpu(), dtype=np.int64)
    flat = {name: _flat(values, number, run) for name, values in found.items()}
    return {
        **flat,
        "series": number,
        "time": np.asarray(batch.time.cpu(), dtype=np.int64).repeat(channels),
        "bands": _bands(loss, output, level, number, run),
    }


def _bands(loss: Any, output: torch.Tensor, level: Sequence[float], number: Any, run: Run) -> Doubles:
    """[N, 2 · levels, H] lower and upper bounds of the intervals; none for a loss that forecasts a point."""
    shape = (len(number), 0, output.shape[1])
    if not loss.probabilistic:
        return np.zeros(shape)
    wanted = [side for percent in level for side in ((1 - percent / 100) / 2, (1 + percent / 100) / 2)]
    found = loss.quantiles(output, output.new_tensor(wanted))  # [B, H, C, P]
    return np.stack([_flat(found[..., place], number, run) for place in range(len(wanted))], axis=1)


def _seen(values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return values if mask is None else torch.where(mask.bool(), values, torch.nan)


def _flat(values: torch.Tensor, series: Any, run: Run) -> Doubles:
    """[B, T, C] → [B · C, T] in the units of the user's table."""
    flat = np.asarray(values.movedim(2, 1).reshape(len(series), -1).double().cpu())
    return flat if run.local is None else np.asarray(run.local.of(run.table).inverse(flat, series), dtype=np.float64)


def _by_series(windows: _Windows, errors: Doubles) -> dict[int, float]:
    numbers, places = np.unique(windows.series, return_inverse=True)
    finite = np.isfinite(errors)
    count = np.bincount(places, finite.sum(axis=1), len(numbers))
    total = np.bincount(places, np.where(finite, errors, 0.0).sum(axis=1), len(numbers))
    return {
        int(number): float(own / many) if many else math.nan
        for number, own, many in zip(numbers, total, count, strict=True)
    }


def _mean(values: Doubles) -> float | None:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def _columns(values: Doubles) -> list[float | None]:
    return [_mean(values[:, step]) for step in range(values.shape[1])]


def _series(run: Run, windows: _Windows, number: int, level: Sequence[float]) -> dict[str, Any]:
    """The last held-out window of a series."""
    own = np.flatnonzero(windows.series == number)
    place = own[int(windows.time[own].argmax())]
    h, begin = run.problem.model.h, int(windows.time[place])
    past = windows.past[place][-PAST * h :]
    past = past[max(0, len(past) - begin) :]  # what stands before the first row is padding
    times = run.table.times(number, begin - len(past), len(past) + h)
    bands = windows.bands[place]
    return {
        "id": str(run.problem.store.ids[number]),
        "times": [str(time) for time in times[len(past) :]],
        "history_times": [str(time) for time in times[: len(past)]],
        "history": _figures(past),
        "actual": _figures(windows.truth[place]),
        "forecast": _figures(windows.point[place]),
        "naive": _figures(windows.naive[place]),
        "intervals": {
            f"{percent:g}": [_figures(bands[2 * at]), _figures(bands[2 * at + 1])]
            for at, percent in enumerate(level if len(bands) else ())
        },
        "error": _mean(windows.errors[own]),
        "naive_error": _mean(windows.naive_errors[own]),
    }


def _figures(values: Doubles) -> list[float | None]:
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
