"""Field types for editors and type checkers: the type that a field accepts, beside the type that it stores.

Pydantic converts the argument of a field to its stored type: a list to a tuple, a name to a loss, a text to a path. A
type checker uses the annotation of a field for both. `Takes[held, given]` declares both types, by a descriptor that
exists only for type checkers. At run time `Takes[held, given]` is `held`, and `Several[item]` is `tuple[item, ...]`.

    class Knots(Description):
        at: Several[float] = default((0.0, 1.0))    # Knots(at=[0.0, 0.5, 1.0]).at is a tuple
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Self, TypeVar, overload

from pydantic import BaseModel, BeforeValidator, Field

Held = TypeVar("Held", covariant=True)
Given = TypeVar("Given", contravariant=True)
Item = TypeVar("Item")


def listed(value: Any) -> Any:
    """A single number, description or mapping as a tuple of one; sequences and None as they are.

    >>> listed(80), listed([80, 95]), listed(None)
    ((80,), [80, 95], None)
    """
    one = not isinstance(value, Iterable) or isinstance(value, BaseModel | Mapping)
    return (value,) if one and value is not None else value


if TYPE_CHECKING:

    class Takes(Generic[Held, Given]):
        """A field that stores one type and accepts another."""

        @overload
        def __get__(self, instance: None, owner: Any) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> Held: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: Given) -> None: ...

    Several = Takes[tuple[Item, ...], Sequence[Item]]
    OneOrSeveral = Takes[tuple[Item, ...], Sequence[Item] | Item]
    Numbers = Takes[tuple[float, ...] | None, Sequence[float] | float | None]
    AnyPath = Takes[Path, str | os.PathLike[str]]
else:

    class Takes:
        """A field that stores one type and accepts another. At run time it is the first type."""

        def __class_getitem__(cls, types: tuple[Any, Any]) -> Any:
            return types[0]

    class Several:
        """A field that stores a tuple and accepts any sequence. At run time it is the tuple type."""

        def __class_getitem__(cls, item: Any) -> Any:
            return tuple[item, ...]

    class OneOrSeveral:
        """A field that stores a tuple and also accepts one item without a list."""

        def __class_getitem__(cls, item: Any) -> Any:
            return Annotated[tuple[item, ...], BeforeValidator(listed)]

    Numbers = Annotated[tuple[float, ...] | None, BeforeValidator(listed)]
    AnyPath = Path


def default(value: Any, **constraints: Any) -> Any:
    """Return the default of a field of these types: pydantic's `Field`, typed as Any."""
    return Field(value, **constraints)
