"""docs/benchmarks.md is what the results files say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("house_benchmark_page", ROOT / "tools" / "benchmark_page.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run: python tools/benchmark_page.py"
    wanted = {name: source.read_bytes() for name, source in tool.pictures().items()}
    found = {path.name: path.read_bytes() for path in tool.PICTURES.glob("*")}
    assert found == wanted, "run: python tools/benchmark_page.py"
