"""The conformance suite of window scalers and series scalers.

Letters: B windows, L lookback, C channels, Q outputs, S series, N rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from neuro_divergent.conformance.suite import Suite, require
from neuro_divergent.core.seeding import numpy_generator, torch_generator
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.data.scaling.per_window import WindowScaler, window_scaler

Scaler = WindowScaler | SeriesScaler

SCALERS: Suite[Any] = Suite("scaler", lambda cls: _examples(cls))
"""The checks of scalers; `check_scaler` runs one of them."""

B, L, C, Q = 3, 12, 2, 4


@SCALERS.check
def values_come_back(scaler: Scaler) -> None:
    """`inverse` restores the input of `transform`, for points and for several outputs per step."""
    if isinstance(scaler, SeriesScaler):
        rows = _rows()
        fitted = series_scaler(scaler).fit(rows.y, rows.offsets)
        found = fitted.inverse(fitted.transform(rows.y, rows.series), rows.series)
        require(
            np.allclose(found, rows.y, rtol=1e-6),
            f"inverse must restore the values, but {rows.y[:3]} became {found[:3]}",
        )
        return
    y = _windows()
    stats = scaler.statistics(y)
    for values in (y, y.unsqueeze(-1) + torch.arange(Q)):
        again = scaler.inverse(scaler.transform(values, stats), stats)
        worst = float((again - values).detach().abs().max())
        require(
            worst < 1e-3, f"inverse must restore values of shape {tuple(values.shape)}, but they differ by {worst:g}"
        )


@SCALERS.check
def larger_stays_larger(scaler: Scaler) -> None:
    """`inverse` keeps the order of values, so that quantiles do not cross."""
    if isinstance(scaler, SeriesScaler):
        rows = _rows()
        fitted = series_scaler(scaler).fit(rows.y, rows.offsets)
        found = fitted.inverse(np.tile(np.linspace(-1, 1, 9), (len(rows.offsets) - 1, 1)), np.arange(3))
        require(bool((np.diff(found, axis=1) >= 0).all()), "inverse must keep the order of values, but does not")
        return
    y = _windows()
    ordered = torch.linspace(-1, 1, L).reshape(1, L, 1).expand(B, L, C)
    back = scaler.inverse(ordered, scaler.statistics(y))
    require(bool((back.diff(dim=1) >= 0).all()), "inverse must keep the order of values, but does not")


@SCALERS.check
def unobserved_values_do_not_count(scaler: Scaler) -> None:
    """Values that are not observed change no statistic."""
    if isinstance(scaler, SeriesScaler):
        rows = _rows()
        mask = np.arange(len(rows.y)) % 3 != 0
        other = np.where(mask, rows.y, 1e6)
        first, second = (series_scaler(scaler).fit(y, rows.offsets, mask).to_arrays() for y in (rows.y, other))
        _same_arrays(first, second, "changing values that were not observed")
        return
    y = _windows()
    mask = torch.arange(L).reshape(1, L, 1).expand(B, L, C) % 3 != 0
    _same_statistics(scaler, y, torch.where(mask, y, 1e6), mask, "changing values that were not observed")


@SCALERS.check
def neighbours_do_not_count(scaler: Scaler) -> None:
    """Each window, or series, has its own statistics; those of a series come only from training rows."""
    if isinstance(scaler, SeriesScaler):
        rows = _rows()
        until = np.full(3, 5)
        changed = np.where(np.arange(len(rows.y)) - rows.offsets[rows.series] < 5, rows.y, rows.y * 9)
        arrays = [series_scaler(scaler).fit(y, rows.offsets, until=until).to_arrays() for y in (rows.y, changed)]
        _same_arrays(arrays[0], arrays[1], "changing rows after the training rows")
        alone = series_scaler(scaler).fit(rows.y[rows.series == 1], np.array([0, 8])).to_arrays()
        whole = series_scaler(scaler).fit(rows.y, rows.offsets).to_arrays()
        _same_arrays({name: array[1:2] for name, array in whole.items()}, alone, "leaving out the other series")
        return
    y = _windows()
    other = torch.cat([y[:1], 100 * y[1:]])
    first, second = scaler.statistics(y), scaler.statistics(other)
    for name, one, two in zip(("location", "scale"), first[:2], second[:2], strict=True):
        require(torch.allclose(one[:1], two[:1]), f"other windows must not change the {name} of a window, but they do")


@SCALERS.check
def hard_input_stays_finite(scaler: Scaler) -> None:
    """Constant, tiny, huge and unobserved values give finite statistics, a scale above 0 and finite scaled values."""
    for name, values in {"constant": 5.0, "zero": 0.0, "tiny": 1e-30, "huge": 1e30}.items():
        said = f"{name} values must be scaled to finite numbers, but are not"
        if isinstance(scaler, SeriesScaler):
            y = np.full(6, values) if values else np.ones(6)
            fitted = series_scaler(scaler).fit(y, np.array([0, 6, 6]))  # the second series has no rows
            require(bool(np.isfinite(fitted.transform(y, np.zeros(6, dtype=np.int64))).all()), said)
            continue
        window = torch.full((B, L, C), values)
        for mask in (None, torch.zeros(B, L, C, dtype=torch.bool)):
            scaled, stats = scaler(window, mask)
            require(bool(scaled.isfinite().all()), said)
            good = all(bool(part.isfinite().all()) for part in stats[:2]) and bool((stats.scale > 0).all())
            require(good, f"{name} windows must have a finite location and a scale above 0, but got {stats}")


@SCALERS.check
def affine_map_agrees(scaler: Scaler) -> None:
    """With `affine`, original = scaled · scale + location."""
    if not scaler.affine:
        return
    if isinstance(scaler, SeriesScaler):
        rows = _rows()
        fitted = series_scaler(scaler).fit(rows.y, rows.offsets)
        state = fitted.to_arrays()
        line = rows.y * state["scale"][rows.series] + state["location"][rows.series]
        require(np.allclose(fitted.inverse(rows.y, rows.series), line), "inverse must be scaled · scale + location")
        return
    y = _windows()
    stats = scaler.statistics(y)
    location, scale = scaler.affine_map(stats)
    same = torch.allclose(scaler.inverse(y, stats), y * scale + location, rtol=1e-4, atol=1e-4)
    require(
        same, "inverse must be scaled · scale + location of affine_map, but is not. Set affine = False, or correct it"
    )


@SCALERS.check
def state_round_trips(scaler: Scaler) -> None:
    """A saved scaler gives the same scaled values: the arrays of a series scaler, the weights of a window scaler."""
    if isinstance(scaler, SeriesScaler):
        rows = _rows()
        fitted = series_scaler(scaler).fit(rows.y, rows.offsets)
        again = series_scaler(scaler).from_arrays(fitted.to_arrays())
        same = np.array_equal(fitted.transform(rows.y, rows.series), again.transform(rows.y, rows.series))
        require(same, "a scaler with the arrays of another one must scale the same, but does not")
        return
    other = window_scaler(scaler)
    with torch.no_grad():
        for parameter in scaler.parameters():
            parameter.add_(0.1)
    other.load_state_dict(scaler.state_dict())
    same = torch.equal(scaler(_windows())[0], other(_windows())[0])
    require(same, "a scaler with the weights of another one must scale the same; is some of its state not registered?")


class _Rows(NamedTuple):
    y: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.int64]
    series: npt.NDArray[np.int64]


def _rows() -> _Rows:
    """Three series of eight positive values, each of a different magnitude."""
    y = numpy_generator(0, "scaler").uniform(1.0, 3.0, 24) * np.repeat([1.0, 10.0, 0.1], 8)
    return _Rows(y, np.array([0, 8, 16, 24]), np.repeat(np.arange(3), 8))


def _windows() -> Tensor:
    return 2.0 + torch.rand(B, L, C, generator=torch_generator(0, "scaler"))


def _examples(cls: type[Scaler]) -> tuple[Scaler, ...]:
    own = getattr(cls, "examples", None)
    return tuple(own()) if own is not None else (cls(),)


def _same_arrays(one: dict[str, Any], other: dict[str, Any], change: str) -> None:
    for name, array in one.items():
        require(np.allclose(array, other[name]), f"{change} must not change {name}, but it does")


def _same_statistics(scaler: WindowScaler, y: Tensor, other: Tensor, mask: Tensor, change: str) -> None:
    first, second = scaler.statistics(y, mask), scaler.statistics(other, mask)
    for name, one, two in zip(("location", "scale"), first[:2], second[:2], strict=True):
        require(torch.allclose(one, two), f"{change} must not change the {name}, but it does")
