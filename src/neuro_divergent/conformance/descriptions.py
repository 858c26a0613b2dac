"""Checks for every description, whatever its family."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from neuro_divergent.conformance.suite import expecting, require
from neuro_divergent.core.config import Description, reference
from neuro_divergent.core.field_docs import field_docs, own_doc


def round_trips(description: Description) -> None:
    """JSON and YAML restore an equal description through the base class of its family."""
    base = next(cls for cls in reversed(type(description).__mro__) if "family" in vars(cls) and cls is not Description)
    assert issubclass(base, Description)
    using = functions(description)
    with expecting("from_json(to_json()) must return an equal description"):
        again = base.from_json(description.to_json(), using=using)
        require(again == description, f"but {again!r} is not {description!r}")
    with expecting("from_yaml(to_yaml()) must return an equal description"):
        again = base.from_yaml(description.to_yaml(), using=using)
        require(again == description, f"but {again!r} is not {description!r}")


def is_documented(description: Description) -> None:
    """The class has a docstring and every field a sentence under it: help texts and pages are made from them."""
    cls = type(description)
    require(bool(own_doc(cls)), f"{cls.__name__} must have a docstring, but has none")
    if not _has_source(cls):
        return
    described = field_docs(cls)
    missing = [name for name in cls.model_fields if name not in described]
    require(not missing, f"every field must have a sentence (a string) under it, but these have none: {missing}")


def _has_source(cls: type) -> bool:
    """Whether the sentences can be read; a class made in an interactive session has no file."""
    try:
        inspect.getsource(cls)
    except (OSError, TypeError):
        return False
    return True


def functions(value: Any) -> dict[str, Callable[..., Any]]:
    """The callables in a description, by the reference that a file has for them."""
    if isinstance(value, Description):
        value = [getattr(value, name) for name in type(value).model_fields]
    if isinstance(value, list | tuple):
        return {name: found for item in value for name, found in functions(item).items()}
    return {reference(value): value} if callable(value) else {}
