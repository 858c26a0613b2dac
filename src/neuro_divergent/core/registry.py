"""Find classes by name, for files and the command line.

Python code passes instances. Run files, saved models and the shell use names, which are resolved here. Every concrete
`Description` subclass registers itself under its family when its module is imported. The table in core/kinds.py gives
the module of each built-in name, so that resolving a name imports one module. Other packages register by an entry
point in the group `neuro_divergent.plugins` that names a module to import. A class with a new family creates this
family.
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
"""Environment variable with the names of installed packages, separated by commas, whose plugins are not loaded; * for
all."""

_families: dict[str, dict[str, type[Any]]] = {}
_plugin_failures: dict[str, str] = {}
_plugins_loaded = False


def normalise(name: str) -> str:
    """Return a name in the form used for comparison: without case, dashes, underscores and spaces."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


_OWN = {
    family: {normalise(kind): f"neuro_divergent.{module}" for kind, module in kinds.items()}
    for family, kinds in KINDS.items()
}


def register(cls: type[Any]) -> None:
    """Register a class by its `family` and `kind`. A class that is defined again (a notebook cell) is replaced."""
    members, key = _families.setdefault(cls.family, {}), normalise(cls.kind)
    known, home = members.get(key), _OWN.get(cls.family, {}).get(key)
    taken = None
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        taken = f"{known.__module__}.{known.__qualname__}"
    elif home is not None and not f"{cls.__module__}.".startswith(f"{home}."):
        taken = f"built in (in {home})"  # perhaps not imported yet: its later import must not fail
    if taken is not None:
        raise RegistryError(
            f"each {cls.family} needs a different name, but {cls.kind!r} is both {taken} and "
            f"{cls.__module__}.{cls.__qualname__}. Choose another name for the new class."
        )
    members[key] = cls


def members(family: str) -> dict[str, type[Any]]:
    """Return all classes of a family by kind, sorted, including those of plugins. Imports all of them."""
    for module in dict.fromkeys(_OWN.get(family, {}).values()):
        importlib.import_module(module)
    _load_plugins()
    found = _families.get(family, {})
    return {cls.kind: cls for cls in sorted(found.values(), key=lambda cls: normalise(cls.kind))}


def resolve(family: str, name: str) -> type[Any]:
    """Return the class of this name. Imports only its module. The error for an unknown name lists the closest names."""
    found = find(family, name)
    if found is None:
        raise unknown(family, name)
    return found


def find(family: str, name: str) -> type[Any] | None:
    """Return the class of this name, or None. Plugins are imported only if the name is not built in."""
    key = normalise(name)
    if key not in _families.get(family, {}):
        home = _OWN.get(family, {}).get(key)
        if home is None:
            _load_plugins()
        else:
            importlib.import_module(home)
    return _families.get(family, {}).get(key)


def names(family: str) -> list[str]:
    """Return the known names of a family, sorted: the built-in names, and those of modules imported so far."""
    found = {normalise(kind): kind for kind in KINDS.get(family, {})}
    found |= {key: cls.kind for key, cls in _families.get(family, {}).items()}
    return [found[key] for key in sorted(found)]


def closest(name: str, known: list[str]) -> list[str]:
    """Return the known names closest to a misspelt name, best first."""
    by_key = {normalise(item): item for item in known}
    return [by_key[key] for key in difflib.get_close_matches(normalise(name), list(by_key), n=3, cutoff=0.55)]


def unknown(family: str, name: str, more: Iterable[str] = ()) -> UnknownNameError:
    """Return the error for an unknown name, with the closest names. `more` are further known names."""
    known = [*more, *names(family)]
    near = closest(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(sorted(known))}."
    broken = [f" The plugin {plugin!r} could not be loaded: {why}." for plugin, why in _plugin_failures.items()]
    return UnknownNameError(f"there is no {family} named {name!r}; {hint}{''.join(broken)}")


def plugin_entries(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name, without those of the packages in `WITHOUT`."""
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
        except (Exception, SystemExit) as error:  # a plugin may raise anything, but must not end the process
            _plugin_failures[entry.name] = f"{type(error).__name__}: {error}"
            package = entry.name if entry.dist is None else entry.dist.name
            log.warning(
                "the plugin %r could not be loaded: %s. Update or remove the package, or set %s=%s",
                entry.name, _plugin_failures[entry.name], WITHOUT, package,
            )  # fmt: skip
