"""Each check fails on something made wrong on purpose: a suite that passes everything says nothing.

The names begin with an underscore, so that the registry does not take them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.conformance import (
    LOSS_CHECKS,
    MODEL_CHECKS,
    OPTIMIZER_CHECKS,
    SCHEDULE_CHECKS,
    ConformanceFailure,
    check_loss,
    check_model,
    check_optimizer,
    check_schedule,
    model_examples,
)
from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.losses import Loss
from neuro_divergent.optim import Optimizer, Schedule, ScheduleContext

Fault = Literal[
    "none", "shape", "unused", "frozen", "small", "dropout", "mean", "log", "state", "float", "branch", "mask",
    "anchor", "remembers",
]  # fmt: skip


class _Faulty(Model):
    """A linear map with one fault of choice."""

    capabilities: ClassVar[Capabilities] = Capabilities(future=True)

    fault: Fault = "none"
    """What is wrong."""

    def build(self, spec: InputSpec) -> nn.Module:
        if self.fault == "small" and spec.horizon == 1:
            raise ZeroDivisionError("h - 1")
        if self.fault == "anchor" and spec.anchored:
            raise KeyError("anchored")
        return _Network(self.fault, spec)


class _Network(nn.Module):
    def __init__(self, fault: Fault, spec: InputSpec) -> None:
        super().__init__()
        self.fault, self.spec = fault, spec
        self.map = nn.Linear(spec.lookback, spec.horizon * spec.outputs)
        self.ahead = nn.Linear(spec.horizon * spec.future, 1) if spec.future else None
        self.unused = nn.Parameter(torch.zeros(1)) if fault == "unused" else None
        self.state = torch.rand(1)
        self.previous: Tensor | None = None

    def forward(self, batch: Batch) -> Tensor:
        y = batch.y.squeeze(-1)
        if self.fault == "mean":
            y = y - y.mean(dim=0, keepdim=True)
        if self.fault == "log":
            y = y.log().nan_to_num(0.0) + y.sum(dim=1, keepdim=True) / (y.amax(dim=1, keepdim=True) - y)
        if self.fault == "dropout":
            y = F.dropout(y, 0.5)
        if self.fault == "float":
            y = y.float()
        if self.fault == "branch" and y.sum() > 0:
            y = -y
        if self.fault == "state":
            y = y * self.state
        if self.fault == "mask" and batch.mask is not None:
            batch.mask.fill_(True)
        if self.fault == "remembers":
            y, self.previous = y if self.previous is None else y + self.previous[:1], y.detach()
        output = self.map(y)
        if self.ahead is not None and batch.future is not None:
            output = output + self.ahead(batch.future[:, self.spec.lookback :].flatten(1))
        if self.fault == "frozen":
            output = output * 0.0
        output = output.view(-1, self.spec.horizon, 1, self.spec.outputs)
        return output.squeeze(2) if self.fault == "shape" else output


class _Undeclared(_Faulty):
    """Says that it takes past columns, and does not."""

    capabilities: ClassVar[Capabilities] = Capabilities(historical=True)


class _Undocumented(_Faulty):
    """Has a field without a sentence."""

    width: int = 3


class _Peeking(_Faulty):
    """Reads, in training, the very step it forecasts."""

    def build(self, spec: InputSpec) -> nn.Module:
        return _PeekingNetwork(self.fault, spec)


class _PeekingNetwork(_Network):
    def train_forward(self, batch: Batch) -> Tensor:
        assert batch.target is not None
        return self(batch) + 0.1 * batch.target.unsqueeze(-1)


def _faulty(fault: Fault) -> _Faulty:
    return _Faulty(h=4, input_size=12, fault=fault)


@pytest.mark.parametrize("check", [name for name in MODEL_CHECKS if name != "description_round_trips"])
def test_without_a_fault_the_map_passes(check: str) -> None:
    check_model(_faulty("none"), check)


@pytest.mark.parametrize(
    ("model", "check", "words"),
    [
        (_faulty("none"), "description_round_trips", "no model named"),
        (_faulty("shape"), "shapes", r"\[B, H, C, Q\] = \(1, 4, 1, 1\)"),
        (_faulty("small"), "smallest_sizes", "ZeroDivisionError"),
        (_faulty("unused"), "gradients_reach_every_parameter", "network.unused"),
        (_faulty("frozen"), "one_batch_can_be_learned", "25% of its first value"),
        (_faulty("remembers"), "the_future_changes_nothing", "must not change the forecast"),
        (_faulty("remembers"), "the_far_past_changes_nothing", "must not change the forecast"),
        (_Peeking(h=4, input_size=12), "teacher_forcing_sees_only_earlier_steps", "step 0 must not see"),
        (_faulty("dropout"), "evaluation_is_deterministic", "must be equal"),
        (_faulty("mask"), "evaluation_is_deterministic", "changed batch.mask"),
        (_faulty("mean"), "windows_do_not_see_each_other", "the same alone and in a batch of 4"),
        (_faulty("log"), "extreme_input_stays_finite", "constant input"),
        (_faulty("state"), "weights_round_trip", "not registered"),
        (_faulty("float"), "precisions_agree", "raised RuntimeError"),
        (_Undeclared(h=4, input_size=12), "declared_columns_are_used", "declare historical=True"),
        (_Undocumented(h=4, input_size=12), "description_is_documented", "'width'"),
        (_faulty("anchor"), "anchors_work", "anchor='last'"),
        (_faulty("branch"), "exports", "raised"),
    ],
)
def test_a_faulty_model_fails_its_check(model: Model, check: str, words: str) -> None:
    with pytest.raises(ConformanceFailure, match=words) as failure:
        check_model(model, check)
    assert model.kind in str(failure.value)
    assert check in str(failure.value)


class _Drift(Model):
    """The last value, plus a learned drift: a good model of one number."""

    saturated: bool = False
    """Whether the drift goes through a function that is flat where it begins."""

    def build(self, spec: InputSpec) -> nn.Module:
        return _DriftNetwork(spec, self.saturated)


class _DriftNetwork(nn.Module):
    def __init__(self, spec: InputSpec, saturated: bool) -> None:
        super().__init__()
        self.spec, self.saturated = spec, saturated
        self.drift = nn.Parameter(torch.tensor(12.0 if saturated else 0.0))

    def forward(self, batch: Batch) -> Tensor:
        drift = self.drift.tanh() if self.saturated else self.drift
        line = batch.y[:, -1:, :, None] + drift * torch.arange(1, self.spec.horizon + 1).view(1, -1, 1, 1)
        return line.expand(-1, -1, -1, self.spec.outputs)


def test_a_model_that_can_do_no_more_has_learned_its_batch() -> None:
    """One number cannot fit four windows to a quarter of the error, but its training comes to rest."""
    check_model(_Drift(h=4, input_size=12), "one_batch_can_be_learned")
    with pytest.raises(ConformanceFailure, match=r"25% of its first value, or the gradient to 10% at a smaller loss"):
        check_model(_Drift(h=4, input_size=12, saturated=True), "one_batch_can_be_learned")


def test_every_model_check_is_shown_to_bite() -> None:
    (mark,) = (mark for mark in test_a_faulty_model_fails_its_check.pytestmark if mark.name == "parametrize")
    assert {check for _, check, _ in mark.args[1]} == set(MODEL_CHECKS)


def test_parameters_that_are_declared_unreached_are_spared() -> None:
    class _Spared(_Faulty):
        unreached_parameters: ClassVar[tuple[str, ...]] = ("network.unus*",)

    check_model(_Spared(h=4, input_size=12, fault="unused"), "gradients_reach_every_parameter")


def test_unknown_checks_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"the checks of a model are description_round_trips, .* name='shape'"):
        check_model(_faulty("none"), "shape")


def test_default_examples_cut_widths_and_own_examples_come_first() -> None:
    class _Wide(_Faulty):
        hidden_size: int = 512
        sizes: tuple[int, ...] = (256, 8)
        ratio: float = 100.0

    class _Own(_Wide):
        needed: str

        @classmethod
        def examples(cls) -> tuple[Model, ...]:
            return (cls(h=2, input_size=3, needed="x"),)

    (example,) = model_examples(_Wide)
    assert (example.h, example.input_size) == (4, 12)
    assert example.model_dump()["hidden_size"] == 32
    assert example.model_dump()["sizes"] == [32, 8]
    assert example.model_dump()["ratio"] == 100.0
    assert model_examples(_Own) == (_Own(h=2, input_size=3, needed="x"),)


class _BadLoss(Loss):
    """Squared error with one fault of choice."""

    fault: str = "none"
    """What is wrong."""

    def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
        residual = output[..., 0] - target
        if self.fault == "reduced":
            return residual.square().mean()
        if self.fault == "root":
            return residual.abs().sqrt()
        if self.fault == "detached":
            return residual * residual.detach()
        if self.fault == "leaks":
            return residual.square() + target.mean()
        return residual.square()

    def importance(self, target: Tensor, context: Batch | None = None) -> Tensor | None:
        return -torch.ones_like(target) if self.fault == "weights" else None

    def point(self, output: Tensor) -> Tensor:
        return output if self.fault == "point" else output[..., 0]

    def unscale(self, output: Tensor, location: Tensor, scale: Tensor) -> Tensor:
        return output + 1 if self.fault == "unscale" else super().unscale(output, location, scale)

    @property
    def probabilistic(self) -> bool:
        return self.fault == "cross"

    @property
    def levels(self) -> tuple[float, ...]:
        return (0.1, 0.9) if self.fault == "cross" else ()

    def quantiles(self, output: Tensor, levels: Tensor) -> Tensor:
        if self.fault != "cross":
            return super().quantiles(output, levels)
        return output[..., :1] * torch.linspace(1, -1, len(levels), dtype=output.dtype)


LOSS_FAULTS = [
    ("none", "description_round_trips"),
    ("reduced", "one_value_per_target"),
    ("none", "broadcasting_is_refused"),
    ("detached", "gradient_is_right"),
    ("root", "gradients_stay_finite"),
    ("leaks", "what_is_masked_does_not_count"),
    ("weights", "weights_fit_the_target"),
    ("point", "point_forecast_has_the_targets_shape"),
    ("cross", "quantiles_never_cross"),
    ("unscale", "unit_scale_changes_nothing"),
    ("root", "a_forecaster_learns_with_it"),
]


@pytest.mark.parametrize(("fault", "check"), LOSS_FAULTS)
def test_a_faulty_loss_fails_its_check(fault: str, check: str) -> None:
    if check == "a_forecaster_learns_with_it":

        class _Uphill(_BadLoss):
            def values(self, output: Tensor, target: Tensor, context: Batch | None = None) -> Tensor:
                return torch.where(output[..., 0] > 1e9, output[..., 0], 0.0) * 0 + target

        with pytest.raises(ConformanceFailure, match="40 steps must lower the loss"):
            check_loss(_Uphill(), check)
        return
    with pytest.raises(ConformanceFailure, match=check):
        check_loss(_BadLoss(fault=fault), check)


class _BadOptimizer(Optimizer):
    """Gradient descent with one fault of choice."""

    fault: str = "none"
    """What is wrong."""

    def create(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        for group in groups:
            if self.fault == "names":
                group["names"] = [*group["names"][:-1], "other"]
        return _BadDescent(groups, self.fault)


class _BadDescent(torch.optim.Optimizer):
    def __init__(self, groups: list[dict[str, Any]], fault: str) -> None:
        super().__init__(groups, {"lr": 1e-3})
        self.fault, self.hidden = fault, 0
        self.first = {id(p): p.detach().clone() for group in groups for p in group["params"]}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.hidden += 1
        for group in self.param_groups:
            rate = 1e-2 if self.fault == "rate" else group["lr"]
            rate = -rate if self.fault == "uphill" else rate / self.hidden if self.fault == "hidden" else rate
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.sub_(rate * parameter.grad)
                elif self.fault == "skips":
                    parameter.mul_(1 - rate)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("none", "description_round_trips"),
        ("uphill", "reduces_a_quadratic"),
        ("names", "groups_carry_names_and_first_rates"),
        ("rate", "rate_follows_set_rate"),
        ("hidden", "state_round_trips_exactly"),
        ("skips", "parameters_without_gradient_are_skipped"),
    ],
)
def test_a_faulty_optimizer_fails_its_check(fault: str, check: str) -> None:
    with pytest.raises(ConformanceFailure, match=check):
        check_optimizer(_BadOptimizer(fault=fault), check)
    others = set(OPTIMIZER_CHECKS) - {"description_round_trips"}
    assert check in OPTIMIZER_CHECKS
    for name in others if fault == "none" else ():
        check_optimizer(_BadOptimizer(), name)


class _BadSchedule(Schedule):
    """A constant with one fault of choice."""

    fault: str = "none"
    """What is wrong."""

    _calls: ClassVar[list[int]] = []

    def factor_at(self, step: int, context: ScheduleContext) -> float:
        if self.fault == "memory":
            self._calls.append(step)
            return float(len(self._calls))
        if self.fault == "open" and context.total_steps is None:
            raise ConfigError("needs an end")
        return {"negative": -1.0, "zero": 0.0, "late": float("inf") if step > 100 else 1.0}.get(self.fault, 1.0)

    def curve(self, context: ScheduleContext) -> Any:
        return super().curve(context) * (2 if self.fault == "curve" else 1)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("none", "description_round_trips"),
        ("negative", "factors_are_finite_and_not_negative"),
        ("late", "factors_are_finite_and_not_negative"),
        ("zero", "some_step_learns"),
        ("memory", "factors_depend_on_the_step_alone"),
        ("curve", "curve_is_the_factors"),
        ("open", "an_open_end_works_or_is_refused"),
    ],
)
def test_a_faulty_schedule_fails_its_check(fault: str, check: str) -> None:
    with pytest.raises(ConformanceFailure, match=check):
        check_schedule(_BadSchedule(fault=fault), check)
    for name in set(SCHEDULE_CHECKS) - {"description_round_trips"} if fault == "none" else ():
        check_schedule(_BadSchedule(), name)


def test_every_loss_check_is_shown_to_bite() -> None:
    assert {check for _, check in LOSS_FAULTS} == set(LOSS_CHECKS) - {"description_is_documented"}
