"""The search space: which fields of a model and of its training are varied, and over which values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from pydantic import model_validator

from neuro_divergent.core.config import Description, Function
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, default
from neuro_divergent.core.space.dimensions import Choice, Dimension, LogUniform, Uniform, as_dimension
from neuro_divergent.core.space.options import Label
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.search.space import apply as space_apply
from neuro_divergent.search.space import points as space_points
from neuro_divergent.search.space.check import check_space, unknown_field
from neuro_divergent.search.space.fields import candidates, canonical, refuse_unsearchable, unknown_name
from neuro_divergent.search.space.points import Point, active, choice_of, chooses_description, following
from neuro_divergent.training.config.training_config import TrainingConfig

MOST_GRID_POINTS = 10_000
"""A larger grid is refused unless the caller states another limit."""


class SearchSpace(Description):
    """The values over which a search varies fields of a model, of its training, optimizer, schedule or loss.

    >>> from neuro_divergent.core.space.dimensions import choice, loguniform
    >>> space = SearchSpace(learning_rate=loguniform(1e-4, 1e-2), hidden_size=choice(64, 128))
    >>> space.grid_size(3)
    6

    `SearchSpace()` is empty: the beginning of a chain of `add_categorical`, `add_discrete` and `add_continuous`.
    """

    dimensions: dict[str, Dimension] = default({})
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
    def _searchable(self) -> Self:
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
        point, names = Point(), space_points.every_name(self.dimensions)
        for name, value in given.items():
            dimension = names.get(name)
            if dimension is None:
                raise unknown_name(name, names, "the space")
            try:
                point[name] = dimension.label(value)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}") from None
        return point

    # What a search asks.

    @property
    def chooses_model(self) -> bool:
        """Whether the model is one of the dimensions."""
        return choice_of(self.dimensions, "model") is not None

    def check(self, model: Model | None = None, config: TrainingConfig | None = None) -> None:
        """Refuse a space with a name that reaches no field, or with a value that its field cannot have."""
        check_space(self.dimensions, self._base(model), config or TrainingConfig())

    def suggest(self, trial: Any) -> Point:
        """The point that an Optuna trial suggests. A name that the chosen model lacks is not asked for."""
        point: Point = {}
        while (found := following(self.dimensions, point)) is not None:
            name, dimension = found
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
        cls, parents, targets = type(space_apply.inner(base)), space_apply.parent_classes(base, config), {}
        for name, value in self._values(point).items():
            found = candidates(name, cls, parents)
            if len(found) != 1:
                raise unknown_field(name, [cls], parents)
            targets[found[0]] = value
        return space_apply.with_values(base, config, targets)

    def default_point(self, model: Model | None, config: TrainingConfig | None = None) -> Point | None:
        """The point of the model and training as they are; None if they lie outside of the space.

        A field that the training leaves to the data (batch_size="auto") is left out of the point, unless "auto" is one
        of its values.
        """
        config, point, left_out = config or TrainingConfig(), Point(), set[str]()
        base = self._base(model)
        while (undecided := following(self.dimensions, point, left_out)) is not None:
            name, dimension = undecided
            if chooses_description(name, dimension):
                found = space_apply.default_option(base, config, canonical(name), dimension)
            else:
                now = space_apply.present(*self.apply(point, model, config), self._path(name))
                found = dimension.find(now)
                if not found and (isinstance(now, Description) or (isinstance(now, str) and now == "auto")):
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
        return (point for point in space_points.grid(self.dimensions, points) if self.allows(point))

    def grid_size(self, points: int = 5) -> int:
        """The number of points of a grid, before the constraints."""
        if points < 1:
            raise ConfigError(f"a grid needs 1 point or more for each continuous range, but got points={points}")
        return space_points.grid_size(self.dimensions, points)

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
        if all(name.isidentifier() for name in self.dimensions):
            lines = [f"    {name}={dimension.text()}," for name, dimension in self.dimensions.items()]
            return "\n".join(["nd.SearchSpace(", *lines, ")"])
        lines = [f'    "{name}": {dimension.text()},' for name, dimension in self.dimensions.items()]
        return "\n".join(["nd.SearchSpace(**{", *lines, "})"])

    def including(self, model: Model, config: TrainingConfig | None = None) -> Self:
        """The space, made wide enough for the values that model and training have now."""
        config = config or TrainingConfig()
        dimensions = {}
        for name, dimension in self.dimensions.items():
            now = None if chooses_description(name, dimension) else space_apply.present(model, config, self._path(name))
            dimensions[name] = dimension if now is None else dimension.including(now)
        return self.replace(dimensions=dimensions)

    # What a point means.

    def _base(self, model: Model | None) -> Model:
        """The given model, or else the first description among the models of the space."""
        dimension = choice_of(self.dimensions, "model")
        if model is not None:
            return model
        described = [] if dimension is None else [one for one in dimension.values if isinstance(one, Model)]
        if not described:
            raise ConfigError(
                "the search needs a model with its sizes, such as model=nd.MLP(h=12, input_size=24); a space that "
                "chooses among names takes h and input_size from it"
            )
        return described[0]

    def _chosen(self, point: Mapping[str, Label]) -> dict[str, Any]:
        """The descriptions that the point chooses, by owner, as plain data or objects."""
        return {
            canonical(name): space_points.chosen_option(name, dimension, point)
            for name, dimension in self.dimensions.items()
            if name in point and chooses_description(name, dimension)
        }

    def _values(self, point: Mapping[str, Label]) -> dict[str, Any]:
        """The values of the single fields."""
        own = {name: one for name, one in active(self.dimensions, point) if name in self.dimensions}
        return {
            name: dimension.option(point[name])
            for name, dimension in own.items()
            if name in point and not chooses_description(name, dimension)
        }

    def _path(self, name: str) -> str:
        """The path of a name; `optimizer.SGD.momentum`, a name inside an option, becomes `optimizer.momentum`."""
        if name in self.dimensions:
            return name
        owner = next(other for other in self.dimensions if name.startswith(f"{other}."))
        return f"{canonical(owner)}.{name.rpartition('.')[2]}"


def _dimension(name: str, value: Any) -> Any:
    found = as_dimension(value)
    if not isinstance(found, Dimension):
        raise ConfigError(
            f"{name} must be a range or a choice, such as nd.uniform(0, 0.5) or nd.choice(64, 128), but got {value!r}. "
            "Set a fixed value in the model or its config"
        )
    return found
