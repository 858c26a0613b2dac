"""Names to classes, at the edges only: files and the command line.

Python code hands over instances. A name appears in a run file, in a saved model or on the shell, and is resolved
here. Every concrete `Description` subclass registers itself under its family; other packages join by an entry point
in the group `neuro_divergent.plugins` that names a module to import.
"""

from __future__ import annotations

import difflib
import importlib
import logging
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from neuro_divergent.core.errors import RegistryError, UnknownNameError

if TYPE_CHECKING:
    from neuro_divergent.core.config import Description

log = logging.getLogger(__name__)

PLUGIN_GROUP = "neuro_divergent.plugins"

# The rooms whose import registers the family's own members. Strings, so that core imports nothing above itself.
_ROOMS = {
    "model": "neuro_divergent.models",
    "loss": "neuro_divergent.losses",
    "optimizer": "neuro_divergent.optim",
    "schedule": "neuro_divergent.optim",
    "clipping": "neuro_divergent.optim",
    "averaging": "neuro_divergent.optim",
    "augmentation": "neuro_divergent.data.windows.augmentation",
    "callback": "neuro_divergent.training",
    "curriculum": "neuro_divergent.training",
    "strategy": "neuro_divergent.training",
}

_families: dict[str, dict[str, type[Description]]] = {}
_plugin_failures: dict[str, str] = {}
_plugins_loaded = False


def normalise(name: str) -> str:
    """The form in which names are compared: case, dashes, underscores and spaces do not matter."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def register(cls: type[Description]) -> None:
    """Enter a class under its family and kind. The same class defined again (a notebook cell) replaces itself."""
    members = _families.setdefault(cls.family, {})
    key = normalise(cls.kind)
    known = members.get(key)
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise RegistryError(
            f"a {cls.family} is named once, but {cls.kind!r} is both {known.__module__}.{known.__qualname__} and "
            f"{cls.__module__}.{cls.__qualname__}. Give the new class a name of its own."
        )
    members[key] = cls


def members(family: str) -> dict[str, type[Description]]:
    """All classes of a family by kind, sorted, the ones of plugins included."""
    _load(family)
    found = _families.get(family, {})
    return {cls.kind: cls for cls in sorted(found.values(), key=lambda cls: normalise(cls.kind))}


def resolve(family: str, name: str) -> type[Description]:
    """The class of that name, or an error with the closest names."""
    key = normalise(name)
    found = _families.get(family, {}).get(key)
    if found is None:
        _load(family)
        found = _families.get(family, {}).get(key)
    if found is None:
        raise UnknownNameError(_unknown(family, name))
    return found


def closest(name: str, known: list[str]) -> list[str]:
    """The known names nearest to a misspelt one, best first."""
    by_key = {normalise(item): item for item in known}
    return [by_key[key] for key in difflib.get_close_matches(normalise(name), list(by_key), n=3, cutoff=0.55)]


def _unknown(family: str, name: str) -> str:
    known = [cls.kind for cls in _families.get(family, {}).values()]
    near = closest(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(sorted(known))}."
    broken = [f" The plugin {plugin!r} could not be loaded: {why}." for plugin, why in _plugin_failures.items()]
    return f"there is no {family} named {name!r}; {hint}{''.join(broken)}"


def _load(family: str) -> None:
    room = _ROOMS.get(family)
    if room is not None:
        importlib.import_module(room)
    _load_plugins()


def _load_plugins() -> None:
    global _plugins_loaded
    if _plugins_loaded:
        return
    _plugins_loaded = True
    for entry in entry_points(group=PLUGIN_GROUP):
        try:
            entry.load()
        except Exception as error:  # a stranger's module may raise anything; it must not take the library down
            _plugin_failures[entry.name] = f"{type(error).__name__}: {error}"
            log.warning("the plugin %r could not be loaded: %s", entry.name, _plugin_failures[entry.name])
