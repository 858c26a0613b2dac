"""A self-contained HTML page from text, tables, charts and pictures; light and dark, readable on a phone.

Nothing is loaded from anywhere: style, script and all figures are inside the file. Charts are SVG pictures, which also
print and need no script; the script adds values under the pointer and select boxes.
"""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from neuro_divergent.core import files
from neuro_divergent.report.chart import Chart

_HERE = Path(__file__).parent


CHOOSER_SIZE = 250_000
"""Charts to choose from take about this many characters: a page of several choosers stays below 1.5 MB."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Charts that a select box shows together: one over the whole width, then small ones."""

    title: str
    charts: Sequence[Chart]

    def drawn(self, most: int | None) -> tuple[str, int]:
        """The charts, and how many of them were left out to stay below a number of characters."""
        text = _figure(self.charts[0].svg())
        cells: list[str] = []
        for chart in self.charts[1:]:
            cell = _figure(chart.svg(small=True))
            if most is not None and len(text) + sum(map(len, cells)) + len(cell) > most:
                break
            cells.append(cell)
        grid = f'<div class="pair">{"".join(cells)}</div>' if cells else ""
        return text + grid, len(self.charts) - 1 - len(cells)


@dataclass
class Page:
    """A page that grows section by section; `render` gives the whole file."""

    title: str
    lead: str = ""
    parts: list[str] = field(default_factory=list, repr=False)
    footer: str = ""
    _headings: list[str] = field(default_factory=list, repr=False)
    _choosers: int = field(default=0, repr=False)

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
        self.parts.append(_figure(chart.svg(), caption))

    def pair(self, charts: Sequence[tuple[Chart, str]]) -> None:
        """Small charts side by side, below each other on a phone, each with its caption."""
        cells = "".join(_figure(chart.svg(small=True), caption) for chart, caption in charts)
        self.parts.append(f'<div class="pair">{cells}</div>')

    def chooser(self, choices: Iterable[Choice], label: str, *, total: int, most: int = CHOOSER_SIZE) -> int:
        """Charts of which a select box shows some; gives the number of choices that are in the page.

        Args:
            choices: what can be chosen, computed one after the other.
            label: what is chosen, such as "Series".
            total: how many there are in all; a sentence says how many of them are in the page.
            most: the size in characters at which no further choice is added. Of the first choice, charts that do not
                fit are left out.
        """
        titles: list[str] = []
        bodies: list[str] = []
        left_out = 0
        for choice in choices:
            body, missing = choice.drawn(most if not bodies else None)
            if bodies and sum(map(len, bodies)) + len(body) > most:
                break
            left_out += missing
            titles.append(choice.title)
            bodies.append(f'<div class="choice"{" hidden" if bodies else ""}>{body}</div>')
        if not bodies:
            return 0
        name = self.chooser_name
        self._choosers += 1
        if len(titles) > 1:
            options = "".join(f'<option value="{i}">{html.escape(title)}</option>' for i, title in enumerate(titles))
            box = f'<select data-target="{name}" autocomplete="off">{options}</select>'
            self.parts.append(f'<label class="choose">{html.escape(label)} {box}</label>')
        self.parts.append(f'<div id="{name}">{"".join(bodies)}</div>')
        if len(titles) < total:
            self.text(
                f"{len(titles):,} of {total:,} {label.lower()} are in this file, which keeps it small.", soft=True
            )
        if left_out:
            self.text(f"{left_out:,} further figures are not in this file, which keeps it small.", soft=True)
        return len(titles)

    @property
    def chooser_name(self) -> str:
        """The id of the next chooser, for links to its choices."""
        return f"c{self._choosers}"

    def link_table(self, header: Sequence[str], rows: Sequence[Sequence[str]], name: str, links: Sequence[int]) -> None:
        """A table whose first cells show choices of the chooser of this name: for each row the number of the choice."""
        linked = [
            [f'<a href="#{name}" data-choice="{number}">{html.escape(row[0])}</a>', *map(html.escape, row[1:])]
            for row, number in zip(rows, links, strict=True)
        ]
        self.parts.append(_table(header, linked))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None) -> None:
        """A table, one row of it marked as the best."""
        self.parts.append(_table(header, [list(map(html.escape, row)) for row in rows], best))

    def code(self, text: str) -> None:
        """Something to copy."""
        self.parts.append(f"<pre>{html.escape(text)}</pre>")

    def folded(self, title: str, text: str) -> None:
        """Long text that opens on a click."""
        self.parts.append(f"<details><summary>{html.escape(title)}</summary><pre>{html.escape(text)}</pre></details>")

    def render(self) -> str:
        """The whole file."""
        links = "".join(f'<a href="#s{i}">{html.escape(text)}</a>' for i, text in enumerate(self._headings, 1))
        script = f"<script>{_asset('page.js')}</script>"
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
            f"<title>{html.escape(self.title)}</title><style>{_asset('page.css')}</style></head><body><main>"
            f"<h1>{html.escape(self.title)}</h1><p class=lead>{html.escape(self.lead)}</p>"
            f"<nav>{links}</nav>\n"
            + "\n".join(self.parts)
            + f"<footer>{html.escape(self.footer)}</footer></main>{script}</body></html>\n"
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


def _figure(picture: str, caption: str = "") -> str:
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="scroll">{picture}</div>{below}</figure>'


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = ""
    for number, row in enumerate(rows):
        cells = "".join(f"<td>{cell}</td>" for cell in row)
        body += f"<tr{' class=best' if number == best else ''}>{cells}</tr>"
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
