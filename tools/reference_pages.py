"""Writes docs/reference/: every public name with its docstring, and an index. A test keeps them up to date.

python tools/reference_pages.py
"""

from __future__ import annotations

import inspect
from pathlib import Path

import neuro_divergent as nd

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"

GROUPS = {
    "forecasting": ("Models and forecasts", ("forecasting", "export")),
    "data": ("Data", ("data",)),
    "training": ("Training", ("training", "distributed")),
    "optimizers": ("Optimizers and schedules", ("optim",)),
    "losses": ("Losses and metrics", ("losses", "metrics")),
    "search": ("Search", ("search",)),
    "diagnostics": ("Diagnostics", ("diagnostics",)),
    "dashboard": ("Dashboard", ("dashboard",)),
    "core": ("Errors, runs and base classes", ("core",)),
}
"""File name: title, and the folders of the source whose names it has."""


def places() -> dict[str, str]:
    """Where each public name is defined."""
    found = {}
    for name in nd.__all__:
        thing = getattr(nd, name)
        if inspect.ismodule(thing):
            found[name] = thing.__name__
        elif name != "__version__":
            found[name] = f"{thing.__module__}.{name}"
    return found


def page_of(place: str) -> str:
    """The page that has a name: a model has a page of its own."""
    room = place.split(".")[1]
    if room == "models":
        return f"../models/{place.rsplit('.', 1)[-1]}.md"
    return next(f"{name}.md" for name, (_, rooms) in GROUPS.items() if room in rooms)


def pages() -> dict[str, str]:
    """Every file of the folder by name."""
    known = dict(sorted(places().items(), key=lambda item: item[0].lower()))
    rows = [f"| {_link(name, place)} | {_summary(name)} |" for name, place in known.items()]
    written = {
        "index.md": "# Reference\n\nEvery public name of `neuro_divergent`, from its docstring. In Python, "
        "`help(nd.NHITS)` shows the same.\n\n| name | what it is |\n|---|---|\n" + "\n".join(rows) + "\n"
    }
    for name, (title, _) in GROUPS.items():
        own = [place for place in known.values() if page_of(place) == f"{name}.md"]
        written[f"{name}.md"] = f"# {title}\n\n" + "\n".join(f"::: {place}" for place in own) + "\n"
    return written


def _link(name: str, place: str) -> str:
    page = page_of(place)
    return f"[{name}]({page if page.startswith('..') else f'{page}#{place}'})"


def _summary(name: str) -> str:
    text = inspect.getdoc(getattr(nd, name)) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def main() -> None:
    """Write the folder anew."""
    PAGES.mkdir(exist_ok=True)
    written = pages()
    for old in PAGES.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
