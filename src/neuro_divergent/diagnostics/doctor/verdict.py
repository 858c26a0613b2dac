"""What a diagnosis says: verdicts in the order of their certainty, each with evidence and a remedy."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.config import code, encode

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

HEALTHY = "healthy"
"""The cause of the verdict that nothing is wrong."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One cause of trouble, with the figures that show it and the change that mends it."""

    cause: str
    """Short name of the cause, such as "overfitting"."""
    what: str
    """The verdict as a sentence."""
    certainty: float
    """From 0 to 1: how clearly the figures show it. It orders the verdicts and is not a probability."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The figures that show it, by name."""
    remedy: Mapping[str, Any] = field(default_factory=dict)
    """Fields for `config.replace(**verdict.remedy)`; empty if the configuration is not the cause."""
    model_remedy: Mapping[str, Any] = field(default_factory=dict)
    """Fields for `model.replace(**verdict.model_remedy)`; empty if the model is not the cause."""
    advice: str = ""
    """What to do, as a sentence."""

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain data."""
        names = ("cause", "what", "certainty", "evidence", "remedy", "model_remedy", "advice")
        return {name: encode(getattr(self, name)) for name in names}

    def line(self) -> str:
        """The verdict with its figures and its remedy on one line."""
        shown = f" ({self.figures()})" if self.evidence else ""
        return f"{self.cause}: {self.what}{shown}{'. ' + self.change() if self.change() else ''}"

    def figures(self) -> str:
        """The evidence as text."""
        return ", ".join(f"{name}: {_short(value)}" for name, value in self.evidence.items())

    def change(self) -> str:
        """The remedy as code or, without one, as a sentence."""
        parts = [
            f"{owner}.replace({', '.join(f'{name}={code(value)}' for name, value in fields.items())})"
            for owner, fields in (("config", self.remedy), ("model", self.model_remedy))
            if fields
        ]
        return " and ".join(parts) or self.advice


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The verdicts about a training, the most certain one first.

    >>> found = Diagnosis(verdicts=(Verdict(cause="overfitting", what="it overfits", certainty=0.8),))
    >>> found.healthy, found["overfitting"].certainty
    (False, 0.8)
    """

    verdicts: tuple[Verdict, ...]
    """At least one: "healthy" if nothing was found."""
    not_examined: tuple[str, ...] = ()
    """What could not be examined, and why."""
    draw: Callable[[], Figure] | None = field(default=None, repr=False, compare=False)

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        return all(verdict.cause == HEALTHY for verdict in self.verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __contains__(self, cause: object) -> bool:
        return any(verdict.cause == cause for verdict in self.verdicts)

    def __getitem__(self, cause: str) -> Verdict:
        """The verdict of a cause."""
        for verdict in self.verdicts:
            if verdict.cause == cause:
                return verdict
        raise KeyError(cause)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain data."""
        return {
            "healthy": self.healthy,
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "not_examined": list(self.not_examined),
        }

    def to_json(self) -> str:
        """The diagnosis as a JSON document."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_polars(self) -> pl.DataFrame:
        """One row per verdict; figures and remedies as JSON."""
        import polars as pl

        rows = [verdict.to_dict() for verdict in self.verdicts]
        plain = [{k: json.dumps(v) if isinstance(v, dict) else v for k, v in row.items()} for row in rows]
        return pl.DataFrame(plain, schema_overrides={"certainty": pl.Float64})

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """A figure of the evidence: loss curves, gradients, errors by step; saved to `path` if given."""
        from neuro_divergent.core.errors import ConfigError
        from neuro_divergent.plotting import save

        if self.draw is None:
            raise ConfigError("a diagnosis is plotted from its evidence, but this one was read from a file")
        return save(self.draw(), path)

    def lines(self) -> list[str]:
        """One line per verdict, then what was not examined."""
        return [verdict.line() for verdict in self.verdicts] + [f"not examined: {item}" for item in self.not_examined]

    def __repr__(self) -> str:
        return "Diagnosis\n" + "\n".join(f"  {line}" for line in self.lines())

    def _repr_html_(self) -> str:
        cells = ""
        for verdict in self.verdicts:
            row = (verdict.cause, f"{verdict.certainty:.2f}", verdict.what, verdict.figures(), verdict.change())
            cells += "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        head = "".join(f"<th>{name}</th>" for name in ("cause", "certainty", "what", "evidence", "remedy"))
        rest = "".join(f"<p>not examined: {html.escape(item)}</p>" for item in self.not_examined)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>{rest}"


def _short(value: Any) -> str:
    """A figure in few characters.

    >>> _short(0.123456), _short([1, 2, 3, 4, 5, 6, 7]), _short("a")
    ('0.1235', '[1, 2, 3, 4, 5, ...]', 'a')
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        shown = ", ".join(map(_short, value[:5]))
        return f"[{shown}{', ...' if len(value) > 5 else ''}]"
    return str(value)
