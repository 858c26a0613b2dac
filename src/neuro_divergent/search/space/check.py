"""Whether every name of a space reaches one field, and whether that field takes its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.space.dimensions import Choice, Dimension
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.search.space.apply import inner, parent_classes
from neuro_divergent.search.space.fields import (
    NOT_SEARCHED,
    PARENTS,
    Target,
    candidates,
    canonical,
    check_value,
    unknown_name,
)
from neuro_divergent.search.space.points import Dimensions, choice_of, classes_of
from neuro_divergent.training.config.training_config import TrainingConfig

Class = type[Description] | None


def check_space(dimensions: Dimensions, base: Model, config: TrainingConfig) -> None:
    """Refuse a space with a name that reaches no field, or two, or with a value that its field cannot have."""
    _check_horizons(dimensions, base)
    models = classes_of(dimensions, "model") or [type(inner(base))]
    parents = parent_classes(base, config)
    reached: dict[tuple[Class, Target], str] = {}
    for name, dimension in dimensions.items():
        found = False
        for cls, classes in product(models, _parent_choices(dimensions, name, parents)):
            for target in _targets(name, cls, classes):
                found = True
                other = reached.setdefault((cls, target), name)
                if other != name:
                    raise ConfigError(
                        f"the names {other!r} and {name!r} reach the same field, {target}. Leave one of them out"
                    )
                _check_values(name, dimension, target, cls, classes)
        if not found:
            raise unknown_field(name, models, parents)


def unknown_field(name: str, models: Sequence[Class], parents: Mapping[str, Class]) -> ConfigError:
    """The error for a name that is no field of the models, nor of the training."""
    classes = [cls for cls in (*models, TrainingConfig, *parents.values()) if cls is not None]
    known = {field for cls in classes for field in cls.model_fields} - NOT_SEARCHED.keys()
    kinds = " or ".join(cls.kind for cls in models if cls is not None)
    return unknown_name(name, known, f"{kinds}, nor of the training or its optimizer, schedule or loss")


def _check_horizons(dimensions: Dimensions, base: Model) -> None:
    models = choice_of(dimensions, "model")
    for option in () if models is None else models.values:
        if isinstance(option, Model) and option.h != base.h:
            raise ConfigError(
                f"all models of a search must have the same horizon, but got {base.kind} with h={base.h} and "
                f"{option.kind} with h={option.h}"
            )


def _parent_choices(dimensions: Dimensions, name: str, parents: Mapping[str, Class]) -> Iterator[dict[str, Class]]:
    """The classes of the training's descriptions, for every combination of the options that the space has."""
    chosen = [owner for owner in PARENTS if canonical(name) != owner and choice_of(dimensions, owner) is not None]
    for classes in product(*(classes_of(dimensions, owner) for owner in chosen)):
        yield {**parents, **dict(zip(chosen, classes, strict=True))}


def _targets(name: str, cls: Class, parents: Mapping[str, Class]) -> list[Target]:
    if canonical(name) == "model":
        return [Target("space", "model")]
    found = candidates(name, cls, parents)
    if len(found) > 1:
        raise ConfigError(
            f"the name {name!r} is a field of {' and of '.join(one.owner for one in found)}. Write "
            f"{' or '.join(str(one) for one in found)}"
        )
    return found


def _check_values(name: str, dimension: Dimension, target: Target, cls: Class, parents: Mapping[str, Class]) -> None:
    """Refuse values that a field can never have: all options of a choice, both ends of a range."""
    owner = {"model": cls, "training": TrainingConfig, **parents}.get(target.owner)
    if owner is None or (target.field in PARENTS and isinstance(dimension, Choice)):
        return
    labels = dimension.grid(2)
    for label in labels if isinstance(dimension, Choice) else (labels[0], labels[-1]):
        check_value(owner, target.field, dimension.option(label), name)
