"""Explains a request that the parser did not understand, and what to type instead."""

from __future__ import annotations

from cyclopts import CycloptsError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

_OTHERS = {
    "--h": ("--horizon", "--fh", "--steps"),
    "--max-epochs": ("--epochs", "--n-epochs"),
    "--learning-rate": ("--lr", "--rate"),
    "--input-size": ("--lookback", "--context-length"),
    "--out": ("--output", "-o"),
    "--time": ("--date", "--ds", "--timestamp", "--time-col"),
    "--target": ("--y", "--target-col", "--value"),
    "--id": ("--unique-id", "--id-col", "--series"),
    "--level": ("--interval", "--intervals", "--confidence"),
    "--freq": ("--frequency",),
}
_OURS = {other: ours for ours, others in _OTHERS.items() for other in others}
"""Option names of other tools → the name here."""
_TABLE = ("--data", "--csv", "--parquet", "--file", "--table", "--input", "--path", "-i", "-f")
"""Option names of other tools for the table, which needs no option here."""


def explained(error: CycloptsError) -> str:
    """The sentence for a request that the command line does not accept."""
    sentence = " ".join(str(error).split()) or "the command was not understood"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        sentence = (
            f"{', '.join(map(repr, error.unused_tokens))} belongs to no option. Separate several values of an option "
            "by commas, as in --level 80,95"
        )
    elif isinstance(error, UnknownOptionError):
        typed = str(error.token.keyword or error.token.value).partition("=")[0]
        unknown, ours = f"Unknown option: {typed}", _OURS.get(typed)
        places = [name for argument in error.argument_collection for name in argument.names if name.isupper()]
        if ours is not None and any(ours in argument.names for argument in error.argument_collection):
            sentence = f"{unknown}. Here it is called {ours}"
        elif typed in _TABLE and "DATA" in places:
            sentence = f"{unknown}. The table needs no option: neuro-divergent {_command_of(error)}{' '.join(places)}"
    end = "" if sentence.endswith(("?", ".")) else "."
    return f"{sentence}{end} See: neuro-divergent {_command_of(error)}--help"


def _command_of(error: CycloptsError) -> str:
    chain = [name for name in (error.command_chain or ()) if not name.startswith("-")]
    return " ".join(chain) + " " if chain else ""
