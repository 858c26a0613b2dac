"""Facts about a network: its loss before and after, its layers, and what short trainings of a copy reach."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.diagnostics.doctor.evidence import NetworkFacts
from neuro_divergent.diagnostics.doctor.probes import STEPS, Probes, joined
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.training.step.reduction import weighted_mean

FACTORS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Factors of the learning rate that are tried from the initial weights."""
FEW_UNITS = 4
"""A layer with fewer units is too narrow to be judged by its dead ones."""


def network_facts(run: Run, module: ForecastModule, rate_factor: float, *, probes: bool = True) -> NetworkFacts:
    """The facts about the weights of `module`, which a run like `run` has trained.

    Args:
        run: the training, prepared again: its module has the initial weights.
        module: the trained module. It is copied and does not change.
        rate_factor: the highest rate of the run over the rate of its optimizer.
        probes: whether to train copies for a few steps.
    """
    initial = run.training.state.module
    assert isinstance(initial, ForecastModule)
    final = copy.deepcopy(initial)
    final.load_state_dict(module.state_dict())
    look = Probes(run)
    whole = joined(look.parts)
    start_steps, _ = _by_step(look, initial)
    final_steps, by_series = _by_step(look, final)
    top, names = _top(by_series, run.problem.store.ids.tolist())
    found: dict[str, Any] = {
        "start": look.loss(initial),
        "final": look.loss(final),
        "start_validation": look.loss(initial, validation=True),
        "final_validation": look.loss(final, validation=True),
        "layers": _layers(look, initial, final),
        "dead": _dead(final, look.parts),
        "step_start": start_steps,
        "step_final": final_steps,
        "top_share": top,
        "top_series": names,
        "input_size": _input_size(final, whole),
    }
    if not run.problem.model.capabilities.multivariate and final.scaler.affine:
        found["linear"], found["own"] = _linear(final, look)
    return NetworkFacts(**found | (_probed(look, initial, final, rate_factor) if probes else {}))


def _probed(look: Probes, initial: ForecastModule, final: ForecastModule, rate: float) -> dict[str, Any]:
    def after(module: ForecastModule, factor: float, size: int | None = None, *, validation: bool = False) -> float:
        twin = look.trained(module, factor, size=size)
        return float("inf") if twin is None else look.loss(twin, validation=validation)

    batch = look.source.batch(0, 0).size
    small = min(64, max(16, batch // 16))
    longer = look.trained(final, rate)
    return {
        "from_start": {str(factor): after(initial, factor * rate) for factor in FACTORS},
        "probe_steps": STEPS,
        "go_on": float("inf") if longer is None else look.loss(longer),
        "go_on_validation": float("inf") if longer is None else look.loss(longer, validation=True),
        "go_on_slow": after(final, 0.1 * rate),
        "small_batches": after(initial, rate, small) if batch >= 8 * small else float("nan"),
        "large_batches": after(final, rate, 128) if batch <= 4 else float("nan"),
        "small_size": small,
    }


def _by_step(look: Probes, module: ForecastModule) -> tuple[list[float], dict[int, tuple[float, int]]]:
    """[H] the mean loss of each step ahead, and the sum and number of losses of each series."""
    module.eval()
    sums: Tensor | None = None
    count, series = 0, dict[int, tuple[float, int]]()
    with torch.no_grad():
        for batch in look.parts:
            values = module.loss_values(batch).double()
            if batch.target_mask is not None:
                values = torch.where(batch.target_mask, values, torch.zeros_like(values))
            step = values.mean(dim=2).sum(dim=0)
            sums = step if sums is None else sums + step
            count += batch.size
            many = values.shape[2] > 1
            each = values.sum(dim=(0, 1)) if many else values.mean(dim=(1, 2))
            if batch.series is not None:
                for number, value in zip(batch.series.tolist(), each.tolist(), strict=True):
                    before = series.get(number, (0.0, 0))
                    series[number] = before[0] + value, before[1] + 1
    assert sums is not None
    return (sums / max(1, count)).tolist(), series


def _top(series: Mapping[int, tuple[float, int]], ids: Sequence[Any]) -> tuple[float, list[str]]:
    """The share of the loss of the worst twentieth of the series (at least one), and their names."""
    if len(series) < 4:
        return 0.0, []
    means = {number: abs(total) / count for number, (total, count) in series.items()}
    order = sorted(means, key=lambda number: -means[number])
    worst = order[: max(1, len(order) // 20)]
    total = sum(means.values())
    return (sum(means[number] for number in worst) / total if total > 0 else 0.0), [str(ids[n]) for n in worst]


def _gradients(look: Probes, module: ForecastModule) -> tuple[dict[str, Tensor], float]:
    """The gradient of the mean loss of a batch by parameter name, and that loss."""
    named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if not named:
        return {}, float("nan")
    module.eval()
    batch = joined(look.parts)
    with torch.enable_grad(), _train_mode_of_recurrent(module):
        values, weights = look.task(module, batch)
        loss = look.task.loss.finish(weighted_mean(values, weights))
        found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {name: grad for name, grad in zip(named, found, strict=True) if grad is not None}, float(loss.detach())


class _train_mode_of_recurrent:  # noqa: N801  # a context, used like a function
    """Context in which recurrent layers are in training mode, which their backward pass needs on a GPU."""

    def __init__(self, module: nn.Module) -> None:
        self.layers = [layer for layer in module.modules() if isinstance(layer, nn.RNNBase)]

    def __enter__(self) -> None:
        for layer in self.layers:
            layer.training = bool(layer.weight_hh_l0.is_cuda)

    def __exit__(self, *_: object) -> None:
        for layer in self.layers:
            layer.training = False


def _layers(look: Probes, initial: ForecastModule, final: ForecastModule) -> list[dict[str, Any]]:
    """For every weight: its size, the size of its gradient at both ends of the training, and whether it changed."""
    before, _ = _gradients(look, initial)
    after, _ = _gradients(look, final)
    own = dict(final.named_parameters())
    rows = []
    for name, parameter in initial.named_parameters():
        first, last = parameter.detach(), own[name].detach()
        rows.append(
            {
                "name": name,
                "values": parameter.numel(),
                "matrix": parameter.ndim > 1,
                "trainable": parameter.requires_grad,
                "changed": not torch.equal(first, last),
                "weight": _rms(last),
                "gradient_start": _rms(before[name]) if name in before else 0.0,
                "gradient_end": _rms(after[name]) if name in after else 0.0,
            }
        )
    return rows


def _rms(tensor: Tensor) -> float:
    return float(tensor.double().square().mean().sqrt())


def _dead(module: ForecastModule, parts: Sequence[Batch]) -> dict[str, float]:
    """For every ReLU, the share of its units that are 0 for all windows."""
    alive: dict[str, Tensor] = {}

    def hook(name: str) -> Any:
        def look(_: nn.Module, __: Any, output: Tensor) -> None:
            if output.shape[-1] < FEW_UNITS:
                return
            active = (output > 0).reshape(-1, output.shape[-1]).any(dim=0)
            alive[name] = active if name not in alive else alive[name] | active

        return look

    handles = [
        layer.register_forward_hook(hook(name)) for name, layer in module.named_modules() if isinstance(layer, nn.ReLU)
    ]
    module.eval()
    try:
        with torch.no_grad():
            for batch in parts:
                module(batch)
    finally:
        for handle in handles:
            handle.remove()
    return {name: 1.0 - float(units.double().mean()) for name, units in alive.items()}


def _input_size(module: ForecastModule, batch: Batch) -> float:
    with torch.no_grad():
        return _rms(module.as_network_sees(batch)[0].y)


def _linear(module: ForecastModule, look: Probes) -> tuple[list[float], list[float]]:
    """Mean absolute errors on training and held-out windows: of a ridge regression, and of the module."""
    if not look.validation:
        return [], []
    train, later = (_scaled(module, joined(parts)) for parts in (look.parts, look.validation))
    x, y = train[0], train[1]
    if len(x) < 4 * x.shape[1]:
        return [], []
    inner = x.T @ x + 1e-2 * len(x) * np.eye(x.shape[1])
    weights = np.linalg.solve(inner, x.T @ y)
    linear = [float(np.nanmean(np.abs(part[1] - part[0] @ weights))) for part in (train, later)]
    return linear, [float(np.nanmean(np.abs(part[1] - part[2]))) for part in (train, later)]


def _scaled(module: ForecastModule, batch: Batch) -> tuple[Any, Any, Any]:
    """Inputs with a constant, targets and point forecasts of windows, in scaled units."""
    with torch.no_grad():
        scaled, stats = module.as_network_sees(batch)
        assert batch.target is not None
        target = module.scaler.transform(batch.target, stats)
        point = module.scaler.transform(module.loss.point(module(batch)), stats)
    x = scaled.y.squeeze(-1).double().numpy()
    return (np.hstack([x, np.ones((len(x), 1))]), target.squeeze(-1).double().numpy(), point.squeeze(-1).numpy())
