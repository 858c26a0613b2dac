"""The names of a point in the order in which they are decided: which of them count, and all points of a grid.

Choices of whole descriptions (the model, the optimizer, ...) come first, because they decide which other names count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.space.dimensions import Choice, Dimension
from neuro_divergent.core.space.options import Label, Option
from neuro_divergent.search.space.fields import PARENTS, canonical, class_of_option, field_of
from neuro_divergent.training.config.training_config import TrainingConfig

Point = dict[str, Label]
"""A value for each name of a space: JSON primitives. An option that is none is stored by its label."""

Dimensions = Mapping[str, Dimension]


def chooses_description(name: str, dimension: Dimension) -> bool:
    """Whether the dimension chooses a whole description: the model, the optimizer, ...

    A range is a number that stands for a description, such as gradient_clipping=nd.uniform(0.5, 2).
    """
    return canonical(name) in ("model", *PARENTS) and isinstance(dimension, Choice)


def choice_of(dimensions: Dimensions, owner: str) -> Choice | None:
    """The choice of the model, the optimizer, ...; None if the space does not choose it."""
    found = next((one for name, one in dimensions.items() if canonical(name) == owner), None)
    if owner == "model" and found is not None and not isinstance(found, Choice):
        raise ConfigError(f"model must be a choice, such as nd.choice('LSTM', 'GRU'), but got {found.text()}")
    return found if isinstance(found, Choice) else None


def classes_of(dimensions: Dimensions, owner: str) -> list[type[Description] | None]:
    """The class of each option of a choice of descriptions."""
    found = choice_of(dimensions, owner)
    return [] if found is None else [class_of_option(owner, value) for value in found.values]


def following(dimensions: Dimensions, point: Point, without: Collection[str] = ()) -> tuple[str, Dimension] | None:
    """The next name that the point has not decided, with its dimension; None if the point is complete."""
    undecided = ((name, one) for name, one in active(dimensions, point) if name not in point and name not in without)
    return next(undecided, None)


def active(dimensions: Dimensions, point: Mapping[str, Label]) -> Iterator[tuple[str, Dimension]]:
    """The names that count at this point: choices of descriptions, the names inside the chosen ones, the rest."""
    for name, dimension in dimensions.items():
        if chooses_description(name, dimension):
            yield name, dimension
            yield from inside(name, dimension, point)
    for name, dimension in dimensions.items():
        if not chooses_description(name, dimension) and counts(dimensions, name, point):
            yield name, dimension


def counts(dimensions: Dimensions, name: str, point: Mapping[str, Label]) -> bool:
    """Whether the descriptions that the point chooses have this field, if any option of theirs has it."""
    *path, last = canonical(name).split(".")
    if not path and last in TrainingConfig.model_fields:
        return True
    known = chosen = False
    for other, dimension in dimensions.items():
        owner = canonical(other)
        if not chooses_description(other, dimension) or (path and path[-1] != owner):
            continue
        classes = dict(zip(dimension.grid(1), classes_of(dimensions, owner), strict=True))
        known = known or any(field_of(cls, last) for cls in classes.values())
        chosen = chosen or (other in point and field_of(classes[point[other]], last) is not None)
    return chosen or not known


def inside(name: str, dimension: Dimension, point: Mapping[str, Label]) -> Iterator[tuple[str, Dimension]]:
    """The names of the dimensions inside the option that the point chooses, such as optimizer.SGD.momentum."""
    option = dimension.option(point[name]) if name in point else None
    if isinstance(option, Option):
        for field, inner in option.fields.items():
            if isinstance(inner, Dimension):
                path = f"{name}.{point[name]}.{field}"
                yield path, inner
                yield from inside(path, inner, point)


def every_name(dimensions: Dimensions) -> dict[str, Dimension]:
    """Every name that a point may have."""
    found: dict[str, Dimension] = {}
    for name, dimension in dimensions.items():
        found[name] = dimension
        for label in dimension.labels if isinstance(dimension, Choice) else ():
            found |= inside(name, dimension, {name: label})
    return found


def chosen_option(name: str, dimension: Dimension, point: Mapping[str, Label]) -> Any:
    """The chosen option, with the values of the dimensions inside it, as plain data or an object."""
    option = dimension.option(point[name])
    if not isinstance(option, Option):
        return option
    fields: dict[str, Any] = {"kind": option.of}
    for field, value in option.fields.items():
        path = f"{name}.{point[name]}.{field}"
        if not isinstance(value, Dimension):
            fields[field] = value
        elif path in point:
            fields[field] = chosen_option(path, value, point)
    return fields


def grid(dimensions: Dimensions, points: int, point: Point | None = None) -> Iterator[Point]:
    """Every point of the grid, from a point that has decided some names."""
    point = point or {}
    found = following(dimensions, point)
    if found is None:
        yield point
        return
    name, dimension = found
    for value in dimension.grid(points):
        yield from grid(dimensions, points, point | {name: value})


def grid_size(dimensions: Dimensions, points: int, point: Point | None = None) -> int:
    """The number of points of the grid. Only choices of descriptions are tried out; the rest is multiplied."""
    point = point or {}
    found = following(dimensions, point)
    if found is None:
        return 1
    name, dimension = found
    if chooses_description(name, dimension) or name not in dimensions:
        return sum(grid_size(dimensions, points, point | {name: value}) for value in dimension.grid(points))
    size = 1
    for other, one in active(dimensions, point):
        size *= 1 if other in point else one.size(points)
    return size
