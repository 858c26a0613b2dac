"""Finds the parts of a configuration that cannot be sent to another process as files, which contain plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from neuro_divergent.core.config import Description, encode
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.training.config.training_config import TrainingConfig


def not_in_files(config: TrainingConfig, *others: Any) -> list[str]:
    """The names of all live objects and callables in a configuration; empty if a file can contain all of it.

    `others` are further descriptions, names or live objects for the file.

    >>> not_in_files(TrainingConfig(loss="mae"))
    []
    """
    live: list[str] = []
    references: list[str] = []
    for name, facts in type(config).facts().items():
        value = getattr(config, name)
        if facts.process == "live":
            live += [type(item).__name__ for item in value if not isinstance(item, Description)]
            value = [item for item in value if isinstance(item, Description)]
        references += _references(encode(value))
    for item in others:
        if item is None or isinstance(item, str | Description):
            references += _references(encode(item))
        else:
            live.append(type(item).__name__)
    return live + references


def own_modules(value: Any) -> set[str]:
    """The modules of the user's own descriptions in a value. Another process must import them to read the value."""
    found: set[str] = set()
    if isinstance(value, Description):
        found = {type(value).__module__}
        value = [getattr(value, name) for name in type(value).model_fields]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        found = found.union(*(own_modules(item) for item in value))
    return {name for name in found if name.partition(".")[0] != __name__.partition(".")[0]}


def refuse_to_leave(config: TrainingConfig, *others: Any, instead: str) -> None:
    """Refuse work for another process that cannot be sent there.

    Args:
        config: the training.
        others: further descriptions, names or live objects.
        instead: what to do, as the end of the sentence.
    """
    reason = obstacle(config, *others)
    if reason is not None:
        raise ConfigError(f"worker processes get their work as files, which cannot contain {reason}. {instead}")


def obstacle(config: TrainingConfig, *others: Any) -> str | None:
    """What a file for another process cannot contain: callables, live objects, classes of a script or notebook."""
    found = not_in_files(config, *others)
    if found:
        return f"your own callables ({', '.join(found)})"
    if "__main__" in own_modules([config, *others]):
        return "classes of your script or notebook: a worker cannot import them. Put them into a module of their own"
    return None


def _references(value: Any) -> Iterator[str]:
    """Names of the callables in plain data, which `encode` writes as {"reference": name}."""
    if isinstance(value, Mapping):
        if set(value) == {"reference"}:
            yield str(value["reference"])
        else:
            for item in value.values():
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
