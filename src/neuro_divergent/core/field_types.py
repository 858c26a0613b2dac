"""Field types for editors and type checkers: what a field may be given, beside what it holds.

Pydantic turns what a user writes into what a field holds: a list into a tuple, a name into a loss, a text into a path.
A type checker takes the annotation of a field for both. `Takes[held, given]` tells it the difference, by a descriptor
that only type checkers see. At run time `Takes[held, given]` is `held`, and `Several[item]` is `tuple[item, ...]`.

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
        """A field that holds one type and may be given another."""

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
        """A field that holds one type and may be given another: at run time the first one."""

        def __class_getitem__(cls, types: tuple[Any, Any]) -> Any:
            return types[0]

    class Several:
        """A field that holds a tuple and may be given any sequence: at run time the tuple."""

        def __class_getitem__(cls, item: Any) -> Any:
            return tuple[item, ...]

    AnyPath = Path


def default(value: Any, **constraints: Any) -> Any:
    """The default of a field of these types: what `Field` gives, without a type of its own."""
    return Field(value, **constraints)
