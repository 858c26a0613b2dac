"""`models`, `losses`, `optimizers`, `schedules`: what there is, one line each."""

from __future__ import annotations

import json as json_module

from neuro_divergent.cli.output import say, table


def models(*, json: bool = False) -> None:
    """List the models with what they take.

    Parameters
    ----------
    json
        Print JSON for machines.
    """
    from neuro_divergent.forecasting.catalogue import HORIZON, LOOKBACK, SERIES, catalogue

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
        say(json_module.dumps(facts, indent=2))
        return
    rows = [
        [
            item.name,
            item.family,
            " ".join(letter if name in item.takes else "-" for name, letter in LETTERS.items()),
            "-" if item.parameters is None else f"{item.parameters:,}",
            item.paper,
        ]
        for item in entries
    ]
    say(table(["model", "family", "takes", "parameters", "paper"], rows, left=3, ragged=True))
    say()
    say("takes: F future, H historical, S static, C categorical columns, M all series at once")
    say(f"parameters: with default fields at h={HORIZON}, input_size={LOOKBACK} ({SERIES} series where M)")


LETTERS = {"future": "F", "historical": "H", "static": "S", "categorical": "C", "multivariate": "M"}


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
