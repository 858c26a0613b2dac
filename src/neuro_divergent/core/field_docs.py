"""What `help(NHITS)` and `NHITS?` show: the docstring of a description, then every field with its sentence.

Text and signature are made when somebody asks for them, because they are read from the source.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def field_docs(cls: type[BaseModel]) -> dict[str, str]:
    """The sentence under each field, by the name of the field."""
    docs: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if owner is BaseModel or not issubclass(owner, BaseModel):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        except (OSError, TypeError, SyntaxError):  # defined where there is no source, such as a frozen program
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, text in pairwise(body):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            value = text.value if isinstance(text, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docs[field.target.id] = inspect.cleandoc(value.value)
    return {name: docs[name] for name in cls.model_fields if name in docs}


def own_doc(cls: type[BaseModel]) -> str:
    """The docstring as it is written in the source, without the fields."""
    return cls.__dict__.get("__written_doc__") or ""


def describe_lazily(cls: type[BaseModel]) -> None:
    """Give a class the docstring and the signature of its fields; both are made on first use."""
    cls.__written_doc__ = cls.__dict__.get("__doc__")  # type: ignore[attr-defined]
    cls.__doc__ = _Doc()  # type: ignore[assignment]  # Python asks a descriptor for the text
    cls.__signature__ = _Signature()  # type: ignore[assignment]


class _Doc:
    """Makes the docstring of a class when it is read, and puts it in its own place."""

    def __get__(self, instance: object, owner: type[BaseModel]) -> str:
        written = next((text for base in owner.__mro__ if issubclass(base, BaseModel) and (text := own_doc(base))), "")
        owner.__doc__ = "\n\n".join(part for part in (inspect.cleandoc(written), _fields_text(owner)) if part)
        return owner.__doc__


class _Signature:
    """The signature of a class: its fields with their types and defaults."""

    def __init__(self) -> None:
        self._made: inspect.Signature | None = None

    def __get__(self, instance: object, owner: type[BaseModel]) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # of the class, not of its objects
        if self._made is None:
            parts = [_parameter(name, field) for name, field in owner.model_fields.items()]
            self._made = inspect.Signature(sorted(parts, key=lambda part: part.kind))
            getattr(owner, "__doc__", None)  # pydoc asks for the signature first, and takes a docstring only as a text
        return self._made


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(
        field.alias or name,
        by_place if field.kw_only is False else inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True),
        annotation=_Text(type_text(field.annotation)),
    )


class _Text(str):
    """A type in words, shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _fields_text(cls: type[BaseModel]) -> str:
    docs = field_docs(cls)
    lines = [_field_text(field.alias or name, field, docs.get(name, "")) for name, field in cls.model_fields.items()]
    return "Fields:\n" + "\n".join(lines) if lines else ""


def _field_text(name: str, field: FieldInfo, sentence: str) -> str:
    default = "required" if field.is_required() else f"default {field.get_default(call_default_factory=True)!r}"
    head = f"    {name} ({type_text(field.annotation)}, {default})"
    return f"{head}:\n{textwrap.indent(sentence, ' ' * 8)}" if sentence else head


def type_text(annotation: Any) -> str:
    """A type as a reader would write it, without the limits on its values.

    >>> type_text(Annotated[int, "at least 1"] | Literal["auto"] | None)
    "int | 'auto' | None"
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_text(parts[0])
    if origin in (Union, UnionType):
        return " | ".join(type_text(part) for part in parts)
    if origin is Literal:
        return " | ".join(repr(part) for part in parts)
    if annotation is Ellipsis:
        return "..."
    if annotation in (None, NoneType):
        return "None"
    name = getattr(origin or annotation, "__name__", str(annotation))
    return f"{name}[{', '.join(type_text(part) for part in parts)}]" if parts else name
