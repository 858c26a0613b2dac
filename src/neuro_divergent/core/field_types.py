"""Field types for editors and type checkers: the type that a field accepts, beside the type that it stores.

Pydantic converts the argument of a field to its stored type: a list to a tuple, a name to a loss, a text to a path. A
type checker uses the annotation of a field for both. `Takes[held, given]` declares both types, by a descriptor that
exists only for type checkers. At run time `Takes[held, given]` is `held`, and `Several[item]` is `tuple[item, ...]`.

    class Knots(Description):
        at: Several[float] = default((0.0, 1.0))    # Knots(at=[0.0, 0.5, 1.0]).at is a tuple
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from pydantic import Field

Held = TypeVar("Held", covariant=True)
Given = TypeVar("Given", contravariant=True)
Item = TypeVar("Item")

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

    AnyPath = Path


def default(value: Any, **constraints: Any) -> Any:
    """Return the default of a field of these types: pydantic's `Field`, typed as Any."""
    return Field(value, **constraints)
