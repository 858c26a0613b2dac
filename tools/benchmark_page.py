"""Writes docs/benchmarks.md from the files in benchmarks/results. A test keeps it up to date.

python tools/benchmark_page.py
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "images" / "benchmarks"

HEAD = """# Benchmarks

What was measured, on which machine, with which command. Each section is one results file of `benchmarks/results`,
written by the command that it names; a target that was missed is shown like one that was met. Figures of another
machine differ: run the command, then `python tools/benchmark_page.py`, and this page shows yours.

`make bench` runs every benchmark in its short form and ends in one table of figures, targets and verdicts;
`python -m benchmarks --full --write` runs the long forms and writes the results. Other packages are measured where they
are found: `ND_PEER_PYTHON` (neuralforecast), `ND_PEER_DARTS`, `ND_PEER_GLUONTS` and `ND_PEER_PYTORCH_FORECASTING` name
Pythons that have them, and one that is not there is left out with a message. Without the repository,
`neuro-divergent bench --against neuralforecast,darts,gluonts,pytorch-forecasting` compares the time of a training step.
"""
NONE = "\nNothing was measured yet: `make bench` runs every benchmark in its short form.\n"


def page(results: Path = RESULTS) -> str:
    """The whole page; every file that cannot be read as a result is an error, every key that lacks is left out."""
    documents = [read(path) for path in sorted(results.glob("*.json"))]
    parts = [section(name, document) for name, document in documents]
    summary = _summary(documents)
    return HEAD + (summary + "".join(parts) if parts else NONE)


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """The name and the content of a results file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SystemExit(f"{path} must be JSON, but is not: {error}") from None
    if not isinstance(document, dict):
        raise SystemExit(f"{path} must be an object with the key lines, but is {type(document).__name__}")
    return str(document.get("benchmark") or path.stem), document


def section(name: str, document: Mapping[str, Any]) -> str:
    """One results file: where it was measured, the table, the pictures."""
    facts = [fact for fact in (_date(document), _machine(document.get("machine")), _versions(document)) if fact]
    text = f"\n## {_title(name)}\n"
    if facts:
        text += "\n" + ". ".join(facts) + ".\n"
    if document.get("command"):
        text += f"\n```\n{document['command']}\n```\n"
    lines = [item for item in document.get("lines") or [] if isinstance(item, dict)]
    text += "\n" + _table(lines) if lines else "\nNo figures.\n"
    for plot in document.get("plots") or []:
        text += f"\n![{_title(Path(plot).stem)}](images/benchmarks/{Path(plot).name})\n"
    return text


def _summary(documents: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    rows = []
    for name, document in documents:
        verdicts = [item.get("ok") for item in document.get("lines") or [] if isinstance(item, dict)]
        judged = [verdict for verdict in verdicts if verdict is not None]
        met = f"{sum(map(bool, judged))} of {len(judged)}" if judged else "-"
        rows.append(f"| [{_title(name)}](#{_anchor(_title(name))}) | {met} | {document.get('date') or '-'} |")
    return "\n| benchmark | targets met | measured |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _title(name: str) -> str:
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _date(document: Mapping[str, Any]) -> str:
    return f"Measured {document['date']}" if document.get("date") else ""


def _machine(machine: Any) -> str:
    if not isinstance(machine, Mapping):
        return str(machine or "")
    cores, memory = machine.get("cores"), machine.get("memory_gb")
    facts = (
        str(machine.get("cpu") or ""),
        f"{cores} core{'s' if cores != 1 else ''}" if cores else "",
        f"{memory:g} GB of memory" if isinstance(memory, int | float) else "",
        str(machine.get("system") or ""),
    )
    return ", ".join(fact for fact in facts if fact)


def _versions(document: Mapping[str, Any]) -> str:
    versions = document.get("versions")
    if not isinstance(versions, Mapping):
        return ""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _table(lines: Sequence[Mapping[str, Any]]) -> str:
    noted = any(item.get("note") for item in lines)
    names = ["", "figure", "target", "verdict", *(["note"] if noted else [])]
    text = f"| {' | '.join(names)} |\n|---|---:|---|---|{'---|' if noted else ''}\n"
    for item in lines:
        cells = [item.get("what"), _figure(item), item.get("target"), _verdict(item.get("ok"))]
        cells += [item.get("note")] if noted else []
        text += f"| {' | '.join(_cell(cell) for cell in cells)} |\n"
    return text


def _figure(item: Mapping[str, Any]) -> str:
    figure = item.get("figure")
    if isinstance(figure, bool) or not isinstance(figure, int | float):
        return str(figure) if figure else "-"
    digits = f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.4g}"
    return f"{digits} {item.get('unit') or ''}".rstrip()


def _verdict(ok: Any) -> str:
    return "-" if ok is None else "met" if ok else "**missed**"


def _cell(value: Any) -> str:
    return " ".join(str(value or "-").split()).replace("|", "\\|").replace("<", "&lt;")


def pictures(results: Path = RESULTS) -> dict[str, Path]:
    """The plots that the results files name, by the name that they have in the documentation."""
    named = [plot for path in sorted(results.glob("*.json")) for plot in read(path)[1].get("plots") or []]
    return {Path(plot).name: results / plot for plot in named}


def main() -> None:
    """Write the page, and the pictures beside it."""
    wanted = pictures()
    shutil.rmtree(PICTURES, ignore_errors=True)
    if wanted:
        PICTURES.mkdir(parents=True)
    for name, source in wanted.items():
        shutil.copyfile(source, PICTURES / name)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
