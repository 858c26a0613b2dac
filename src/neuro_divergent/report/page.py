"""A self-contained HTML page from sections of text, tables and pictures; light and dark, readable on a phone."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field

_STYLE = """
:root {
  color-scheme: light dark;
  --ink:#1b1f24; --soft:#5b6570; --paper:#ffffff; --line:#dfe3e8; --card:#f6f8fa; --accent:#0072B2
}
@media (prefers-color-scheme: dark) {
  :root { --ink:#e6e9ec; --soft:#9aa4ae; --paper:#14171a; --line:#30363d; --card:#1d2126; --accent:#56B4E9 }
}
* { box-sizing: border-box }
body {
  margin:0; background:var(--paper); color:var(--ink);
  font:16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif
}
main { max-width: 1060px; margin: 0 auto; padding: 2rem 1.2rem 4rem }
h1 { font-size: 1.7rem; margin: 0 0 .2rem } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem }
p.lead { color: var(--soft); margin: 0 0 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 22rem }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { color: var(--soft); font-weight: 600 }
tr.best td { color: var(--accent); font-weight: 600 }
img { width: 100%; height: auto; border-radius: 8px; background: #fff; border: 1px solid var(--line) }
pre { background: var(--card); padding: .9rem 1rem; border-radius: 8px; overflow-x: auto; font-size: .85rem }
details { border: 1px solid var(--line); border-radius: 8px; padding: .5rem 1rem; margin: .5rem 0 }
summary { cursor: pointer }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem }
"""


@dataclass
class Page:
    """A page that grows section by section; `render` gives the whole file."""

    title: str
    lead: str = ""
    parts: list[str] = field(default_factory=list)
    footer: str = ""

    def heading(self, text: str) -> None:
        """A section's title."""
        self.parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str) -> None:
        """A paragraph."""
        self.parts.append(f"<p>{html.escape(text)}</p>")

    def picture(self, png: bytes, description: str) -> None:
        """A PNG inside the page."""
        data = base64.b64encode(png).decode()
        self.parts.append(f'<img alt="{html.escape(description)}" src="data:image/png;base64,{data}">')

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
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title><style>{_STYLE}</style></head><body><main>"
            f"<h1>{html.escape(self.title)}</h1><p class=lead>{html.escape(self.lead)}</p>"
            + "\n".join(self.parts)
            + f"<footer>{html.escape(self.footer)}</footer></main></body></html>\n"
        )
