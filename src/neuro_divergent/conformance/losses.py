"""The conformance suite of losses. Shapes: output [B, H, C, Q], target and values [B, H, C]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neuro_divergent.conformance.descriptions import is_documented, round_trips
from neuro_divergent.conformance.examples import loss_examples
from neuro_divergent.conformance.suite import Suite, expecting, require
from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.seeding import isolated, torch_generator
from neuro_divergent.data.scaling.per_window import window_scaler
from neuro_divergent.forecasting.network.module import ForecastModule
from neuro_divergent.losses import BinaryCrossEntropy, Loss, Weighted

LOSSES: Suite[Loss] = Suite("loss", loss_examples)
"""The checks of losses; `check_loss` runs one of them."""

SHAPE = (3, 4, 2)
LOOKBACK = 8
_CLASSES = 4


@LOSSES.check
def description_round_trips(loss: Loss) -> None:
    """JSON and YAML restore the description, also after the loss was used."""
    _values(loss, *_data(loss))
    round_trips(loss)


@LOSSES.check
def description_is_documented(loss: Loss) -> None:
    """The class and every field are described."""
    is_documented(loss)


@LOSSES.check
def one_value_per_target(loss: Loss) -> None:
    """`values` returns one finite number for every target value, in the output's precision."""
    for dtype in (torch.float32, torch.float64):
        output, target, window = _data(loss, dtype)
        values = _values(loss, output, target, window)
        require(values.shape == target.shape, f"values must be {tuple(target.shape)}, but are {tuple(values.shape)}")
        require(values.dtype == dtype, f"values of {dtype} outputs must be {dtype}, but are {values.dtype}")
        require(bool(values.isfinite().all()), f"values must be finite for {dtype} outputs, but are not")


@LOSSES.check
def broadcasting_is_refused(loss: Loss) -> None:
    """An output whose horizon does not match the target is refused, not broadcast."""
    output, target, window = _data(loss)
    try:
        _values(loss, output[:, :1], target, window)
    except (ConfigError, RuntimeError):
        return
    require(False, f"an output for 1 step must be refused for targets {tuple(target.shape)}; see losses.check_shapes")


@LOSSES.check
def gradient_is_right(loss: Loss) -> None:
    """The gradient agrees with finite differences in float64."""
    output, target, window = _data(loss)

    def total(free: Tensor) -> Tensor:
        return loss.finish(_values(loss, free, target, window).mean())

    torch.autograd.gradcheck(total, output.clone().requires_grad_(), fast_mode=True)


@LOSSES.check
def gradients_stay_finite(loss: Loss) -> None:
    """Perfect, zero and huge residuals give finite values and gradients."""
    output, target, window = _data(loss, torch.float32)
    nothing = torch.zeros_like(target)
    cases = {
        "output and target 0": (torch.zeros_like(output), nothing),
        "output 0": (torch.zeros_like(output), target),
        "output 50 times larger": (output * 50, target),
    }
    if target.is_floating_point():
        perfect = target.unsqueeze(-1).expand_as(output)
        cases |= {"output equal to the target": (perfect, target), "output 1e6": (torch.full_like(output, 1e6), target)}
    for name, (given, wanted) in cases.items():
        with expecting(name):
            free = given.clone().requires_grad_()
            mean = loss.finish(_values(loss, free, wanted, window._replace(target=wanted)).mean())
            torch.autograd.backward(mean)
            require(bool(mean.isfinite()), "the loss must be finite, but is not")
            require(free.grad is not None and bool(free.grad.isfinite().all()), "gradients must be finite, but are not")


@LOSSES.check
def what_is_masked_does_not_count(loss: Loss) -> None:
    """Masked values do not change the other values, and every gradient stays finite."""
    output, target, window = _data(loss, torch.float32)
    mask = window.target_mask
    assert mask is not None
    first = _values(loss, output, target, window)
    for junk in (0.0, -7.0, 1e6) if target.is_floating_point() else (0, 1):
        with expecting(f"{junk} behind the mask"):
            other = torch.where(mask, target, junk)
            free = output.clone().requires_grad_()
            values = _values(loss, free, other, window._replace(target=other))
            require(torch.equal(values[mask], first[mask]), "observed values must not change, but they do")
            torch.autograd.backward(loss.finish(torch.where(mask, values, 0.0).mean()))
            require(free.grad is not None and bool(free.grad.isfinite().all()), "gradients must be finite, but are not")


@LOSSES.check
def weights_fit_the_target(loss: Loss) -> None:
    """`importance` is None or broadcasts against the target, finite and not negative."""
    _, target, window = _data(loss)
    weights = loss.importance(target, window)
    if weights is not None:
        fits = (weights + weights.new_zeros(target.shape)).shape == target.shape
        require(fits, f"importance must broadcast to {tuple(target.shape)}, but is {tuple(weights.shape)}")
        require(bool((weights.isfinite() & (weights >= 0)).all()), "weights must be finite and at least 0, but are not")


@LOSSES.check
def point_forecast_has_the_targets_shape(loss: Loss) -> None:
    """`point` maps [..., Q] to [...]."""
    output, target, _ = _data(loss)
    point = loss.point(_headed(loss, output, torch.tensor(loss.levels)))
    require(point.shape == target.shape, f"point must return {tuple(target.shape)}, but returned {tuple(point.shape)}")


@LOSSES.check
def quantiles_never_cross(loss: Loss) -> None:
    """A probabilistic loss has increasing levels and increasing quantiles; other losses refuse quantiles."""
    output, target, _ = _data(loss)
    if not loss.probabilistic:
        try:
            loss.quantiles(output, torch.tensor([0.1, 0.9]))
        except ConfigError:
            return
        require(False, "a loss with quantiles must have probabilistic=True")
    levels = torch.tensor(loss.levels, dtype=torch.float64)
    require(len(levels) > 0 and bool((levels.diff() > 0).all()), f"levels must increase, but are {loss.levels}")
    found = loss.quantiles(_headed(loss, output, levels), levels)
    wanted = (*target.shape, len(levels))
    require(found.shape == wanted, f"quantiles must be {wanted}, but are {tuple(found.shape)}")
    require(bool((found.diff(dim=-1) >= 0).all()), "quantiles must increase with their levels, but cross")


@LOSSES.check
def unit_scale_changes_nothing(loss: Loss) -> None:
    """With location 0 and scale 1, `unscale` changes nothing."""
    if loss.task != "regression" or loss.units == "original":
        return
    output, _, _ = _data(loss)
    unit = torch.ones_like(output[..., :1])
    same = loss.unscale(output, torch.zeros_like(unit), unit)
    torch.testing.assert_close(same, output, rtol=1e-9, atol=1e-9)


@LOSSES.check
def a_forecaster_learns_with_it(loss: Loss) -> None:
    """In a forecasting module, one step has finite gradients, and a short training lowers the loss."""
    if loss.task != "regression":
        return
    _, _, window = _data(loss, torch.float32)
    window = window._replace(y=_targets(loss, torch.randn(SHAPE[0], LOOKBACK, 2, generator=torch_generator(3, "y"))))
    spec = InputSpec(horizon=SHAPE[1], lookback=LOOKBACK, series=2, outputs=loss.outputs)
    with isolated(0, "weights"):
        module = ForecastModule(_Linear(spec), loss, window_scaler("standard"), spec)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    history = []
    for _ in range(40):
        optimizer.zero_grad()
        with isolated(0, "levels"):
            mean = loss.finish(module.loss_values(window).mean())
        torch.autograd.backward(mean)
        bad = [name for name, p in module.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
        require(not bad, f"every parameter must get a finite gradient, but not {', '.join(bad)}")
        optimizer.step()
        history.append(float(mean.detach()))
    require(history[-1] < history[0], f"40 steps must lower the loss, but it went {history[0]} → {history[-1]}")


class _Linear(nn.Module):
    """The smallest network for a forecasting module."""

    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.weights = nn.Linear(spec.lookback, spec.horizon * spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        B, _, C = batch.y.shape
        output: Tensor = self.weights(batch.y.transpose(1, 2)).view(B, C, self.spec.horizon, self.spec.outputs)
        return output.transpose(1, 2)


def _data(loss: Loss, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Batch]:
    """Raw outputs, suitable targets, and the window around them with masks and weights."""
    draw = torch_generator(0, "loss data")
    output = torch.randn(*SHAPE, loss.outputs or _CLASSES, generator=draw, dtype=torch.float64).to(dtype)
    target = _targets(loss, torch.randn(SHAPE, generator=draw, dtype=torch.float64).to(dtype) * 2)
    y = torch.randn(SHAPE[0], LOOKBACK, SHAPE[2], generator=draw, dtype=torch.float64).to(dtype)
    window = Batch(
        y=y,
        mask=torch.rand(y.shape, generator=draw) > 0.2,
        target=target,
        target_mask=torch.rand(SHAPE, generator=draw) > 0.3,
        weight=torch.rand(SHAPE, generator=draw).to(dtype),
    )
    return output, target, window


def _targets(loss: Loss, noise: Tensor) -> Tensor:
    """Noise turned into suitable targets; a loss may define its own with a method `example_target(noise)`."""
    inner = loss.loss if isinstance(loss, Weighted) else loss
    own = getattr(inner, "example_target", None)
    if own is not None:
        made: Tensor = own(noise)
        return made
    if isinstance(inner, BinaryCrossEntropy):
        return (noise > 0).long()
    if inner.task == "classification":
        return (noise.abs() * 2).long().clamp(max=_CLASSES - 1)
    if getattr(inner, "distribution", None) == "Bernoulli":
        return (noise > 0).to(noise.dtype)
    if inner.units == "original" and inner.probabilistic:
        return noise.abs().mul(4).floor()
    return noise


def _headed(loss: Loss, output: Tensor, levels: Tensor | None = None) -> Tensor:
    """The network's outputs after the loss's head, if it has one, always with the same weights and draws."""
    with isolated(0, "head"):
        head = loss.head()
        if head is None:
            return output
        headed: Tensor = head.to(output.dtype)(output, levels)
        return headed


def _values(loss: Loss, output: Tensor, target: Tensor, window: Batch) -> Tensor:
    return loss.values(_headed(loss, output), target, window)
