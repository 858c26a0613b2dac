"""The base class of every description: a frozen pydantic model that can be written as one JSON object.

A model, an optimizer, a schedule, a loss, a callback's settings: each is a `Description`. Its JSON has a `kind` that
the registry resolves, and all defaults in full, so that a file keeps its meaning after the defaults change.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_serializer, model_validator
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ValidationInfo

from neuro_divergent.core import registry
from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.core.field_docs import describe_lazily
from neuro_divergent.core.field_docs import field_docs as field_docs
from neuro_divergent.core.other_words import FIELDS
from neuro_divergent.core.yaml import parse_yaml

SCHEMA_VERSION = 1
"""Version of the JSON form. Newer versions are refused."""


class Description(BaseModel):
    """Frozen and keyword-only. Equal if all fields are equal. An unknown field is refused with the closest name."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, protected_namespaces=(), validate_default=False
    )

    family: ClassVar[str] = ""
    """The registry's family, such as "model" or "loss"; descriptions without one are not registered."""

    kind: ClassVar[str] = ""
    """The name in files; the class name unless a class sets it."""

    positional: ClassVar[tuple[str, ...]] = ()
    """Fields that may also be given by position, such as ClipByNorm(1.0). Type checkers know them by
    `Field(kw_only=False)`. All others are keyword-only."""

    writes: ClassVar[tuple[str, ...]] = ()
    """Fields that name a file or a directory to write to. A run file may only name paths in the run's directory."""

    file_names: ClassVar[Mapping[str, str]] = {}
    """Fields that have another name for users and in files."""

    def __init__(self, /, *values: Any, **fields: Any) -> None:
        if len(values) > len(self.positional):
            given = ", ".join(repr(value) for value in values[len(self.positional) :])
            named = zip((*self.positional, *self._by_name()), values, strict=False)
            write = ", ".join(f"{name}={value!r}" for name, value in named)
            cls = type(self).__name__
            raise ConfigError(f"{cls} takes its fields by name, such as {cls}({write}), but got {given}")
        self._refuse_abstract()
        by_place = dict(zip(self.positional, values, strict=False))
        twice = by_place.keys() & fields.keys()
        if twice:
            name = min(twice)
            raise ConfigError(f"{name} must be given once, but got {by_place[name]!r} and {name}={fields[name]!r}")
        try:
            super().__init__(**by_place | fields)
        except ValidationError as error:
            raise _as_ours(error, type(self)) from None

    @classmethod
    def _by_name(cls) -> list[str]:
        """The fields that are given by name, those without a default first."""
        names = [name for name in cls.model_fields if name not in cls.positional]
        return sorted(names, key=lambda name: not cls.model_fields[name].is_required())

    @classmethod
    def elsewhere(cls, name: str, value: Any) -> tuple[str, Sequence[Advice]] | None:
        """What to write for a field that is often looked for here, and the advice; None for any other unknown field."""
        word = (FIELDS.get(cls.kind, {}) | FIELDS.get(cls.family, {})).get(name)
        return None if word is None else (word.format(repr(value)), ())

    @classmethod
    def _refuse_abstract(cls) -> None:
        if inspect.isabstract(cls):
            known = ", ".join(registry.members(cls.family)) if cls.family else "its subclasses"
            raise ConfigError(f"{cls.__name__} is a base class: use one of its members. Known are: {known}")

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "kind" not in cls.__dict__:
            cls.kind = cls.__name__
        by_place = tuple(name for name, field in cls.model_fields.items() if field.kw_only is False)
        cls.positional = cls.__dict__.get("positional") or by_place or cls.positional
        describe_lazily(cls)
        abstract = inspect.isabstract(cls) or cls.__name__.startswith("_") or "family" in cls.__dict__
        if cls.family and not abstract:
            registry.register(cls)

    @model_validator(mode="wrap")
    @classmethod
    def _resolve_kind(cls, value: Any, handler: Callable[[Any], Self]) -> Self:
        """Accept a member by name ("mse"), as its JSON object ({"kind": "mse", ...}), or as its class with defaults."""
        if isinstance(value, type) and issubclass(value, cls):
            value._refuse_abstract()
            return handler(value())
        if isinstance(value, str) and cls.family:
            value = {"kind": value}
        if not (isinstance(value, Mapping) and "kind" in value):
            if isinstance(value, Mapping):
                cls._refuse_abstract()
            return handler(value)
        rest = {key: item for key, item in value.items() if key != "kind"}
        kind = value["kind"]
        if not isinstance(kind, str):
            raise ConfigError(f"kind must be a name, but got kind={kind!r}")
        target = registry.resolve(cls.family, kind) if cls.family else cls
        if not cls.family and registry.normalise(kind) != registry.normalise(cls.kind):
            raise ConfigError(f"expected a {cls.kind}, but got kind={kind!r}")
        if not issubclass(target, cls):
            raise ConfigError(f"expected a {cls.kind}, but {kind!r} is a {target.__bases__[0].__name__}")
        return handler(rest) if target is cls else target(**rest)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in type(self).model_fields:
            raise ConfigError(f"a {self.kind} cannot be changed in place. Make a new one: .replace({name}={value!r})")
        super().__setattr__(name, value)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """The fields as a user writes them, so that the repr can be pasted as code."""
        for name in type(self).model_fields:
            if name in self.__dict__:  # not yet, if the repr is asked for in an error while the object is made
                yield self.file_names.get(name, name), _Code(code(self.__dict__[name]))

    def __str__(self) -> str:
        return repr(self)

    @model_serializer(mode="plain")
    def to_dict(self) -> dict[str, Any]:
        """The plain-data form: kind first, then every field with its value."""
        names = {name: self.file_names.get(name, name) for name in type(self).model_fields}
        return {"kind": self.kind} | {shown: encode(getattr(self, name)) for name, shown in names.items()}

    def to_json(self, *, indent: int | None = 2) -> str:
        """The description as a JSON document with its schema version."""
        return json.dumps({"schema": SCHEMA_VERSION} | self.to_dict(), indent=indent, allow_nan=False)

    def to_yaml(self) -> str:
        """The description as a YAML document with its schema version."""
        return yaml.safe_dump({"schema": SCHEMA_VERSION} | self.to_dict(), sort_keys=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, using: Mapping[str, Callable[..., Any]] | None = None) -> Self:
        """Read the plain-data form. `using` has the callables that the file names only by reference."""
        fields = dict(data)
        version = fields.pop("schema", SCHEMA_VERSION)
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise ConfigError(
                f"this version reads schema {SCHEMA_VERSION} and older, but got schema={version!r}. "
                "Update neuro-divergent to read the file."
            )
        try:
            return cls.model_validate(given_back(fields, using or {}))
        except ValidationError as error:
            raise _as_ours(error, cls) from None

    @classmethod
    def from_json(cls, text: str, *, using: Mapping[str, Callable[..., Any]] | None = None) -> Self:
        """Read what `to_json` wrote."""
        return cls.from_dict(_mapping(json.loads, text, "JSON"), using=using)

    @classmethod
    def from_yaml(cls, text: str, *, using: Mapping[str, Callable[..., Any]] | None = None) -> Self:
        """Read what `to_yaml` wrote."""
        return cls.from_dict(_mapping(parse_yaml, text, "YAML"), using=using)

    def written(self) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """Every path to which this description, or one inside it, writes: the path of its field, and its value."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if name in self.writes and value is not None:
                yield (name,), value
            inner = enumerate(value) if isinstance(value, list | tuple) else [(None, value)]
            for position, item in inner:
                if isinstance(item, Description):
                    for path, place in item.written():
                        yield (name, *(() if position is None else (position,)), *path), place

    def replace(self, **fields: Any) -> Self:
        """A copy with some fields changed, validated like a new one."""
        return type(self)(**{name: getattr(self, name) for name in self.model_fields_set} | fields)


def _mapping(parse: Callable[[str], Any], text: str, language: str) -> dict[str, Any]:
    try:
        data = parse(text)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the text must be valid {language}, but got: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"the {language} must be one object with named fields, but got {type(data).__name__}")
    return data


def encode(value: Any) -> Any:
    """Any value of a description as plain data."""
    if isinstance(value, Description):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [encode(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if callable(value):
        return {"reference": reference(value)}
    if hasattr(value, "item"):  # a numpy or torch scalar
        return encode(value.item())
    raise ConfigError(f"a description holds plain data, descriptions or callables, but got {type(value).__name__}")


class _Code:
    """Text that is its own repr."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def code(value: Any) -> str:
    """Python code for a value of a description. A user's callable is its name, which the user must define again.

    >>> code((PurePath("runs/first"), math.inf, 0.5))
    "('runs/first', float('inf'), 0.5)"
    """
    if isinstance(value, PurePath):
        return repr(str(value))
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else f"float({str(float(value))!r})"
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{code(key)}: {code(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return f"({', '.join(map(code, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(code, value))}]"
    if callable(value) and hasattr(value, "__qualname__"):
        own = value.__module__ in ("__main__", "builtins")
        return str(value.__qualname__) if own else f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def reference(function: Any) -> str:
    """The name of a user's callable in a file. It is never imported; `using` gives the callable."""
    owner = function if hasattr(function, "__qualname__") else type(function)
    return f"{owner.__module__}:{owner.__qualname__}"


def given_back(value: Any, using: Mapping[str, Any]) -> Any:
    """Plain data with every {"reference": name} replaced by the entry of `using` for the name or its last part."""
    if isinstance(value, Mapping):
        if set(value) == {"reference"}:
            name = value["reference"]
            short = str(name).split(":")[-1]
            if name not in using and short not in using:
                raise ConfigError(
                    f"the file refers to your own callable {name!r}, which is never imported from a file. "
                    f"Give it: using={{{short!r}: ...}}"
                )
            return using.get(name, using.get(short))
        return {key: given_back(item, using) for key, item in value.items()}
    if isinstance(value, list):
        return [given_back(item, using) for item in value]
    return value


def _check_callable(value: Any, info: ValidationInfo) -> Any:
    if not callable(value) or isinstance(value, Mapping):
        raise ConfigError(f"{info.field_name} must be a callable, but got {value!r}")
    return value


Function = Annotated[Any, BeforeValidator(_check_callable)]
"""A field with a user's callable."""


def _as_ours(error: ValidationError, cls: type[Description]) -> ConfigError:
    """Our error for an error of pydantic. If one of our errors caused it alone, that error itself."""
    causes = [detail.get("ctx", {}).get("error") for detail in error.errors(include_url=False)]
    ours = [cause for cause in causes if isinstance(cause, ConfigError)]
    if len(ours) == 1 and explain(error, cls) == str(ours[0]):
        return ours[0]
    details = error.errors(include_url=False)
    misplaced = [found for detail in details if (found := _elsewhere(detail, cls)) is not None]
    advice = [advice for cause in ours for advice in cause.advice] + [one for found in misplaced for one in found[1]]
    if len(misplaced) < len(details):
        return ConfigError(explain(error, cls), advice=advice)
    got = "; ".join(f"{cls.kind} has no field {detail['loc'][0]!r}" for detail in details)
    return ConfigError(explain(error, cls), rule="belongs elsewhere", got=got, advice=advice)


def _elsewhere(detail: ErrorDetails, cls: type[Description]) -> tuple[str, Sequence[Advice]] | None:
    if detail["type"] != "extra_forbidden" or len(detail["loc"]) != 1:
        return None
    return cls.elsewhere(str(detail["loc"][0]), detail["input"])


def explain(error: ValidationError, cls: type[Description]) -> str:
    """One sentence for each problem that pydantic found, in the order of the fields."""
    details = error.errors(include_url=False)
    # A value that fits no member of a union is reported once per member. The literal "auto" is not helpful.
    real = [detail for detail in details if not _is_auto(detail)]
    return "; ".join(dict.fromkeys(_sentence(detail, cls) for detail in real or details))


def _is_auto(detail: ErrorDetails) -> bool:
    return detail["type"] == "literal_error" and str(detail["ctx"]["expected"]).startswith("'auto'")


def _sentence(detail: ErrorDetails, cls: type[Description]) -> str:
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    # In a union pydantic adds the member that it tried ("int", "Loss", "literal['auto']"): only field names are ours.
    path = [str(part) for part in detail["loc"]]
    names = path[:1] + [part for part in path[1:] if (part.isidentifier() and part[0].islower()) or part.isdigit()]
    names[:1] = [cls.file_names.get(name, name) for name in names[:1]]
    types = {"int", "float", "str", "bool", "list", "tuple", "dict", "none"}
    field = ".".join(name for position, name in enumerate(names) if position == 0 or name not in types)
    got = f"but got {field}={given!r}"
    if kind == "extra_forbidden":
        known_elsewhere = _elsewhere(detail, cls)
        if known_elsewhere is not None:
            return f"{cls.kind} has no field {field!r}; {known_elsewhere[0]}"
        near = registry.closest(field, list(cls.model_fields))
        known = f"its fields are: {', '.join(cls.model_fields)}." if cls.model_fields else "it has no fields."
        hint = f"did you mean {' or '.join(near)}?" if near else known
        return f"{cls.kind} has no field {field!r}; {hint}"
    if kind == "missing":
        return f"{cls.kind} needs the field {field!r}, but it was not given"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    rule = {
        "greater_than": "must be greater than {gt}",
        "greater_than_equal": "must be at least {ge}",
        "less_than": "must be less than {lt}",
        "less_than_equal": "must be at most {le}",
        "literal_error": "must be {expected}",
        "int_type": "must be a whole number",
        "int_parsing": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "float_parsing": "must be a number",
        "finite_number": "must be a finite number",
        "bool_type": "must be true or false",
        "bool_parsing": "must be true or false",
        "string_type": "must be text",
        "too_short": "must have at least {min_length} entries",
        "too_long": "must have at most {max_length} entries",
        "tuple_type": "must be a list",
        "model_type": "must be an object of the class {class_name}",
        "frozen_instance": "cannot be changed: make a new one with .replace(...)",
    }.get(kind)
    if rule is not None:
        return f"{field} {rule.format(**context)}, {got}"
    return f"{field or cls.kind}: {detail['msg'][0].lower()}{detail['msg'][1:]}, {got}" if field else str(detail["msg"])
