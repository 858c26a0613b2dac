"""What a point of a search space does to a model and to its training. Every function returns new descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.space.dimensions import Choice, Dimension
from neuro_divergent.core.space.options import Label, Option
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.search.space.fields import (
    PARENTS,
    SWITCHED_ON,
    Target,
    candidates,
    canonical,
    class_of_option,
    model_class,
)
from neuro_divergent.training.config.training_config import TrainingConfig

_SHARED = frozenset(Model.model_fields) - {"alias"}
"""Fields of the given model that a chosen model of another kind takes over: its sizes, its scaler, its anchor."""


def inner(model: Model) -> Model:
    """The model whose network is trained: that of a model around another one (HINT)."""
    inside = getattr(model, "model", None)
    return inner(inside) if isinstance(inside, Model) else model


def _changed(model: Model, fields: Mapping[str, Any]) -> Model:
    inside = getattr(model, "model", None)
    if isinstance(inside, Model):
        return type(model)(
            **{name: getattr(model, name) for name in model.model_fields_set - _SHARED}
            | {"model": _changed(inside, fields)}
        )
    return model.replace(**fields)


def parent_object(model: Model, config: TrainingConfig, owner: str) -> Any:
    """The description in a field of the training; that of the model's recipe if it is "auto"."""
    value = getattr(config, owner)
    if not (isinstance(value, str) and value == "auto"):
        return value
    value = getattr(model.recipe(1), owner)
    return value.at_rate(config.learning_rate) if owner == "optimizer" and config.learning_rate else value


def parent_classes(model: Model, config: TrainingConfig) -> dict[str, type[Description] | None]:
    """The class of each description of the training; None where there is none."""
    found = {owner: parent_object(model, config, owner) for owner in PARENTS}
    return {
        owner: type(value) if isinstance(value, Description) else SWITCHED_ON.get(owner)
        for owner, value in found.items()
    }


def chosen_model(base: Model, option: Any) -> Model:
    """The model of an option: the base itself if the option only names its kind, else with the sizes of the base."""
    if option is None or isinstance(option, Model):
        return base if option is None else option
    fields = dict(option) if isinstance(option, Mapping) else {"kind": option}
    cls = model_class(fields.pop("kind"))
    if cls is type(base):
        return base.replace(**fields) if fields else base
    shared = {name: getattr(base, name) for name in base.model_fields_set & _SHARED}
    return cls(**shared | fields)


def with_description(model: Model, config: TrainingConfig, owner: str, option: Any) -> TrainingConfig:
    """The training with the chosen optimizer, schedule, ... The present one stays if the option names its kind."""
    now = parent_object(model, config, owner)
    kind = option.get("kind") if isinstance(option, Mapping) else option
    if isinstance(now, Description) and isinstance(kind, str) and _same_kind(kind, now):
        fields = (
            {name: value for name, value in option.items() if name != "kind"} if isinstance(option, Mapping) else {}
        )
        return config.replace(**{owner: now.replace(**fields) if fields else now})
    return config.replace(**{owner: option})


def _same_kind(kind: str, now: Description) -> bool:
    return registry.normalise(kind) == registry.normalise(now.kind)


def with_values(model: Model, config: TrainingConfig, values: Mapping[Target, Any]) -> tuple[Model, TrainingConfig]:
    """Model and training with these fields."""
    of_model = {target.field: value for target, value in values.items() if target.owner == "model"}
    of_training = {target.field: value for target, value in values.items() if target.owner == "training"}
    model = _changed(model, of_model) if of_model else model
    for owner in PARENTS:
        fields = {target.field: value for target, value in values.items() if target.owner == owner}
        if fields:
            config = config.replace(**{owner: _described(model, config, owner).replace(**fields)})
    return model, config.replace(**of_training) if of_training else config


def _described(model: Model, config: TrainingConfig, owner: str) -> Description:
    value = parent_object(model, config, owner)
    if isinstance(value, Description):
        return value
    if owner in SWITCHED_ON:
        return SWITCHED_ON[owner]()
    raise ConfigError(f"the space varies a field of {owner}, but the training has {owner}={value!r}")


def present(model: Model, config: TrainingConfig, name: str) -> Any:
    """The value that a field has now; "auto" if the data decide it."""
    found = candidates(name, type(inner(model)), parent_classes(model, config))
    if len(found) != 1:
        return None
    target = found[0]
    if target == ("training", "learning_rate"):
        optimizer = parent_object(model, config, "optimizer")
        return optimizer.learning_rate if config.learning_rate is None else config.learning_rate
    if target.owner == "model":
        return getattr(inner(model), target.field)
    if target.owner == "training":
        return getattr(config, target.field)
    return getattr(parent_object(model, config, target.owner), target.field, None)


def default_option(base: Model, config: TrainingConfig, owner: str, dimension: Dimension) -> list[Label]:
    """The label of the option that names what is there now, as a list of one; an empty list if there is none."""
    assert isinstance(dimension, Choice)
    now = base if owner == "model" else parent_object(base, config, owner)
    equal = dimension.find(now)
    if equal or not isinstance(now, Description):
        return equal
    for label, value in zip(dimension.labels, dimension.values, strict=True):
        by_name = isinstance(value, str | Option)
        if by_name and class_of_option(canonical(owner), value) is type(now):
            return [label]
    return []
