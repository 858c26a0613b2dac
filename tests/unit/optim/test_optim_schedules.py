"""Schedules, step by step, against torch.optim.lr_scheduler (the independent implementation) or by hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
import torch
from torch.optim import lr_scheduler as torch_schedules

from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.optim import (
    Constant,
    CosineAnnealing,
    CosineWarmRestarts,
    CustomSchedule,
    ExponentialDecay,
    Joined,
    LinearDecay,
    MultiStepDecay,
    OneCycle,
    PlateauState,
    PolynomialDecay,
    ReduceOnPlateau,
    Schedule,
    ScheduleContext,
    StepDecay,
    WarmupCosine,
    WarmupLinear,
)

RATE = 0.4
TOTAL = 60
RUN = ScheduleContext(total_steps=TOTAL, steps_per_epoch=1, base_rate=RATE)


def torch_factors(build: Callable[[torch.optim.Optimizer], torch_schedules.LRScheduler], steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's SequentialLR warns about its own inner call
        schedule = build(optimizer)
        factors = []
        for _ in range(steps):
            factors.append(optimizer.param_groups[0]["lr"] / RATE)
            optimizer.step()
            schedule.step()
    return factors


def warmed(after: Callable[[torch.optim.Optimizer], torch_schedules.LRScheduler], steps: int):
    def build(optimizer: torch.optim.Optimizer) -> torch_schedules.LRScheduler:
        rise = torch_schedules.LinearLR(optimizer, start_factor=1 / (steps + 1), total_iters=steps)
        return torch_schedules.SequentialLR(optimizer, [rise, after(optimizer)], milestones=[steps])

    return build


PAIRS = [
    (Constant(), lambda o: torch_schedules.ConstantLR(o, factor=1.0)),
    (StepDecay(every=7, factor=0.3), lambda o: torch_schedules.StepLR(o, 7, 0.3)),
    (MultiStepDecay(milestones=(3, 20, 21)), lambda o: torch_schedules.MultiStepLR(o, [3, 20, 21], 0.1)),
    (ExponentialDecay(factor=0.9), lambda o: torch_schedules.ExponentialLR(o, 0.9)),
    (LinearDecay(min_factor=0.2), lambda o: torch_schedules.LinearLR(o, 1.0, 0.2, TOTAL)),
    (PolynomialDecay(power=3.0), lambda o: torch_schedules.PolynomialLR(o, TOTAL, 3.0)),
    (CosineAnnealing(min_lr=0.01), lambda o: torch_schedules.CosineAnnealingLR(o, TOTAL, 0.01)),
    (
        CosineWarmRestarts(period=4, growth=2, min_lr=0.01),
        lambda o: torch_schedules.CosineAnnealingWarmRestarts(o, 4, 2, 0.01),
    ),
    (CosineWarmRestarts(period=7), lambda o: torch_schedules.CosineAnnealingWarmRestarts(o, 7)),
    (WarmupLinear(warmup=0.1), warmed(lambda o: torch_schedules.LinearLR(o, 1.0, 0.0, TOTAL - 6), 6)),
    (WarmupCosine(warmup=9, min_lr=0.02), warmed(lambda o: torch_schedules.CosineAnnealingLR(o, TOTAL - 9, 0.02), 9)),
    (OneCycle(), lambda o: torch_schedules.OneCycleLR(o, RATE, total_steps=TOTAL + 1, cycle_momentum=False)),
    (
        OneCycle(share_rising=0.45, start_divisor=10.0, end_divisor=100.0, shape="linear"),
        lambda o: torch_schedules.OneCycleLR(
            o,
            RATE,
            total_steps=TOTAL + 1,
            pct_start=0.45,
            anneal_strategy="linear",
            cycle_momentum=False,
            div_factor=10.0,
            final_div_factor=100.0,
        ),
    ),
]


@pytest.mark.parametrize(("schedule", "build"), PAIRS, ids=lambda value: getattr(value, "kind", ""))
def test_every_step_equals_torchs(schedule: Schedule, build: Callable) -> None:
    # torch's OneCycleLR refuses the step after its last one, so it is built one step longer, and so is ours.
    run = replace(RUN, total_steps=TOTAL + 1) if isinstance(schedule, OneCycle) else RUN
    factors = [schedule.factor_at(step, run) for step in range(TOTAL)]
    assert factors == pytest.approx(torch_factors(build, TOTAL), rel=1e-9, abs=1e-12)


def test_every_registered_schedule_is_checked_here() -> None:
    checked = {schedule.kind for schedule, _ in PAIRS} | {"ReduceOnPlateau", "Joined", "CustomSchedule"}
    shipped = {
        name for name, cls in registry.members("schedule").items() if cls.__module__.startswith("neuro_divergent.optim")
    }
    assert checked == shipped


@pytest.mark.parametrize("schedule", [schedule for schedule, _ in PAIRS], ids=lambda schedule: schedule.kind)
def test_json_gives_the_same_schedule_back(schedule: Schedule) -> None:
    again = Schedule.from_json(schedule.to_json())
    assert again == schedule
    assert again.curve(RUN).tolist() == schedule.curve(RUN).tolist()


def test_lengths_in_epochs_scale_with_the_epoch() -> None:
    run = ScheduleContext(total_steps=100, steps_per_epoch=10)
    assert StepDecay(every=2, factor=0.5).factor_at(19, run) == 1.0
    assert StepDecay(every=2, factor=0.5).factor_at(20, run) == 0.5
    assert StepDecay(every=2, factor=0.5, unit="step").factor_at(4, run) == 0.25
    assert MultiStepDecay(milestones=(3,), factor=0.5).factor_at(29, run) == 1.0
    assert MultiStepDecay(milestones=(3,), factor=0.5).factor_at(30, run) == 0.5
    assert ExponentialDecay(factor=0.5).factor_at(15, run) == 0.5
    assert ExponentialDecay(factor=0.5, smooth=True).factor_at(15, run) == pytest.approx(0.5**1.5)
    assert CosineWarmRestarts(period=2).factor_at(20, run) == 1.0
    assert CosineWarmRestarts(period=2).factor_at(10, run) == pytest.approx(0.5)


def test_a_cosine_of_its_own_length_equals_torchs_and_then_stays() -> None:
    """Twelve steps of three epochs of four; torch's would rise again from there on."""
    expected = torch_factors(lambda optimizer: torch_schedules.CosineAnnealingLR(optimizer, T_max=12), 13)
    run = ScheduleContext(steps_per_epoch=4, base_rate=RATE)  # open-ended: its own length is enough
    for schedule in (CosineAnnealing(t_max=3), CosineAnnealing(t_max=12, unit="step")):
        assert [schedule.factor_at(step, run) for step in range(13)] == pytest.approx(expected, abs=1e-9)
        assert not schedule.bounded
        assert schedule.factor_at(40, run) == 0.0


def test_an_exponential_decay_every_few_epochs_equals_torchs_step() -> None:
    expected = torch_factors(lambda optimizer: torch_schedules.StepLR(optimizer, step_size=6, gamma=0.5), 30)
    run = ScheduleContext(steps_per_epoch=3, base_rate=RATE)
    for schedule in (ExponentialDecay(factor=0.5, every=2), ExponentialDecay(factor=0.5, every=6, unit="step")):
        assert [schedule.factor_at(step, run) for step in range(30)] == pytest.approx(expected)


def test_long_warm_restarts_begin_exactly_at_their_steps() -> None:
    # Periods 3, 6, 12, …: the n-th restart is at 3 (2^n - 1), where a logarithm alone may be one off.
    schedule = CosineWarmRestarts(period=3, growth=2, unit="step")
    for number in range(1, 30):
        restart = 3 * (2**number - 1)
        assert schedule.factor_at(restart, ScheduleContext()) == 1.0
        assert schedule.factor_at(restart - 1, ScheduleContext()) < 0.3


def test_after_the_end_a_falling_schedule_stays_at_its_lowest() -> None:
    for schedule in (CosineAnnealing(min_lr=0.04), LinearDecay(min_factor=0.1), WarmupCosine(min_lr=0.04)):
        assert schedule.factor_at(TOTAL, RUN) == pytest.approx(0.1)
        assert schedule.factor_at(TOTAL + 50, RUN) == pytest.approx(0.1)


def test_a_minimum_above_the_rate_does_not_raise_it() -> None:
    assert max(WarmupCosine(min_lr=1.0).curve(RUN)) <= 1.0


def test_an_exponential_decay_is_held_up_by_its_minimum_but_never_raised() -> None:
    assert ExponentialDecay(min_lr=1.0).curve(RUN).tolist() == [1.0] * TOTAL
    assert ExponentialDecay(factor=0.5, min_lr=0.1).factor_at(50, RUN) == pytest.approx(0.25)


def test_warmup_as_a_share_and_in_steps_agree_and_start_above_zero() -> None:
    share, steps = WarmupCosine(warmup=0.1), WarmupCosine(warmup=6)
    assert share.curve(RUN).tolist() == steps.curve(RUN).tolist()
    assert share.factor_at(0, RUN) == pytest.approx(1 / 7)
    assert share.factor_at(6, RUN) == 1.0
    assert WarmupCosine(warmup=0).factor_at(0, RUN) == 1.0


def test_curve_is_the_factors_of_all_steps() -> None:
    curve = OneCycle().curve(RUN)
    assert curve.shape == (TOTAL,)
    assert curve.max() == pytest.approx(1.0)
    assert curve[-1] == pytest.approx(1 / 25 / 1e4)


def test_joined_gives_each_part_its_own_stretch() -> None:
    joined = Joined(schedules=(LinearDecay(min_factor=0.5), CosineAnnealing()), at=(20,))
    first, second = replace(RUN, total_steps=20), replace(RUN, total_steps=40)
    for step in range(20):
        assert joined.factor_at(step, RUN) == LinearDecay(min_factor=0.5).factor_at(step, first)
    for step in range(20, 60):
        assert joined.factor_at(step, RUN) == CosineAnnealing().factor_at(step - 20, second)
    assert joined.factor_at(20, RUN) == 1.0
    assert Schedule.from_json(joined.to_json()) == joined
    assert joined.bounded
    assert not Joined(schedules=(LinearDecay(), Constant()), at=(20,)).bounded


def test_a_callable_is_a_schedule() -> None:
    def halving(step: int) -> float:
        return 0.5**step

    assert CustomSchedule(function=halving).factor_at(3, RUN) == 0.125
    whole = CustomSchedule(function=lambda step, context: step / context.total_steps, with_context=True)
    assert whole.factor_at(30, RUN) == 0.5
    joined = Joined(schedules=(halving, Constant()), at=(5,))
    assert joined.factor_at(2, RUN) == 0.25
    text = CustomSchedule(function=halving).to_json()
    assert Schedule.from_json(text, using={halving.__qualname__: halving}).factor_at(3, RUN) == 0.125
    with pytest.raises(ConfigError, match="never imported"):
        Schedule.from_json(text)
    with pytest.raises(ConfigError, match="finite number"):
        CustomSchedule(function=lambda step: float("nan")).factor_at(0, RUN)


METRICS = [1.0, 0.8, 0.8, 0.9, 0.85, *[0.79] * 6, 0.5, *[0.6] * 6, float("nan")]


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize(("patience", "cooldown", "min_lr"), [(0, 0, 0.0), (2, 0, 0.0), (1, 2, 0.0), (1, 0, 0.15)])
def test_plateau_equals_torchs(mode: str, patience: int, cooldown: int, min_lr: float) -> None:
    schedule = ReduceOnPlateau(mode=mode, patience=patience, cooldown=cooldown, min_lr=min_lr, min_delta=0.02)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    theirs = torch_schedules.ReduceLROnPlateau(
        optimizer,
        mode=mode,
        factor=0.5,
        patience=patience,
        threshold=0.02,
        threshold_mode="abs",
        cooldown=cooldown,
        min_lr=min_lr,
    )
    state = schedule.initial()
    for metric in METRICS:
        theirs.step(metric)
        state = schedule.update(state, metric)
        factor = schedule.factor_at(0, replace(RUN, plateau=state))
        assert factor * RATE == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)


def test_plateau_state_survives_a_file_and_is_not_changed_in_place() -> None:
    schedule = ReduceOnPlateau(patience=0)
    first = schedule.update(schedule.initial(), 1.0)
    second = schedule.update(first, 2.0)
    assert first == PlateauState(best=1.0)
    assert PlateauState(**asdict(second)) == second
    assert second.factor == 0.5


@pytest.mark.parametrize("schedule", [CosineAnnealing(), LinearDecay(), OneCycle(), WarmupLinear(warmup=10)])
def test_a_schedule_with_an_end_refuses_an_open_run(schedule: Schedule) -> None:
    assert schedule.bounded
    with pytest.raises(ConfigError, match=f"{schedule.kind} needs the total number of steps"):
        schedule.factor_at(20, ScheduleContext())


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: WarmupCosine(warmup=-0.1), "share of the run"),
        (lambda: WarmupCosine(warmup=1.5), "share of the run"),
        (lambda: CosineAnnealing(min_lr=0.1, min_factor=0.1), "Leave one out"),
        (lambda: MultiStepDecay(milestones=(5, 5)), "must rise"),
        (lambda: Joined(schedules=(Constant(), Constant()), at=()), "one entry less"),
        (lambda: Joined(schedules=(Constant(), ReduceOnPlateau()), at=(5,)), "Use it alone"),
        (lambda: Joined(schedules=(Constant(),) * 3, at=(30, 0.1)).factor_at(0, RUN), "at must rise"),
        (lambda: StepDecay(every=0), "every must be at least 1"),
        (lambda: ReduceOnPlateau(factor=1.5), "factor must be less than 1"),
        (lambda: CustomSchedule(function=3), "must be a callable"),
    ],
)
def test_wrong_fields_are_refused_with_a_sentence(build: Callable, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()


def test_a_misspelt_schedule_is_answered_with_the_closest() -> None:
    with pytest.raises(ConfigError, match="CosineAnnealing"):
        Schedule.from_dict({"kind": "cosine_anealing"})
