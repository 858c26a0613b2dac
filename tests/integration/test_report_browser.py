"""The reports in a real browser: no errors, values under the pointer, a series can be chosen."""

import shutil

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.cli.commands.cv import leaderboard
from neuro_divergent.report import training_report
from neuro_divergent.report.comparison import comparison_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: install the package chromium to run this")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The reports of a training and of a comparison, of a panel with three series."""
    rng = np.random.default_rng(2)
    n = 260
    times = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 11, 19), "1h", eager=True)[:n]
    parts = [
        pl.DataFrame(
            {"unique_id": name, "ds": times, "y": level + np.sin(np.arange(n) / 24 * 6.283) + rng.normal(0, 0.1, n)}
        )
        for name, level in (("alpha", 0.0), ("beta", 100.0), ("gamma", 1000.0))
    ]
    config = nd.TrainingConfig(max_epochs=2, loss=nd.MQLoss(level=[80, 95]))
    fitted = nd.DLinear(h=12, input_size=24).fit(pl.concat(parts), config)
    folder = tmp_path_factory.mktemp("pages")
    training_report(fitted, source="hours.csv", command="neuro-divergent train hours.csv").save(folder / "train.html")
    found = nd.cross_validation(nd.DLinear(h=12, input_size=24), pl.concat(parts), config=config, n_windows=2)
    comparison_report(found, leaderboard(found)).save(folder / "cv.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, pages):
    """Open a page from file://, keep what it complains about and what it asks the network for."""
    opened = []

    def go(name, *, width=1200, dark=False):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light")
        page.complaints, page.requests = [], []
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto((pages / name).as_uri())
        page.wait_for_load_state("load")
        opened.append(page)
        return page

    yield go
    for page in opened:
        page.close()


@pytest.mark.parametrize("name", ["train.html", "cv.html"])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (400, True)])
def test_it_loads_without_errors_and_draws_every_chart(visit, name, width, dark):
    page = visit(name, width=width, dark=dark)
    # Every line, bar and band has a place of its own on the page.
    drawn = ".choice:not([hidden]) .still :is(path[stroke], rect, circle), .still :is(path[stroke], rect, circle)"
    assert page.locator(".still").count() >= 8
    empty = (
        f"Array.from(document.querySelectorAll('{drawn}')).filter(part => part.getClientRects().length)"
        ".map(part => part.getBoundingClientRect()).filter(box => box.width + box.height === 0).length"
    )
    assert page.evaluate(empty) == 0
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    # Nothing sticks out to the side: a phone scrolls in one direction only.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
    line = page.evaluate("getComputedStyle(document.querySelector('.still path[stroke=\"#0072B2\"]')).stroke")
    assert line == ("rgb(74, 168, 224)" if dark else "rgb(0, 114, 178)")


def visible(page, name):
    return page.evaluate(f"Array.from(document.getElementById('{name}').children).map(choice => !choice.hidden)")


def test_a_series_can_be_chosen_from_the_box_and_from_the_table(visit):
    page = visit("train.html")
    box = page.locator("select").first
    assert box.locator("option").all_inner_texts() == ["alpha", "beta", "gamma"]
    box.select_option("gamma")
    assert visible(page, "c0") == [False, False, True]
    link = page.locator("a[data-choice]").last
    link.click()
    chosen = int(link.get_attribute("data-choice"))
    assert visible(page, "c1").index(True) == chosen
    assert page.locator("select[data-target=c1]").input_value() == str(chosen)
    assert page.complaints == []


def test_the_pointer_shows_the_values_of_its_place(visit):
    """At the right end of the forecast chart of alpha: the last of the 12 steps after 2024-01-11 19:00."""
    page = visit("train.html")
    chart = page.locator("#c0 .still").first
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 16, box["y"] + 100)
    tip = page.locator(".tip")
    assert tip.is_visible()
    lines = tip.locator("div").all_inner_texts()[1:]
    assert {line.split(":")[0] for line in lines} == {"95 %", "80 %", "DLinear"}
    assert " to " in next(line for line in lines if line.startswith("80 %"))
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    assert page.complaints == []


def test_a_phone_shows_the_end_of_a_series(visit):
    page = visit("train.html", width=400)
    assert page.evaluate("document.querySelector('.still[data-end]').parentElement.scrollLeft") > 0


def test_on_paper_it_is_light_and_whole(visit):
    page = visit("train.html", dark=True)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper')").strip() == "#ffffff"
    assert not page.locator("nav").is_visible()
    assert page.locator("#c0 .still").first.is_visible()
    assert page.pdf()[:5] == b"%PDF-"
