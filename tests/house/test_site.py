"""The site: every public name is in the reference, every page in the navigation, every picture up to date."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml

import neuro_divergent as nd

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def tool(name):
    spec = importlib.util.spec_from_file_location(f"house_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return tool("reference_pages")


@pytest.fixture(scope="module")
def drawn():
    return tool("pictures")


def test_the_reference_is_up_to_date(reference):
    found = {path.name: path.read_text(encoding="utf-8") for path in reference.PAGES.glob("*.md")}
    assert found == reference.pages(), "run: python tools/reference_pages.py"


def test_every_public_name_is_on_a_reference_page():
    index = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    linked = dict(re.findall(r"^\| \[(\w+)\]\(([^)]+)\)", index, re.MULTILINE))
    assert set(linked) == set(nd.__all__) - {"__version__"}
    for name, target in linked.items():
        page, _, place = target.partition("#")
        text = (DOCS / "reference" / page).read_text(encoding="utf-8")
        assert f"::: {place}\n" in text if place else text.startswith(f"# {name}\n"), name


def files_in(nav):
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from files_in(value) if isinstance(value, list) else [value]


def test_every_page_is_in_the_navigation():
    """But those of single models, which their index links to."""
    nav = list(files_in(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    models = {page for page in pages if page.startswith("models/") and page != "models/index.md"}
    assert len(nav) == len(set(nav))
    assert set(nav) == pages - models


def test_every_example_is_shown():
    page = (DOCS / "examples.md").read_text(encoding="utf-8")
    shown = re.findall(r'--8<-- "(examples/\w+\.py)"', page)
    assert sorted(shown) == sorted(f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py"))


def test_every_picture_is_known_and_shown(drawn):
    pictures = {path.name for path in drawn.IMAGES.glob("*.*")} - {drawn.RECORD.name}
    assert pictures == set(drawn.PICTURES)
    for name in pictures:
        pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
        assert any(f"images/{name})" in page.read_text(encoding="utf-8") for page in pages), f"nothing shows {name}"


@pytest.mark.parametrize("name", tool("pictures").PICTURES)
def test_no_picture_is_stale(drawn, name):
    """A picture is made by the snippets of a page; when they or the drawing code change, it has to be drawn again."""
    record = json.loads(drawn.RECORD.read_text(encoding="utf-8"))
    assert record[name] == drawn.state(name), f"run: python tools/pictures.py {name}"
