"""A self-contained HTML page from text, tables, charts and pictures; light and dark, readable on a phone.

Nothing is loaded from anywhere: style, scripts, plotly's own JavaScript and all figures are inside the file.
"""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from neuro_divergent.core import files
from neuro_divergent.report.chart import Chart

_HERE = Path(__file__).parent


def plotly_source() -> str | None:
    """plotly's JavaScript from the installed package; None when the package is not there."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError:
        return None
    source: str = get_plotlyjs()
    return source


@dataclass
class Page:
    """A page that grows section by section; `render` gives the whole file."""

    title: str
    lead: str = ""
    parts: list[str] = field(default_factory=list, repr=False)
    footer: str = ""
    interactive: bool = True
    """Draw charts with plotly if it is installed; otherwise they are pictures."""
    _headings: list[str] = field(default_factory=list, repr=False)
    _count: int = field(default=0, repr=False)
    _plotly: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.interactive:
            self._plotly = plotly_source()

    def heading(self, text: str) -> None:
        """A section's title, which the list at the top links to."""
        self._headings.append(text)
        self.parts.append(f'<h2 id="s{len(self._headings)}">{html.escape(text)}</h2>')

    def text(self, text: str, *, soft: bool = False) -> None:
        """A paragraph."""
        self.parts.append(f"<p{' class=soft' if soft else ''}>{html.escape(text)}</p>")

    def items(self, lines: Sequence[str]) -> None:
        """A list of sentences."""
        self.parts.append("<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>")

    def cards(self, facts: Sequence[tuple[str, str, Literal["", "good", "bad"]]]) -> None:
        """The main figures: value, what it is, and whether it is good."""
        cells = "".join(
            f'<div class="card {mood}"><b>{html.escape(value)}</b><span>{html.escape(what)}</span></div>'
            for value, what, mood in facts
        )
        self.parts.append(f'<div class="cards">{cells}</div>')

    def picture(self, png: bytes, description: str) -> None:
        """A PNG inside the page."""
        self.parts.append(f"<figure>{_image(png, description)}</figure>")

    def chart(self, chart: Chart, caption: str = "") -> None:
        """One chart over the whole width."""
        self.parts.append(self._figure([chart], caption))

    def pair(self, charts: Sequence[tuple[Chart, str]]) -> None:
        """Small charts side by side, below each other on a phone, each with its caption."""
        cells = "".join(self._figure([chart], caption, small=True) for chart, caption in charts)
        self.parts.append(f'<div class="pair">{cells}</div>')

    def chooser(self, charts: Sequence[Chart], label: str, caption: str = "") -> None:
        """Charts of which a select box shows one."""
        shown = list(charts)
        if not shown:
            return
        number = self._count
        options = "".join(f'<option value="{i}">{html.escape(chart.title)}</option>' for i, chart in enumerate(shown))
        if len(shown) > 1:
            box = f'<select data-target="c{number}" autocomplete="off">{options}</select>'
            self.parts.append(f'<label class="choose">{html.escape(label)} {box}</label>')
        self.parts.append(self._figure(shown, caption))

    def _figure(self, charts: Sequence[Chart], caption: str, *, small: bool = False) -> str:
        name, below = f"c{self._count}", f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
        self._count += 1
        title = html.escape(charts[0].title, quote=True)
        if self._plotly is None:
            pictures = "".join(chart.svg(small=small, hidden=i > 0) for i, chart in enumerate(charts))
            return f'<figure id="{name}"><div class="scroll">{pictures}</div>{below}</figure>'
        data = json.dumps([chart.plotly() for chart in charts], allow_nan=False, separators=(",", ":"))
        # A text of the data must not end the script element that carries it.
        data = data.replace("<", "\\u003c")
        return (
            f'<figure><div class="chart{" small" if small else ""}" id="{name}" role="img" aria-label="{title}" '
            f'data-charts="{name}-data"></div>{below}'
            f'<script type="application/json" id="{name}-data">{data}</script></figure>'
        )

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None) -> None:
        """A table, one row of it marked as the best."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
        body = ""
        for number, row in enumerate(rows):
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
            body += f"<tr{' class=best' if number == best else ''}>{cells}</tr>"
        whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        self.parts.append(f'<div class="scroll">{whole}</div>')

    def code(self, text: str) -> None:
        """Something to copy."""
        self.parts.append(f"<pre>{html.escape(text)}</pre>")

    def folded(self, title: str, text: str) -> None:
        """Long text that opens on a click."""
        self.parts.append(f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(text)}</pre></details>")

    def render(self) -> str:
        """The whole file."""
        links = "".join(f'<a href="#s{i}">{html.escape(text)}</a>' for i, text in enumerate(self._headings, 1))
        scripts = f"<script>{self._plotly}</script>" if self._plotly and self._count else ""
        scripts += f"<script>{_asset('page.js')}</script>"
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
            f"<title>{html.escape(self.title)}</title><style>{_asset('page.css')}</style></head><body><main>"
            f"<h1>{html.escape(self.title)}</h1><p class=lead>{html.escape(self.lead)}</p>"
            f"<nav>{links}</nav>\n"
            + "\n".join(self.parts)
            + f"<footer>{html.escape(self.footer)}</footer></main>{scripts}</body></html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, whole or not at all; gives the path, for a person to open."""
        files.write_text(path, self.render())
        return Path(path)

    def _repr_html_(self) -> str:
        """The page inside a notebook, apart from the notebook's own styles."""
        inside = html.escape(self.render(), quote=True)
        return f'<iframe srcdoc="{inside}" style="width:100%;height:720px;border:0" title="report"></iframe>'


def _image(png: bytes, description: str) -> str:
    data = base64.b64encode(png).decode()
    return f'<img alt="{html.escape(description, quote=True)}" src="data:image/png;base64,{data}">'


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
