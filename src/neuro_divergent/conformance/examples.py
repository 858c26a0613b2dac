"""Small examples of every member of a family, so that a suite can run on a class without settings.

A class with its own required fields, or whose small sizes need care, has a classmethod `examples()` that returns
descriptions. It is used first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args

from torch import Tensor

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.losses import (
    MAE,
    BinaryCrossEntropy,
    CrossEntropy,
    CustomLoss,
    DistributionLoss,
    HuberImplicitQuantile,
    HuberQuantile,
    ImplicitQuantile,
    Loss,
    MQLoss,
    Quantile,
    Weighted,
)
from neuro_divergent.losses.distribution import DistributionName
from neuro_divergent.optim import (
    Constant,
    CustomSchedule,
    Joined,
    LinearDecay,
    MultiStepDecay,
    Optimizer,
    Schedule,
    TorchOptimizer,
)

D = TypeVar("D", bound=Description)

HORIZON = 4
LOOKBACKS = (12, 24, 48, 96)
"""A model is built with the shortest of these lookbacks that it accepts."""

_NARROW = 32


def model_examples(cls: type[Model]) -> tuple[Model, ...]:
    """Small descriptions of a model: its own `examples()`, or one at h=4 with every width reduced."""
    return _examples(cls, _default_model)


def loss_examples(cls: type[Loss]) -> tuple[Loss, ...]:
    """Descriptions of a loss: its own `examples()`, the shipped ones, or one with all defaults."""
    return _examples(cls, lambda cls: _SHIPPED_LOSSES[cls]() if cls in _SHIPPED_LOSSES else (_bare(cls),))


def optimizer_examples(cls: type[Optimizer]) -> tuple[Optimizer, ...]:
    """Descriptions of an optimizer: its own `examples()`, the shipped ones, or one with all defaults."""
    return _examples(cls, lambda cls: (TorchOptimizer(cls="Adamax"),) if cls is TorchOptimizer else (_bare(cls),))


def schedule_examples(cls: type[Schedule]) -> tuple[Schedule, ...]:
    """Descriptions of a schedule: its own `examples()`, the shipped ones, or one with all defaults."""
    return _examples(cls, lambda cls: _SHIPPED_SCHEDULES[cls]() if cls in _SHIPPED_SCHEDULES else (_bare(cls),))


def narrow_fields(cls: type[Description]) -> dict[str, Any]:
    """Fields whose defaults are whole numbers above 32 (mostly widths), reduced to 32; tuples entry by entry."""
    small: dict[str, Any] = {}
    for name, field in cls.model_fields.items():
        given = field.get_default(call_default_factory=False)
        if _wide(given):
            small[name] = _NARROW
        elif isinstance(given, tuple) and any(_wide(item) for item in given):
            small[name] = tuple(_NARROW if _wide(item) else item for item in given)
    return small


def _wide(value: object) -> bool:
    return isinstance(value, int) and value > _NARROW


def _examples(cls: type[D], default: Callable[[type[D]], Iterable[D]]) -> tuple[D, ...]:
    own = getattr(cls, "examples", None)
    found = tuple(own() if own is not None else default(cls))
    if not found or not all(isinstance(example, cls) for example in found):
        raise ConfigError(f"{cls.__name__}.examples() must return at least one {cls.__name__}, but got {found!r}")
    return found


def _bare(cls: type[D]) -> D:
    try:
        return cls()
    except ConfigError as error:
        raise ConfigError(
            f"{cls.__name__} must work without arguments, but does not ({error}). Give it a classmethod examples() "
            "that returns a few small descriptions"
        ) from None


def _default_model(cls: type[Model]) -> tuple[Model, ...]:
    errors: dict[str, None] = {}
    for fields in (narrow_fields(cls), {}):
        for lookback in LOOKBACKS:
            try:
                return (cls(h=HORIZON, input_size=lookback, **fields),)
            except ConfigError as error:
                errors[str(error)] = None
    raise ConfigError(
        f"{cls.__name__} must accept one of input_size={LOOKBACKS} at h={HORIZON}, but does not ({'; '.join(errors)}). "
        "Give it a classmethod examples() that returns a few small descriptions"
    )


def _squared(output: Tensor, target: Tensor) -> Tensor:
    return (output - target) ** 2


def _harmonic(step: int) -> float:
    return 1 / (1 + step)


_SHIPPED_LOSSES: dict[type[Loss], Callable[[], tuple[Loss, ...]]] = {
    Quantile: lambda: (Quantile(q=0.8),),
    HuberQuantile: lambda: (HuberQuantile(q=0.2),),
    MQLoss: lambda: (MQLoss(), MQLoss.from_dict({"quantiles": [0.1, 0.5, 0.7], "weights": [1, 2, 1]})),
    ImplicitQuantile: lambda: (ImplicitQuantile(width=4),),
    HuberImplicitQuantile: lambda: (HuberImplicitQuantile(width=4),),
    DistributionLoss: lambda: tuple(DistributionLoss(distribution=name) for name in get_args(DistributionName)),
    CrossEntropy: lambda: (CrossEntropy(classes=4),),
    CustomLoss: lambda: (CustomLoss(function=_squared),),
    Weighted: lambda: (
        Weighted(loss=MAE(), by="horizon", decay=0.9),
        Weighted(loss=DistributionLoss(distribution="Normal")),
        Weighted(loss=BinaryCrossEntropy()),
    ),
}
_SHIPPED_SCHEDULES: dict[type[Schedule], Callable[[], tuple[Schedule, ...]]] = {
    MultiStepDecay: lambda: (MultiStepDecay(milestones=(1, 3)),),
    CustomSchedule: lambda: (CustomSchedule(function=_harmonic),),
    Joined: lambda: (Joined(schedules=(Constant(), LinearDecay()), at=(0.5,)),),
}
