"""Helpers of the model checks: forecasts, comparisons, and modified batches or tables."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from neuro_divergent.conformance.cases import Case, usual_loss
from neuro_divergent.conformance.suite import expecting, require
from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.seeding import isolated
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.module import ForecastModule


def usual_case(model: Model) -> Case:
    """Three series, every declared column, and the usual loss of the model."""
    return Case(model=model, loss=usual_loss(model))


def shortest(case: Case) -> Case:
    """The case at h=2 and input_size=4 if the model accepts that, else unchanged."""
    try:
        small = case.resized(h=2, input_size=4)
        small.module()
    except ConfigError:
        return case
    return small


def to_export(case: Case, windows: int, seed: int = 0) -> Batch:
    """Raw windows as a server gets them, without the table."""
    return case.batch(windows, seed=seed, masked=0.2)._replace(target=None, series=None, time=None)


def forecasts(case: Case, windows: int) -> None:
    """Check that a forecast has the right shape and finite numbers."""
    with expecting(f"B={windows} {case}"), torch.no_grad():
        batch = case.batch(windows)
        output = case.module().eval()(batch)
        wanted = (windows, case.model.h, case.channels, case.loss.outputs)
        require(tuple(output.shape) == wanted, f"forward must return [B, H, C, Q] = {wanted}, but got {output.shape}")
        require(bool(output.isfinite().all()), "the forecast must be finite, but is not")


def reached_parameters(module: ForecastModule, batches: list[Batch]) -> set[str]:
    """Names of the parameters that get a nonzero gradient from some batch; all gradients must be finite."""
    found: set[str] = set()
    for number, batch in enumerate(batches):
        module.zero_grad()
        with isolated(number, "gradients"):
            torch.autograd.backward(module.loss_values(batch).mean())
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                require(bool(parameter.grad.isfinite().all()), f"the gradient of {name} must be finite, but is not")
                if parameter.grad.any():
                    found.add(name)
    return found


def squared_error(module: ForecastModule, batch: Batch) -> float:
    """Mean squared error of the point forecast in eval mode, in original units."""
    assert batch.target is not None
    with torch.no_grad():
        point = module.loss.point(module.eval()(batch))
    return float((point - batch.target).square().mean())


def double(batch: Batch) -> Batch:
    """The batch in float64, where rounding does not hide a small dependence."""
    return batch.to(torch.device("cpu"), torch.float64)


def joined(first: Batch, second: Batch) -> Batch:
    """The windows of both batches."""

    def join(name: str, one: Tensor | None, two: Tensor | None) -> Tensor | None:
        if one is None or two is None:
            return None
        return one if name == "series" and first.y.shape[2] > 1 else torch.cat([one, two])

    return Batch(*(join(*fields) for fields in zip(Batch._fields, first, second, strict=True)))  # type: ignore[arg-type]


def reversed_order(batch: Batch) -> Batch:
    """The windows from last to first."""
    numbers = range(batch.size - 1, 0, -1)
    turned = batch.rows(batch.size - 1, batch.size)
    for number in numbers:
        turned = joined(turned, batch.rows(number - 1, number))
    return turned


def same(first: Tensor, second: Tensor, what: str, *, tolerance: float = 1e-8) -> None:
    """Equal up to rounding, relative to the forecast's size."""
    scale = 1.0 + float(second.detach().abs().max())
    gap = float((first - second).detach().abs().max())
    require(gap <= tolerance * scale, f"{what}, but forecasts of size {scale:.3g} differ by {gap:.3g}")


def changed_rows(store: SeriesStore, rows: slice, known: slice) -> SeriesStore:
    """The table with other values in some rows of each series; columns known ahead have their own rows."""

    def edit(block: np.ndarray | None, where: slice) -> np.ndarray | None:
        if block is None:
            return None
        parts = [part.copy() for part in np.split(block, store.offsets[1:-1])]
        for part in parts:
            part[where] = 3 - part[where] if block.dtype == np.int32 else part[where] * -7 + 3
        return np.concatenate(parts)

    return store.replace(
        y=edit(store.y, rows),
        historical=edit(store.historical, rows),
        future=edit(store.future, known),
        categorical=edit(store.categorical, known),
    )


def last_windows(case: Case, store: SeriesStore) -> Batch:
    """The windows at the end of every series, with fixed values for the columns known ahead."""
    spec, shape = case.spec, (case.series, case.model.h)
    future = np.full((*shape, spec.future), 0.5, dtype=np.float32) if spec.future else None
    codes = np.ones((*shape, len(spec.categories)), dtype=np.int32) if spec.categories else None
    return case.windows(store).last(future, codes)


def extremes(case: Case) -> dict[str, Batch]:
    """Windows that break formulas: no variance, almost none, too much, nothing observed."""
    usual = case.batch(3)
    assert usual.target is not None
    some = case.batch(3, masked=0.5)
    nothing = torch.zeros_like(usual.y)

    def scaled(factor: float) -> Batch:
        assert usual.target is not None
        return usual._replace(y=usual.y * factor, target=usual.target * factor)

    def constant(value: float) -> Batch:
        assert usual.target is not None
        return usual._replace(y=torch.full_like(usual.y, value), target=torch.full_like(usual.target, value))

    return {
        "constant": constant(5.0),
        "zero": constant(0.0),
        "constant huge": constant(1e30),
        "tiny (1e-30)": scaled(1e-30),
        "huge (1e30)": scaled(1e30),
        "partly unobserved": some,
        "entirely unobserved": usual._replace(y=nothing, mask=torch.zeros_like(nothing, dtype=torch.bool)),
    }
