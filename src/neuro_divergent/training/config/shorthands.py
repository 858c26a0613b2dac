"""Short forms of settings: `early_stopping=15`, `optimizer=AdamW`, `augmentation=True`, a function as a callback.

Each is converted to the one value of the field when the configuration is made. Files, resumed runs and comparisons
see only that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import PurePath
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator

from neuro_divergent.core.config import Description
from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.windows.augmentation import Augmentation, Compose, Jitter, MagnitudeWarp
from neuro_divergent.losses import CustomLoss, Loss
from neuro_divergent.metrics.base import Metric, MetricField
from neuro_divergent.optim import AnyClipping, ClipByNorm, Clipping, Optimizer, Schedule, TorchOptimizer
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings
from neuro_divergent.training.callbacks.functions import CustomCallback
from neuro_divergent.training.config.checkpoints import Checkpoints
from neuro_divergent.training.config.curriculum import TeacherForcing


def switch(on: Callable[[], Description], number: Callable[[float], Description] | None = None) -> BeforeValidator:
    """True becomes the value of `on`, False becomes None, and a number becomes the result of `number`."""

    def read(value: Any) -> Any:
        if isinstance(value, bool):
            return on() if value else None
        if number is not None and isinstance(value, Real):
            return number(value)  # type: ignore[arg-type]  # a number of numpy is one, too
        return value

    return BeforeValidator(read)


def as_loss(value: Any) -> Any:
    """A plain function becomes a description that refers to it; a loss class becomes the loss with its defaults."""
    if isinstance(value, type) and issubclass(value, Loss):
        return value()
    is_function = callable(value) and not isinstance(value, Loss)
    return CustomLoss(function=value) if is_function else value


def as_optimizer(value: Any) -> Any:
    """A class of torch.optim becomes its description; any other value is unchanged."""
    is_torch = isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
    return TorchOptimizer(cls=value) if is_torch else value


def common_augmentation() -> Compose:
    """The value of `augmentation=True`: noise and a smooth change of the amplitude, each in half of the windows."""
    return Compose(steps=(Jitter(), MagnitudeWarp()))


def as_augmentation(value: Any) -> Any:
    """A list of augmentations becomes a Compose; any other value is unchanged."""
    return Compose(steps=value) if isinstance(value, list | tuple) else value


def one_or_more(value: Any) -> Any:
    """A single text becomes a tuple."""
    return (value,) if isinstance(value, str) else value


def as_checkpoints(value: Any) -> Any:
    """A path becomes checkpoints in that directory; any other value is unchanged."""
    return Checkpoints(directory=value) if isinstance(value, str | PurePath) else value


def as_callbacks(value: Any) -> Any:
    """One callback or several: objects, settings, their classes, names or JSON, or plain functions."""
    several = value if isinstance(value, list | tuple) else [value]
    return tuple(_as_callback(item) for item in several)


def _as_callback(item: Any) -> Callback | CallbackSettings:
    if isinstance(item, type) and issubclass(item, Callback | CallbackSettings):
        try:
            return item()
        except TypeError as error:
            raise ConfigError(
                f"a class in callbacks is called without arguments, but {item.__name__} needs some: {error}. Give an "
                f"object, {item.__name__}(...)"
            ) from error
    if isinstance(item, str | Mapping):
        return CallbackSettings.from_dict({"kind": item} if isinstance(item, str) else item)
    if isinstance(item, Callback | CallbackSettings):
        return item
    if callable(item):
        return CustomCallback.of(item)
    raise ConfigError(f"callbacks must be Callback objects, their settings or functions, but got {item!r}")


def mixed_precision(device: str) -> str:
    """The half precision of a device: bf16 if the device supports it (all CPUs, newer GPUs), else fp16."""
    found = resolve_device(device)
    if found.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    return "fp16" if found.type == "mps" else "bf16"


FIELD_OF = {"mixed_precision": "precision", "verbose": "progress", "refit_on_all": "refit"}
"""Short names, and the fields that they set."""


def written_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration, with `mixed_precision`, `verbose`, `accuracy` and the like converted."""
    fields = dict(fields)
    if "mixed_precision" in fields:
        half = _yes_or_no(fields, "mixed_precision")
        precision = mixed_precision(str(fields.get("device", "auto"))) if half else "float32"
        _fill(fields, "precision", precision, f"mixed_precision={half}")
    if "verbose" in fields:
        loud = _yes_or_no(fields, "verbose")
        _fill(fields, "progress", loud, f"verbose={loud}")
    if "refit_on_all" in fields:
        again = _yes_or_no(fields, "refit_on_all")
        _fill(fields, "refit", "all" if again else None, f"refit_on_all={again}")
    if "accuracy" in fields and _yes_or_no(fields, "accuracy"):
        named = tuple(one_or_more(fields.get("metrics", ())))
        fields["metrics"] = named if "accuracy" in named else (*named, "accuracy")
    rate = fields.get("learning_rate")
    if rate is not None and fields.get("optimizer", "auto") != "auto":
        fields |= {"optimizer": _agreed(fields["optimizer"], rate), "learning_rate": None}
    return fields


def _yes_or_no(fields: dict[str, Any], name: str) -> bool:
    value = fields.pop(name)
    if not isinstance(value, int):
        raise ConfigError(f"{name} must be True or False, but got {name}={value!r}")
    return bool(value)


def _fill(fields: dict[str, Any], field: str, value: Any, short: str) -> None:
    if fields.get(field, value) != value:
        raise ConfigError(
            f"{short} is short for {field}={value!r}, but got {field}={fields[field]!r} as well. Leave one of them out"
        )
    fields[field] = value


def _agreed(given: Any, rate: Any) -> Optimizer:
    """The optimizer with the given learning rate. An optimizer with another rate of its own is refused."""
    optimizer = Optimizer.model_validate(as_optimizer(given))
    wanted = at_rate(optimizer, rate)
    if "learning_rate" in optimizer.model_fields_set and optimizer.learning_rate != wanted.learning_rate:
        raise ConfigError(
            f"a training has one learning rate, but got learning_rate={wanted.learning_rate} and an optimizer with "
            f"learning_rate={optimizer.learning_rate}. Leave one of them out"
        )
    return wanted


def at_rate(optimizer: Optimizer, rate: Any) -> Optimizer:
    """The optimizer with another learning rate, which is validated."""
    return optimizer.at_rate(optimizer.replace(learning_rate=rate).learning_rate)


# The types of the fields, and what they accept.
Auto = Literal["auto"]
LossField = Annotated[Loss, BeforeValidator(as_loss)]
GivenLoss = Loss | type[Loss] | str | Callable[..., Any]
OptimizerField = Annotated[Optimizer | Auto, BeforeValidator(as_optimizer)]
GivenOptimizer = Optimizer | type[Optimizer] | type[torch.optim.Optimizer] | str
GivenSchedule = Schedule | type[Schedule] | str | Callable[[int], float] | None
ClippingField = Annotated[AnyClipping | Auto | None, switch(ClipByNorm)]
GivenClipping = Clipping | type[Clipping] | Sequence[Clipping] | str | float | None
CheckpointsField = Annotated[Checkpoints | None, BeforeValidator(as_checkpoints)]
CallbacksField = Annotated[tuple[Callback | CallbackSettings, ...], BeforeValidator(as_callbacks)]
GivenCallback = Callback | CallbackSettings | type[Callback] | type[CallbackSettings] | Callable[..., Any] | str
AugmentationField = Annotated[Augmentation | None, BeforeValidator(as_augmentation), switch(common_augmentation)]
GivenAugmentation = Augmentation | type[Augmentation] | Sequence[Augmentation] | str | bool | None
ForcingField = Annotated[TeacherForcing | None, switch(TeacherForcing, lambda p: TeacherForcing(start=p, end=p))]
Names = Annotated[tuple[str, ...], BeforeValidator(one_or_more)]
MetricsField = Annotated[tuple[MetricField, ...], BeforeValidator(one_or_more)]
GivenMetrics = Sequence[str | Metric | type[Metric] | Callable[..., Any]] | str
