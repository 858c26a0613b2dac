"""`models`, `losses`, `optimizers`, `schedules`: what there is, one line each."""

from __future__ import annotations

import json as json_module
from typing import Any

from neuro_divergent.cli.output import say, table


def models(*, json: bool = False) -> None:
    """List the models with what they take.

    Parameters
    ----------
    json
        Print JSON for machines.
    """
    from neuro_divergent.core import registry

    found: dict[str, Any] = dict(registry.members("model"))
    if json:
        facts = {name: {"takes": _takes(cls), "family": cls.group, "paper": cls.paper} for name, cls in found.items()}
        say(json_module.dumps(facts, indent=2))
        return
    rows = [[name, cls.group, " ".join(_takes(cls)) or "-", _first_sentence(cls)] for name, cls in found.items()]
    say(table(["model", "family", "takes", "what it is"], rows, left=4))


def losses(*, json: bool = False) -> None:
    """List the losses.

    Parameters
    ----------
    json
        Print JSON for machines.
    """
    _list("loss", json)


def optimizers(*, json: bool = False) -> None:
    """List the optimizers.

    Parameters
    ----------
    json
        Print JSON for machines.
    """
    _list("optimizer", json)


def schedules(*, json: bool = False) -> None:
    """List the learning-rate schedules.

    Parameters
    ----------
    json
        Print JSON for machines.
    """
    _list("schedule", json)


def _list(family: str, as_json: bool) -> None:
    from neuro_divergent.core import registry

    rows = [[name, _first_sentence(cls)] for name, cls in registry.members(family).items()]
    say(json_module.dumps(dict(rows), indent=2) if as_json else table([family, "what it is"], rows, left=2))


def _first_sentence(cls: type) -> str:
    return " ".join((cls.__doc__ or "").split("\n\n")[0].split())


def _takes(cls: Any) -> list[str]:
    names = ("future", "historical", "static", "categorical")
    found = [name for name in names if getattr(cls.capabilities, name)]
    return found + (["multivariate"] if cls.capabilities.multivariate else [])
