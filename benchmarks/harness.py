"""What every benchmark needs: one measured line with its target, the machine, and a results file for the documentation.

    from harness import line, print_table, write

    lines = [line("peak memory beside the data", 1.8, at_most=2, unit="x")]
    print_table(lines)
    write("windows", lines, command="python benchmarks/windows.py")

`python tools/benchmark_page.py` makes docs/benchmarks.md of the files in benchmarks/results. Two variables of the
environment speak to every benchmark: ND_BENCH_RESULTS names another folder for the results, ND_PEER_PYTHON a Python
that has neuralforecast.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NotRequired, TypedDict

RESULTS = Path(os.environ.get("ND_BENCH_RESULTS") or Path(__file__).resolve().parent / "results")
PACKAGES = ("neuro_divergent", "torch", "numpy", "polars")


class Line(TypedDict):
    """One figure of a benchmark; `ok` is None where there is no target."""

    what: str
    figure: float | None
    unit: str
    target: str
    ok: bool | None
    note: str


class Machine(TypedDict):
    """What the figures were measured on."""

    cpu: str
    cores: int
    memory_gb: NotRequired[int]
    system: str


def line(
    what: str,
    figure: float,
    target: str | None = None,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    unit: str = "",
    note: str = "",
) -> Line:
    """One figure; a bound makes the verdict, and the target's text unless one is given. A figure that is NaN misses it.

    >>> line("ratio", 1.8, at_most=2, unit="x")["target"]
    '<= 2'
    """
    if at_most is not None and at_least is not None:
        raise ValueError(f"a line has one bound, but got {at_most=} and {at_least=}")
    bound = at_most if at_most is not None else at_least
    ok = None if bound is None else bool(figure <= bound if at_most is not None else figure >= bound)
    said = "" if bound is None else f"{'<=' if at_most is not None else '>='} {bound:g}"
    return {
        "what": what,
        "figure": float(figure) if math.isfinite(figure) else None,
        "unit": unit,
        "target": said if target is None else target,
        "ok": ok,
        "note": note,
    }


def peer_python(variable: str = "ND_PEER_PYTHON") -> str:
    """The interpreter that a variable of the environment names, else the running one."""
    return os.environ.get(variable) or sys.executable


def machine() -> Machine:
    """Processor, cores, memory and system; a benchmark that was pinned to some cores says so in its command."""
    found: Machine = {"cpu": _cpu(), "cores": os.cpu_count() or 1, "system": platform.system()}
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not known on every system
        found["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    return found


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [row.partition(":")[2].strip() for row in text.splitlines() if row.startswith("model name")]
    return names[0] if names else platform.machine()


def versions(*packages: str) -> dict[str, str]:
    """Python, the packages that every benchmark uses, and the given ones; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in dict.fromkeys((*PACKAGES, *packages)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write(
    name: str,
    lines: Sequence[Line],
    command: str,
    folder: Path = RESULTS,
    *,
    packages: Sequence[str] = (),
    plots: Sequence[str] = (),
    more_versions: Mapping[str, str] | None = None,
    partial: bool = False,
) -> Path:
    """The results file `folder/name.json`; `plots` are files beside it, `more_versions` of another interpreter.

    After a `partial` run the lines that were not measured again stay in the file, and so do the versions they name.
    """
    path = folder / f"{name}.json"
    earlier: dict[str, Any] = {"lines": [], "versions": {}}
    if partial and path.is_file():
        earlier = json.loads(path.read_text(encoding="utf-8"))
    again = {item["what"] for item in lines}
    document: dict[str, Any] = {
        "benchmark": name,
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": earlier["versions"] | versions(*packages) | dict(more_versions or {}),
        "lines": [*(item for item in earlier["lines"] if item["what"] not in again), *lines],
    }
    if plots:
        document["plots"] = list(plots)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def print_table(lines: Sequence[Line]) -> None:
    """The lines for a person: figure, target, verdict, aligned."""
    rows = [("what", "figure", "target", "")]
    rows += [(item["what"], shown(item), item["target"] or "-", verdict(item)) for item in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for (what, figure, target, said), item in zip(rows, (None, *lines), strict=True):
        note = f"  {item['note']}" if item is not None and item["note"] else ""
        print(f"{what:<{widths[0]}}  {figure:>{widths[1]}}  {target:<{widths[2]}}  {said:<{widths[3]}}{note}".rstrip())


def print_summary(benchmarks: Mapping[str, Sequence[Line]]) -> None:
    """The lines of several benchmarks as one table, and how many of the targets were met."""
    rows = [("benchmark", "what", "figure", "target", "verdict")]
    for name, lines in benchmarks.items():
        rows += [(name, item["what"], shown(item), item["target"] or "-", verdict(item) or "-") for item in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, what, figure, target, said in rows:
        print(f"{name:<{widths[0]}}  {what:<{widths[1]}}  {figure:>{widths[2]}}  {target:<{widths[3]}}  {said}")
    judged = [item["ok"] for lines in benchmarks.values() for item in lines if item["ok"] is not None]
    print(f"{sum(judged)} of {len(judged)} targets met")


def shown(item: Line) -> str:
    """The figure with its unit, in as many digits as say something."""
    figure = item["figure"]
    if figure is None:
        return "-"
    digits = f"{figure:,.0f}" if abs(figure) >= 1000 else f"{figure:.4g}"
    return f"{digits} {item['unit']}".rstrip()


def verdict(item: Line) -> str:
    """met, missed, or nothing where there is no target."""
    return {True: "met", False: "missed", None: ""}[item["ok"]]
