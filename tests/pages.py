"""The pages of README, CONTRIBUTING and docs, and the blocks of code in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of one language; `no-run` after the language marks what needs a machine of its own."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [body for kind, options, body in found if kind == language and "no-run" not in options]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))
