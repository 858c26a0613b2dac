"""Names to classes, at the edges only: files and the command line.

Python code hands over instances. A name appears in a run file, in a saved model or on the shell, and is resolved
here. Every concrete `Description` subclass registers itself under its family when its module is imported. Which module
that is, the table in core/kinds.py says, so that one name imports one module. Other packages join by an entry point in
the group `neuro_divergent.plugins` that names a module to import. Families are open: a class with a family that nobody
named before makes it.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from neuro_divergent.core.errors import RegistryError, UnknownNameError
from neuro_divergent.core.kinds import KINDS

log = logging.getLogger(__name__)

PLUGIN_GROUP = "neuro_divergent.plugins"

WITHOUT = "NEURO_DIVERGENT_WITHOUT"
"""Environment variable: names of installed packages, separated by commas, whose plugins are left out; * is all."""

_families: dict[str, dict[str, type[Any]]] = {}
_plugin_failures: dict[str, str] = {}
_plugins_loaded = False


def normalise(name: str) -> str:
    """The form in which names are compared: case, dashes, underscores and spaces do not matter."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


_OWN = {
    family: {normalise(kind): f"neuro_divergent.{module}" for kind, module in kinds.items()}
    for family, kinds in KINDS.items()
}


def register(cls: type[Any]) -> None:
    """Enter a class under its `family` and `kind`. The same class defined again (a notebook cell) replaces itself."""
    members, key = _families.setdefault(cls.family, {}), normalise(cls.kind)
    known, home = members.get(key), _OWN.get(cls.family, {}).get(key)
    taken = None
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        taken = f"{known.__module__}.{known.__qualname__}"
    elif home is not None and not f"{cls.__module__}.".startswith(f"{home}."):
        taken = f"the library's own (in {home})"  # perhaps not imported yet: it must not fail when it is
    if taken is not None:
        raise RegistryError(
            f"a {cls.family} is named once, but {cls.kind!r} is both {taken} and "
            f"{cls.__module__}.{cls.__qualname__}. Give the new class a name of its own."
        )
    members[key] = cls


def members(family: str) -> dict[str, type[Any]]:
    """All classes of a family by kind, sorted, the ones of plugins included. Imports all of them."""
    for module in dict.fromkeys(_OWN.get(family, {}).values()):
        importlib.import_module(module)
    _load_plugins()
    found = _families.get(family, {})
    return {cls.kind: cls for cls in sorted(found.values(), key=lambda cls: normalise(cls.kind))}


def resolve(family: str, name: str) -> type[Any]:
    """The class of that name, or an error with the closest names. Imports its module only."""
    found = find(family, name)
    if found is None:
        raise unknown(family, name)
    return found


def find(family: str, name: str) -> type[Any] | None:
    """The class of that name, or None. Plugins are imported when the library itself has no such name."""
    key = normalise(name)
    if key not in _families.get(family, {}):
        home = _OWN.get(family, {}).get(key)
        if home is None:
            _load_plugins()
        else:
            importlib.import_module(home)
    return _families.get(family, {}).get(key)


def names(family: str) -> list[str]:
    """The known names of a family, sorted: the library's own, and those of the modules imported so far."""
    found = {normalise(kind): kind for kind in KINDS.get(family, {})}
    found |= {key: cls.kind for key, cls in _families.get(family, {}).items()}
    return [found[key] for key in sorted(found)]


def closest(name: str, known: list[str]) -> list[str]:
    """The known names nearest to a misspelt one, best first."""
    by_key = {normalise(item): item for item in known}
    return [by_key[key] for key in difflib.get_close_matches(normalise(name), list(by_key), n=3, cutoff=0.55)]


def unknown(family: str, name: str, more: Iterable[str] = ()) -> UnknownNameError:
    """The error for a name that does not exist, with the closest ones; `more` are names known besides."""
    known = [*more, *names(family)]
    near = closest(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(sorted(known))}."
    broken = [f" The plugin {plugin!r} could not be loaded: {why}." for plugin, why in _plugin_failures.items()]
    return UnknownNameError(f"there is no {family} named {name!r}; {hint}{''.join(broken)}")


def plugin_entries(group: str) -> list[EntryPoint]:
    """The entry points of installed packages in a group, sorted by name, without the packages that `WITHOUT` names."""
    left_out = {normalise(name) for name in os.environ.get(WITHOUT, "").split(",") if name.strip()}
    found = [] if "*" in left_out else list(entry_points(group=group))
    kept = [entry for entry in found if entry.dist is None or normalise(entry.dist.name) not in left_out]
    return sorted(kept, key=lambda entry: entry.name)


def _load_plugins() -> None:
    global _plugins_loaded
    if _plugins_loaded:
        return
    _plugins_loaded = True
    for entry in plugin_entries(PLUGIN_GROUP):
        try:
            entry.load()
        except (Exception, SystemExit) as error:  # a stranger's module may raise anything, and must not end the process
            _plugin_failures[entry.name] = f"{type(error).__name__}: {error}"
            package = entry.name if entry.dist is None else entry.dist.name
            log.warning(
                "the plugin %r could not be loaded: %s. Update or remove the package, or set %s=%s",
                entry.name, _plugin_failures[entry.name], WITHOUT, package,
            )  # fmt: skip
