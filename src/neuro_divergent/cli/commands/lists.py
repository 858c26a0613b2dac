"""`models`, `losses`, `optimizers`, `schedules`: list what is available, one line each."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import fitting, say, say_json, table
from neuro_divergent.cli.request.run_file import ModelName

Json = Annotated[bool, Parameter(negative="")]


def models(*, space: ModelName = None, h: int = 24, json: Json = False) -> None:
    """List the models, with the kinds of columns that they take.

    Parameters
    ----------
    space
        Show what a search varies by default for the model of this name, and over which values.
    h
        The horizon of that space: its lookback windows are multiples of it.
    json
        Print JSON.
    """
    if space is not None:
        _default_space(space, h, json)
        return
    from neuro_divergent.forecasting.model.catalogue import HORIZON, LOOKBACK, SERIES, catalogue

    entries = catalogue()
    if json:
        facts = {
            item.name: {
                "family": item.family,
                "takes": list(item.takes),
                "parameters": item.parameters,
                "summary": item.summary,
                "paper": item.paper,
            }
            for item in entries
        }
        say_json(facts)
        return
    rows = [
        [
            item.name,
            item.family,
            " ".join(letter if name in item.takes else "-" for name, letter in LETTERS.items()),
            "-" if item.parameters is None else f"{item.parameters:,}",
            item.summary,
        ]
        for item in entries
    ]
    say(fitting(table(["model", "family", "takes", "parameters", "what it is"], rows, left=3, ragged=True)))
    say()
    say("takes: F future, H historical, S static, C categorical, M all series at once")
    say(f"parameters: by default at h={HORIZON}, input_size={LOOKBACK} ({SERIES} series where M)")
    say("for papers and full descriptions: neuro-divergent models --json")


LETTERS = {"future": "F", "historical": "H", "static": "S", "categorical": "C", "multivariate": "M"}


def _default_space(name: str, h: int, as_json: bool) -> None:
    from neuro_divergent.core import registry

    cls = registry.resolve("model", name)
    required = [field for field, info in cls.model_fields.items() if info.is_required()]
    own = {field: "..." for field in required if field not in ("h", "input_size")}
    found = cls(h=h, input_size=4 * h, **own).search_space()
    if as_json:
        say_json(found.to_dict())
    else:
        say(found.text())


def losses(*, json: Json = False) -> None:
    """List the losses.

    Parameters
    ----------
    json
        Print JSON.
    """
    _list("loss", json)


def optimizers(*, json: Json = False) -> None:
    """List the optimizers.

    Parameters
    ----------
    json
        Print JSON.
    """
    _list("optimizer", json)


def schedules(*, json: Json = False) -> None:
    """List the learning-rate schedules.

    Parameters
    ----------
    json
        Print JSON.
    """
    _list("schedule", json)


def _list(family: str, as_json: bool) -> None:
    from neuro_divergent.core import registry

    rows = [[name, _first_sentence(cls)] for name, cls in registry.members(family).items()]
    if as_json:
        say_json(dict(rows))
    else:
        say(fitting(table([family, "what it is"], rows, left=2)))


def _first_sentence(cls: type) -> str:
    from neuro_divergent.core.field_docs import own_doc

    return " ".join(own_doc(cls).split("\n\n")[0].split())
