"""Facts about fields: how each way of training handles a field, declared where the field is.

Resuming, compiling, stacking, plain arrays and other processes each read one fact. Nothing is allowed by omission: a
class with a field without facts is refused when it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError

Members = Literal["any", "same", "formula"]
"""What the members of a stack must share: nothing, the value, or everything except plain numbers in it."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The values of a field that a way of training accepts; without arguments every value."""

    values: tuple[Any, ...] | None = None
    """The accepted values; None for all."""
    check: str | None = None
    """The name of the reader's function that decides: it returns the reason to refuse a value, or None."""
    why: str | None = None
    """The sentence of a refusal, if the reader's own sentence does not fit; {name} is the field."""
    members: Members = "any"
    """For stacks: what the members must share."""
    at_start: bool = False
    """For compiled steps: the limit applies to new runs; a resumed run keeps the step with which it began."""


ANY = Limit()
"""Every value."""
OFF = Limit(values=(None,))
"""Only None."""
SAME = Limit(members="same")
"""Every value, if all members of a stack have the same one."""


def off(why: str | None = None, *, at_start: bool = False) -> Limit:
    """Only None."""
    return Limit(values=(None,), why=why, at_start=at_start)


def only(*values: Any, why: str | None = None, members: Members = "any") -> Limit:
    """Only these values."""
    return Limit(values=values, why=why, members=members)


def checked(check: str, *, members: Members = "any", at_start: bool = False) -> Limit:
    """The values that the reader's function of this name accepts."""
    return Limit(check=check, members=members, at_start=at_start)


@dataclass(frozen=True)
class Refused:
    """Only the default value is accepted."""

    why: str
    """The reason as text."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """How each way of training handles one field."""

    resume: Literal["free", "changeable", "fixed"]
    """A resumed run may change the value: always (free), if `resume_with` names it (changeable), never (fixed)."""
    compile: Limit
    """The values with which a full optimizer step can be compiled."""
    stack: Limit
    """The values with which a training can be a member of a stack."""
    arrays: Limit
    """The values that a Trainer on plain arrays takes."""
    process: Literal["json", "live"]
    """How another process gets the field: as JSON, which refuses callables; or the field may contain live objects,
    which are refused, and descriptions, which are JSON."""
    distributed: Literal["same", "main"] | Refused
    """With several processes: all use the same value, only the main process acts on it, or it is refused."""

    def __call__(self, schema: dict[str, Any]) -> None:
        """Pydantic calls this for a JSON schema. Facts are not part of it."""


def option(
    default: Any,
    *,
    resume: Literal["free", "changeable", "fixed"],
    compile: Limit,  # noqa: A002  # the name of the fact
    stack: Limit,
    arrays: Limit,
    process: Literal["json", "live"],
    distributed: Literal["same", "main"] | Refused,
) -> Any:
    """A pydantic field with this default and these facts."""
    facts = Facts(resume=resume, compile=compile, stack=stack, arrays=arrays, process=process, distributed=distributed)
    return Field(default, json_schema_extra=facts)


class DeclaredFields(Description):
    """A description in which every field declares its facts."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        silent = [name for name, field in cls.model_fields.items() if not isinstance(field.json_schema_extra, Facts)]
        if silent:
            raise ConfigError(
                f"every field of {cls.__name__} must declare its facts, but {', '.join(silent)} has none. Write "
                f"{silent[0]}: ... = option(default, resume=..., ...) with neuro_divergent.training.config.facts.option"
            )

    @classmethod
    def facts(cls) -> dict[str, Facts]:
        """The facts of every field, by name."""
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {name: extra for name, extra in extras.items() if isinstance(extra, Facts)}


Check = Callable[[Any], str | None]
"""Returns the reason to refuse a value; None to accept it."""


def refusals(
    config: DeclaredFields,
    way: Literal["compile", "stack", "arrays"],
    checks: Mapping[str, Check],
    sentence: Callable[[str, Any, tuple[Any, ...]], str],
    **given: Any,
) -> Iterator[tuple[Limit, str]]:
    """Every limit that a configuration breaks, with the reason, in the order of the fields.

    Args:
        config: the configuration to check.
        way: the fact to read.
        checks: the functions that limits name; a limit with an unknown name refuses every value.
        sentence: makes a reason from the field's name, its value and the accepted values.
        given: values to check instead of those of the configuration.
    """
    for name, facts in config.facts().items():
        limit: Limit = getattr(facts, way)
        value = given.get(name, getattr(config, name))
        reason = None
        if limit.check is not None:
            reason = checks[limit.check](value) if limit.check in checks else f"nothing here knows {name}"
        elif limit.values is not None and value not in limit.values:
            reason = limit.why.format(name=name) if limit.why else sentence(name, value, limit.values)
        if reason is not None:
            yield limit, reason
