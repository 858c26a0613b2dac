"""The search space: which fields of a model and of its training are varied, and over which values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from neuro_divergent.core.config import Description, Function
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.core.space.dimensions import Choice, Dimension, LogUniform, Uniform, as_dimension
from neuro_divergent.core.space.options import Label, Option
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.search import space_apply
from neuro_divergent.search.space_fields import (
    NOT_SEARCHED,
    PARENTS,
    Target,
    candidates,
    canonical,
    check_value,
    class_of_option,
    field_of,
    refuse_unsearchable,
    unknown_name,
)
from neuro_divergent.training.config.training_config import TrainingConfig

Point = dict[str, Label]
"""A value for each name of a space: JSON primitives. An option that is none is stored by its label."""

MOST_GRID_POINTS = 10_000
"""A larger grid is refused unless the caller states another limit."""


class SearchSpace(Description):
    """The values over which a search varies fields of a model, of its training, optimizer, schedule or loss.

    >>> from neuro_divergent.core.space.dimensions import choice, loguniform
    >>> space = SearchSpace(learning_rate=loguniform(1e-4, 1e-2), hidden_size=choice(64, 128))
    >>> space.grid_size(3)
    6
    """

    positional: ClassVar[tuple[str, ...]] = ()

    dimensions: dict[str, Annotated[Dimension, Field()]]
    """The dimension of each name."""
    constraints: Several[Function] = default(())
    """Functions of a point. A point for which one of them returns False is not tried."""
    first: Several[dict[str, Any]] = default(())
    """Points to try first."""

    def __init__(self, /, **fields: Any) -> None:
        own = {name: fields.pop(name) for name in ("constraints", "first") if name in fields}
        whole = fields.pop("dimensions", {})
        if not isinstance(whole, Mapping):
            raise ConfigError(f"dimensions must be an object with a dimension for each name, but got {whole!r}")
        given = dict(whole) | fields
        super().__init__(dimensions={name: _dimension(name, value) for name, value in given.items()}, **own)

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.dimensions:
            raise ConfigError("a search space needs a dimension, such as learning_rate=nd.loguniform(1e-5, 1e-1)")
        for name in self.dimensions:
            refuse_unsearchable(name)
        return self

    # Making a space, one dimension after the other.

    def add(self, **dimensions: Any) -> Self:
        """The space with more dimensions."""
        twice = self.dimensions.keys() & dimensions.keys()
        if twice:
            raise ConfigError(f"each name has one dimension, but the space has {min(twice)!r} already")
        return self.replace(dimensions=self.dimensions | dimensions)

    def add_categorical(self, name: str, values: Sequence[Any]) -> Self:
        """The space with a choice of these values, which have no order."""
        return self.add(**{name: Choice(values=values)})

    def add_discrete(self, name: str, values: Sequence[Any]) -> Self:
        """The space with a choice of these numbers."""
        return self.add(**{name: Choice(values=values)})

    def add_continuous(self, name: str, low: float, high: float, log_scale: bool = False) -> Self:
        """The space with a range of real numbers, on a logarithmic scale if asked for."""
        return self.add(**{name: LogUniform(low=low, high=high) if log_scale else Uniform(low=low, high=high)})

    def where(self, *constraints: Callable[[Point], bool]) -> Self:
        """The space without the points for which a function returns False."""
        return self.replace(constraints=(*self.constraints, *constraints))

    def enqueue(self, *points: Mapping[str, Any]) -> Self:
        """The space with points that are tried first. A name that a point leaves out is chosen by the search."""
        return self.replace(first=(*self.first, *(self.point(given) for given in points)))

    def point(self, given: Mapping[str, Any]) -> Point:
        """A point in its stored form. Unknown names and values outside of the space are refused."""
        point: Point = {}
        for name, value in given.items():
            dimension = dict(self._all()).get(name)
            if dimension is None:
                raise unknown_name(name, dict(self._all()), "the space")
            try:
                point[name] = dimension.label(value)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
        return point

    # What a search asks.

    def check(self, model: Model | None = None, config: TrainingConfig | None = None) -> None:
        """Refuse a space with a name that reaches no field, or with a value that its field cannot have."""
        base = self._base(model)
        self._check_horizons(base)
        models = self._classes("model") if self._dimension_of("model") else [type(space_apply.inner(base))]
        parents = space_apply.parent_classes(base, config or TrainingConfig())
        reached: dict[tuple[type[Model], Target], str] = {}
        for name, dimension in self.dimensions.items():
            found = False
            for cls in models:
                for classes in self._parent_choices(name, parents):
                    for target in self._targets(name, cls, classes):
                        found = True
                        _once(reached, cls, target, name)
                        _check_values(name, dimension, target, cls, classes)
            if not found:
                raise self._unknown(name, models, parents)

    def suggest(self, trial: Any) -> Point:
        """The point that an Optuna trial suggests. A name that the chosen model lacks is not asked for."""
        point: Point = {}
        while (following := self._next(point)) is not None:
            name, dimension = following
            point[name] = dimension.suggest(trial, name)
        return point

    def apply(
        self, point: Mapping[str, Label], model: Model | None, config: TrainingConfig | None = None
    ) -> tuple[Model, TrainingConfig]:
        """The model and the training of a point. An impossible point raises a ConfigError with the reason."""
        config = config or TrainingConfig()
        chosen = self._chosen(point)
        base = space_apply.chosen_model(self._base(model), chosen.pop("model", None))
        for owner, value in chosen.items():
            config = space_apply.with_description(base, config, owner, value)
        values = self._values(point)
        targets = {}
        for name in values:
            found = candidates(name, type(space_apply.inner(base)), space_apply.parent_classes(base, config))
            if len(found) != 1:
                raise self._unknown(name, [type(space_apply.inner(base))], space_apply.parent_classes(base, config))
            targets[found[0]] = values[name]
        return space_apply.with_values(base, config, targets)

    def default_point(self, model: Model | None, config: TrainingConfig | None = None) -> Point | None:
        """The point of the model and training as they are; None if they lie outside of the space.

        A field that the training leaves to the data (batch_size="auto") is left out of the point, unless "auto" is one
        of its values.
        """
        config, point, left_out = config or TrainingConfig(), Point(), set[str]()
        base = self._base(model)
        while (following := self._next(point, left_out)) is not None:
            name, dimension = following
            owner = canonical(name)
            if self._is_structure(name):
                found = space_apply.default_option(base, config, owner, dimension)
            else:
                now = space_apply.present(*self.apply(point, model, config), self._path(name))
                found = dimension.find(now)
                if not found and isinstance(now, str) and now == "auto":
                    left_out.add(name)
                    continue
            if not found:
                return None
            point[name] = found[0]
        return point if self.allows(point) else None

    def grid(self, points: int = 5, most: int | None = MOST_GRID_POINTS) -> Iterator[Point]:
        """Every point of a grid that the constraints allow.

        Args:
            points: the number of values of a continuous range. Everything else has all its values.
            most: the largest number of points; a larger grid is refused. None for no limit.
        """
        size = self.grid_size(points)
        if most is not None and size > most:
            sizes = " × ".join(f"{name} {one.size(points)}" for name, one in self.dimensions.items())
            raise ConfigError(
                f"a grid may have {most:,} points, but this one has {size:,}: {sizes}. Take fewer values, search at "
                "random (nd.RandomSearch), or state a limit"
            )
        return (point for point in self._grid(Point(), points) if self.allows(point))

    def grid_size(self, points: int = 5) -> int:
        """The number of points of a grid, before the constraints."""
        if points < 1:
            raise ConfigError(f"a grid needs 1 point or more for each continuous range, but got points={points}")
        return self._grid_size(Point(), points)

    def allows(self, point: Mapping[str, Label]) -> bool:
        """Whether every constraint returns True for the point."""
        return all(bool(function(dict(point))) for function in self.constraints)

    def fingerprint(self) -> str:
        """A short text that differs between spaces of different dimensions or constraints."""
        form = self.to_dict()
        form.pop("first")
        return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()[:16]

    def text(self) -> str:
        """The space as Python code."""
        lines = [f"    {_keyword(name)}{dimension.text()}," for name, dimension in self.dimensions.items()]
        return "\n".join(["SearchSpace(", *lines, ")"])

    def including(self, model: Model, config: TrainingConfig | None = None) -> Self:
        """The space, made wide enough for the values that model and training have now."""
        config = config or TrainingConfig()
        dimensions = {}
        for name, dimension in self.dimensions.items():
            now = None if self._is_structure(name) else space_apply.present(model, config, self._path(name))
            dimensions[name] = dimension if now is None else dimension.including(now)
        return self.replace(dimensions=dimensions)

    # The parameters of a point, in the order in which they are decided.

    def _next(self, point: Point, without: set[str] | frozenset[str] = frozenset()) -> tuple[str, Dimension] | None:
        undecided = ((name, one) for name, one in self._active(point) if name not in point and name not in without)
        return next(undecided, None)

    def _active(self, point: Mapping[str, Label]) -> Iterator[tuple[str, Dimension]]:
        """The names that count at this point: choices of descriptions, the names inside the chosen ones, the rest."""
        for name, dimension in self.dimensions.items():
            if self._is_structure(name):
                yield name, dimension
                yield from _inside(name, dimension, point)
        for name, dimension in self.dimensions.items():
            if not self._is_structure(name) and self._counts(name, point):
                yield name, dimension

    def _counts(self, name: str, point: Mapping[str, Label]) -> bool:
        """Whether the descriptions that the point chooses have this field, if any option of theirs has it."""
        *path, last = canonical(name).split(".")
        if not path and last in TrainingConfig.model_fields:
            return True
        known = chosen = False
        for other, dimension in self.dimensions.items():
            owner = canonical(other)
            if not self._is_structure(other) or (path and path[-1] != owner):
                continue
            classes = dict(zip(dimension.grid(1), self._classes(owner), strict=True))
            known = known or any(field_of(cls, last) for cls in classes.values())
            chosen = chosen or (other in point and field_of(classes[point[other]], last) is not None)
        return chosen or not known

    def _all(self) -> Iterator[tuple[str, Dimension]]:
        """Every name that a point may have."""
        for name, dimension in self.dimensions.items():
            yield name, dimension
            if isinstance(dimension, Choice):
                for label in dimension.labels:
                    yield from _inside(name, dimension, {name: label})

    def _is_structure(self, name: str) -> bool:
        """Whether the name chooses a whole description: the model, the optimizer, ..."""
        return canonical(name) in ("model", *PARENTS)

    def _dimension_of(self, owner: str) -> Choice | None:
        found = next((one for name, one in self.dimensions.items() if canonical(name) == owner), None)
        if found is not None and not isinstance(found, Choice):
            raise ConfigError(f"{owner} must be a choice, such as nd.choice('LSTM', 'GRU'), but got {found.text()}")
        return found

    def _classes(self, owner: str) -> list[type[Any]]:
        """The class of each option of a choice of descriptions."""
        dimension = self._dimension_of(owner)
        return [] if dimension is None else [class_of_option(owner, value) for value in dimension.values]  # type: ignore[misc]

    # What a point means.

    def _base(self, model: Model | None) -> Model:
        """The given model, or else the first description among the models of the space."""
        dimension = self._dimension_of("model")
        if model is not None:
            return model
        described = [] if dimension is None else [one for one in dimension.values if isinstance(one, Model)]
        if not described:
            raise ConfigError(
                "the search needs a model with its sizes, such as model=nd.MLP(h=12, input_size=24); a space that "
                "chooses among names takes h and input_size from it"
            )
        return described[0]

    def _check_horizons(self, base: Model) -> None:
        dimension = self._dimension_of("model")
        for option in () if dimension is None else dimension.values:
            if isinstance(option, Model) and option.h != base.h:
                raise ConfigError(
                    f"all models of a search must have the same horizon, but got {base.kind} with h={base.h} and "
                    f"{option.kind} with h={option.h}"
                )

    def _chosen(self, point: Mapping[str, Label]) -> dict[str, Any]:
        """The descriptions that the point chooses, by owner, as plain data or objects."""
        names = [name for name in self.dimensions if self._is_structure(name) and name in point]
        return {canonical(name): _built(name, self.dimensions[name], point) for name in names}

    def _values(self, point: Mapping[str, Label]) -> dict[str, Any]:
        """The values of the single fields."""
        own = {name: one for name, one in self._active(point) if name in self.dimensions}
        return {
            name: dimension.option(point[name])
            for name, dimension in own.items()
            if name in point and not self._is_structure(name)
        }

    def _path(self, name: str) -> str:
        """The path of a name; `optimizer.SGD.momentum`, a name inside an option, becomes `optimizer.momentum`."""
        if name in self.dimensions:
            return name
        owner = next(other for other in self.dimensions if name.startswith(f"{other}."))
        return f"{canonical(owner)}.{name.rpartition('.')[2]}"

    def _parent_choices(
        self, name: str, parents: Mapping[str, type[Any] | None]
    ) -> Iterator[dict[str, type[Any] | None]]:
        """The classes of the training's descriptions, for every combination of options that may own the name."""
        chosen = [owner for owner in PARENTS if self._dimension_of(owner) is not None and canonical(name) != owner]
        for classes in product(*(self._classes(owner) for owner in chosen)):
            yield dict(parents) | dict(zip(chosen, classes, strict=True))

    def _targets(self, name: str, cls: type[Model], parents: Mapping[str, type[Any] | None]) -> list[Target]:
        if canonical(name) == "model":
            return [Target("space", "model")]
        found = candidates(name, cls, parents)
        if len(found) > 1:
            raise ConfigError(
                f"the name {name!r} is a field of {' and of '.join(one.owner for one in found)}. Write "
                f"{' or '.join(str(one) for one in found)}"
            )
        return found

    def _unknown(
        self, name: str, models: Sequence[type[Model]], parents: Mapping[str, type[Any] | None]
    ) -> ConfigError:
        classes = (*models, TrainingConfig, *filter(None, parents.values()))
        known = {field for cls in classes for field in cls.model_fields} - NOT_SEARCHED.keys()
        what = f"{' or '.join(cls.kind for cls in models)}, nor of the training or its optimizer, schedule or loss"
        return unknown_name(name, known, what)

    def _grid(self, point: Point, points: int) -> Iterator[Point]:
        following = self._next(point)
        if following is None:
            yield point
            return
        name, dimension = following
        for value in dimension.grid(points):
            yield from self._grid(point | {name: value}, points)

    def _grid_size(self, point: Point, points: int) -> int:
        following = self._next(point)
        if following is None:
            return 1
        name, dimension = following
        if self._is_structure(name) or name not in self.dimensions:
            return sum(self._grid_size(point | {name: value}, points) for value in dimension.grid(points))
        size = 1
        for other, one in self._active(point):
            size *= 1 if other in point else one.size(points)
        return size


def _dimension(name: str, value: Any) -> Any:
    found = as_dimension(value)
    if not isinstance(found, Dimension):
        raise ConfigError(
            f"{name} must be a range or a choice, such as nd.uniform(0, 0.5) or nd.choice(64, 128), but got {value!r}. "
            "Set a fixed value in the model or its config"
        )
    return found


def _inside(name: str, dimension: Dimension, point: Mapping[str, Label]) -> Iterator[tuple[str, Dimension]]:
    """The names of the dimensions inside the option that the point chooses."""
    option = dimension.option(point[name]) if name in point else None
    if isinstance(option, Option):
        for field, inner in option.fields.items():
            if isinstance(inner, Dimension):
                yield f"{name}.{point[name]}.{field}", inner
                yield from _inside(f"{name}.{point[name]}.{field}", inner, point)


def _built(name: str, dimension: Dimension, point: Mapping[str, Label]) -> Any:
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
            fields[field] = _built(path, value, point)
    return fields


def _once(reached: dict[tuple[type[Model], Target], str], cls: type[Model], target: Target, name: str) -> None:
    other = reached.setdefault((cls, target), name)
    if other != name:
        raise ConfigError(f"the names {other!r} and {name!r} reach the same field, {target}. Leave one of them out")


def _check_values(
    name: str, dimension: Dimension, target: Target, cls: type[Model], parents: Mapping[str, type[Any] | None]
) -> None:
    """Refuse values that a field can never have: all options of a choice, both ends of a range."""
    if target.owner == "space" or target.field in PARENTS:
        return
    owner = {"model": cls, "training": TrainingConfig, **parents}[target.owner]
    assert owner is not None
    labels = dimension.grid(2) if isinstance(dimension, Choice) else [dimension.grid(2)[0], dimension.grid(2)[-1]]
    for label in labels:
        check_value(owner, target.field, dimension.option(label), name)


def _keyword(name: str) -> str:
    return f"{name}=" if name.isidentifier() else f'**{{"{name}": ...}}  # '
