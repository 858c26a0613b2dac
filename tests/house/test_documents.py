"""Links of README and docs point to something. tests/integration/test_pages.py runs what they show."""

import re

import pytest

from pages import PAGES, ROOT, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_point_to_something(page):
    for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


def test_make_targets_named_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text())):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
