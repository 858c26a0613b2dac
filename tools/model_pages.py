"""Writes docs/models/: one page per model from its description, and an index. A test keeps them up to date.

python tools/model_pages.py
"""

from __future__ import annotations

from pathlib import Path

from neuro_divergent.forecasting.model.catalogue import HORIZON, LOOKBACK, SERIES, Entry, catalogue

PAGES = Path(__file__).parents[1] / "docs" / "models"


def page(entry: Entry) -> str:
    """The page of one model."""
    takes = ", ".join(entry.takes) or "the target alone"
    count = "depends on what you give it" if entry.parameters is None else f"{entry.parameters:,}"
    rows = "\n".join(f"| `{name}` | `{default}` | {_cell(text)} |" for name, default, text in entry.fields)
    return (
        f"# {entry.name}\n\n{_paragraphs(entry.text)}\n\n"
        f"| | |\n|---|---|\n| family | {entry.family} |\n| takes | {takes} |\n"
        f"| parameters at h={HORIZON}, input_size={LOOKBACK} | {count} |\n| paper | {_cell(entry.paper)} |\n\n"
        f"## Fields\n\n| field | default | |\n|---|---|---|\n{rows}\n"
    )


def index(entries: list[Entry]) -> str:
    """The table of all models."""
    rows = "\n".join(
        f"| [{item.name}]({item.name}.md) | {item.family} | {', '.join(item.takes) or '-'} | "
        f"{'-' if item.parameters is None else f'{item.parameters:,}'} | {_cell(item.summary)} |"
        for item in entries
    )
    return (
        "# Models\n\nEach is one immutable description: `nd.NHITS(h=24, input_size=96)`. "
        f"Parameters are counted at h={HORIZON}, input_size={LOOKBACK} ({SERIES} series where multivariate).\n\n"
        f"| model | family | takes | parameters | |\n|---|---|---|---|---|\n{rows}\n"
    )


def pages() -> dict[str, str]:
    """Every file of the folder by name."""
    entries = catalogue()
    return {"index.md": index(entries)} | {f"{item.name}.md": page(item) for item in entries}


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


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
