"""Commands of other packages: entry points in the group `neuro_divergent.commands`, name → module:function.

A command is imported when it is called, so that `--help` and other commands stay fast. A broken command is named in a
warning and left out.
"""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint
from typing import Any

from cyclopts import App

from neuro_divergent.core.errors import RegistryError
from neuro_divergent.core.registry import plugin_entries

log = logging.getLogger(__name__)

COMMAND_GROUP = "neuro_divergent.commands"

_joined: list[str] = []


def join(app: App, asked: str) -> None:
    """Add the commands of installed packages; `asked` is the command that is about to run."""
    while _joined:
        del app[_joined.pop()]
    for entry in plugin_entries(COMMAND_GROUP):
        try:
            _check(app, entry)
            if asked in (entry.name, "completion"):
                app.command(_loaded(entry), name=entry.name)
            else:
                app.command(entry.value, name=entry.name, help=_summary(entry))
        except RegistryError as error:
            if asked == entry.name and asked not in app:
                raise
            log.warning("%s", error)
        else:
            _joined.append(entry.name)


def _check(app: App, entry: EntryPoint) -> None:
    if entry.name in app:
        other = f"the package {_package(entry)} defines it again"
        raise RegistryError(f"a command name must be unique, but {entry.name!r} exists and {other}. It is left out")
    module, _, function = entry.value.partition(":")
    if not (module and function.isidentifier()):
        raise RegistryError(
            f"a command must be given as module:function, but {entry.name!r} of the package {_package(entry)} is "
            f"{entry.value!r}. It is left out"
        )


def _loaded(entry: EntryPoint) -> Any:
    try:
        command = entry.load()
    except (Exception, SystemExit) as error:  # a foreign module may raise anything
        why = f"{type(error).__name__}: {error}"
    else:
        if callable(command):
            return command
        why = f"it is a {type(command).__name__}, not a function"
    raise RegistryError(
        f"the command {entry.name!r} of the package {_package(entry)} could not be loaded: {why}. "
        "Update the package, or remove it"
    )


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value


def _summary(entry: EntryPoint) -> str:
    """The summary of the package: the summary of the command would need its import."""
    said = None if entry.dist is None else entry.dist.metadata.json.get("summary")
    return f"{said} ({_package(entry)})" if said else f"A command of the package {_package(entry)}."
